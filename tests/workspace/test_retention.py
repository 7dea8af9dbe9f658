"""Old checkpoints let go: exactly the right ones, nothing needed is removed, whatever moment the power fails."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from harness.crashing import killed_everywhere
from harness.machine import fill, needs_root, tmpfs
from harness.shadow import checkpoint, contents, git, sound

from checkpointer.errors import Busy, Damaged, Failed, TooOld
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.facts import Facts
from checkpointer.workspace.shadow.retention import Collected, Limits, gc
from checkpointer.workspace.shadow.store import Store

NOW = datetime(2026, 6, 1, tzinfo=UTC)
KB = 1 << 10


def made(place: Path, number: int = 10, size: int = 20 * KB) -> tuple[Store, Facts, dict[int, dict[bytes, bytes]]]:
    """Checkpoints a day apart, the newest of today; each has `size` bytes of its own."""
    place.mkdir(exist_ok=True)
    store = Store.create(place / "shadow.git")
    known = {}
    for i in range(1, number + 1):
        at = NOW - timedelta(days=number - i, hours=1)
        c = checkpoint(store, {"f": os.urandom(size), "n": b"%d" % i, "d/same": b"same"}, at=at)
        known[c.number] = contents(store, c)
    facts = Facts(b"/w")
    facts_file.save(place, facts)
    return store, facts, known


def collect(
    store: Store, facts: Facts, age: float = 30, number: int = 1, budget: int = 1 << 40, **more: object
) -> Collected:
    return gc(store, facts, Limits(timedelta(days=age), number, budget), now=NOW, **more)  # type: ignore[arg-type]


def held(store: Store | Path) -> dict[int, dict[bytes, bytes]]:
    fresh = Store(store.path if isinstance(store, Store) else store / "shadow.git")
    found = {c.number: contents(fresh, c) for c in (*fresh.kept(), *fresh.checkpoints())}
    assert fresh.notices == []
    return found


def size(store: Store) -> int:
    return sum(p.stat().st_size for p in Path(store.path).rglob("*") if p.is_file())


@pytest.mark.parametrize(
    ("limits", "first"),
    [
        ({"age": 30}, 1),
        ({"age": 3.5}, 7),
        ({"age": 0}, 10),
        ({"age": 0, "number": 4}, 7),
        ({"age": 3.5, "number": 6}, 5),
        ({"age": 0, "number": 0}, 10),
        ({"age": 30, "budget": 100 * KB}, 7),
        ({"age": 30, "budget": 0}, 10),
        ({"age": 0, "number": 9, "budget": 100 * KB}, 7),
    ],
)
def test_by_age_number_and_size(tmp_path: Path, limits: dict[str, float], first: int) -> None:
    store, facts, known = made(tmp_path)
    would = collect(store, facts, dry_run=True, **limits)  # type: ignore[arg-type]
    assert held(store) == known
    before = size(store)
    done = collect(store, facts, **limits)  # type: ignore[arg-type]
    assert would.dropped == done.dropped == list(range(1, first))
    assert would.first_kept == done.first_kept == first
    assert held(store) == {n: c for n, c in known.items() if n >= first}
    assert [c.number for c in store.checkpoints()] == list(range(first, 11))
    assert store.checkpoints()[0].parent is None
    assert abs(before - size(store) - done.freed) < 3000
    assert done.freed >= (first - 1) * 20 * KB
    assert facts_file.load(tmp_path) == facts
    assert (facts.first_kept, facts.last_number) == (first, 10)
    assert sorted(facts.cut) == sorted(store.shallow())
    sound(store)
    if first > 1:
        with pytest.raises(TooOld):
            store.by_number(1)
    assert checkpoint(Store(store.path), {"f": b"next"}).number == 11
    assert git(store, "rev-list", "--count", "timeline").stdout.strip() == b"%d" % (12 - first)


def test_ids_never_change(tmp_path: Path) -> None:
    store, facts, _ = made(tmp_path)
    before = {c.number: c.id for c in store.checkpoints()}
    collect(store, facts, age=2)
    assert {c.number: c.id for c in Store(store.path).checkpoints()}.items() <= before.items()


def test_pinned_labelled_and_recent_before_restores_stay(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "shadow.git")
    facts = Facts(b"/w")
    known = {}
    for i in range(1, 13):
        kind = "before-restore" if i in (3, 9) else "step"
        days = 20 if i < 6 else 5
        c = checkpoint(store, {"f": os.urandom(KB)}, kind, at=NOW - timedelta(days=days), label="x" if i == 4 else None)  # type: ignore[arg-type]
        known[i] = contents(store, c)
    store.pin(2, "pinned")
    store.pin(11)
    done = collect(store, facts, age=0)
    assert done.dropped == [1, 3, 5, 6, 7, 8, 10]
    assert set(held(store)) == {2, 4, 9, 11, 12}
    assert held(store) == {n: known[n] for n in (2, 4, 9, 11, 12)}
    again = Store(store.path)
    assert [c.number for c in again.kept()] == [2, 4, 9, 11]
    assert [again.by_number(n).meta.label for n in (2, 4)] == ["pinned", "x"]
    assert len(again.shallow()) == 5
    sound(store)
    assert collect(again, facts, age=0).dropped == []
    later = NOW + timedelta(days=3)
    again.unpin(11)
    assert gc(again, facts, Limits(timedelta(0), 1), now=later).dropped == [9, 11]
    again.unpin(2)
    assert gc(again, facts, Limits(timedelta(0), 1), now=later).dropped == [2]
    assert held(store) == {n: known[n] for n in (4, 12)}
    sound(store)


def test_a_cut_never_falls_where_it_must_not(tmp_path: Path) -> None:
    store, facts, known = made(tmp_path)
    asked: list[int] = []

    def may_cut(number: int) -> bool:
        asked.append(number)
        return number in (1, 4, 9)

    done = collect(store, facts, age=2.5, may_cut=may_cut)
    assert done.first_kept == 4
    assert held(store) == {n: c for n, c in known.items() if n >= 4}
    assert collect(store, facts, age=30, budget=0, may_cut=may_cut).first_kept == 9
    assert collect(store, facts, age=0, may_cut=lambda number: False).first_kept == 9
    sound(store)


def test_what_nobody_needs_goes(tmp_path: Path) -> None:
    store, facts, known = made(tmp_path, 3)
    with store.writer() as writer:
        orphan = writer.add("blob", os.urandom(100 * KB))
        writer.finish()
    abandoned = checkpoint(store, {"f": b"never on the timeline"}, move=False)
    git(store, "hash-object", "-w", "--stdin", input=b"loose and lost")
    done = collect(Store(store.path), facts)
    fresh = Store(store.path)
    assert orphan not in fresh.objects
    assert bytes.fromhex(abandoned.id) not in fresh.objects
    assert list(fresh.objects.loose()) == []
    assert not [n for n in os.listdir(fresh.objects.pack_directory) if n.endswith(".keep")]
    assert done.freed > 100 * KB
    assert held(store) == known
    sound(store)
    assert collect(Store(store.path), facts).freed == 0


def test_of_two_copies_the_sound_one_stays(tmp_path: Path) -> None:
    for consolidated in (False, True):
        store, facts, known = made(tmp_path / str(consolidated), 4, 100 * KB)
        path = max(Path(store.objects.pack_directory).glob("*.pack"), key=lambda p: p.stat().st_mtime_ns)
        whole = path.read_bytes()
        path.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
        again = Store(store.path)
        newest = again.checkpoints()[-1]
        with pytest.raises(Damaged):
            contents(again, newest)
        with again.writer() as writer:
            writer.add("blob", known[4][b"f"])
            again.heal(writer)
        if consolidated:  # the damaged pack is the larger one now
            from checkpointer.workspace.shadow import consolidation

            fresh = Store(store.path)
            consolidation.consolidate(fresh.objects, fresh.notices, enough=2)
        assert held(store) == known
        collect(Store(store.path), facts)
        assert held(store) == known
        collect(Store(store.path), facts, age=1.5)
        assert held(store) == {3: known[3], 4: known[4]}
        sound(store)


def test_a_users_packs_are_cleaned_too(tmp_path: Path) -> None:
    store, facts, known = made(tmp_path)
    git(store, "gc", "-q", "--prune=now")
    git(store, "multi-pack-index", "write")
    git(store, "commit-graph", "write", "--reachable")
    collect(Store(store.path), facts, age=3.5)
    assert held(store) == {n: c for n, c in known.items() if n >= 7}
    sound(store)


def test_temporaries_stale_and_fresh(tmp_path: Path) -> None:
    store, facts, _ = made(tmp_path, 2)
    pack = Path(store.objects.pack_directory)
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    stale = [pack / f"{dead}-abcdef123456.ckpt-tmp", pack / "tmp_pack_old", tmp_path / f"workspace.toml.{dead}.tmp"]
    alive = os.getppid()
    fresh = [pack / "tmp_pack_new", pack / f"{alive}-abcdef123456.ckpt-tmp", tmp_path / f"pins.{alive}.tmp"]
    for path in (*stale, *fresh):
        path.write_bytes(b"x" * 1000)
    os.utime(pack / "tmp_pack_old", (time.time() - 7200,) * 2)
    (tmp_path / f"shadow.git.{dead}-ab12.tmp").mkdir()
    (tmp_path / "mine.txt").write_bytes(b"not ours")
    done = collect(store, facts)
    assert done.swept.temporaries == 4
    assert done.freed >= 3000
    assert not any(p.exists() for p in stale)
    assert all(p.exists() for p in (*fresh, tmp_path / "mine.txt"))


def test_while_git_is_at_work_nothing_is_done(tmp_path: Path) -> None:
    store, facts, _ = made(tmp_path, 3)
    pid = Path(store.path, "gc.pid")
    pid.write_text(f"{os.getpid()} here")
    with pytest.raises(Busy, match="git gc"):
        collect(store, facts, age=0)
    pid.write_text("999999999 here")
    lock = Path(store.path, "gc.pid.lock")
    lock.touch()
    os.utime(lock, (time.time() - 60,) * 2)
    assert collect(store, facts, age=0).dropped == [1, 2]
    assert not lock.exists()
    assert len(store.notices) == 1


def test_a_pending_restore_is_finished_first(tmp_path: Path) -> None:
    store, facts, _ = made(tmp_path, 2)
    store.set_pending(checkpoint(store, {"f": b"x"}, move=False))
    with pytest.raises(Failed, match="cut short"):
        collect(store, facts, age=0)


def test_an_empty_store(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "shadow.git")
    facts = Facts(b"/w")
    assert collect(store, facts) == Collected()
    assert collect(store, facts, dry_run=True).dropped == []


@needs_root
def test_without_space_what_can_go_goes(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "12m") as small:
        store, facts, known = made(small / "w", 4, 700 * KB)
        big = checkpoint(store, {"f": os.urandom(3 << 20)}, at=NOW)
        known[big.number] = contents(store, big)
        assert store.consolidate() is None
        from checkpointer.workspace.shadow import consolidation

        consolidation.consolidate(store.objects, [], enough=2)
        fill(small / "filler", leave=400_000)
        done = collect(store, facts, age=0)
        assert done.notes
        assert "free space" in done.notes[0]
        assert held(store) == {big.number: known[big.number]}
        sound(store)
        (small / "filler").unlink()
        done = collect(Store(store.path), facts, age=0)
        assert done.freed > 2_000_000
        assert not done.notes
        assert held(store) == {big.number: known[big.number]}
        sound(store)


def test_a_gc_killed_anywhere_leaves_the_longer_or_the_shorter_timeline(tmp_path: Path) -> None:
    store, _, known = made(tmp_path / "source", 6, 2 * KB)
    store.pin(2, "two")
    checkpoint(store, {"f": b"orphan"}, move=False)
    git(store, "hash-object", "-w", "--stdin", input=b"loose and lost")
    short = {n: known[n] for n in (2, 5, 6)}

    def run(place: Path) -> None:
        collect(Store(place / "shadow.git"), facts_file.load(place), age=1.5)

    def check(place: Path) -> None:
        found = held(place)
        assert found in (known, short)
        sound(place / "shadow.git")
        # The shallow file can be rebuilt from what workspace.toml says.
        shallow = place / "shadow.git" / "shallow"
        if found == short and shallow.exists():
            kept = shallow.read_bytes()
            shallow.unlink()
            assert held(place) in (known, short)
            shallow.write_bytes(kept)
        run(place)
        assert held(place) == short
        sound(place / "shadow.git")
        assert not [p for p in place.rglob("*") if p.suffix in (".keep", ".ckpt-tmp", ".tmp", ".lock")]

    assert killed_everywhere(tmp_path / "source", run, check) > 20


def test_a_lost_shallow_file_is_made_again(tmp_path: Path) -> None:
    store, facts, known = made(tmp_path)
    collect(store, facts, age=3.5)
    whole = Path(store.path, "shallow").read_bytes()
    for bad in (None, b"", b"\0" * 41, b"garbage\n"):
        if bad is None:
            Path(store.path, "shallow").unlink()
        else:
            Path(store.path, "shallow").write_bytes(bad)
        fresh = Store(store.path)
        assert [c.number for c in fresh.checkpoints()] == [7, 8, 9, 10]
        assert fresh.checkpoints()[0].parent is None
        fresh.writer().abort()
        assert Path(store.path, "shallow").read_bytes() == whole
    assert held(store) == {n: c for n, c in known.items() if n >= 7}
    sound(store)
