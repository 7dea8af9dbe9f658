"""Save, undo, redo, restore on real directories: exact, and nothing of anybody else's is lost."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from desk import NEWEST, Desk
from harness.machine import IS_ROOT, NOBODY, needs_root
from harness.manifest import Manifest, same, untouched
from hypothesis import given, settings
from hypothesis import strategies as st
from test_restore import build, specs

from checkpointer import disk
from checkpointer.cli import outcome as told
from checkpointer.errors import (
    Busy,
    CaptureFailed,
    Conflict,
    Interfered,
    NeedsPerson,
    NothingToDo,
    NothingToRedo,
    ReadOnlyStore,
    Usage,
)
from checkpointer.workspace import changeover
from checkpointer.workspace.basis import Basis
from checkpointer.workspace.undoing.selection import Selector
from checkpointer.workspace.undoing.timeline import OpenTurn


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def turn(n: int, **more: Any) -> Selector:
    return Selector(first=n, last=n, **more)


SCRIPT = """
echo 2 > a; rm -r d; mkdir -p new/deep; echo n > new/deep/f; chmod 755 run.sh; ln -s a link; rm gone; mkdir empty
rm swap; mkdir swap; echo x > swap/x; mkfifo pipe
"""


def begin(desk: Desk) -> Manifest:
    for name in ("a", "d/x", "d/y", "run.sh", "gone", "swap", "same"):
        desk.write(name, f"{name}\n")
    (desk.root / "void").mkdir()
    desk.save()
    return desk.files()


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_file_and_a_directory_that_change_places_are_both_named(desk: Desk, dry_run: bool) -> None:
    desk.write("f", "file\n")
    desk.write("d/x", "x\n")
    desk.write("m/x", "x\n")
    desk.step("rm f; mkdir -p f/x; echo n > f/x/y; rm -r d; echo agent > d; chmod 700 m; echo m > m/x")
    undone = desk.undo(dry_run=dry_run)
    assert undone.written == [b"d/x", b"f", b"m", b"m/x"]
    assert undone.removed == [b"d", b"f/x/y"]
    if dry_run:
        return
    redone = desk.redo()
    assert redone.written == [b"d", b"f/x/y", b"m", b"m/x"]
    assert redone.removed == [b"d/x", b"f"]
    assert told.untouched(desk.workspace().timeline(), redone) == []
    desk.step("rm d; mkdir d")
    assert (desk.undo().written, desk.redo().written) == ([b"d"], [b"d"])


def test_undo_redo_restore_are_exact_and_touch_nothing_else(desk: Desk) -> None:
    start = begin(desk)
    desk.step(SCRIPT)
    after = desk.files()
    desk.write("mine", "mine\n")
    mine = desk.files()
    for _ in range(3):
        before = desk.files()
        done = desk.undo()
        now = desk.files()
        same(Manifest({**start, b"mine": mine[b"mine"]}), now)
        untouched(before, now, before.differing(now))
        assert done.unit == "t1"
        assert {b"a", b"d/x", b"gone", b"swap", b"run.sh"} <= set(done.written)
        assert {b"new/deep/f", b"link", b"empty", b"pipe", b"swap/x"} <= set(done.removed)
        assert desk.redo().unit == "t1"
        same(mine, desk.files())
    restored = desk.restore(1)
    same(start, desk.files())
    assert b"mine" in restored.removed
    assert any("mine" in note for note in restored.notes)
    desk.undo()
    same(mine, desk.files())
    desk.restore(2)
    same(after, desk.files())


@settings(max_examples=20)
@given(st.lists(specs(), min_size=2, max_size=3), st.data())
def test_any_state_comes_back(tmp_path_factory: Any, states: list[Any], data: st.DataObject) -> None:
    desk = Desk(tmp_path_factory.mktemp("d"))
    seen = []
    for i, spec in enumerate(states):
        subprocess.run(["sh", "-c", "chmod -R u+rwx . ; rm -rf ./* ./.[!.]*"], cwd=desk.root, check=True)
        build(desk.root, spec)
        saved = desk.save() if i == 0 else desk.step(lambda: None)
        seen.append((saved.checkpoint.number, desk.files()))
    for _ in range(3):
        number, files = data.draw(st.sampled_from(seen))
        before = desk.files()
        try:
            desk.restore(number)
        except NothingToDo:
            same(before, files)
            continue
        same(files, desk.files())
        desk.undo()
        same(before, desk.files())
        desk.restore(number)
        untouched(before, desk.files(), before.differing(files))


def test_an_unchanged_tree_makes_no_checkpoint_and_a_label_pins_the_newest(desk: Desk) -> None:
    begin(desk)
    again = desk.save()
    assert (again.created, again.checkpoint.number, dict(again.changed)) == (False, 1, {})
    named = desk.save(label="good")
    assert (named.created, named.checkpoint.number, named.checkpoint.meta.label) == (False, 1, "good")
    assert desk.workspace().store.pinned() == {1: "good"}
    desk.write("a", "more\n")
    saved = desk.save(label="better")
    assert saved.created
    assert list(saved.changed) == [b"a"]
    assert saved.checkpoint.meta.label == "better"


LINES = "".join(f"line {i}\n" for i in range(20))


def test_edits_of_the_user_are_merged_and_kept(desk: Desk) -> None:
    desk.write("f", LINES)
    desk.save()
    desk.step("sed -i 's/line 3$/agent/' f; echo x > made")
    desk.write("f", desk.read("f").replace("line 15\n", "mine\n"))
    desk.write("other", "mine\n")
    done = desk.undo()
    assert desk.read("f") == LINES.replace("line 15\n", "mine\n")
    assert desk.read("other") == "mine\n"
    assert done.merged == [b"f"]
    assert not (desk.root / "made").exists()
    desk.redo()
    assert desk.read("f") == LINES.replace("line 15\n", "mine\n").replace("line 3\n", "agent\n")


def test_a_conflict_changes_nothing_and_leaves_a_plain_capture(desk: Desk) -> None:
    desk.write("f", LINES)
    desk.write("g", "g\n")
    desk.save()
    desk.step("sed -i 's/line 3$/agent/' f; echo agent > g")
    desk.write("f", desk.read("f").replace("agent", "agent and me"))
    before = desk.files()
    for dry in (True, False):
        with pytest.raises(Conflict) as raised:
            desk.undo(dry_run=dry)
        assert raised.value.details["conflicts"][0]["path"] == "f"
        same(before, desk.files())
        untouched(before, desk.files(), set())
    assert desk.kinds() == ["save", "step", "before-restore"]
    skipped = desk.undo(mode="skip")
    assert skipped.skipped == [b"f"]
    assert (desk.read("g"), "agent and me" in desk.read("f")) == ("g\n", True)
    assert len(skipped.conflicts) == 1
    desk.redo()
    forced = desk.undo(mode="force")
    assert desk.read("f") == LINES
    assert any("later changes" in note for note in forced.notes)
    desk.redo()
    assert "agent and me" in desk.read("f")


def test_dry_run_writes_nothing_at_all_and_says_the_same(desk: Desk) -> None:
    begin(desk)
    desk.step(SCRIPT)
    desk.write("mine", "not saved yet\n")
    files, stored = desk.files(), desk.stored()
    looked = [desk.undo(dry_run=True), desk.restore(1, dry_run=True)]
    with pytest.raises(NothingToRedo):
        desk.redo(dry_run=True)
    with pytest.raises(Usage):
        desk.restore(99, dry_run=True)
    untouched(files, desk.files(), set())
    same(stored, desk.stored())
    untouched(stored, desk.stored(), set())
    done = [desk.undo()]
    desk.redo()
    done.append(desk.restore(1))
    for would, did in zip(looked, done, strict=True):
        assert would.dry_run
        assert (would.written, would.removed, would.unit) == (did.written, did.removed, did.unit)


def test_what_is_ignored_now_is_never_removed(desk: Desk) -> None:
    begin(desk)
    desk.step("echo s > secret.txt; mkdir out; echo o > out/o; echo i > out/i.log")
    desk.write(".gitignore", "secret.txt\n*.log\n")
    desk.write("out/later.log", "never covered\n")
    done = desk.undo()
    assert {b"secret.txt", b"out", b"out/i.log"} <= set(done.kept)
    assert (desk.root / "out" / "later.log").exists()
    assert (desk.root / "secret.txt").exists()
    assert not (desk.root / "out" / "o").exists()
    assert done.removed == [b"out/o"]
    desk.redo()
    assert desk.read("out/o") == "o\n"


def test_what_the_target_ignores_is_never_removed(desk: Desk) -> None:
    desk.write(".gitignore", "*.log\n")
    desk.save()
    desk.step("rm .gitignore; echo x > x.log; echo y > y")
    done = desk.undo()
    assert done.kept == [b"x.log"]
    assert sorted(os.listdir(desk.root)) == [".gitignore", "x.log"]


def test_a_directory_that_must_give_way_and_holds_what_is_not_ours_is_a_conflict(desk: Desk) -> None:
    desk.write("lib", "a file\n")
    desk.save()
    desk.step("rm lib; mkdir lib; echo x > lib/x")
    desk.write(".git/info/exclude", "*.log\n")
    for name in ("HEAD", "objects/x", "refs/x"):
        desk.write(f".git/{name}", "ref: refs/heads/main\n")
    desk.write("lib/mine.log", "ignored\n")
    before = desk.files()
    for dry in (True, False):
        with pytest.raises(Conflict) as raised:
            desk.undo(dry_run=dry)
        assert "lib/mine.log" in raised.value.message
    same(before, desk.files())
    assert desk.undo(mode="skip").skipped == [b"lib"]
    assert desk.read("lib/mine.log") == "ignored\n"


def test_a_socket_in_the_way_is_a_conflict(desk: Desk) -> None:
    desk.write("s", "a file\n")
    desk.save()
    (desk.root / "s").unlink()
    here = os.getcwd()
    os.chdir(desk.root)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("s")
        os.chdir(here)
        saved = desk.save()
        assert dict(saved.uncovered) == {b"s": "socket"}
        with pytest.raises(Conflict):
            desk.restore(1)
    assert (desk.root / "s").is_socket()


def test_links_and_directories_change_places_without_writing_outside(desk: Desk) -> None:
    out = desk.base / "out"
    out.mkdir()
    (out / "keep").write_text("precious")
    (desk.root / "lib").symlink_to("../out")
    desk.write("real/keep", "inside\n")
    desk.save()
    expected = Manifest.of(out)
    start = desk.files()
    desk.step("rm lib; mkdir lib; echo x > lib/keep; mv real ../stash; ln -s ../out real")
    after = desk.files()
    desk.undo()
    same(start, desk.files())
    desk.redo()
    same(after, desk.files())
    same(expected, Manifest.of(out))
    untouched(expected, Manifest.of(out), set())


def test_restore_of_paths(desk: Desk) -> None:
    start = begin(desk)
    desk.step(SCRIPT)
    after = desk.files()
    desk.restore(1, [b"d", b"a"])
    now = desk.files()
    assert after.differing(now) == {b"a", b"d", b"d/x", b"d/y"}
    assert now[b"d/x"].told == start[b"d/x"].told
    with pytest.raises(NothingToDo):
        desk.restore(1, [b"a"])
    with pytest.raises(NothingToDo):
        desk.restore(1, [b"nowhere"])
    desk.undo()
    same(after, desk.files())


def test_restore_to_another_directory(desk: Desk) -> None:
    start = begin(desk)
    desk.step(SCRIPT)
    before, stored = desk.files(), desk.stored()
    out = desk.base / "elsewhere" / "deep"
    desk.workspace(read_only=True).restore_to(1, os.fsencode(out))
    same(start, Manifest.of(out))
    with pytest.raises(Usage, match="not empty"):
        desk.workspace(read_only=True).restore_to(1, os.fsencode(out))
    some = desk.base / "some"
    some.mkdir()
    desk.workspace(read_only=True).restore_to(1, os.fsencode(some), [b"d/x"])
    assert sorted(p for p in Manifest.of(some) if p) == [b"d", b"d/x"]
    inside = desk.root / "empty"
    desk.workspace(read_only=True).restore_to(1, os.fsencode(inside))
    (inside / "a").unlink()
    same(stored, desk.stored())
    assert before.keys() <= desk.files().keys()


def test_another_branch_needs_a_person(desk: Desk) -> None:
    git = ["git", "-c", "user.name=u", "-c", "user.email=u@e", "-C", str(desk.root)]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    desk.write("a", "1\n")
    desk.save()
    desk.step("echo 2 > a")
    subprocess.run([*git, "checkout", "-q", "-b", "other"], check=True)
    with pytest.raises(NeedsPerson, match="main"):
        desk.undo()
    assert desk.read("a") == "2\n"
    desk.undo(mode="force")
    assert desk.read("a") == "1\n"


def test_a_workspace_that_is_gone_is_made_again(desk: Desk) -> None:
    start = begin(desk)
    desk.root.chmod(0o750)
    desk.save()
    start = desk.files()
    subprocess.run(["rm", "-rf", str(desk.root)], check=True)
    with pytest.raises(CaptureFailed):
        desk.save()
    stored = desk.stored()
    would = desk.restore(2, dry_run=True)
    assert b"a" in would.written
    assert not desk.root.exists()
    same(stored, desk.stored())
    with pytest.raises(Usage):
        desk.restore(77)
    with pytest.raises(NothingToRedo):
        desk.redo()
    assert not desk.root.exists()
    desk.restore(2)
    same(start, desk.files())


def test_an_uncovered_file_is_covered_before_it_is_overwritten(desk: Desk) -> None:
    desk.write("f", "small\n")
    desk.save()
    big = os.urandom(1000) * 20
    desk.write("g", big)
    (desk.root / "f").unlink()
    desk.save()
    (desk.root / "g").rename(desk.root / "f")
    workspace = desk.workspace()
    workspace.limit = 1000
    saved = workspace.save()
    assert dict(saved.uncovered) == {b"f": "too-large"}
    would = desk.workspace()
    would.limit = 1000
    assert would.restore(1, dry_run=True).written == [b"f"]
    done = workspace.restore(1)
    assert desk.read("f") == "small\n"
    store = desk.workspace().store
    assert done.before is not None
    assert store.tree(store.by_number(done.before)).read(b"f") == big


def _give_away(desk: Desk) -> None:
    if IS_ROOT:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(desk.base)], check=True)
        above = desk.base
        while above != above.parent:
            if not above.stat().st_mode & 0o001:
                above.chmod(above.stat().st_mode | 0o011)
            above = above.parent


def test_a_file_that_is_ours_but_unreadable_is_captured_then_restored(
    desk: Desk, as_nobody: Callable[..., None]
) -> None:
    desk.write("f", "old\n")
    desk.write("g", "old\n")
    desk.save()
    desk.step("echo new > f; echo new > g; chmod 000 f")
    _give_away(desk)

    def child() -> None:
        desk.write("g", "new\n")
        done = desk.undo()
        assert desk.read("f") == "old\n"
        store = desk.workspace().store
        assert store.tree(store.by_number(done.before)).read(b"f") == b"new\n"
        desk.redo()
        assert (desk.root / "f").stat().st_mode & 0o777 == 0

    as_nobody(child)


@needs_root
def test_what_cannot_be_read_is_not_overwritten(desk: Desk, as_nobody: Callable[..., None]) -> None:
    desk.write("f", "old\n")
    desk.write("g", "old\n")
    desk.save()
    desk.step("echo new > f; echo new > g")
    _give_away(desk)
    os.chown(desk.root / "f", 0, 0)
    os.chmod(desk.root / "f", 0o600)
    (desk.root / "f").write_text("theirs\n")

    def child() -> None:
        with pytest.raises(Conflict):
            desk.undo()
        done = desk.undo(mode="force")
        assert (done.written, done.skipped) == ([b"g"], [b"f"])
        with pytest.raises(CaptureFailed):
            desk.restore(1)

    as_nobody(child)
    assert (desk.read("f"), desk.read("g")) == ("theirs\n", "old\n")


def test_without_the_capture_before_something_would_be_lost(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: what is not covered is overwritten all the same."""
    monkeypatch.setattr(changeover.Changeover, "_cover", lambda self, basis, paths: None)
    with pytest.raises((AssertionError, KeyError, Conflict)):
        test_an_uncovered_file_is_covered_before_it_is_overwritten(desk)


