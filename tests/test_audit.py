"""`verify`: a sound store has no finding, and every promise that is broken is found."""

from __future__ import annotations

import dataclasses
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.shadow import checkpoint, empty, git

from checkpointer.audit import Audit, verify
from checkpointer.errors import NewerFormat
from checkpointer.line import SEAM, digest, parts
from checkpointer.log import JsonlLog
from checkpointer.replay import replay
from checkpointer.run import keeper
from checkpointer.testing.script import Script
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.checkpoint import Meta
from checkpointer.workspace.facts import Facts
from checkpointer.workspace.shadow.store import Store
from checkpointer.workspace.trees.extras import Extras
from checkpointer.workspace.trees.gittree import FILE, TREE, encode_tree

pytestmark = pytest.mark.damages_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    os.chmod(tmp_path, 0o700)
    store = Store.create(tmp_path / "shadow.git")
    facts_file.save(tmp_path, Facts(b"/w"))
    for i in range(1, 4):
        before = set(packs(store))
        checkpoint(store, {"f": b"%d" % i * 50, f"d/{i}": b"%d" % i, ".gitmodules": b"x", "e": ("dir", b"", 0o700)})
        for path in set(packs(store)) - before:
            os.utime(path, (i, i))  # the clock of a file system may not tell them apart
    store.pin(2, "two")
    return store


def audited(store: Store) -> Audit:
    return verify(Store(store.path))


def kinds(audit: Audit) -> set[str]:
    return {f.what for f in audit.findings}


def test_a_sound_store_has_no_finding(store: Store) -> None:
    audit = audited(store)
    assert audit.findings == []
    assert audit.unchecked == []
    assert audit.sound
    assert audit.checked["checkpoints"] == 3
    assert audit.checked["objects"] >= 15
    git(store, "gc", "-q", "--prune=now")
    assert audited(store).findings == []
    git(store, "pack-refs", "--all")
    assert audited(store).findings == []


def test_nothing_is_written(store: Store) -> None:
    before = sorted((p, p.lstat().st_mtime_ns) for p in Path(store.directory).rglob("*"))
    audited(store)
    assert sorted((p, p.lstat().st_mtime_ns) for p in Path(store.directory).rglob("*")) == before


def packs(store: Store) -> list[Path]:
    return sorted(Path(store.objects.pack_directory).glob("*.pack"), key=lambda p: p.stat().st_mtime_ns)


def test_every_bit_counts(store: Store) -> None:
    rng = random.Random(5)
    for suffix in (".pack", ".idx"):
        path = packs(store)[-1].with_suffix(suffix)
        whole = path.read_bytes()
        for at in rng.sample(range(len(whole)), 60):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
            assert not audited(store).sound, (suffix, at)
        path.write_bytes(whole)
    assert audited(store).sound


def test_damage_names_the_checkpoints_it_concerns(store: Store) -> None:
    path = packs(store)[1]
    path.write_bytes(path.read_bytes()[:100])
    audit = audited(store)
    assert {f.checkpoint for f in audit.findings if f.checkpoint is not None} == {2, 3}
    assert {"object", "pack"} <= kinds(audit)
    path.unlink()
    audit = audited(store)
    assert not audit.sound
    assert audit.unchecked


def unpinned(store: Store) -> None:
    Path(store.path, "refs/ckpt/keep/2").write_text("1" * 40 + "\n")


def no_ref(store: Store) -> None:
    Path(store.path, "refs/heads/timeline").unlink()


def bad_ref(store: Store) -> None:
    Path(store.path, "refs/heads/timeline").write_text("garbage")


def no_facts(store: Store) -> None:
    Path(store.directory, "workspace.toml").write_bytes(b"\0" * 100)


def other_cut(store: Store) -> None:
    facts_file.save(store.directory, Facts(b"/w", cut=["a" * 40]))


def open_file(store: Store) -> None:
    packs(store)[0].chmod(0o644)


def open_directory(store: Store) -> None:
    os.chmod(store.path, 0o755)


def no_head(store: Store) -> None:
    Path(store.path, "HEAD").write_bytes(b"\0\0")


def no_index(store: Store) -> None:
    packs(store)[0].with_suffix(".idx").unlink()


