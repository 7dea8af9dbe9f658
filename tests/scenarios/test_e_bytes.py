"""Scenarios 54-64: line ends, filters, encodings and names: bytes are bytes."""

from __future__ import annotations

import os
import sqlite3

import pytest
from harness import gitrepo
from harness.machine import SLOW
from harness.world import World


@pytest.mark.parametrize("autocrlf", ["true", "input"])
def test_s054_line_ends_under_autocrlf(world: World, autocrlf: str) -> None:
    world.gitconfig(f"[core]\n\tautocrlf = {autocrlf}\n\tsafecrlf = true\n\teol = crlf\n")
    world.write("lf", b"a\nb\n")
    world.write("crlf", b"a\r\nb\r\n")
    world.write("mixed", b"a\nb\r\nc\rd")
    gitrepo.init(world, commit=False)
    before = world.files()
    world.step("rm lf crlf mixed")
    world.go("undo", to=before)


def test_s055_line_ends_under_attributes(world: World) -> None:
    gitrepo.init(world)
    world.write(".gitattributes", "* text=auto eol=crlf working-tree-encoding=UTF-16 ident\n")
    world.write("l.txt", b"one\n$Id$\ntwo\n")
    before = world.files()
    world.step("rm l.txt .gitattributes")
    world.go("undo", to=before)


def test_s057_a_required_filter_that_is_missing(world: World) -> None:
    world.gitconfig('[filter "lfs"]\n\trequired = true\n\tclean = no-such-lfs\n\tsmudge = no-such-lfs\n')
    gitrepo.init(world)
    world.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    world.write("model.bin", os.urandom(70_000))
    before = world.files()
    world.step("echo x > model.bin")
    world.go("undo", to=before)


def test_s058_binaries_there_and_back(world: World) -> None:
    world.write("random", os.urandom(65536))
    world.write("logo.png", b"\x89PNG\r\n\x1a\n" + os.urandom(500))
    with sqlite3.connect(os.fsdecode(world.at("db"))) as db:
        db.execute("create table t (x)")
        db.execute("insert into t values (1)")
    db.close()
    before = world.files()
    world.step("for f in random logo.png db; do head -c 3000 /dev/urandom > $f; done")
    after = world.files()
    for _ in range(2):
        world.go("undo", to=before)
        world.go("redo", to=after)


NAMES = [
    b" lead",
    b"trail ",
    b"tab\there",
    b"new\nline",
    b"cr\rhere",
    b"caf\xe9",
    b"-n",
    b"--",
    b":(top)x",
    b"a*b",
    b'q"q',
    b"back\\slash",
    b"\xff\xfe",
    b"\x01\x02\x1b[31m",
    "u2028\u2028u0085\u0085".encode(),
    "能".encode(),
    b".git2",
    b".GIT",
    b"git~1",
    b".git ",
    b".git::$INDEX_ALLOCATION",
    b".gitmodules",
    b".gitattributes",
    ".g\u200cit".encode(),
    b"CON",
    b"...",
    b"t1",
    b"17",
    b"%2e",
    b"a" * 255,
]


@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
def test_s060_names_of_any_bytes(world: World, folder: bool) -> None:
    paths = [n + b"/x" if folder else n for n in NAMES]
    for path in paths:
        world.write(path, b"1 " + path + b"\n")
    start = world.save()
    before = world.files()
    for i, path in enumerate(paths):
        if i % 3 == 0:
            world.rm(path)
        else:
            world.write(path, b"2\n")
    for path in paths:
        world.write(path + b"2" if len(path) < 200 else b"long2", b"made\n")
    edited = world.files()
    world.go("restore", str(start), to=before)
    world.go("undo", to=edited)
    world.go("redo", to=before)
    world.sound()


def test_s060_a_step_over_odd_names(world: World) -> None:
    for name in NAMES:
        world.write(name, b"1\n")
    before = world.files()
    world.step("for f in ./* ./.[!.]*; do echo 2 > \"$f\"; done; rm -- './-n'")
    world.go("undo", to=before)
    for name in NAMES[::3]:
        got = world.ckpt("cat", "1", "--", name, ok=0)
        assert got.stdout == b"1\n", name


def test_s060_paths_given_as_bytes(world: World) -> None:
    for name in NAMES:
        world.write(name, b"1\n")
    start = world.save()
    for name in NAMES:
        world.write(name, b"2\n")
    for done, name in enumerate(NAMES[1::3], 1):
        world.ckpt("restore", str(start), "--", name)
        assert sum(world.read(n) == b"1\n" for n in NAMES) == done
    world.ckpt("restore", str(start), "--", *NAMES)
    assert all(world.read(n) == b"1\n" for n in NAMES)


def test_s061_a_folder_whose_name_is_not_ascii(world: World) -> None:
    gitrepo.init(world)
    world.write("a", "1")
    start = world.save()
    world.write("能/x", "user's")
    with_folder = world.files()
    world.go("restore", str(start))
    assert not world.has("能")
    world.go("undo", to=with_folder)


def test_s063_thousands_of_long_paths_in_one_step(world: World) -> None:
    world.watch_git = False
    count = 25_000 if SLOW else 3_000
    folder = "/".join(["directory-with-a-long-name"] * 3)
    for i in range(count):
        world.write(f"{folder}/{'n' * 20}-{i:06}.txt", f"{i}\n")
    before = world.files()
    world.step(f"cd {folder}; for f in *; do echo x >> $f; done", timeout=300)
    world.go("undo", to=before, timeout=300)


def test_s064_case_twins(world: World) -> None:
    world.gitconfig("[core]\n\tignorecase = true\n\tprecomposeunicode = true\n")
    gitrepo.init(world, commit=False)
    world.write("Foo.py", "Foo\n")
    world.write("foo.py", "foo\n")
    if len(os.listdir(world.root)) < 3:
        pytest.skip("this file system knows no case twins")
    world.write("D/x", "D")
    world.write("d/x", "d")
    world.write("\u00e9", "composed")
    world.write("e\u0301", "decomposed")
    before = world.files()
    world.step("echo 1 > Foo.py; echo 2 > foo.py; rm D/x")
    world.go("undo", to=before)


def deep(world: World, levels: int = 18) -> bytes:
    """A folder whose path is longer than the system takes at once, with the file `leaf` in it."""
    fd = os.open(world.root, os.O_RDONLY)
    name = b"n" * 250
    try:
        for _ in range(levels):
            os.mkdir(name, dir_fd=fd)
            inner = os.open(name, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
        leaf = os.open(b"leaf", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)
        os.write(leaf, b"deep down\n")
        os.close(leaf)
    finally:
        os.close(fd)
    return b"/".join([name] * levels)


def test_paths_beyond_4096_bytes(world: World) -> None:
    world.write("a", "1")
    folder = deep(world)
    assert len(folder) > 4096
    before = world.files()
    assert folder + b"/leaf" in before
    name = "n" * 250
    world.step(f"rm -r {name}; echo 2 > a")
    assert set(world.files()) == {b"", b"a"}
    world.go("undo", to=before)
    world.go("redo")
    world.go("undo", to=before)


def test_a_deep_file_edited_and_restored(world: World) -> None:
    deep(world)
    start = world.save()
    before = world.files()
    (world.base / "edit.py").write_text(
        "import os\n"
        "for _ in range(18): os.chdir('n' * 250)\n"
        "open('leaf', 'w').write('edited'); os.mkdir('d'); open('d/new', 'w').write('new')\n"
    )
    world.step("python3 ../edit.py")
    world.go("undo", to=before)
    world.go("redo")
    world.go("restore", str(start), to=before)
