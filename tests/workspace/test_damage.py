"""A damaged store: errors name the checkpoint, older ones stay usable, new ones can be made, no number comes twice."""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.machine import IS_ROOT, NOBODY
from harness.shadow import checkpoint, contents, git, sound

from checkpointer.errors import Damaged, Failed, MissingObject, NewerFormat, TooOld
from checkpointer.workspace.checkpoint import Meta
from checkpointer.workspace.facts import Facts
from checkpointer.workspace.shadow.repository import TIMELINE
from checkpointer.workspace.shadow.retention import Limits, gc
from checkpointer.workspace.shadow.store import DAMAGE, Store
from checkpointer.workspace.trees.gittree import FILE, TREE, encode_tree

pytestmark = pytest.mark.damages_store

KINDS = ["empty", "nul", "garbage", "missing", "cut"]


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    path.chmod(0o600)
    if how == "missing":
        path.unlink()
    else:
        size = max(len(data), 8)
        noise = random.Random(1).randbytes(size)
        path.write_bytes({"empty": b"", "nul": b"\0" * size, "garbage": noise, "cut": data[: size // 2]}[how])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.create(tmp_path / "shadow.git")
    for i in range(1, 5):
        checkpoint(store, {"f": b"%d" % i, f"g{i}": b"%d" % i, "d/same": b"same"})
    return store


def pack_of(store: Store, oid: str) -> Path:
    (name,) = (n for n, index in store.objects.packs.items() if index.find(bytes.fromhex(oid)) is not None)
    return Path(store.objects.pack_directory, name + ".pack")


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("suffix", [".pack", ".idx", "both"])
def test_the_newest_pack(store: Store, how: str, suffix: str) -> None:
    before = store.checkpoints()
    path = pack_of(store, before[-1].id)
    for one in (".pack", ".idx") if suffix == "both" else (suffix,):
        damage(path.with_suffix(one), how)
    again = Store(store.path)
    tip = again.tip()
    assert tip is not None
    if suffix == ".idx":
        assert [c.number for c in again.checkpoints()] == [1, 2, 3, 4]
        assert again.notices == []
    else:
        assert again.lost == before[-1].id
        assert [c.number for c in again.checkpoints()] == [1, 2, 3]
        assert len(again.notices) == 1
        assert re.match("checkpoint 4 cannot be read: .*checkpoint 3 is the newest that can", again.notices[0])
        with pytest.raises(MissingObject, match="checkpoint 4"):
            again.by_number(4)
    assert contents(again, before[2])[b"f"] == b"3"
    made = checkpoint(again, {"f": b"5"})
    assert made.number == 5
    fresh = Store(store.path)
    assert [c.number for c in fresh.checkpoints()] == ([1, 2, 3, 4, 5] if suffix == ".idx" else [1, 2, 3, 5])
    assert fresh.notices == []
    assert contents(fresh, made)[b"d/same"] == b"same"
    if suffix != ".idx":
        noted = Path(store.directory, DAMAGE).read_text()
        assert before[-1].id in noted
        assert before[2].id in noted


@pytest.mark.parametrize("scan", [True, False])
def test_numbers_of_what_was_lost_are_not_given_out_again(store: Store, scan: bool) -> None:
    abandoned = checkpoint(store, {"f": b"x"}, move=False)
    assert abandoned.number == 5
    damage(pack_of(store, store.checkpoints()[-1].id), "empty")
    if not scan:
        Path(store.directory, "scan", "number").unlink()
    assert checkpoint(Store(store.path), {"f": b"5"}).number >= (6 if scan else 5)


@pytest.mark.parametrize("how", ["empty", "nul", "garbage", "missing"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("hint", [False, True])
def test_the_ref(store: Store, how: str, packed: bool, hint: bool) -> None:
    newest = store.checkpoints()[-1]
    if not hint:
        Path(store.directory, "scan", "number").unlink()
    if packed:
        git(store, "pack-refs", "--all")
    damage(Path(store.path, "packed-refs" if packed else TIMELINE), how)
    again = Store(store.path)
    assert again.tip() == newest
    assert [c.number for c in again.checkpoints()] == [1, 2, 3, 4]
    assert len(again.notices) == 1
    made = checkpoint(again, {"f": b"5"})
    assert made.number == (5 if hint else 6), "4 is there; without the hint, 5 may have been lost"
    assert [c.number for c in Store(store.path).checkpoints()] == [1, 2, 3, 4, made.number]
    sound(store)


def test_a_ref_to_what_is_no_checkpoint(store: Store) -> None:
    tip = store.checkpoints()[-1]
    for oid in (tip.tree, "0" * 39 + "1"):
        Path(store.path, TIMELINE).write_text(oid + "\n")
        again = Store(store.path)
        assert again.tip() == tip
        assert again.notices
    checkpoint(again, {"f": b"5"})
    sound(store)


@pytest.mark.parametrize("how", KINDS)
def test_a_pack_in_the_middle(store: Store, how: str) -> None:
    before = store.checkpoints()
    damage(pack_of(store, before[1].id), how)
    again = Store(store.path)
    chain = again.checkpoints()
    assert [c.number for c in chain] == [1, 3, 4]
    assert chain[1].parent != chain[0].id, "the gap can be seen"
    assert any("checkpoint 2 cannot be read" in n for n in again.notices)
    with pytest.raises(MissingObject, match="checkpoint 2"):
        again.by_number(2)
    assert contents(again, chain[0]) == {b"f": b"1", b"g1": b"1", b"d/same": b"same"}
    if how != "cut":  # g2 was in there, in its first half
        with pytest.raises(Damaged, match="checkpoint 4 cannot be read"):
            contents(again, chain[2])
    assert again.tree(chain[2]).read(b"f") == b"4"
    made = checkpoint(again, {"f": b"5", "g2": b"2"})
    assert contents(Store(store.path), made) == {
        b"f": b"5",
        **{b"g%d" % i: b"%d" % i for i in range(1, 5)},
        b"d/same": b"same",
    }


@pytest.mark.parametrize("how", KINDS)
def test_the_oldest_pack(store: Store, how: str) -> None:
    first = store.checkpoints()[0]
    for pack in {pack_of(store, oid) for oid in (first.id, first.tree, store.tree(first).extras_id.hex())}:
        damage(pack, how)
    again = Store(store.path)
    assert [c.number for c in again.checkpoints()] == [2, 3, 4]
    assert any("nothing older can be read" in n for n in again.notices)
    assert again.checkpoints()[0].parent is not None
    with pytest.raises((MissingObject, TooOld)):
        again.by_number(1)
    salvaged = again.salvaged(again.checkpoints()[-1])
    assert salvaged.read(b"f") == b"4"
    assert salvaged.covers(b"d/same") == (how == "cut")
    _ = salvaged.extras
    assert how == "cut" or len([n for n in again.notices if "read anew" in n]) == 1


def test_everything_lost(store: Store) -> None:
    for path in Path(store.objects.pack_directory).glob("*.pack"):
        damage(path, "nul")
    again = Store(store.path)
    assert again.tip() is None
    assert again.checkpoints() == []
    assert len(again.notices) == 1
    made = checkpoint(again, {"f": b"new"})
    assert made.number == 5
    assert Store(store.path).checkpoints() == [made]


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("name", ["HEAD", "config"])
def test_small_files_are_put_back(store: Store, name: str, how: str) -> None:
    damage(Path(store.path, name), how)
    again = Store(store.path)
    assert len(again.checkpoints()) == 4
    checkpoint(again, {"f": b"5"})
    if how != "cut" or name == "HEAD":
        assert len(again.notices) == 1
        assert name in again.notices[0]
    sound(store)


def test_a_persons_own_configuration_stays(store: Store) -> None:
    git(store, "config", "user.name", "Me")
    checkpoint(store, {"f": b"5"})
    again = Store(store.path)
    checkpoint(again, {"f": b"6"})
    assert again.notices == []
    assert git(store, "config", "user.name").stdout == b"Me\n"


@pytest.mark.parametrize("name", ["objects/pack", "objects", "refs", "refs/heads", ""])
def test_missing_directories(store: Store, name: str) -> None:
    os.rename(os.path.join(store.path, name), os.path.join(store.directory, "aside"))
    again = Store(store.path)
    if name == "":
        with pytest.raises(Damaged, match="is missing"):
            again.tip()
        return
    if name.startswith("objects"):
        with pytest.raises(Damaged, match="missing"):
            again.tip()
    else:
        assert again.tip() is not None


@pytest.mark.parametrize("how", KINDS)
def test_a_pending_ref(store: Store, how: str) -> None:
    store.set_pending(checkpoint(store, {"f": b"x"}, move=False))
    damage(Path(store.path, "refs/ckpt/pending"), how)
    again = Store(store.path)
    assert again.pending() is None
    assert len(again.notices) == (0 if how == "missing" else 1)
    again.drop_pending()
    assert Store(store.path).pending() is None
    checkpoint(again, {"f": b"6"})
    sound(store)


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("name", ["pins", "scan/number"])
def test_what_may_be_lost(store: Store, name: str, how: str) -> None:
    store.pin(2, "two")
    damage(Path(store.directory, name), how)
    again = Store(store.path)
    assert list(again.pinned()) == [2]
    assert len(again.checkpoints()) == 4
    assert checkpoint(again, {"f": b"5"}).number == 5


def read_all(store: Store) -> None:
    for made in store.checkpoints():
        contents(store, made)


def test_what_passes_is_not_taken_for_damage(store: Store) -> None:
    before = Path(store.path, TIMELINE).read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    held: list[int] = []
    try:
        for leave in range(4):
            again = Store(store.path)
            with contextlib.suppress(OSError):
                while True:
                    held.append(os.open("/dev/null", os.O_RDONLY))
            for fd in held[len(held) - leave :]:
                os.close(fd)
            del held[len(held) - leave :]
            try:
                assert again.tip() == store.tip() or leave
            except Failed as e:
                assert not isinstance(e, Damaged)  # noqa: PT017
            assert again.lost is None
            assert again.notices == []
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert Path(store.path, TIMELINE).read_bytes() == before


def test_what_may_not_be_read_is_not_damaged(
    store: Store, tmp_path: Path, as_nobody: Callable[[Callable[[], None]], None]
) -> None:
    for place, _, names in os.walk(tmp_path):
        for name in (".", *names):
            os.chown(os.path.join(place, name), NOBODY, NOBODY)
    closed = [
        Path(store.path, TIMELINE),
        *Path(store.objects.pack_directory).glob("*"),
        Path(store.objects.pack_directory),
    ]

    def look() -> None:
        for path in closed:
            mode = path.stat().st_mode
            path.chmod(0)
            again = Store(store.path)
            with pytest.raises(Failed, match="Permission denied"):
                read_all(again)
            assert again.notices == []
            assert again.lost is None
            path.chmod(mode)

    if IS_ROOT:
        os.chmod(tmp_path, 0o755)
        for above in tmp_path.parents:
            if above.stat().st_uid == os.getuid() and str(above).startswith("/tmp/"):
                above.chmod(0o755)
    as_nobody(look)


def test_newer_formats_are_never_taken_for_damage(store: Store) -> None:
    tip = store.tip()
    assert tip is not None
    with store.writer() as writer:
        blob = writer.add("blob", b'{"version": 2}')
        nothing = writer.add("tree", b"")
        root = writer.add("tree", encode_tree([(b"extras.json", FILE, blob), (b"files", TREE, nothing)]))
        made = store.commit(writer, root, Meta("save", tip.meta.at), parent=tip)
        store.move(made)
    for tree in (store.tree(made), store.salvaged(made)):
        with pytest.raises(NewerFormat):
            _ = tree.extras


@pytest.mark.parametrize("how", KINDS)
def test_a_loose_object_is_not_relied_upon_once_it_was_found_damaged(store: Store, tmp_path: Path, how: str) -> None:
    aside = tmp_path / "aside"
    os.rename(store.objects.pack_directory, aside)
    os.mkdir(store.objects.pack_directory, 0o700)
    for pack in sorted(aside.glob("*.pack")):
        with open(pack, "rb") as f:
            git(store, "unpack-objects", "-q", stdin=f)
    again = Store(store.path)
    tree = again.tree(again.checkpoints()[-1])
    path = Path(again.objects.loose_path(tree.files))
    whole = again.objects.get(tree.files)[1]
    path.chmod(0o600)
    damage(path, how)
    again = Store(store.path)
    with pytest.raises(Damaged, match="checkpoint 4"):
        again.tree(again.checkpoints()[-1]).entry(b"f")
    assert again.objects.doubts
    with again.writer() as writer:
        assert writer.add("tree", whole) == tree.files
        again.heal(writer)
    assert Store(store.path).tree(again.checkpoints()[-1]).read(b"f") == b"4"
    assert again.notices
    facts = Facts(b"/w")
    gc(Store(store.path), facts, Limits(), now=again.checkpoints()[-1].meta.at)
    assert not path.exists(), "the damaged one goes when there is another"
    sound(store)