def still_there(store: Store) -> None:
    chain = store.checkpoints()
    Path(store.directory, "rewritten").write_text(f"{chain[0].id} {chain[1].id}\n")


def written_otherwise(store: Store, extras: bytes, files: Callable[[Store], bytes] | None = None) -> None:
    tip = store.tip()
    assert tip is not None
    with store.writer() as writer:
        tree = writer.add("tree", b"" if files is None else files(store))
        blob = writer.add("blob", extras)
        root = writer.add("tree", encode_tree([(b"extras.json", FILE, blob), (b"files", TREE, tree)]))
        store.move(store.commit(writer, root, Meta("save", tip.meta.at), parent=tip))


def other_extras(store: Store) -> None:
    written_otherwise(store, Extras().encode() + b"\n")


def extras_of_nothing(store: Store) -> None:
    written_otherwise(store, Extras(modes={b"nowhere": 0o600}).encode())


def unknown_reason(store: Store) -> None:
    written_otherwise(store, Extras(uncovered={b"x": "bored"}).encode())


def missing_blob(store: Store) -> None:
    written_otherwise(store, Extras().encode(), lambda _: b"100644 f\0" + b"\1" * 20)


def other_tree(store: Store) -> None:
    blob = bytes.fromhex(git(store, "rev-parse", "timeline:files/f").stdout.decode().strip())
    written_otherwise(store, Extras().encode(), lambda _: b"100644 ckpt%%66\0" + blob)


BREAKS = {
    "ref": [unpinned, no_ref, bad_ref],
    "facts": [no_facts, other_cut],
    "permissions": [open_file, open_directory],
    "config": [no_head],
    "pack": [no_index],
    "object": [still_there, missing_blob, other_tree],
    "extras": [other_extras, extras_of_nothing, unknown_reason],
}


@pytest.mark.parametrize(("what", "break_it"), [(what, f) for what, listed in BREAKS.items() for f in listed])
def test_each_broken_promise_is_found(store: Store, what: str, break_it: Callable[[Store], None]) -> None:
    break_it(store)
    audit = audited(store)
    assert what in {f.what for f in audit.findings if not f.harmless}


def test_a_gap_is_found(store: Store) -> None:
    tip = store.checkpoints()[1]
    (name,) = (n for n, index in store.objects.packs.items() if index.find(bytes.fromhex(tip.id)) is not None)
    for suffix in (".pack", ".idx"):
        Path(store.objects.pack_directory, name + suffix).unlink()
    audit = audited(store)
    assert {"chain", "ref", "object"} <= kinds(audit)
    assert any("between checkpoints 1 and 3" in f.message for f in audit.findings)


def test_what_is_harmless_is_said_to_be(store: Store) -> None:
    checkpoint(store, {"f": b"x"}, move=False)
    git(store, "config", "user.name", "me")
    audit = audited(store)
    assert audit.sound
    assert {f.what for f in audit.findings} == {"pack", "config"}


def test_a_newer_format_is_not_judged(store: Store) -> None:
    path = Path(store.directory, "workspace.toml")
    path.write_text(path.read_text().replace("format = 1", "format = 2"))
    with pytest.raises(NewerFormat):
        audited(store)


def test_an_object_of_a_wrong_digest_with_a_right_checksum(store: Store) -> None:
    from checkpointer.workspace.odb.packwriter import PackWriter

    writer = PackWriter(store.objects.directory, store.objects, keep=False)
    entry = struct.pack(">B", 0x33) + __import__("zlib").compress(b"lie")
    writer.add_parts(b"\7" * 20, [entry])
    writer.finish()
    assert any("not what its id says" in f.message for f in audited(store).findings)


