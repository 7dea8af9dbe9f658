"""Small packs brought together: nothing lost, whatever a kill or damage leaves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from harness.shadow import checkpoint, contents, git, sound

from checkpointer import disk
from checkpointer.workspace.shadow import consolidation
from checkpointer.workspace.shadow.store import Store

HARNESS = Path(__file__).parents[1]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "shadow.git")


def keeps(store: Store) -> list[str]:
    return [n for n in os.listdir(store.objects.pack_directory) if n.endswith(".keep")]


def test_packs_are_brought_together(store: Store) -> None:
    known = {}
    for i in range(consolidation.ENOUGH):
        made = checkpoint(store, {"a": b"%d" % i, f"d/{i}": os.urandom(2000)})
        known[made.number] = contents(store, made)
        store.consolidate()
    packs = [n for n in os.listdir(store.objects.pack_directory) if n.endswith(".pack")]
    assert len(packs) <= 3
    for reader in (store, Store(store.path)):
        assert {c.number: contents(reader, c) for c in reader.checkpoints()} == known
    sound(store)
    assert keeps(store) == []


def test_bringing_together_leaves_large_and_damaged_packs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consolidation, "_SMALL", 100_000)
    checkpoint(store, {"big": os.urandom(400_000)})
    for _ in range(4):
        checkpoint(store, {"a": os.urandom(1000)})
    victim = max((p for p in Path(store.objects.pack_directory).glob("*.pack")), key=lambda p: p.stat().st_mtime_ns)
    whole = victim.read_bytes()
    again = Store(store.path)
    again.objects.refresh()
    victim.write_bytes(whole[:40] + bytes((whole[40] ^ 1,)) + whole[41:])
    assert consolidation.consolidate(again.objects, again.notices, enough=4) == 4
    assert victim.exists()
    assert any(victim.stem in n for n in again.notices)
    victim.write_bytes(whole)
    assert len(Store(store.path).checkpoints()) == 5
    assert consolidation.consolidate(Store(store.path).objects, [], enough=2) == 2, "the large one is left"
    sound(store)


def test_deltas_are_written_whole_when_brought_together(store: Store) -> None:
    text = b"\n".join(b"line %d" % i for i in range(5000))
    for i in range(5):
        checkpoint(store, {"text": text + b"%d" % i, "large": os.urandom(10) + b"x" * (2 << 20)})
    git(store, "repack", "-a", "-d", "-q", "-f", "--window=50")
    for i in range(3):
        checkpoint(store, {"text": text + b"more %d" % i})
    known = {c.number: contents(store, c) for c in store.checkpoints()}
    assert consolidation.consolidate(store.objects, [], enough=2) == 4
    (pack,) = (n for n in os.listdir(store.objects.pack_directory) if n.endswith(".pack"))
    listed = git(store, "verify-pack", "-v", os.path.join(store.objects.pack_directory, pack))
    assert b"chain length" not in listed.stdout
    assert {c.number: contents(store, c) for c in Store(store.path).checkpoints()} == known
    sound(store)


def test_bringing_together_survives_a_kill_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Store.create(tmp_path / "source" / "shadow.git") if (tmp_path / "source").mkdir() is None else None
    assert source is not None
    for i in range(5):
        checkpoint(source, {"a": b"%d" % i})
    known = {c.number: contents(source, c) for c in source.checkpoints()}
    killed = 0
    for n in range(100):
        place = tmp_path / "copy"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(tmp_path / "source", place)
        left = n

        def stop(verb: str, path: object) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        store = Store(place / "shadow.git")
        monkeypatch.setattr(disk, "probe", stop)
        try:
            consolidation.consolidate(store.objects, [], enough=2)
        except KeyboardInterrupt:
            killed += 1
        else:
            break
        finally:
            monkeypatch.setattr(disk, "probe", None)
        again = Store(place / "shadow.git")
        assert {c.number: contents(again, c) for c in again.checkpoints()} == known
        checkpoint(again, {"b": b"more"})
        consolidation.consolidate(again.objects, again.notices, enough=2)
        assert {c.number: contents(again, c) for c in again.checkpoints()[:-1]} == known
        sound(again)
    assert killed > 10