def test_what_stood_before_is_in_a_checkpoint(desk: Desk) -> None:
    begin(desk)
    desk.write("a", "never saved\n")
    desk.write("unsaved", "never saved either\n")
    before = desk.files()
    done = desk.restore(1)
    store = desk.workspace().store
    assert done.before is not None
    held = store.tree(store.by_number(done.before))
    assert (held.read(b"a"), held.read(b"unsaved")) == (b"never saved\n", b"never saved either\n")
    desk.undo()
    same(before, desk.files())


def test_without_a_before_restore_checkpoint_unsaved_files_would_be_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: the present is looked at, and the newest checkpoint taken for it."""

    def basis(self: changeover.Changeover, must: frozenset[bytes]) -> Basis:
        store = self.workspace.store
        return Basis(store, store.checkpoints(), self.workspace.look(), 0)

    monkeypatch.setattr(changeover.Changeover, "_basis", basis)
    with pytest.raises((AssertionError, KeyError)):
        test_what_stood_before_is_in_a_checkpoint(desk)


@pytest.mark.parametrize("count", [3, 40])
def test_content_before_name_announce_do_confirm(desk: Desk, count: int) -> None:
    """The order of the durable verbs of one undo."""
    for i in range(count):
        desk.write(f"f{i:02}", "old\n")
    desk.save()
    desk.step("for f in f*; do echo new > $f; done")
    desk.write("mine", "mine\n")
    seen: list[str] = []

    def probe(verb: str, path: object) -> None:
        name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        part = next((p for p in ("pending", "timeline", ".pack", ".idx") if p in name), "")
        if verb.startswith("sync"):
            seen.append(verb)
        elif verb in ("rename", "remove") and not name.endswith((".lock", ".keep")) and (part or len(name) == 3):
            seen.append(f"{verb} {part}".strip())

    disk.probe = probe
    try:
        desk.undo()
    finally:
        disk.probe = None
    packs = [i for i, word in enumerate(seen) if word == "rename .pack"]
    moves = [i for i, word in enumerate(seen) if word == "rename timeline"]
    announced = seen.index("rename pending")
    placed = [i for i, word in enumerate(seen) if word == "rename"]
    dropped = [i for i, word in enumerate(seen) if word == "remove pending"]
    assert len(packs) == len(moves) == 2
    assert packs[0] < moves[0] < packs[1] < announced < placed[0] < placed[-1] < moves[1] < dropped[0]
    assert len(placed) == count
    data = "sync" if count == 3 else "sync_file_system"
    assert data in seen[announced : placed[0]]
    assert "sync_directory" in seen[placed[-1] : moves[1]]
    for i in (*packs, *moves, announced):
        assert "sync" in " ".join(seen[max(0, i - 2) : i]), (
            f"named before it was durable: {seen[max(0, i - 2) : i + 1]}"
        )


def test_an_edit_during_the_undo_is_kept(desk: Desk) -> None:
    for i in range(30):
        desk.write(f"f{i:02}", "old\n")
    desk.save()
    desk.step("for f in f*; do echo new > $f; done")
    before = desk.files()

    def probe(verb: str, path: object) -> None:
        if verb == "rename" and path == b"f10":
            desk.write("f20", "mine\n")

    disk.probe = probe
    try:
        with pytest.raises(Interfered) as raised:
            desk.undo()
    finally:
        disk.probe = None
    assert "checkpoint 3" in raised.value.kept or "checkpoint 2" in raised.value.kept
    assert desk.read("f20") == "mine\n"
    same(before.without(b"f20"), desk.files().without(b"f20"))
    assert desk.workspace().store.pending() is None
    with pytest.raises(Conflict):
        desk.undo()
    desk.undo(mode="skip")
    assert (desk.read("f20"), desk.read("f21")) == ("mine\n", "old\n")


def test_an_open_turn_ends_at_the_present_files(desk: Desk) -> None:
    desk.write("a", "1\n")
    desk.save()
    desk.write("a", "2\n")
    open_turn = OpenTurn("r1", 1, ("t1.1",), 1, alive=True)
    would = desk.undo(open_turns=[open_turn], dry_run=True)
    assert would.unit == "t1"
    done = desk.undo(open_turns=[open_turn])
    assert (done.unit, desk.read("a")) == ("t1", "1\n")
    desk.redo()
    assert desk.read("a") == "2\n"


def test_an_open_turn_being_executed_or_of_a_dead_agent(desk: Desk) -> None:
    desk.write("a", "1\n")
    desk.save()
    desk.write("a", "2\n")
    with pytest.raises(Busy):
        desk.undo(open_turns=[OpenTurn("r1", 1, ("t1.1",), 1, alive=True, executing=True)])
    with pytest.raises(NeedsPerson):
        desk.undo(open_turns=[OpenTurn("r1", 1, ("t1.1",), 1, alive=False)])
    assert desk.read("a") == "2\n"


def test_a_run_without_a_change_ends_undo_of_edits(desk: Desk) -> None:
    desk.write("a", "1\n")
    desk.save()
    desk.step("true")
    desk.write("mine", "mine\n")
    with pytest.raises(NothingToDo):
        desk.undo()
    assert desk.read("mine") == "mine\n"


def test_before_the_first_run_edits_are_undone(desk: Desk) -> None:
    desk.write("a", "1\n")
    desk.save()
    desk.write("a", "2\n")
    desk.save()
    desk.write("a", "3\n")
    desk.undo()
    assert desk.read("a") == "2\n"
    desk.undo()
    assert desk.read("a") == "1\n"
    with pytest.raises(NothingToDo):
        desk.undo()
    desk.redo()
    desk.redo()
    assert desk.read("a") == "3\n"


def test_hard_links_outside_are_named_and_keep_their_bytes(desk: Desk) -> None:
    desk.write("h", "old\n")
    desk.save()
    os.link(desk.root / "h", desk.base / "twin")
    desk.step("echo new > h")
    done = desk.undo()
    assert desk.read("h") == "old\n"
    assert (desk.base / "twin").read_text() == "new\n"
    assert any("hard links" in note for note in done.notes)


def test_the_lock_is_waited_for_and_its_holder_named(desk: Desk) -> None:
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with desk.workspace().locked("a long nap"):
            os.write(ready[1], b"x")
            os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    workspace = desk.workspace()
    workspace.wait = 0.05
    with pytest.raises(Busy, match=rf"{child} \(a long nap\)"):
        workspace.save()
    workspace.look()
    os.write(go[1], b"x")
    workspace.wait = 10
    workspace.save()
    os.waitpid(child, 0)


def test_no_lock_is_held_by_a_forked_child(desk: Desk) -> None:
    workspace = desk.workspace()
    with workspace.locked("forking"):
        child = os.fork()
        if child == 0:
            import time

            time.sleep(20)
            os._exit(0)
    try:
        other = desk.workspace()
        other.wait = 0.2
        other.save()
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_the_locks_of_nested_workspaces_are_held_too(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    inner = Desk(tmp_path / "inner")
    begin(desk)
    desk.step("echo 2 > a")
    seen = []

    def probe(verb: str, path: object) -> None:
        if verb == "rename" and path == b"a":
            other = inner.workspace()
            other.wait = 0
            with pytest.raises(Busy):
                other.save()
            seen.append(path)

    disk.probe = probe
    try:
        desk.undo(others=[inner.workspace()])
    finally:
        disk.probe = None
    assert seen


def test_a_read_only_store_can_be_looked_at(desk: Desk) -> None:
    begin(desk)
    desk.step("echo 2 > a")
    desk.write("a", "3\n")
    workspace = desk.workspace(read_only=True)
    assert workspace.look().tree.read(b"a") == b"3\n"
    assert len(workspace.timeline().units) == 1
    assert list(workspace.diff(1, 2)) == [b"a"]
    stored = desk.stored()
    assert desk.workspace(read_only=True).restore(1, dry_run=True).written == [b"a"]
    for act in (workspace.save, lambda: workspace.undo(NEWEST), lambda: workspace.restore(1), workspace.settle):
        with pytest.raises(ReadOnlyStore):
            act()
    same(stored, desk.stored())


def test_many_processes_save_at_once(desk: Desk) -> None:
    children = []
    for i in range(6):
        child = os.fork()
        if child == 0:
            for j in range(4):
                desk.write(f"p{i}-{j}", "x\n")
                workspace = desk.workspace()
                workspace.wait = 60
                workspace.save(label=f"{i}-{j}")
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    store = desk.workspace().store
    labels = {c.meta.label for c in store.checkpoints()} | set(store.pinned().values())
    numbers = [c.number for c in store.checkpoints()]
    assert numbers == sorted(set(numbers))
    assert {f"p{i}-{j}".encode() for i in range(6) for j in range(4)} <= set(desk.files())
    assert len(labels - {None}) >= len(numbers)
    assert desk.save().created is False


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"garbage", None])
def test_a_damaged_facts_file_is_rebuilt(desk: Desk, content: bytes | None) -> None:
    begin(desk)
    desk.step("echo 2 > a")
    path = desk.state / "workspace.toml"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    looked = desk.workspace(read_only=True)
    assert any("workspace.toml" in notice for notice in looked.notices)
    assert looked.facts.had_run
    desk.undo()
    assert desk.workspace().notices == []
    facts = desk.workspace().facts
    assert (facts.had_run, facts.last_turn, facts.path) == (True, 1, os.fsencode(desk.root))


def test_names_of_any_bytes(desk: Desk) -> None:
    names = [b" lead", b"tab\there", b"new\nline", b"caf\xe9", b"-n", b":(top)x", b"a*b", b'q"q', "能".encode()]
    root = os.fsencode(desk.root)
    for name in names:
        with open(os.path.join(root, name), "wb") as f:
            f.write(name)
    desk.save()
    start = desk.files()

    def change() -> None:
        for i, name in enumerate(names):
            path = os.path.join(root, name)
            if i % 2:
                os.unlink(path)
            else:
                with open(path, "ab") as f:
                    f.write(b"more")
        with open(os.path.join(root, b"caf\xe9 new"), "wb") as f:
            f.write(b"x")

    desk.step(change)
    desk.restore(1, [b"a*b"])
    assert (desk.root / "a*b").read_bytes() == b"a*b"
    desk.undo()
    desk.undo()
    same(start, desk.files())


def test_nothing_is_undone_in_a_store_without_checkpoints(desk: Desk) -> None:
    desk.write("a", "1\n")
    with pytest.raises(NothingToDo):
        desk.undo()
    with pytest.raises(Usage):
        desk.restore(9)
    assert desk.read("a") == "1\n"


def test_what_a_recovery_put_back_is_not_for_undo(desk: Desk) -> None:
    """A call that was cut off left half a line; its run put the file back and made the call again."""
    desk.write("a", "hello\n")
    start = desk.save().checkpoint.number
    desk.step("echo half >> a")
    desk.restore(start, by="watch")
    desk.step("echo whole >> a", new_turn=False)
    assert desk.read("a") == "hello\nwhole\n"
    assert desk.undo().unit == "t1"
    assert desk.read("a") == "hello\n"
    with pytest.raises(NothingToDo):
        desk.undo()
    assert desk.read("a") == "hello\n"
