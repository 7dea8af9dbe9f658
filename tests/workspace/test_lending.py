"""A first checkpoint takes what the project's git has packed, and is what it would be if every file were read."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crash.cutting import at_changes, copied, cut, without_syncs
from harness.captures import same, set_times, standing
from harness.manifest import Manifest
from harness.manifest import same as same_files
from harness.shadow import git as shadow_git
from harness.shadow import sound
from workspace.desk import Desk
from workspace.project import Project

from checkpointer.errors import Damaged
from checkpointer.workspace.lending import loan, projectpacks
from checkpointer.workspace.lending.attributes import harmful
from checkpointer.workspace.reading import capture, survey
from checkpointer.workspace.reading.present import Present

SLACK_NS = loan.SLACK_NS


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here waits for a disk, nor long for files to be old enough."""
    without_syncs(monkeypatch)
    monkeypatch.setattr(loan, "SLACK_NS", 1_000_000)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Project]]:
    made: list[Project] = []

    def new(*words: str, like: Project | None = None) -> Project:
        place = tmp_path / str(len(made))
        place.mkdir()
        made.append(Project(place, *words, like=like))
        monkeypatch.setenv("HOME", str(made[-1].home))
        return made[-1]

    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    yield new
    for project in made:
        project.close()


FILES = {f"{top}/{sub}/f{i}.{suffix}" for top in "ab" for sub in "xy" for i in range(3) for suffix in ("py", "txt")}
SAMPLES = ("a/x/f0.py", "a/x/f0.txt", "b/x/f0.py", "b/x/f0.txt")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp("template"))
    for path in sorted(FILES):
        made.write(path, path.encode().ljust(100, b"."))
    made.commit()
    made.pack()
    yield made
    made.close()


@pytest.fixture
def project(make: Callable[..., Project], template: Project) -> Project:
    """24 committed and packed files of 100 bytes each, the first of which may be touched."""
    return make(like=template)


def whole(project: Project, read: int | None = None) -> Present:
    """A first checkpoint is as a plain one would be, holds what stands on disk, and is sound without the project."""
    plain = project.look(borrow=False)
    present = project.save()
    assert present.root == plain.root
    assert present.tree.extras == plain.tree.extras
    assert present.files == plain.files
    sound(project.store)
    same(project.store.tree(project.store.tip()), standing(project.root))
    assert shadow_git(project.store, "fsck", "--unreachable", "--no-progress").stdout == b""
    assert read is None or present.bytes_read == read
    return present


def read_in_full(project: Project) -> None:
    whole(project, sum(os.lstat(os.path.join(d, f)).st_size for d, f in _files(project.root)))


def _files(root: bytes) -> Iterator[tuple[bytes, bytes]]:
    for directory, names, files in os.walk(root):
        names[:] = [n for n in names if n != b".git"]
        yield from ((directory, f) for f in files if f != b".git")


def test_hardly_anything_is_read(project: Project) -> None:
    before = Manifest.of(project.path / ".git")
    present = whole(project)
    assert present.bytes_read == 100 * len(SAMPLES), "the first of each kind in each top directory"
    same_files(before, Manifest.of(project.path / ".git"))
    assert project.save().bytes_read == 0


@pytest.mark.parametrize(
    "then",
    [
        "git gc -q --prune=now",
        "git checkout -q --orphan new && git commit -qm new && git branch -D main -q && git reflog expire --all"
        " --expire=now && git gc -q --prune=now",
        "chmod -R u+w .git/objects && for p in .git/objects/pack/*; do truncate -s 10 $p; done",
        "rm -rf .git",
    ],
)
def test_the_checkpoint_lives_without_the_project(
    tmp_path: Path, make: Callable[..., Project], project: Project, then: str
) -> None:
    desk = Desk(tmp_path / "0", make=False)
    desk.state = project.keeping
    desk.save()
    expected = standing(project.root)
    for path in FILES:
        (project.path / path).write_bytes(b"changed")
    project.git("-c", f"alias.then=!{then}", "then")
    desk.restore(1)
    same_files(Manifest.of(project.root, skip=(b".git",)), Manifest.of(project.root, skip=(b".git",)))
    assert standing(project.root) == expected
    assert project.save().root.hex() == project.store.checkpoints()[0].tree
    sound(project.store)


