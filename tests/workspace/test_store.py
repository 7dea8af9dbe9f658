"""The shadow repository: five syncs in order, content before name, private, and obeying nobody's git configuration."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from harness.shadow import checkpoint, contents, git, sound

from checkpointer import disk
from checkpointer.errors import ReadOnlyStore, Usage
from checkpointer.workspace.checkpoint import Meta, Operation, Segment
from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.shadow import repository
from checkpointer.workspace.shadow.store import Store
from checkpointer.workspace.trees.extras import Extras
from checkpointer.workspace.trees.gittree import FILE, encode_tree
from checkpointer.workspace.trees.tree import write_root

HARNESS = Path(__file__).parents[1]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "shadow.git")


def keeps(store: Store) -> list[str]:
    return [n for n in os.listdir(store.objects.pack_directory) if n.endswith(".keep")]


def test_checkpoints_follow_each_other(store: Store) -> None:
    assert store.tip() is None
    assert store.checkpoints() == []
    first = checkpoint(store, {"a": b"1"}, "base")
    second = checkpoint(store, {"a": b"2", "b": ("link", b"a", 0)}, steps=("t1.1",), runs=("r1",), head="main")
    assert [c.number for c in store.checkpoints()] == [1, 2]
    assert (first.parent, second.parent) == (None, first.id)
    again = Store(store.path)
    assert again.checkpoints() == [first, second]
    assert again.tip() == second
    assert again.by_number(1) == first
    assert contents(again, first) == {b"a": b"1"}
    assert contents(again, second) == {b"a": b"2", b"b": b"a"}
    with pytest.raises(Usage):
        again.by_number(3)
    sound(store)
    assert b"Ckpt-Turn: t1.1" in git(store, "log", "-p", "--stat").stdout


def test_everything_said_comes_back(store: Store) -> None:
    taken = ((Segment(1, 2), None), (Segment(2, 3), (b"a", b"\xff\n")))
    operation = Operation("t1..t3", 4, taken, ((Segment(3, 4), (b"b",)),))
    made = checkpoint(store, {"a": b"1"}, "undo", label='a "label"\n\t\\ \x00 é', operation=operation, by="agent")
    (found,) = Store(store.path).checkpoints()
    assert found == made
    assert found.meta.operation == operation
    assert found.meta.label == 'a "label"\n\t\\ \x00 é'
    sound(store)


@pytest.mark.parametrize("year", [1, 1969, 1970, 2038, 2106, 9999])
def test_clocks_that_are_wrong(store: Store, year: int) -> None:
    made = checkpoint(store, {"a": b"1"}, at=datetime(year, 1, 2, tzinfo=UTC))
    assert Store(store.path).tip() == made
    assert made.meta.at == max(datetime(year, 1, 2, tzinfo=UTC), datetime.fromtimestamp(0, UTC))
    sound(store)


def verbs(run: object, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []
    monkeypatch.setattr(disk, "probe", lambda verb, path: seen.append((verb, os.path.basename(os.fspath(path)))))  # type: ignore[arg-type]
    run()  # type: ignore[operator]
    monkeypatch.setattr(disk, "probe", None)
    return [(verb, re.sub(r"[0-9a-f-]{12,}", "X", name)) for verb, name in seen]


def test_five_syncs_in_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(store, {"a": b"1"})
    seen = verbs(lambda: checkpoint(store, {"a": b"2"}), monkeypatch)
    assert [(v, n) for v, n in seen if v.startswith("sync")] == [
        ("sync", "X.ckpt-tmp"),
        ("sync", "X.ckpt-tmp"),
        ("sync_directory", "pack"),
        ("sync", "timeline.lock"),
        ("sync_directory", "heads"),
    ]
    order = [(v, n) for v, n in seen if v in ("create", "rename", "remove", "sync", "sync_directory")]
    names = [n for _, n in order]
    assert names.index("packX.keep") < names.index("packX.pack") < names.index("packX.idx") < names.index("timeline")
    assert order[-1] == ("remove", "packX.keep"), "only when the ref has moved"


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_system_calls_are_in_order(store: Store, tmp_path: Path) -> None:
    checkpoint(store, {"a": b"1"})
    code = f"""
