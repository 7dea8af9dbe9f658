"""A path taken out of every checkpoint: its content is in no object any more, all else is as it was."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from harness.crashing import killed_everywhere
from harness.shadow import checkpoint, contents, git, sound

from checkpointer.errors import Failed
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.checkpoint import Checkpoint, Operation, Segment
from checkpointer.workspace.facts import Facts
from checkpointer.workspace.shadow.purge import MARK, Purged, purge, unfinished
from checkpointer.workspace.shadow.retention import Limits, gc
from checkpointer.workspace.shadow.store import Store

SECRET = b"hunter2 " * 300


def made(place: Path) -> Store:
    place.mkdir(exist_ok=True)
    store = Store.create(place / "shadow.git")
    facts_file.save(place, Facts(b"/w"))
    old = datetime(2026, 1, 1, tzinfo=UTC)
    checkpoint(store, {"a": b"1", "d/x": b"1"}, "base", at=old)
    checkpoint(
        store, {".env": SECRET, "d/keys/one": SECRET + b"1", "d/keys/two": ("file", SECRET + b"2", 0o600)}, at=old
    )
    checkpoint(store, {"a": b"2", ".env": SECRET + b"3"}, at=old, steps=("t1.1",), runs=("r1",), label="named")
    taken = ((Segment(2, 3), (b".env", b"a")), (Segment(1, 2), None), (Segment(1, 3), (b"d/keys/one",)))
    operation = Operation("t1", None, taken, ((Segment(2, 3), (b".env",)),))
    checkpoint(store, {"a": b"1"}, "undo", at=old, operation=operation)
    checkpoint(store, {"a": b"3", ".env": None, "d/keys/one": None}, at=old)
    return store


def run(store: Store, *paths: bytes) -> Purged:
    return purge(store, facts_file.load(store.directory), paths)


def everything(store: Store | Path) -> bytes:
    """The content of every object there is, wherever it stands, as git reads it; and every other file."""
    path = Path(store.path) if isinstance(store, Store) else store / "shadow.git"
    listed = git(path, "cat-file", "--batch-all-objects", "--batch-check").stdout.split()[::3]
    objects = git(path, "cat-file", "--batch", input=b"\n".join(listed)).stdout
    files = b"".join(p.read_bytes() for p in path.parent.rglob("*") if p.is_file() and p.suffix != ".pack")
    return objects + files


def without(files: dict[bytes, bytes], *paths: bytes) -> dict[bytes, bytes]:
    return {p: c for p, c in files.items() if not any(p == x or p.startswith(x + b"/") for x in paths)}


def test_the_content_is_in_no_object_any_more(tmp_path: Path) -> None:
    store = made(tmp_path)
    before = store.checkpoints()
    known = {c.number: contents(store, c) for c in before}
    assert SECRET in everything(store)
    done = run(store, b".env", b"d/keys")
    assert b"hunter2" not in everything(store)
    assert done.checkpoints == [2, 3, 4, 5]
    assert done.rewritten == 4
    assert done.elsewhere == []
    assert done.notes == []
    fresh = Store(store.path)
    after = fresh.checkpoints()
    assert {c.number: contents(fresh, c) for c in after} == {
        n: without(c, b".env", b"d/keys") for n, c in known.items()
    }
    assert after[0] == before[0], "what did not change keeps its id"
    for old, new in zip(before[1:], after[1:], strict=True):
        assert fresh.rewritten(old.id) == new.id
        assert bytes.fromhex(old.id) not in fresh.objects
        assert (old.number, old.kind, old.meta.at, old.meta.label) == (
            new.number,
            new.kind,
            new.meta.at,
            new.meta.label,
        )
        assert (old.meta.steps, old.meta.runs, old.meta.by) == (new.meta.steps, new.meta.runs, new.meta.by)
    assert fresh.rewritten(before[0].id) is None
    operation = after[3].meta.operation
    assert operation is not None
    assert operation.taken == ((Segment(2, 3), (b"a",)), (Segment(1, 2), None))
    assert operation.left == ()
    assert fresh.notices == []
    assert unfinished(fresh) == []
    assert not Path(tmp_path, MARK).exists()
    assert fresh.tree(after[1]).entry(b"d/keys") is None
    assert fresh.tree(after[1]).extras.modes == {}
    sound(store)


def test_nothing_to_do_changes_nothing(tmp_path: Path) -> None:
    store = made(tmp_path)
    before = store.checkpoints()
    done = run(store, b"none", b".envy", b"d/key")
    assert done.checkpoints == []
    assert done.rewritten == 0
    assert Store(store.path).checkpoints() == before
    for bad in ([], [b""]):
        with pytest.raises(ValueError, match="paths"):
            purge(store, facts_file.load(tmp_path), bad)


def test_what_stands_elsewhere_too_is_named(tmp_path: Path) -> None:
    store = made(tmp_path)
    checkpoint(store, {"backup/env": SECRET})
    done = run(store, b".env")
    assert done.elsewhere == [b"backup/env"]
    assert SECRET in everything(store)
    assert run(store, b"backup").elsewhere == []
    assert SECRET + b"3" not in everything(store)


def test_it_can_be_done_again_and_ids_are_followed(tmp_path: Path) -> None:
    store = made(tmp_path)
    first = store.checkpoints()
    run(store, b".env")
    second = Store(store.path).checkpoints()
    fresh = Store(store.path)
    run(fresh, b"d")
    third = Store(store.path).checkpoints()
    for a, b, c in zip(first[1:], second[1:], third[1:], strict=True):
        assert fresh.rewritten(a.id) == fresh.rewritten(b.id) == c.id
    assert fresh.rewritten(first[0].id) == third[0].id
    sound(store)


def test_pins_and_cut_ends_follow(tmp_path: Path) -> None:
    store = made(tmp_path)
    store.pin(2, "two")
    facts = facts_file.load(tmp_path)
    gc(store, facts, Limits(timedelta(0), 2), now=datetime(2026, 3, 1, tzinfo=UTC))
    assert [c.number for c in (*store.kept(), *store.checkpoints())] == [2, 3, 4, 5]
    done = run(store, b".env", b"d/keys")
    assert done.checkpoints == [2, 3, 4, 5]
    fresh = Store(store.path)
    assert [c.number for c in fresh.kept()] == [2, 3]
    assert [c.number for c in fresh.checkpoints()] == [4, 5]
    assert b"hunter2" not in everything(store)
    assert sorted(facts_file.load(tmp_path).cut) == sorted(fresh.shallow())
    assert fresh.kept()[0].meta.label == "two"
    sound(store)


def test_what_a_scan_remembers_is_forgotten(tmp_path: Path) -> None:
    store = made(tmp_path)
    (tmp_path / "scan" / "table").write_bytes(b"ids of blobs")
    run(store, b".env")
    assert os.listdir(tmp_path / "scan") == ["number"]


def test_a_restore_that_was_cut_short_comes_first(tmp_path: Path) -> None:
    store = made(tmp_path)
    store.set_pending(checkpoint(store, {"f": b"x"}, move=False))
    with pytest.raises(Failed, match="cut short"):
        run(store, b".env")
    assert not Path(tmp_path, MARK).exists()


def test_uncovered_and_torn_paths_go_from_the_lists(tmp_path: Path) -> None:
    from harness.shadow import empty

    from checkpointer.workspace.checkpoint import Meta
    from checkpointer.workspace.trees.extras import Extras

    store = made(tmp_path)
    tip = store.tip()
    assert tip is not None
    with store.writer() as writer:
        uncovered = {b"big/secret": "too-large", b"sock": "socket"}
        root = empty(writer, Extras(uncovered=uncovered, directories=frozenset({b"big"}), torn=frozenset({b"big/x"})))
        store.move(store.commit(writer, root, Meta("save", tip.meta.at), parent=tip))
    run(store, b"big")
    extras = Store(store.path).tree(Store(store.path).checkpoints()[-1]).extras
    assert dict(extras.uncovered) == {b"sock": "socket"}
    assert extras.torn == frozenset()
    assert extras.directories == frozenset()


def test_a_users_gc_before_it_changes_nothing(tmp_path: Path) -> None:
    store = made(tmp_path)
    git(store, "gc", "-q", "--aggressive", "--prune=now")
    git(store, "multi-pack-index", "write")
    run(Store(store.path), b".env", b"d/keys")
    assert b"hunter2" not in everything(store)
    sound(store)


def test_killed_anywhere_it_is_finished_by_doing_it_again(tmp_path: Path) -> None:
    store = made(tmp_path / "source")
    store.pin(2, "two")
    facts = facts_file.load(tmp_path / "source")
    gc(store, facts, Limits(timedelta(0), 2), now=datetime(2026, 3, 1, tzinfo=UTC))
    before = {c.number: contents(store, c) for c in (*store.kept(), *store.checkpoints())}
    after = {n: without(c, b".env", b"d/keys") for n, c in before.items()}
    ids = [c.id for c in store.checkpoints()]

    def do(place: Path) -> None:
        run(Store(place / "shadow.git"), b".env", b"d/keys")

    def check(place: Path) -> None:
        fresh = Store(place / "shadow.git")
        found: list[Checkpoint] = [*fresh.kept(), *fresh.checkpoints()]
        assert [c.number for c in found] == [2, 3, 4, 5]
        for c in found:
            assert contents(fresh, c) in (before[c.number], after[c.number])
        assert fresh.notices == []
        sound(fresh)
        again = Store(place / "shadow.git")
        if unfinished(again):
            again.writer().abort()
            assert any("purge was cut short" in n for n in again.notices)
        run(again, *(unfinished(again) or [b".env", b"d/keys"]))
        fresh = Store(place / "shadow.git")
        assert {c.number: contents(fresh, c) for c in (*fresh.kept(), *fresh.checkpoints())} == after
        assert b"hunter2" not in everything(place)
        assert [fresh.rewritten(i) for i in ids] == [c.id for c in fresh.checkpoints()]
        sound(fresh)

    assert killed_everywhere(tmp_path / "source", do, check) > 40