def test_what_was_touched_since_is_read(project: Project) -> None:
    edited, shorter, moved, put_back, mode = (
        f"b/y/f{i}.{s}" for i, s in ((0, "py"), (1, "py"), (2, "py"), (0, "txt"), (1, "txt"))
    )
    before = os.lstat(project.path / put_back)
    for path, size in ((edited, 100), (shorter, 99), (put_back, 100)):
        (project.path / path).write_bytes(b"!" * size)
    set_times(os.fsencode(project.path / put_back), before)
    assert os.lstat(project.path / put_back).st_mtime_ns == before.st_mtime_ns
    other = project.path / "other"
    shutil.copy2(project.path / moved, other)
    other.write_bytes(b"?" * 100)
    shutil.copystat(project.path / moved, other)
    os.replace(other, project.path / moved)
    os.chmod(project.path / mode, 0o755)
    (project.path / "a/y/f0.py").unlink()
    (project.path / "a/y/f1.py").unlink()
    (project.path / "a/y/f1.py").symlink_to("f2.py")
    project.write("a/y/untracked.py", b"u" * 100)
    whole(project, 100 * (len(SAMPLES) + 5) - 1 + len("f2.py") + 100)


def forged(project: Project, path: str, oid: bytes) -> None:
    """Make git's index say of a file, as it stands now, that it is this blob."""
    index = project.path / ".git/index"
    data = bytearray(index.read_bytes()[:-20])
    at = data.index(path.encode() + b"\0") - 62
    st = os.lstat(project.path / path)
    times = [part for ns in (st.st_ctime_ns, st.st_mtime_ns) for part in divmod(ns, 10**9)]
    data[at : at + 16] = struct.pack(">4L", *times)
    data[at + 20 : at + 24] = struct.pack(">L", st.st_ino & 0xFFFFFFFF)
    data[at + 36 : at + 60] = struct.pack(">L", st.st_size) + oid
    index.write_bytes(bytes(data) + hashlib.sha1(data).digest())


RACY = "b/y/f2.txt"


def racy(project: Project) -> None:
    """A file changed again in the moment in which git took it in: its times are as git saw them, the bytes are not."""
    oid = bytes.fromhex(project.git("rev-parse", f":{RACY}").decode())
    project.settle(2 * SLACK_NS)
    (project.path / RACY).write_bytes(b"second" * 16 + b"last")
    forged(project, RACY, oid)
    st = os.lstat(project.path / RACY)
    os.utime(project.path / ".git/index", ns=(st.st_mtime_ns, st.st_mtime_ns + 50_000_000))
    project.settle()


def test_a_racy_entry_is_not_believed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loan, "SLACK_NS", SLACK_NS)
    racy(project)
    whole(project, 100 * (len(SAMPLES) + 1))


