"""Names in git trees: what git refuses stands there escaped, and every name comes back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness.shadow import checkpoint, contents, git, sound
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpointer.errors import Damaged
from checkpointer.workspace.shadow.store import Store
from checkpointer.workspace.trees.names import MARK, escape, unescape

BASES = b".git .gitmodules .gitattributes .gitignore .mailmap git gitmodules git~1 GIT~1".split()
SHORT = [
    b + b"~" + n
    for b in (b"gitmod", b"gi7eba", b"gitatt", b"gi7d29", b"gitign", b"gi250a", b"mailma", b"maba30", b"gi", b"g", b"")
    for n in (b"1", b"4", b"5", b"9", b"12", b"1234567", b"0")
]
ENDS = [b"", b" ", b".", b". .", b":", b"::$INDEX_ALLOCATION", b"\\x", b"x", b"\xff", b"\xc3"]
ENDS += [c.encode() for c in "\u200c\ufeff\u00e9"]
STARTS = [b"", b"\xe2\x80\x8c", b"\xef\xbb\xbf", b"\xe2\x81\xaf", b"x\\", b"\\", b"\xe2\x80\x8b"]


def candidates() -> list[bytes]:
    names = {s + b + e for s in STARTS for b in (*BASES, *SHORT) for e in ENDS}
    names |= {b.upper() + e for b in BASES for e in ENDS} | {b.title() for b in BASES}
    for cut in range(1, 5):
        for code in (0x200C, 0x200F, 0x202A, 0x202E, 0x206A, 0x206F, 0xFEFF, 0x2065, 0x202F):
            names.add(b".git"[:cut] + chr(code).encode() + b".git"[cut:])
            names.add(b".gitmodules"[: cut + 2] + chr(code).encode() + b".gitmodules"[cut + 2 :])
    return sorted(n for n in names if n and b"/" not in n and n not in (b".", b".."))


def refused(directory: Path, names: list[bytes], mode: bytes) -> set[bytes]:
    """The names about which `git fsck --strict` has anything to say, each standing in a tree by itself.

    Each names a blob of its own, which git refuses as `.gitmodules` and as `.gitattributes`.
    """
    store = Store.create(directory / "shadow.git")
    which: dict[bytes, bytes] = {}
    with store.writer() as writer:
        for name in names:
            bad = b'[submodule "../x"]\n\tpath = -x\n\turl = -y\n' + b"#" + b"a" * 3000 + name.hex().encode() + b"\n"
            blob = writer.add("blob", bad)
            tree = writer.add("tree", mode + b" " + name + b"\0" + blob)
            which[blob.hex().encode()] = which[tree.hex().encode()] = name
        writer.finish()
    done = git(store, "fsck", "--strict", "--no-dangling", "--no-progress", ok=False)
    said = re.findall(rb"[0-9a-f]{40}", done.stdout + done.stderr)
    return {which[oid] for oid in said}


@pytest.mark.parametrize(("mode", "link"), [(b"100644", False), (b"120000", True)])
def test_every_name_that_git_refuses_is_escaped(tmp_path: Path, mode: bytes, link: bool) -> None:
    names = candidates()
    bad = refused(tmp_path, names, mode)
    assert len(bad) > 300, "git looked at them"
    assert b".git\xff" in bad
    assert {n for n in bad if escape(n, link=link) == n} == set()


@pytest.mark.parametrize(("mode", "link"), [(b"100644", False), (b"120000", True)])
def test_no_escaped_name_is_refused(tmp_path: Path, mode: bytes, link: bool) -> None:
    stored = sorted({escape(n, link=link) for n in candidates()})
    assert refused(tmp_path, stored, mode) == set()


def test_directories_are_escaped_as_files_are(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "shadow.git")
    with store.writer() as writer:
        inner = writer.add("tree", b"100644 f\0" + writer.add("blob", b"x"))
        names = candidates()
        which = {writer.add("tree", b"40000 " + escape(n) + b"\0" + inner).hex().encode(): n for n in names}
        writer.finish()
    done = git(store, "fsck", "--strict", "--no-dangling", "--no-progress")
    assert [which.get(oid, oid) for oid in re.findall(rb"[0-9a-f]{40}", done.stdout + done.stderr)] == []


def test_usual_names_stand_as_they_are() -> None:
    for name in (*b"a .gitignore .mailmap .github .gitkeep gitk a~1 x.y~ -n ckpt".split(), b"caf\xe9", b" "):
        assert escape(name) == name
    assert escape(b".gitignore", link=True) == b"ckpt%%2Egitignore"
    assert escape(b".GIT") == b"ckpt%%2EGIT"
    assert escape(b"ckpt%x") == b"ckpt%ckpt%25x"


@given(st.binary(min_size=1, max_size=40) | st.sampled_from(candidates()), st.booleans())
def test_every_name_comes_back(name: bytes, link: bool) -> None:
    assert unescape(escape(name, link=link)) == name
    assert unescape(escape(MARK + name, link=link)) == MARK + name


@given(st.lists(st.binary(min_size=1, max_size=8), min_size=2, max_size=2, unique=True))
def test_two_names_never_become_one(pair: list[bytes]) -> None:
    one, two = (MARK + n if n[0] & 1 else n for n in pair)
    if one != two:
        assert escape(one) != escape(two)


@pytest.mark.parametrize("name", [b"ckpt%", b"ckpt%a.b", b"ckpt%%2", b"ckpt%%zz", b"ckpt%\n", b"ckpt%a\n"])
def test_a_name_that_escape_never_makes_is_damage(name: bytes) -> None:
    with pytest.raises(Damaged):
        unescape(name)


def test_hostile_names_in_a_checkpoint_are_readable_and_pass_gits_check(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "shadow.git")
    names = [n for n in candidates() if len(n) < 200]
    files = {b"d/" + n: b"* filter=x " + b"a" * 3000 for n in names}
    files |= {b"e/" + n + b"/inside": b"1" for n in names[::7]}
    links = {b"l/" + n: ("link", b"target", 0) for n in names[::5]}
    made = checkpoint(store, {**files, **links})
    sound(store)
    found = contents(store, made)
    assert found == {**files, **{p: v[1] for p, v in links.items()}}
    git(store, "log", "-p", "--stat")
    listed = git(store, "ls-tree", "-r", "-z", "--name-only", "timeline").stdout.split(b"\0")
    assert len(listed) == len(found) + 2


NAMES = st.binary(min_size=1, max_size=200).filter(lambda n: not set(n) & set(b"/\0") and n not in (b".", b".."))


@given(st.sets(NAMES, min_size=1, max_size=8))
@settings(max_examples=12)
def test_any_names_pass_gits_check(tmp_path_factory: pytest.TempPathFactory, names: set[bytes]) -> None:
    store = Store.create(tmp_path_factory.mktemp("s") / "shadow.git")
    made = checkpoint(store, dict.fromkeys(names, b"x") | {n + b"0/" + n: b"y" for n in names})
    assert set(contents(store, made)) == names | {n + b"0/" + n for n in names}
    sound(store)
