"""Undo, redo and restore cut short at every durable verb, and between them: the next command makes it whole."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from crash.cutting import Count, at_changes, at_verbs, copied, cut, killed_after, without_syncs
from harness.machine import SLOW
from harness.manifest import Manifest, same
from workspace.desk import Desk, fsck
from workspace.test_restore import Spec, build, directory, fifo, file, link

from checkpointer import disk
from checkpointer.errors import CheckpointerError, NeedsPerson

Work = tuple[Path, Callable[[Desk], None]]

TREE = ("a", "d/x", "d/y", "run.sh", "gone", "swap", "same", "keep/1", "keep/2")
CHANGE = """
echo 2 > a; rm -r d; mkdir -p new/deep; echo n > new/deep/f; chmod 755 run.sh; ln -s a link; rm gone
rm swap; mkdir swap; echo x > swap/x; mkfifo pipe; chmod 700 keep; echo more >> keep/1
"""


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    without_syncs(monkeypatch)


def begin(base: Path) -> Desk:
    """A workspace with one turn in it, and the user's files of before and after."""
    base.mkdir()
    desk = Desk(base)
    for name in TREE:
        desk.write(name, f"{name}\n")
    desk.save()
    desk.step(CHANGE)
    desk.write("mine", "mine\n")
    return desk


def undo(desk: Desk) -> None:
    desk.undo()


def redo(desk: Desk) -> None:
    desk.redo()


def restore(desk: Desk) -> None:
    desk.restore(1)


def settle(desk: Desk) -> None:
    desk.save()


@pytest.fixture(scope="module", params=["undo", "redo", "restore"])
def work(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Callable[[Desk], None]]:
    """A template and what is done with it."""
    template = tmp_path_factory.mktemp("template") / "t"
    desk = begin(template)
    if request.param == "redo":
        desk.undo()
    return template, {"undo": undo, "redo": redo, "restore": restore}[request.param]


def outcome(template: Path, act: Callable[[Desk], None], place: Path) -> tuple[Manifest, Manifest]:
    """The files before and after the work left alone."""
    desk = Desk(copied(template, place), make=False)
    before = desk.files()
    act(desk)
    return before, desk.files()


def whole(desk: Desk, before: Manifest, after: Manifest) -> None:
    """Right after the cut: each path as before or as after, or on the way between two kinds; the store is sound."""
    now = desk.files()
    for path in now.keys() | before.keys() | after.keys():
        found = now.get(path)
        wanted = (before.get(path), after.get(path))
        if path.rpartition(b"/")[2].startswith(b".ckpt-") or found is None or found.kind == "dir":
            continue
        assert found.told in [w.told for w in wanted if w is not None], path


def check_settled(
    desk: Desk, before: Manifest, after: Manifest, *, mine: dict[bytes, bytes] | None = None, sound: bool = True
) -> bool:
    """After the next command: all as before, or all as after but for the user's edits. True: as after."""
    now = desk.files()
    mine = mine or {}
    for path, content in mine.items():
        assert now[path].content == content, f"the user's edit of {path!r} is gone"
    assert not [p for p in now if b".ckpt-" in p]
    assert desk.workspace().store.pending() is None
    done = not now.without(*mine).differing(after.without(*mine))
    if not done:
        same(before.without(*mine), now.without(*mine))
    if sound or SLOW:
        fsck(desk.state)
    return done


@pytest.mark.parametrize("how", [at_verbs, at_changes])
def test_cut_at_every_point(tmp_path: Path, work: Work, how: Callable[[Count], None]) -> None:
    template, act = work
    before, after = outcome(template, act, tmp_path / "alone")
    n, ends = 0, []
    if SLOW:
        stride = 1
    elif how is at_changes:
        stride = 9
    else:  # every verb of an undo; of the others, which go the same way, every second
        stride = 1 if act is undo else 2
    while True:
        n += stride
        desk = Desk(copied(template, tmp_path / "w"), make=False)
        if not cut(lambda desk=desk: act(desk), n, how):
            break
        whole(desk, before, after)
        desk.save()
        ends.append(check_settled(desk, before, after, sound=n % 4 == 0))
    assert n > 40
    assert ends == sorted(ends), "settled backward after it had been settled forward"
    assert {True, False} == set(ends)


def test_cut_at_every_point_with_an_edit_before_the_next_command(tmp_path: Path, work: Work) -> None:
    template, act = work
    before, after = outcome(template, act, tmp_path / "alone")
    stride = 1 if SLOW else 5
    n = 0
    left = 0
    while True:
        n += stride
        desk = Desk(copied(template, tmp_path / "w"), make=False)
        if not cut(lambda desk=desk: act(desk), n):
            break
        mine = {b"a": b"edited by me\n", b"mine2": b"new\n"}
        for path, content in mine.items():
            desk.write(os.fsdecode(path), content)
        saved = desk.save()
        check_settled(desk, before, after, mine=mine)
        left += bool(saved.settled and saved.settled.left)
        store = desk.workspace().store
        assert store.tree(store.tip()).read(b"a") == b"edited by me\n"
    assert left, "no edit was ever in the way"