def test_nothing_is_known_about_an_empty_store(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    store = Store.create(tmp_path / "shadow.git")
    facts_file.save(tmp_path, Facts(b"/w"))
    assert audited(store).findings == []
    with store.writer() as writer:
        empty(writer)
    assert audited(store).checked.get("checkpoints", 0) == 0


# -- runs' logs


@pytest.fixture
def log(store: Store) -> JsonlLog:
    log = JsonlLog(os.path.join(store.directory, "runs", "first"))
    script = Script(log, number=7)
    for text in ("one", "two", "three"):
        script.user(text)
    script.model(content="x" * 70_000)
    keeper.of(log).save(script.pen.state, script.pen.folded.position.sum, script.pen.folded.position.offset)
    script.pen.release("ended")
    script.again().release("ended")
    log.close()
    for place, names, files in os.walk(os.path.join(store.directory, "runs")):
        for name in (*names, *files):
            path = os.path.join(place, name)
            os.chmod(path, 0o700 if os.path.isdir(path) else 0o600)
    os.chmod(os.path.join(store.directory, "runs"), 0o700)
    return log


def rewritten(log: JsonlLog, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path = Path(log.path)
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def forged(log: JsonlLog, change: Callable[[bytes], bytes], seq: int) -> None:
    """One line changed, and every sum after it made to fit."""

    def change_all(lines: list[bytes]) -> list[bytes]:
        total, out = "", []
        for n, line in enumerate(lines, 1):
            line = change(line) if n == seq else line
            e = parts(line[:-1])[0]
            total = digest(total.encode() + e)
            at = line.index(SEAM) + len(SEAM)
            out.append(line[:at] + total.encode() + line[at + 64 :])
        return out

    rewritten(log, change_all)


def test_a_sound_log_has_no_finding(store: Store, log: JsonlLog) -> None:
    audit = audited(store)
    assert (audit.findings, audit.unchecked) == ([], [])
    assert (audit.checked["runs"], audit.checked["events"], audit.checked["contents"]) == (1, 8, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:2], lines[2].replace(b"two", b"tWo"), *lines[3:]],
        lambda lines: [*lines[:2], lines[2].replace(SEAM, SEAM[:-1] + b"'"), *lines[3:]],
        lambda lines: [*lines[:2], *lines[4:]],
        lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],
    ],
    ids=["content", "sum", "missing", "order"],
)
def test_a_damaged_log_names_run_and_event(
    store: Store, log: JsonlLog, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    rewritten(log, change)
    audit = audited(store)
    assert not audit.sound
    assert [(f.what, f.run, f.event) for f in audit.findings] == [("log", "r7", 3)]
    assert audit.findings[0].message.startswith("run r7: the log is damaged at event 3: ")
    assert audit.unchecked == ["run r7: what comes after event 3"]


def test_an_epoch_that_goes_back_is_found(store: Store, log: JsonlLog) -> None:
    forged(log, lambda line: line.replace(b'"epoch":2', b'"epoch":1', 1), 8)
    (found,) = audited(store).findings
    assert (found.what, found.event, found.harmless) == ("log", 8, False)
    assert "the log is in epoch 2, the event in 1" in found.message


def test_large_contents_are_read(store: Store, log: JsonlLog) -> None:
    (path,) = (Path(log.directory) / "objects").iterdir()
    path.write_bytes(path.read_bytes() + b" ")
    assert [(f.what, f.event, f.harmless) for f in audited(store).findings] == [("object", 5, False)]
    path.unlink()
    assert "are gone" in audited(store).findings[0].message


def test_a_snapshot_is_what_the_log_comes_to(store: Store, log: JsonlLog) -> None:
    known = replay(log, keeper.of(log))
    other = dataclasses.replace(known.state, turn="t99")
    keeper.of(log).save(other, known.position.sum, known.position.offset)
    audit = audited(store)
    assert [(f.what, f.run, f.event) for f in audit.findings if not f.harmless] == [("snapshot", "r7", 8)]


def test_a_torn_tail_is_said_and_is_no_damage(store: Store, log: JsonlLog) -> None:
    rewritten(log, lambda lines: [*lines[:-1], lines[-1][:40]])
    audit = audited(store)
    assert audit.sound
    assert [(f.what, f.event, f.harmless) for f in audit.findings] == [("log", 8, True)]


def test_what_is_of_a_later_format_is_named_and_its_chain_checked(store: Store, log: JsonlLog) -> None:
    forged(log, lambda line: line.replace(b'"type":"user_message"', b'"type":"user_massage"'), 3)
    audit = audited(store)
    assert audit.sound
    assert audit.unchecked[0].startswith("run r7 after event 2: ")
    rewritten(log, lambda lines: [*lines[:5], *lines[6:]])
    assert [(f.what, f.event) for f in audited(store).findings] == [("log", 6)]
