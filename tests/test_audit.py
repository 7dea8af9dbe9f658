"""`verify`: a sound store has no finding, and every promise that is broken is found."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.shadow import checkpoint, empty, git

from checkpointer.audit import Audit, verify
from checkpointer.errors import NewerFormat
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
        checkpoint(store, {"f": b"%d" % i * 50, f"d/{i}": b"%d" % i, ".gitmodules": b"x", "e": ("dir", b"", 0o700)})
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