def test_that_a_belief_in_racy_entries_would_show(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    racy(project)
    monkeypatch.setattr(loan, "SLACK_NS", -(10**12))
    with pytest.raises(AssertionError):
        whole(project)


def test_files_of_the_moment_in_which_git_looked_are_read(
    make: Callable[..., Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make()
    project.write("early.py", b"e")
    project.settle(2 * SLACK_NS)
    project.write("late.py", b"late")
    project.git("add", "-A")
    project.git("commit", "-qm", "x")
    project.pack()
    monkeypatch.setattr(loan, "SLACK_NS", SLACK_NS)
    whole(project, 5)


def test_an_index_from_the_future_is_not_believed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loan, "SLACK_NS", SLACK_NS)
    racy(project)
    (project.path / RACY).write_bytes(b"third." * 16 + b"last")
    forged(project, RACY, bytes.fromhex(project.git("rev-parse", f":{RACY}").decode()))
    later = time.time_ns() + 10**13
    os.utime(project.path / ".git/index", ns=(later, later))
    whole(project, 100 * (len(SAMPLES) + 1))


def flip(pack: Path, at: int) -> None:
    os.chmod(pack, 0o600)
    with pack.open("r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes((byte[0] ^ 0x10,)))


def test_a_damaged_object_is_read_from_its_file(project: Project) -> None:
    pack, start, end = project.entry("a/y/f2.py")
    flip(pack, (start + end) // 2)
    whole(project, 100 * (len(SAMPLES) + 1))


@pytest.mark.damages_store
def test_that_unproven_entries_would_show(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    pack, _, end = project.entry("a/y/f2.py")
    flip(pack, end - 3)

    def unproven(spans: Any, start: int, data: bytes) -> Any:
        return [(span, data[span[2] - start : span[3] - start]) for span in spans]

    monkeypatch.setattr(projectpacks, "_proven", unproven)
    with pytest.raises((AssertionError, Damaged)):
        whole(project)


@pytest.mark.parametrize("left", [0, 11, 40, 0.5, -1])
def test_a_pack_cut_short_is_not_used(project: Project, left: float) -> None:
    (pack,) = project.packs()
    os.chmod(pack, 0o600)
    size = pack.stat().st_size
    os.truncate(pack, int(left) if left > 1 else int(size * left) if left >= 0 else size - 1)
    read_in_full(project)


def _spoil(pack: Path, what: str) -> None:
    index = pack.with_suffix(".idx")
    for path in (pack, index):
        os.chmod(path, 0o600)
    if what == "index flipped":
        flip(index, 8 + 1024 + 21)
    elif what == "index cut":
        os.truncate(index, 1200)
    elif what == "trailer flipped":
        flip(pack, pack.stat().st_size - 5)
    elif what == "header flipped":
        flip(pack, 11)
    elif what == "pack gone":
        pack.unlink()
    elif what == "pack a fifo":
        pack.unlink()
        os.mkfifo(pack)
    elif what == "index a fifo":
        index.unlink()
        os.mkfifo(index)
    elif what == "pack a link":
        pack.rename(pack.with_name("elsewhere"))
        pack.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "what",
    [
        "index flipped",
        "index cut",
        "trailer flipped",
        "header flipped",
        "pack gone",
        "pack a fifo",
        "index a fifo",
        "pack a link",
    ],
)
def test_a_pack_that_is_not_what_it_should_be_is_not_used(project: Project, what: str) -> None:
    (pack,) = project.packs()
    _spoil(pack, what)
    read_in_full(project)


@pytest.mark.parametrize("held", [projectpacks._HELD, 0])
@pytest.mark.parametrize("then", ["vanishes", "is cut short", "is overwritten"])
def test_a_pack_that_is_lost_between_look_and_use(
    project: Project, monkeypatch: pytest.MonkeyPatch, held: int, then: str
) -> None:
    monkeypatch.setattr(projectpacks, "_HELD", held)
    looks = []

    def looked(*args: Any, **more: Any) -> Any:
        result = survey.survey(*args, **more)
        looks.append(result)
        for pack in project.packs() if len(looks) == 1 else ():
            os.chmod(pack, 0o600)
            if then == "vanishes":
                pack.unlink()
            elif then == "is cut short":
                os.truncate(pack, 60)
            else:
                pack.write_bytes(b"\0" * pack.stat().st_size)
        return result

    plain = project.look(borrow=False)
    monkeypatch.setattr(capture, "survey", looked)
    assert project.save().root == plain.root
    assert len(looks) == (1 if held or then == "vanishes" else 2), "every file is read after all"
    sound(project.store)
    same(project.store.tree(project.store.tip()), standing(project.root))


def test_large_blobs_are_streamed(make: Callable[..., Project], monkeypatch: pytest.MonkeyPatch) -> None:
    project = make()
    noise = b"".join(hashlib.sha256(b"%d" % i).digest() for i in range(100_000))
    for name, data in (("a", noise), ("b", noise[:2_000_000]), ("c", b"small\n"), ("d", b"\0" * 3_000_000)):
        project.write(f"{name}.bin", data)
    project.write("0.bin", b"sample")
    project.commit()
    pack, start, end = project.pack(), *project.entry("b.bin")[1:]
    sizes = {os.lstat(project.path / f"{name}.bin").st_size for name in "0acd"}
    assert whole(project).bytes_read in {*sizes, 2_000_000}, "the first of its kind, whichever that is"
    flip(pack, (start + end) // 2)
    assert whole(project.again()).bytes_read - 2_000_000 in sizes


def test_a_limit_holds_for_what_is_lent_too(project: Project) -> None:
    project.write("a/y/large.py", b"l" * 200)
    project.commit()
    project.pack()
    plain = project.look(borrow=False, limit=150)
    present = project.save(limit=150)
    assert present.root == plain.root
    assert present.uncovered == {b"a/y/large.py": "too-large"}


# Repositories of every shape


def test_a_sha256_repository_lends_nothing(make: Callable[..., Project]) -> None:
    project = make("--object-format=sha256")
    project.write("a.py", b"a" * 100)
    project.write("b.py", b"b" * 100)
    project.commit()
    project.pack()
    read_in_full(project)


@pytest.mark.parametrize(
    "what", ["split", "sha256 said", "garbage", "none", "empty", "an odd extension", "a directory"]
)
def test_an_index_that_cannot_be_used_lends_nothing(project: Project, what: str) -> None:
    index = project.path / ".git/index"
    data = index.read_bytes()
    if what == "split":
        project.git("update-index", "--split-index")
    elif what == "sha256 said":
        project.git("config", "extensions.objectformat", "sha256")
    elif what == "garbage":
        index.write_bytes(data[:100] + b"?" + data[101:])
    elif what == "empty":
        index.write_bytes(b"")
    elif what == "an odd extension":
        body = data[:-20] + b"oddx\0\0\0\0"
        index.write_bytes(body + hashlib.sha1(body).digest())
    else:
        index.unlink()
        if what == "a directory":
            index.mkdir()
    read_in_full(project)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_every_version_of_an_index_lends(project: Project, version: int) -> None:
    if version == 3:
        (project.path / "intended").write_bytes(b"i" * 100)
        project.git("add", "-N", "intended")
    project.git("update-index", "--index-version", str(version))
    (project.path / ".git/index.lock").write_bytes(b"somebody is at work")
    whole(project, 100 * (len(SAMPLES) + (version == 3)))


def test_an_index_without_a_checksum_lends(project: Project) -> None:
    index = project.path / ".git/index"
    index.write_bytes(index.read_bytes()[:-20] + bytes(20))
    whole(project, 100 * len(SAMPLES))


def test_names_as_deep_as_an_index_can_hold(project: Project) -> None:
    oid = project.git("rev-parse", ":a/x/f0.py").strip()
    deep = b"d/" * 1990 + b"f.py"
    project.git("update-index", "--add", "--index-info", given=b"100644 " + oid + b"\t" + deep + b"\n")
    whole(project, 100 * len(SAMPLES))


def test_extensions_that_only_hint_change_nothing(project: Project) -> None:
    project.git("update-index", "--untracked-cache", "--force-untracked-cache")
    project.git("config", "core.fsmonitor", "true-is-not-a-program")
    project.git("update-index", "--fsmonitor", ok=False)
    (project.path / "b/y/f0.py").write_bytes(b"!" * 100)
    whole(project, 100 * (len(SAMPLES) + 1))


def test_what_git_was_told_not_to_look_at_is_read(project: Project) -> None:
    project.git("update-index", "--assume-unchanged", "b/y/f0.py")
    project.git("update-index", "--skip-worktree", "b/y/f1.py")
    whole(project, 100 * (len(SAMPLES) + 2))


@pytest.mark.parametrize("index", ["--sparse-index", "--no-sparse-index"])
def test_a_sparse_checkout(project: Project, index: str) -> None:
    project.git("sparse-checkout", "set", "--cone", index, "a")
    assert not (project.path / "b").exists()
    project.write("b/y/f0.py", b"there all the same")
    project.settle()
    os.utime(project.path / ".git/index")
    whole(project, 200 + 18)


def test_a_conflict_is_read(project: Project) -> None:
    project.git("checkout", "-q", "-b", "other")
    (project.path / "a/y/f0.py").write_bytes(b"1" * 99 + b"\n")
    project.commit()
    project.git("checkout", "-q", "main")
    (project.path / "a/y/f0.py").write_bytes(b"2" * 99 + b"\n")
    project.commit()
    project.pack()
    project.git("merge", "-q", "other", ok=False)
    assert b"<<<<" in (project.path / "a/y/f0.py").read_bytes()
    project.settle()
    whole(project, 100 * len(SAMPLES) + project.size("a/y/f0.py"))


def test_several_packs_and_loose_objects(project: Project) -> None:
    """A commit after the packing is loose, and read; packed as well, it is not."""
    for i in range(3, 6):
        project.write(f"a/y/f{i}.py", b"%d" % i * 100)
    project.commit()
    loose = whole(project, 100 * (len(SAMPLES) + 3))
    project.git("repack", "-dq")
    assert len(project.packs()) == 2
    assert whole(project.again(), 100 * len(SAMPLES)).root == loose.root


def test_the_same_bytes_in_many_files_are_stored_once(make: Callable[..., Project]) -> None:
    project = make()
    for i in range(20):
        project.write(f"f{i}.py", b"the same\n")
        project.write(f"empty{i}", b"")
    project.commit()
    project.pack()
    whole(project, 9)


def test_a_directory_of_a_project(project: Project) -> None:
    """A workspace that is a part of a project: its git stands above it."""
    whole(project.again(project.path / "a"), 200 + 200)


def test_a_worktree_of_a_project(project: Project) -> None:
    tree = project.again(project.directory / "tree")
    project.git("worktree", "add", "-q", str(tree.path), "HEAD")
    assert (tree.path / ".git").is_file()
    tree.settle()
    os.utime(project.path / ".git/worktrees/tree/index")
    whole(tree, 100 * len(SAMPLES))


@pytest.mark.parametrize(
    "how", ["--shared", "--depth=1", "--filter=blob:none", "--filter=blob:limit=50", "--no-hardlinks"]
)
def test_clones_of_every_kind(project: Project, how: str) -> None:
    project.git("config", "uploadpack.allowFilter", "true")
    project.write("large.py", b"l" * 200)
    project.commit()
    project.pack()
    clone = project.again(project.directory / "clone")
    url = str(project.path) if how in ("--shared", "--no-hardlinks") else f"file://{project.path}"
    project.git("clone", "-q", how, url, str(clone.path))
    clone.settle()
    os.utime(clone.path / ".git/index")
    shutil.rmtree(project.path)
    present = whole(clone)
    assert (present.bytes_read == 2600) == (how == "--shared")


def test_a_nested_repository_and_a_submodule(project: Project) -> None:
    project.write("sub/inner.py", b"inner")
    project.git("init", "-q", "sub")
    project.git("add", "-A", at="sub")
    project.git("commit", "-q", "-m", "inner", at="sub")
    project.git("add", "sub")
    (project.path / "a/x/.git").mkdir()
    project.settle()
    whole(project, 100 * len(SAMPLES) + 5)


def test_workers_lend_too(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(40):
        for j in range(5):
            project.write(f"w{i}/f{j}.py", b"%d %d" % (i, j) * 20)
    project.commit()
    project.pack()
    (project.path / "w7/f3.py").write_bytes(b"edited")
    monkeypatch.setattr(survey, "alone", lambda: True)
    monkeypatch.setattr(survey, "_LENT_WORTH", 10**9)
    alone = project.look(borrow=False, jobs=1)
    present = project.save(jobs=3)
    assert present.root == alone.root
    assert present.bytes_read <= 100 * 3 * len(SAMPLES) + 40 * 120
    sound(project.store)
    same(project.store.tree(project.store.tip()), standing(project.root))


# Attributes and filters


def test_line_ends_do_not_matter_where_sizes_agree(make: Callable[..., Project]) -> None:
    project = make()
    project.git("config", "core.autocrlf", "true")
    project.write(".gitattributes", b"*.sh text eol=lf\n*.bin -text -filter\n* text=auto diff=x\n")
    for name, data in (
        ("0.py", b"four"),
        ("unix.py", b"a\nb\n"),
        ("dos.py", b"a\r\nb\r\n"),
        ("mixed.py", b"a\nb\r\n"),
    ):
        project.write(name, data)
    project.commit("-c", "core.safecrlf=false")
    project.pack()
    sizes = project.size("0.py", "dos.py", "mixed.py", ".gitattributes")
    whole(project, sizes)


def converted(project: Project, attributes: str, where: str = ".gitattributes") -> None:
    """Files of two kinds, of which a filter that keeps sizes makes other blobs for one kind."""
    project.git("config", "filter.lfs.clean", "tr a-z b-za")
    project.git("config", "filter.lfs.smudge", "tr b-za a-z")
    if where == "configured":
        where = "../home/attributes"
        project.git("config", "core.attributesFile", "~/attributes")
    project.write(where, attributes.encode())
    for i in range(3):
        project.write(f"p/f{i}.rot", b"rotten %d" % i * 10)
        project.write(f"p/f{i}.py", b"python %d" % i * 10)
    project.commit()
    project.pack()
    assert project.git("cat-file", "blob", ":p/f1.rot") != (project.path / "p/f1.rot").read_bytes()


@pytest.mark.parametrize(
    ("attributes", "where"),
    [
        ("*.rot filter=lfs", ".gitattributes"),
        ("*.rot\tfilter=lfs diff", ".git/info/attributes"),
        ("*.ROT filter=lfs", "configured"),
        ("[attr]odd filter=lfs\n*.rot odd", ".gitattributes"),
        ('"*.r\\157t" filter=lfs', ".gitattributes"),
        ("f?.rot filter=lfs", "p/.gitattributes"),
        ("p/** filter=lfs\n*.py -filter", ".gitattributes"),
        ("/p/*.rot filter=lfs", ".gitattributes"),
        ("**/f*.rot filter=lfs", ".gitattributes"),
    ],
)
def test_what_a_filter_touches_is_read(make: Callable[..., Project], attributes: str, where: str) -> None:
    project = make()
    if attributes.startswith("*.ROT"):
        project.git("config", "core.ignorecase", "true")
    converted(project, attributes, where)
    plain = project.size("p/f1.py", "p/f2.py")
    read = whole(project).bytes_read
    assert read >= project.size("p/f0.rot", "p/f1.rot", "p/f2.rot")
    if where in (".git/info/attributes", "configured") or attributes == "*.rot filter=lfs":
        everything = sum(os.lstat(os.path.join(d, f)).st_size for d, f in _files(project.root))
        assert read == everything - plain, "others are not"


def scrubbed(project: Project) -> None:
    """One file of many is another blob than its bytes, of the same size, and no attribute says so any more."""
    project.git("config", "filter.scrub.clean", "sed s/hunter2/XXXXXXX/")
    project.write("a0.cfg", b"nothing")
    project.write("b.cfg", b"hunter2")
    os.utime(project.path / "b.cfg", (1e9, 1e9))  # git reads again what is as young as its index
    project.write(".gitattributes", b"*.cfg filter=scrub\n")
    project.commit()
    (project.path / ".gitattributes").unlink()
    project.commit()
    project.pack()
    assert project.git("cat-file", "blob", ":b.cfg") == b"XXXXXXX"


def replaced(project: Project) -> None:
    (name,) = project.git("hash-object", "-w", "--stdin", given=b"r" * 100).split()
    project.git("replace", project.git("rev-parse", ":a/x/f1.py").decode().strip(), name.decode())
    (project.path / "a/x/f1.py").unlink()
    project.git("checkout", "--", "a/x/f1.py")
    project.settle()
    project.git("update-index", "-q", "--refresh")


def replaced_and_packed(project: Project) -> None:
    replaced(project)
    project.git("pack-refs", "--all")


@pytest.mark.parametrize("change", [scrubbed, replaced, replaced_and_packed])
def test_where_a_blob_may_be_another_one_everything_is_read(
    project: Project, change: Callable[[Project], None]
) -> None:
    change(project)
    read_in_full(project)


def test_where_the_environment_says_more_everything_is_read(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "0")
    read_in_full(project)


def test_attributes_that_are_there_no_more_show_in_the_first_of_a_kind(make: Callable[..., Project]) -> None:
    project = make()
    converted(project, "*.rot filter=lfs", ".git/info/attributes")
    (project.path / ".git/info/attributes").unlink()
    project.git("config", "--remove-section", "filter.lfs")
    whole(project, project.size("p/f0.py", "p/f0.rot", "p/f1.rot", "p/f2.rot"))


@pytest.mark.parametrize("gone", [True, False])
def test_attributes_that_cannot_be_read_count_as_touching_all_below(project: Project, gone: bool) -> None:
    project.write("b/.gitattributes", b"# nothing\n")
    project.commit()
    project.pack()
    (project.path / "b/.gitattributes").unlink()
    if not gone:
        (project.path / "b/.gitattributes").mkdir()
    whole(project, 100 * (2 + 12))


def test_a_tree_with_attributes_lends_nothing(project: Project) -> None:
    project.git("config", "attr.tree", "HEAD")
    read_in_full(project)


@pytest.mark.parametrize(
    ("line", "suffixes", "names", "below", "everything"),
    [
        ("*.bin filter=lfs diff=lfs merge=lfs -text", ["*.bin"], [], [], False),
        ("*.BIN  Filter=lfs", ["*.bin"], [], [], False),
        ("* text=auto", [], [], [], False),
        ("*.bin -filter !ident", [], [], [], False),
        ("# *.bin filter=lfs", [], [], [], False),
        ("  Makefile ident", [], ["makefile"], [], False),
        ("**/x.bin filter=a", [], ["x.bin"], [], False),
        ("data/** filter=lfs", [], [], ["data"], False),
        ("/data/raw/*.bin filter=lfs", [], [], ["data/raw"], False),
        ("data/r*w/x filter=lfs", [], [], ["data"], False),
        ("/x working-tree-encoding=UTF-16", [], [], [], True),
        ("* filter=x", [], [], [], True),
        ("a* filter=x", [], [], [], True),
        ("*.[ch] filter=x", [], [], [], True),
        ("a\\*b filter=x", [], [], [], True),
        ("[attr]binary2 filter=x", [], [], [], True),
        ('"a b" filter=x', [], [], [], True),
        ('"a b" text', [], [], [], False),
        ("a\x0bb filter=x", [], ["a\x0bb"], [], False),
        ("*.bin filter=lfs\r", ["*.bin"], [], [], False),
        ("\ufeff*.bin filter", ["*.bin"], [], [], False),
    ],
)
def test_lines_of_attributes(
    line: str, suffixes: list[str], names: list[str], below: list[str], everything: bool
) -> None:
    reach, directories = harmful(f"*.x text\n{line}\n*.y -diff\n".encode() if line[0] != "\ufeff" else line.encode())
    assert reach.everything == everything
    assert [f"*{s.decode()}" for s in reach.suffixes] == suffixes
    assert {n.decode() for n in reach.names} == set(names)
    assert [d.decode() for d in directories] == below


# Cut short


def test_a_first_save_cut_short_anywhere(tmp_path: Path, project: Project) -> None:
    template = tmp_path / "template"
    template.mkdir()
    desk = Desk(template)
    shutil.rmtree(desk.root)
    shutil.copytree(project.path, desk.root, symlinks=True)
    n = 0
    while True:
        n += 3
        desk = Desk(copied(template, tmp_path / "cut"), make=False)
        project.git("update-index", "--refresh", at=desk.root)
        project.git("update-index", "--force-write-index", at=desk.root, ok=False)
        files = desk.files()
        if not cut(lambda desk=desk: desk.save(), n, at_changes):
            break
        shutil.rmtree(desk.root / ".git")
        desk.save(label="after")
        sound(desk.state / "shadow.git")
        store = desk.workspace().store
        tree = store.tree(store.tip())
        for path in FILES:
            assert tree.read(path.encode()) == files[path.encode()].content
    assert n > 12
