"""A run as one file: it comes back as it was, an auditor can check it, and nothing else than an export is taken."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import call, living_in
from harness.crashing import killed_everywhere
from harness.world import World

from checkpointer import home, open_run, tool
from checkpointer.bundle import archive, exporting, importing, manifest
from checkpointer.errors import CheckpointerError, Damaged, NewerFormat, ReadOnlyStore, Usage
from checkpointer.log import JsonlLog
from checkpointer.workspace.odb.packs import PackedObjects
from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.shadow.commits import decode_commit
from checkpointer.workspace.shadow.history import History

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text()


@tool(effect="workspace")
def write(path: str, text: str) -> str:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(text)
    return text


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Path]:
    """A world in which a run wrote files, and its bundle."""
    base = tmp_path_factory.mktemp("bundle")
    world = World(base)
    world.write("mine", "1\n")
    os.symlink("mine", world.at("link"))
    with living_in(world):
        with open_run(".", run_id="q3", tools=[write]) as run:
            run.user_message("write it all down")
            for path, text in (("d/a", "first\n"), ("d/a", "second\n"), ("big", "x" * 100_000)):
                for one in run.model_turn("so", [call("write", path=path, text=text)]).tool_calls:
                    run.call(one)
            run.finish("done")
        (base / "w" / "mine").write_text("2\n")
        store = world.store
        log = JsonlLog(str(store / "runs" / "q3"))
        history = History(store / "shadow.git")
        exporting.export(history, os.fsencode(world.root), log, "r1", os.fsencode(base / "q3.ckpt"))
    return world, base / "q3.ckpt"


@pytest.fixture
def elsewhere(exported: tuple[World, Path], tmp_path: Path) -> Iterator[World]:
    """Another machine: a store home of its own."""
    (tmp_path / "there").mkdir()
    there = World(tmp_path / "there")
    with living_in(there):
        yield there


def bring(source: Path, there: World, name: str = "q3") -> importing.Imported:
    return importing.bring(os.fsencode(source), os.fsencode(there.base / name))


def nothing_stands(there: World) -> bool:
    below = there.state / "workspaces"
    return not below.exists() or os.listdir(below) == []


def test_it_comes_back_as_it_was(exported: tuple[World, Path], elsewhere: World) -> None:
    world, source = exported
    done = bring(source, elsewhere)
    assert done.made
    assert not os.path.lexists(elsewhere.base / "q3")
    mine, theirs = world.store / "runs" / "q3", done.place.directory / "runs" / "q3"
    assert (theirs / "events.jsonl").read_bytes() == (mine / "events.jsonl").read_bytes()
    assert sorted(os.listdir(theirs / "objects")) == sorted(os.listdir(mine / "objects"))
    assert len(os.listdir(theirs / "objects")) > 0
    was, now = (History(store / "shadow.git") for store in (world.store, done.place.directory))
    kept = {c.number: c.id for c in now.checkpoints()}
    assert kept == {c.number: c.id for c in was.checkpoints()}
    assert done.manifest.missing == ()
    again = bring(source, elsewhere)
    assert not again.made
    assert again.place.directory == done.place.directory


def test_it_can_be_looked_at_and_nothing_more(exported: tuple[World, Path], elsewhere: World) -> None:
    _, source = exported
    said = elsewhere.ckpt("import", str(source), str(elsewhere.base / "case"))
    assert "imported r1 of" in said.out
    assert "verified" in said.out
    at = ("-C", str(elsewhere.base / "case"))
    assert "write it all down" in elsewhere.ckpt(*at, "log").out
    assert "+second" in elsewhere.ckpt(*at, "show", "t1.2").out
    assert "+second" in elsewhere.ckpt(*at, "diff", "t1-", "t1").out
    assert elsewhere.ckpt(*at, "cat", "t1", "d/a").out == "second\n"
    assert "run_finished" in elsewhere.ckpt(*at, "events", "r1").out
    assert "every promise holds" in elsewhere.ckpt(*at, "verify").out
    assert "imported to be looked at" in elsewhere.ckpt(*at).out
    for words in (("undo",), ("undo", "-n"), ("save",), ("resume", "r1"), ("gc",), ("restore", "1")):
        refused = elsewhere.ckpt(*at, *words, ok=1)
        assert "imported to be looked at" in refused.err
    with pytest.raises(ReadOnlyStore), open_run(elsewhere.base / "case"):
        pass
    assert not os.path.lexists(elsewhere.base / "case")
    elsewhere.ckpt(*at, "restore", "t1", "--to", str(elsewhere.base / "out"))
    assert (elsewhere.base / "out" / "d" / "a").read_text() == "second\n"
    assert (elsewhere.base / "out" / "link").is_symlink()


def test_the_answers_of_both_for_programs(exported: tuple[World, Path], elsewhere: World, tmp_path: Path) -> None:
    (world, _), there = exported, elsewhere
    target = tmp_path / "again.ckpt"
    said = world.ckpt("export", "r1", str(target), "--json").json
    assert (said["run"], said["id"], said["bytes"], said["missing"]) == ("r1", "q3", target.stat().st_size, [])
    assert world.ckpt("export", "r1", str(target), "--json", ok=2).error["code"] == "usage"
    brought = there.ckpt("import", str(target), str(tmp_path / "x"), "--json").json
    assert (brought["created"], brought["sum"], brought["checkpoints"]) == (True, said["sum"], said["checkpoints"])
    target.write_bytes(target.read_bytes()[:-1])
    refused = there.ckpt("import", str(target), str(tmp_path / "y"), "--json", ok=5)
    assert (refused.status, refused.error["code"]) == (5, "damaged")
    inside = there.ckpt("import", str(target), ok=3, env={"CKPT_RUN": "r1"})
    assert "for a person" in inside.err
    assert sorted(os.listdir(tmp_path)) == ["again.ckpt", "there"]


@pytest.mark.skipif(not all(map(shutil.which, ("tar", "git", "sha256sum"))), reason="the auditor's tools are not here")
def test_an_auditor_checks_it_with_the_commands_of_the_page(exported: tuple[World, Path], tmp_path: Path) -> None:
    source = exported[1]
    script = re.search(r"checks a bundle in an empty directory like this:\n\n```sh\n(.*?)^```$", PAGE, re.M | re.S)
    assert script is not None

    def audit(bundle: Path) -> subprocess.CompletedProcess[bytes]:
        place = tmp_path / bundle.stem
        place.mkdir()
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "BUNDLE": str(bundle)}
        return subprocess.run(["bash", "-euo", "pipefail", "-c", script[1]], cwd=place, env=env, capture_output=True)

    done = audit(source)
    assert done.returncode == 0, done.stderr
    at = ["git", f"--git-dir={tmp_path / source.stem / 'shadow.git'}", "show", "at-3:files/d/a"]
    assert subprocess.run(at, capture_output=True, check=True).stdout == b"second\n"
    said, members = opened(source)
    changed = members[manifest.EVENTS].replace(b"write it all down", b"write it all up!!")
    forged = tmp_path / "forged.ckpt"
    forge(forged, said, {**members, manifest.EVENTS: changed})
    assert b"not its contents" in audit(forged).stderr


# -- what is refused


def opened(source: Path) -> tuple[manifest.Manifest, dict[str, bytes]]:
    with open(source, "rb") as file:
        reader = archive.Reader(file)
        _, size = reader.head()
        said = manifest.decode(b"".join(reader.contents(size)))
        assert b"".join(reader.contents(reader.head()[1])) == manifest.sum_of(said.encode())
        members = {}
        for _ in said.members:
            name, size = reader.head()
            members[name] = b"".join(reader.contents(size))
    return said, members


def forge(target: Path, said: manifest.Manifest, members: dict[str, bytes], **more: Any) -> Path:
    """A bundle whose digests are right, whatever its members are."""
    digests = {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in members.items()}
    head = dataclasses.replace(said, members=digests, **more).encode()
    parts = [(manifest.NAME, head), (manifest.SUM, manifest.sum_of(head)), *members.items()]
    data = b"".join(piece for name, one in parts for piece in archive.member(name, len(one), [one]))
    target.write_bytes(data + archive.END)
    return target


Rows = dict[str, bytes]


def refused(source: Path, there: World, why: str) -> None:
    with pytest.raises(CheckpointerError) as caught:
        bring(source, there)
    assert re.search(why, caught.value.message), caught.value.message
    assert nothing_stands(there)


def test_no_byte_may_differ_and_none_may_be_missing(
    exported: tuple[World, Path], elsewhere: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None, raising=False)
    data = exported[1].read_bytes()
    source = elsewhere.base / "b"
    rng = random.Random(7)
    cuts = {*range(0, len(data), 1999), *(len(data) - n for n in range(1, 1100, 37)), *range(0, 3000, 97)}
    for cut in cuts:
        source.write_bytes(data[:cut])
        with pytest.raises(Damaged):
            bring(source, elsewhere)
    for _ in range(150):
        at = rng.choice((rng.randrange(len(data)), rng.randrange(6000), len(data) - 1 - rng.randrange(1100)))
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        source.write_bytes(changed)
        with pytest.raises((Damaged, NewerFormat)):
            bring(source, elsewhere)
    for more in (b"\0", b"x" * 512, data):
        source.write_bytes(data + more)
        with pytest.raises(Damaged):
            bring(source, elsewhere)
    assert nothing_stands(elsewhere)


def _entry(name: bytes, size: int = 0, kind: bytes = b"0") -> bytes:
    head = bytearray(archive.header("events.jsonl", size))
    head[0:100] = name.ljust(100, b"\0")
    head[156:157] = kind
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (_entry(b"../../etc/cron"), "leads out"),
        (_entry(b"/etc/passwd"), "leads out"),
        (_entry(b"objects/../x"), "leads out"),
        (_entry(b"events.jsonl", kind=b"2"), "a symbolic link"),
        (_entry(b"events.jsonl", kind=b"1"), "a hard link"),
        (_entry(b"events.jsonl", kind=b"3"), "a device"),
        (_entry(b"events.jsonl", kind=b"6"), "a fifo"),
        (_entry(b"objects", kind=b"5"), "a directory"),
        (_entry(b"x", kind=b"x"), "extended attributes"),
        (_entry(b"other"), "stands where events.jsonl must"),
        (_entry(b"events.jsonl", 1 << 50), "not one that an export|stands where"),
    ],
)
def test_a_member_that_is_no_plain_file_of_a_run(
    exported: tuple[World, Path], elsewhere: World, head: bytes, why: str
) -> None:
    data = exported[1].read_bytes()
    at = 3 * archive.BLOCK + archive.padded(int(data[124:135], 8))
    source = elsewhere.base / "b"
    source.write_bytes(data[:at] + head + data[at + archive.BLOCK :])
    refused(source, elsewhere, why)


def _pack(members: Rows, change: Callable[[dict[bytes, tuple[str, bytes]]], None], place: Path) -> Rows:
    """The members with another pack: its objects as `change` leaves them."""
    (place / "pack").mkdir(parents=True)
    (place / "pack" / f"pack-{'0' * 40}.pack").write_bytes(members[manifest.PACK])
    objects = PackedObjects(place)
    everything = {oid: objects.get(oid) for oid in objects.everything()}
    change(everything)
    made = place / "made"
    (made / "pack").mkdir(parents=True)
    with PackWriter(made, PackedObjects(made), keep=False) as writer:
        writer.objects.refresh()
        for kind, data in everything.values():
            writer.add(kind, data)
        name = writer.finish()
    return {**members, manifest.PACK: (made / "pack" / f"{name}.pack").read_bytes()}


def _tip(objects: dict[bytes, tuple[str, bytes]], said: manifest.Manifest) -> Any:
    oid = said.chain[-1].commit
    return decode_commit(oid, objects[bytes.fromhex(oid)][1])


def _with_tree(
    said: manifest.Manifest, members: Rows, place: Path, name: bytes, extras: bytes = b""
) -> tuple[Any, Rows]:
    """The bundle with one checkpoint more, which holds a name, or says something beside its files, that it must not."""
    made: list[manifest.Kept] = []

    def change(objects: dict[bytes, tuple[str, bytes]]) -> None:
        def add(kind: str, data: bytes) -> bytes:
            oid = hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).digest()
            objects[oid] = (kind, data)
            return oid

        tip = _tip(objects, said)
        root = objects[bytes.fromhex(tip.tree)][1]
        beside = root[root.index(b"extras.json\0") + 12 :][:20]
        if extras:
            beside = add("blob", extras)
        blob = add("blob", b"evil")
        inner = add("tree", b"100644 config\0" + blob)
        entry = b"40000 .git\0" + inner if name == b".git" else b"100644 " + name + b"\0" + blob
        files = add("tree", entry if name else b"")
        tree = add("tree", b"100644 extras.json\0" + beside + b"40000 files\0" + files)
        message = objects[bytes.fromhex(tip.id)][1].partition(b"\n\n")[2]
        number = tip.number + 1
        message = message.replace(b"Ckpt-Number: %d" % tip.number, b"Ckpt-Number: %d" % number)
        who = b"ckpt <ckpt@localhost> 1700000000 +0000"
        head = b"tree %b\nparent %b\nauthor %b\ncommitter %b\n\n" % (tree.hex().encode(), tip.id.encode(), who, who)
        if not name and not extras:
            del objects[blob], objects[inner]
        elif name != b".git":
            del objects[inner]
        made.append(manifest.Kept(number, add("commit", head + message).hex()))

    forged = _pack(members, change, place)
    return dataclasses.replace(said, chain=(*said.chain, *made)), forged


def _extras(**more: Any) -> bytes:
    usual = {"file": "644", "executable": "755", "directory": "755"}
    empty: dict[str, Any] = {"modes": [], "directories": [], "fifos": [], "uncovered": [], "torn": []}
    return json.dumps({"version": 1, "usual": usual, **empty, **more}).encode()


@pytest.mark.parametrize(
    ("name", "extras", "why"),
    [
        (b"..", b"", "leads elsewhere"),
        (b"a/b", b"", "leads elsewhere"),
        (b"ckpt%%2E%2E", b"", "leads elsewhere"),
        (b".git", b"", "a .git"),
        (b"ok", _extras(directories=["../out"]), "leads elsewhere"),
        (b"ok", _extras(directories=["/tmp/out"]), "leads elsewhere"),
        (b"ok", _extras(directories=[".git/hooks"]), "a .git"),
        (b"ok", _extras(fifos=[["a//b", "644"]]), "leads elsewhere"),
        (b"ok", b"{", "extras.json"),
    ],
)
def test_a_checkpoint_that_a_restore_must_not_follow(
    exported: tuple[World, Path], elsewhere: World, name: bytes, extras: bytes, why: str
) -> None:
    said, members = _with_tree(*opened(exported[1]), elsewhere.base / "objects", name, extras)
    refused(forge(elsewhere.base / "b", said, members), elsewhere, why)


def test_a_forged_checkpoint_is_taken_where_nothing_is_wrong_with_it(
    exported: tuple[World, Path], elsewhere: World
) -> None:
    said, members = _with_tree(*opened(exported[1]), elsewhere.base / "objects", b"", b"")
    assert bring(forge(elsewhere.base / "b", said, members), elsewhere).made


def test_objects_that_are_missing_or_besides(exported: tuple[World, Path], elsewhere: World) -> None:
    said, members = opened(exported[1])

    def lose(objects: dict[bytes, tuple[str, bytes]]) -> None:
        del objects[next(oid for oid, (kind, data) in objects.items() if data == b"second\n")]

    def change(objects: dict[bytes, tuple[str, bytes]]) -> None:
        lose(objects)
        objects[b"1" * 20] = ("blob", b"secund\n")

    def add(objects: dict[bytes, tuple[str, bytes]]) -> None:
        objects[b"1" * 20] = ("blob", b"more")

    for n, (how, why) in enumerate(
        ((lose, "not in the store"), (change, "not in the store"), (add, "1 objects that no"))
    ):
        forged = _pack(members, how, elsewhere.base / f"objects{n}")
        refused(forge(elsewhere.base / "b", said, forged), elsewhere, why)
    pack = members[manifest.PACK]
    twice = pack[:8] + (int.from_bytes(pack[8:12], "big")).to_bytes(4, "big") + pack[12:-20] + b"garbage"
    twice += hashlib.sha1(twice, usedforsecurity=False).digest()
    refused(forge(elsewhere.base / "b", said, {**members, manifest.PACK: twice}), elsewhere, "last entry")


def test_a_log_that_is_not_whole_or_not_this_one(exported: tuple[World, Path], elsewhere: World) -> None:
    said, members = opened(exported[1])
    lines = members[manifest.EVENTS].splitlines(keepends=True)
    large = next(name for name in members if name.startswith(manifest.OBJECTS))

    def with_log(data: bytes) -> Rows:
        return {**members, manifest.EVENTS: data}

    for forged, more, why in (
        (with_log(b"".join(lines).replace(b"write it all down", b"write it all DOWN")), {}, "damaged at event"),
        (with_log(b"".join([*lines[:4], *lines[5:]])), {}, "damaged at event 5"),
        (with_log(b"".join(lines[:-1])), {}, "does not end where"),
        (with_log(b"".join(lines) + b"{"), {}, "middle of a write"),
        (with_log(b""), {}, "does not end where"),
        (members, {"events": said.events - 1}, "does not end where"),
        (members, {"handle": "r2"}, "that of q3"),
        (members, {"chain": said.chain[:-1]}, "names checkpoint|objects that no"),
        ({name: data for name, data in members.items() if name != large}, {}, "what lies beside"),
    ):
        refused(forge(elsewhere.base / "b", said, forged, **more), elsewhere, why)
    for odd in ({**members, "objects/" + "0" * 64: b"x"}, {**members, "more": b""}, {manifest.EVENTS: b""}):
        refused(forge(elsewhere.base / "b", said, odd), elsewhere, manifest.NAME)
    refused(forge(elsewhere.base / "b", said, members, run="../q3"), elsewhere, manifest.NAME)
    newer = said.encode().replace(b'"format": 1', b'"format": 2')
    parts = ((manifest.NAME, newer), (manifest.SUM, manifest.sum_of(newer)))
    data = b"".join(piece for name, one in parts for piece in archive.member(name, len(one), [one]))
    (elsewhere.base / "b").write_bytes(data)
    refused(elsewhere.base / "b", elsewhere, "format 2")


def test_what_stands_there_is_left_alone(exported: tuple[World, Path], elsewhere: World) -> None:
    source = exported[1]
    elsewhere.write("a", "1")
    for name, make in (("w", lambda: elsewhere.ckpt("save")), ("full", lambda: None)):
        (elsewhere.base / "full").mkdir(exist_ok=True)
        (elsewhere.base / "full" / "x").touch()
        make()
        before = sorted(elsewhere.base.rglob("*"))
        with pytest.raises(Usage):
            bring(source, elsewhere, name)
        assert sorted(elsewhere.base.rglob("*")) == before
    (elsewhere.base / "empty").mkdir()
    assert bring(source, elsewhere, "empty").made
    assert os.listdir(elsewhere.base / "empty") == []


# -- cut short


def test_an_import_that_is_killed_leaves_nothing_or_all(exported: tuple[World, Path], tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "state").mkdir(parents=True)

    def act(place: Path) -> None:
        os.environ["CKPT_HOME"] = str(place / "state")
        importing.bring(os.fsencode(exported[1]), os.fsencode(tmp_path / "x"))

    def check(place: Path) -> None:
        os.environ["CKPT_HOME"] = str(place / "state")
        there = home.exactly(os.fsencode(tmp_path / "x"))
        assert there is None or History(there.directory / "shadow.git").checkpoints()
        assert importing.bring(os.fsencode(exported[1]), os.fsencode(tmp_path / "x")).made == (there is None)
        assert len(os.listdir(place / "state" / "workspaces")) == 1

    before = os.environ.get("CKPT_HOME")
    try:
        assert killed_everywhere(source, act, check) > 20
    finally:
        os.environ.pop("CKPT_HOME")
        if before is not None:
            os.environ["CKPT_HOME"] = before


def test_an_export_that_is_killed_leaves_no_half_of_a_file(exported: tuple[World, Path], tmp_path: Path) -> None:
    world, whole = exported
    source = tmp_path / "source"
    source.mkdir()
    said, members = opened(whole)

    def act(place: Path) -> None:
        history = History(world.store / "shadow.git")
        log = JsonlLog(str(world.store / "runs" / "q3"))
        exporting.export(history, os.fsencode(world.root), log, "r1", os.fsencode(place / "b"))

    def check(place: Path) -> None:
        if not (place / "b").exists():
            act(place)
        again, found = opened(place / "b")
        assert (again.chain, found) == (said.chain, members)
        assert os.listdir(place) == ["b"] or not (place / "b").exists() or len(os.listdir(place)) == 2

    assert killed_everywhere(source, act, check) > 5