def test_the_next_command_may_be_cut_short_too(tmp_path: Path, work: Work) -> None:
    template, act = work
    before, after = outcome(template, act, tmp_path / "alone")
    for n in (30, 40, 50):
        first = Desk(copied(template, tmp_path / "first"), make=False)
        if not cut(lambda first=first: act(first), n):
            break
        m = 0
        while True:
            m += 7
            desk = Desk(copied(tmp_path / "first", tmp_path / "w"), make=False)
            if not cut(lambda desk=desk: settle(desk), m):
                break
            whole(desk, before, after)
            desk.save()
            check_settled(desk, before, after)


def test_an_undo_after_one_that_was_cut_short_is_that_one(tmp_path: Path) -> None:
    template = begin(tmp_path / "t").base
    desk = Desk(template, make=False)
    desk.step("echo 3 > a; echo z > z")
    before, after = outcome(template, undo, tmp_path / "alone")
    n = 0
    while True:
        n += 4
        desk = Desk(copied(template, tmp_path / "w"), make=False)
        if not cut(lambda desk=desk: undo(desk), n):
            break
        over = desk.workspace(read_only=True).store.pending() is None and not desk.files().differing(after)
        if over:
            break
        done = desk.undo()
        assert done.unit == "t2"
        assert check_settled(desk, before, after)
        assert desk.undo().unit == "t1"


def test_an_undo_with_an_edit_in_the_way_stops_and_names_it(tmp_path: Path) -> None:
    template = begin(tmp_path / "t").base
    n, named = 0, 0
    while True:
        n += 3
        desk = Desk(copied(template, tmp_path / "w"), make=False)
        if not cut(lambda desk=desk: undo(desk), n):
            break
        if desk.workspace(read_only=True).store.pending() is None:
            continue
        desk.write("a", "edited by me\n")
        error = None
        try:
            desk.undo()
        except NeedsPerson as e:
            error = e
        if error is not None and "cut short" in error.message:
            named += 1
            assert "a (" in error.message
        assert desk.read("a") == "edited by me\n"
    assert named


def test_killed_in_a_restore_of_a_thousand_files(tmp_path: Path) -> None:
    """Real SIGKILLs at random moments; the user edits a file before the next command."""
    import time

    count = 1000
    desk = Desk(tmp_path)
    for i in range(count):
        desk.write(f"d{i // 100}/f{i}", f"old {i}\n")
    desk.save()
    before = desk.files()
    script = "for f in d*/*; do echo new >> $f; done; rm -r d3; mkdir made; echo x > made/x"
    subprocess.run(["sh", "-euc", script], cwd=desk.root, check=True)
    desk.save()
    start = time.monotonic()
    desk.restore(1)
    took = time.monotonic() - start
    choose = random.Random(11)
    killed = 0
    for round_ in range(40):
        if killed and round_ >= 4 and not SLOW:
            break
        subprocess.run(["sh", "-euc", script.replace("new", f"new {round_}")], cwd=desk.root, check=True)
        desk.save()
        new = desk.files()
        start = time.monotonic()
        in_time = killed_after(lambda: desk.restore(1), choose.uniform(0.2, 1.0) * took)
        killed += in_time
        took = took if in_time else min(took, time.monotonic() - start)
        desk.write("d5/f555", f"me {round_}\n")
        desk.write("d9/mine", "mine\n")
        mine = {b"d5/f555": b"me %d\n" % round_, b"d9/mine": b"mine\n"}
        desk.save()
        check_settled(desk, new, before, mine=mine)
        (desk.root / "d9" / "mine").unlink()
        desk.restore(1)
        same(before, desk.files())
    assert killed