import sys; sys.path.insert(0, {str(HARNESS)!r})
from harness.shadow import checkpoint
from checkpointer.workspace.shadow.store import Store
checkpoint(Store({store.path!r}), {{"a": b"2"}})
"""
    trace = tmp_path / "trace"
    calls = "fsync,fdatasync,sync,syncfs,rename,renameat,renameat2,unlink,unlinkat,link,linkat"
    subprocess.run(
        ["strace", "-f", "-y", "-e", f"trace={calls}", "-o", trace, sys.executable, "-c", code], check=True, cwd="/"
    )
    seen = []
    for line in trace.read_text().splitlines():
        found = re.search(r" (\w+)\((.*)\) += 0", line)
        if found is None or str(tmp_path) not in line or "/scan/" in line:
            continue
        paths = re.findall(rf"{re.escape(str(tmp_path))}[^\">,]*", found[2])
        seen.append((re.sub("^(rename|unlink)at2?$", r"\1", found[1]), paths[-1].rpartition("/")[2]))
    short = [(call, re.sub(r"[0-9a-f-]{12,}", "X", name)) for call, name in seen]
    assert short == [
        ("fdatasync", "X.ckpt-tmp"),
        ("rename", "packX.pack"),
        ("fdatasync", "X.ckpt-tmp"),
        ("rename", "packX.idx"),
        ("fsync", "pack"),
        ("fdatasync", "timeline.lock"),
        ("rename", "timeline"),
        ("fsync", "heads"),
        ("unlink", "packX.keep"),
    ]


def test_a_users_gc_between_pack_and_ref_takes_nothing(store: Store) -> None:
    tip = checkpoint(store, {"a": b"1"})
    with store.writer() as writer:
        files = writer.add("tree", encode_tree([(b"n", FILE, writer.add("blob", b"new"))]))
        root = write_root(writer, files, Extras(dir_mode=0o700))
        writer.finish()
        git(store, "config", "gc.pruneExpire", "now")
        git(store, "gc", "-q", "--prune=now")
        made = store.commit(writer, root, Meta("step", datetime.now(UTC)), parent=tip)
        assert len(keeps(store)) == 2
        git(store, "gc", "-q", "--prune=now")
        git(store, "repack", "-a", "-d", "-q")
        git(store, "prune", "--expire=now")
        store.move(made)
    assert keeps(store) == []
    git(store, "gc", "-q", "--prune=now")
    again = Store(store.path)
    assert [c.number for c in again.checkpoints()] == [1, 2]
    assert contents(again, made) == {b"n": b"new"}
    sound(store)


def test_a_users_gc_while_a_large_pack_is_being_written(store: Store, tmp_path: Path) -> None:
    with store.writer() as writer:
        data = os.urandom(5 << 20)
        writer.add("blob", data)
        git(store, "gc", "-q", "--prune=now")
        git(store, "prune", "--expire=now")
        writer.finish()
    checkpoint(store, {"a": data})
    assert contents(store, store.checkpoints()[0]) == {b"a": data}


def test_a_pending_result_is_kept_and_dropped(store: Store) -> None:
    first = checkpoint(store, {"a": b"1"})
    prepared = checkpoint(store, {"a": b"2"}, "undo", move=False)
    store.set_pending(prepared)
    git(store, "pack-refs", "--all")
    git(store, "gc", "-q", "--prune=now")
    again = Store(store.path)
    assert again.pending() == prepared
    assert again.tip() == first
    assert contents(again, prepared) == {b"a": b"2"}
    assert again.next_number() == 3
    again.drop_pending()
    again.drop_pending()
    assert again.pending() is None
    assert Store(store.path).pending() is None
    assert checkpoint(again, {"a": b"3"}).number == 3, "a number is never given out twice"
    assert checkpoint(Store(store.path), {"a": b"4"}).number == 4


def test_labels_given_later(store: Store) -> None:
    checkpoint(store, {"a": b"1"}, label="first name")
    checkpoint(store, {"a": b"2"})
    store.pin(1, "second\tname\n")
    store.pin(2)
    assert [c.meta.label for c in store.checkpoints()] == ["second\tname\n", None]
    assert [c.meta.label for c in Store(store.path).checkpoints()] == ["second\tname\n", None]
    store.unpin(1)
    store.unpin(1)
    assert [c.meta.label for c in Store(store.path).checkpoints()] == ["first name", None]
    assert Store(store.path).pinned() == {2: None}
    with pytest.raises(Usage):
        store.pin(3)


def test_a_read_only_store_is_looked_at(store: Store) -> None:
    made = checkpoint(store, {"a": b"1"})
    before = sorted((p, p.stat().st_mtime_ns) for p in Path(store.path).rglob("*"))
    reader = Store(store.path, read_only=True)
    assert contents(reader, made) == {b"a": b"1"}
    for write in (reader.writer, reader.drop_pending, lambda: reader.pin(1), lambda: reader.move(made)):
        with pytest.raises(ReadOnlyStore):
            write()
    assert sorted((p, p.stat().st_mtime_ns) for p in Path(store.path).rglob("*")) == before


def test_a_commit_that_is_killed_anywhere_is_there_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").mkdir()
    checkpoint(Store.create(tmp_path / "source" / "shadow.git"), {"a": b"1"})
    killed = 0
    for n in range(60):
        place = tmp_path / "copy"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(tmp_path / "source", place)
        child = os.fork()
        if child == 0:
            left = n

            def stop(verb: str, path: object) -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    os._exit(9)

            store = Store(place / "shadow.git")
            disk.probe = stop
            checkpoint(store, {"a": b"2"})
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        again = Store(place / "shadow.git")
        numbers = [c.number for c in again.checkpoints()]
        assert numbers in ([1], [1, 2])
        assert again.notices == []
        sound(again)
        made = checkpoint(again, {"a": b"3"})
        assert made.number in (numbers[-1] + 1, numbers[-1] + 2)
        assert contents(Store(place / "shadow.git"), made) == {b"a": b"3"}
        git(again, "gc", "-q", "--prune=now")
        assert contents(Store(place / "shadow.git"), made) == {b"a": b"3"}
        sound(again)
        if status == 0:
            break
        assert status == 9
        killed += 1
    assert killed > 12


def test_keep_files_of_a_kill_right_after_the_ref_go_at_the_next_write(store: Store) -> None:
    checkpoint(store, {"a": b"1"})
    moved = checkpoint(store, {"a": b"2"}, move=False)
    store.refs.write(repository.TIMELINE, moved.id)  # and killed here
    assert len(keeps(store)) == 1
    abandoned = checkpoint(Store(store.path), {"a": b"3"}, move=False)
    again = Store(store.path)
    again.writer().abort()
    assert len(keeps(again)) == 1, "what never got onto the timeline stays in flight"
    assert abandoned.number == 3
    assert again.next_number() == 4


def test_a_checkpoint_of_one_file_in_ten_thousand_is_small(store: Store) -> None:
    checkpoint(store, {f"d{i % 100}/s{i % 7}/f{i}": b"%d" % i for i in range(10_000)})
    before = sum(p.stat().st_size for p in Path(store.path).rglob("*"))
    for i in range(5):
        checkpoint(store, {"d3/s3/f3": b"again %d" % i})
    grown = sum(p.stat().st_size for p in Path(store.path).rglob("*")) - before
    assert grown / 5 <= 15_000


def test_time_is_kept_in_whole_seconds(store: Store) -> None:
    at = datetime.now(UTC) - timedelta(hours=3)
    assert checkpoint(store, {"a": b"1"}, at=at).meta.at == at.replace(microsecond=0)


def test_writers_share_nothing_but_the_store(store: Store) -> None:
    one, two = store.writer(), store.writer()
    a, b = one.add("blob", b"1"), two.add("blob", b"2")
    assert isinstance(one, PackWriter)
    assert b not in one
    two.finish()
    one.finish()
    assert {a, b} <= set(Store(store.path).objects.everything())