def some_edits(rng: random.Random, desk: Desk) -> dict[bytes, bytes]:
    """The user does anything at all; what was written must be there later."""
    written: dict[bytes, bytes] = {}
    root = os.fsencode(desk.root)
    names = sorted(p for p in desk.files() if p and b".ckpt-" not in p)
    for i in range(rng.randint(1, 4)):
        path = rng.choice([*names, b"a", b"b/a", b"b/new", b"c/c", b"fresh"])
        full = os.path.join(root, path)
        content = b"the user %d\n" % i
        try:
            kind = rng.choice(["write", "write", "make", "remove", "link"])
            if kind == "remove":
                subprocess.run(["rm", "-rf", full], check=False, stderr=subprocess.DEVNULL)
                written = {p: c for p, c in written.items() if p != path and not p.startswith(path + b"/")}
            elif kind == "write" and os.path.isfile(full) and not os.path.islink(full):
                with open(full, "ab") as f:
                    f.write(content)
                with open(full, "rb") as f:
                    written[path] = f.read()
            elif not os.path.lexists(full):
                os.makedirs(os.path.dirname(full), exist_ok=True)
                if kind == "link":
                    os.symlink(b"theirs", full)
                    written[path] = b"theirs"
                else:
                    with open(full, "wb") as f:
                        f.write(content)
                    written[path] = content
        except (NotADirectoryError, FileExistsError, IsADirectoryError):
            continue
    # What was written through a symlink of a directory stands elsewhere.
    real = {}
    for path, content in written.items():
        directory, name = os.path.split(os.path.join(root, path))
        real[os.path.join(os.path.realpath(directory), name)] = content
    return {os.path.relpath(full, root): content for full, content in real.items() if full.startswith(root)}


@pytest.mark.parametrize("seed", range(60 if SLOW else 24))
def test_any_edits_after_a_cut_are_kept(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    states = [random_spec(rng) for _ in range(2)]
    desk = Desk(tmp_path)
    for state in states:
        subprocess.run(["sh", "-c", "chmod -R u+rwx . ; rm -rf ./* ./.[!.]*"], cwd=desk.root, check=True)
        build(desk.root, state)
        desk.save()
    if rng.random() < 0.5:
        desk.write("b-mine", "mine\n")
    cut(lambda: desk.restore(1), rng.randint(14, 45), rng.choice([at_verbs, at_changes]))
    written = some_edits(rng, desk)
    saved = desk.save()
    now = desk.files()
    for path, content in written.items():
        assert path in now, f"{path!r} is gone, {saved.settled}"
        assert now[path].content == content, f"{path!r}, {saved.settled}"
    assert not [p for p in now if b".ckpt-" in p]
    assert desk.workspace().store.pending() is None
    fsck(desk.state)
    tip = desk.workspace().store
    assert {p for p, _ in tip.tree(tip.tip()).walk()} == set(now)


@pytest.mark.parametrize("seed", range(60 if SLOW else 20))
def test_any_edits_during_the_work_are_kept(tmp_path: Path, seed: int) -> None:
    """Somebody writes in the middle of a restore: what they wrote stands there, or a checkpoint holds it."""
    rng = random.Random(seed)
    desk = Desk(tmp_path)
    for state in [random_spec(rng) for _ in range(2)]:
        subprocess.run(["sh", "-c", "chmod -R u+rwx . ; rm -rf ./* ./.[!.]*"], cwd=desk.root, check=True)
        build(desk.root, state)
        desk.save()
    calls, moment = 0, rng.randint(1, 45)
    written: dict[bytes, bytes] = {}

    def probe(verb: str, path: object) -> None:
        nonlocal calls
        calls += 1
        if calls == moment:
            written.update(some_edits(rng, desk))

    disk.probe = probe
    error = None
    try:
        desk.restore(1)
    except CheckpointerError as e:
        error = e
    finally:
        disk.probe = None
    assert error is None or "not_taken_back" not in error.details or error.kept
    now = desk.files()
    store = desk.workspace().store
    held = {c.number: store.tree(c) for c in store.checkpoints()}
    for path, content in written.items():
        stands = path in now and now[path].content == content
        entries = [(tree, tree.covered(path)) for tree in held.values()]
        kept = any(e is not None and e.kind in ("file", "link") and tree.read(path) == content for tree, e in entries)
        assert stands or kept, f"{path!r} is lost: {error}"
    assert not [p for p in now if b".ckpt-" in p], error
    assert store.pending() is None
    desk.save()


def random_spec(rng: random.Random) -> Spec:
    kinds = [
        file(b"1\n"),
        file(b"2\n"),
        file(b"1\n", 0o755),
        link(b"a"),
        link(b"b"),
        directory(),
        directory(0o700),
        fifo(),
    ]
    spec: Spec = {}
    for _ in range(rng.randint(3, 9)):
        parts = [rng.choice([b"a", b"b", b"c"]) for _ in range(rng.randint(1, 3))]
        path = b"/".join(parts)
        above = [b"/".join(parts[:i]) for i in range(1, len(parts))]
        node = rng.choice(kinds)
        if any(spec.get(p, directory())[0] != "dir" for p in above):
            continue
        if node[0] != "dir" and any(p.startswith(path + b"/") for p in spec):
            continue
        for p in above:
            spec.setdefault(p, directory())
        spec[path] = node
    return spec
