"""A save cut short at every durable verb, and between them: the store is whole, and the next save is a good one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from crash.cutting import Count, at_changes, at_verbs, copied, cut, without_syncs
from harness.machine import SLOW
from harness.manifest import same, untouched
from workspace.desk import Desk, fsck


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    without_syncs(monkeypatch)


def begin(base: Path, *, saved: bool) -> Path:
    base.mkdir()
    desk = Desk(base)
    for i in range(5):
        desk.write(f"d/{i}", f"{i}\n")
    if saved:
        desk.save()
        desk.write("d/1", "changed\n")
        desk.write("big", bytes(range(256)) * 9000)
        (desk.root / "link").symlink_to("d/1")
    return base


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("how", [at_verbs, at_changes])
def test_cut_at_every_point(tmp_path: Path, first: bool, how: Callable[[Count], None]) -> None:
    template = begin(tmp_path / "template", saved=not first)
    n = 0
    numbers = []
    stride = 1 if how is at_verbs or SLOW else 2
    while True:
        n += stride
        desk = Desk(copied(template, tmp_path / "w"), make=False)
        files = desk.files()
        if not cut(lambda desk=desk: desk.save(label="cut"), n, how):
            break
        untouched(files, desk.files(), set())
        fsck(desk.state)
        known = [c.number for c in desk.workspace(read_only=True).store.checkpoints()]
        saved = desk.save(label="after")
        same(files, desk.files())
        untouched(files, desk.files(), set())
        fsck(desk.state)
        store = desk.workspace().store
        tree = store.tree(store.tip())
        assert {p for p, _ in tree.walk()} == set(files)
        read = {p: tree.read(p) for p, node in files.items() if node.kind in ("file", "link")}
        assert read == {p: (desk.root / p.decode()).read_bytes() if p == b"big" else files[p].content for p in read}
        after = [c.number for c in store.checkpoints()]
        assert after[: len(known)] == known
        assert len(after) == len(set(after)) == (1 if first else 2)
        numbers.append(saved.checkpoint.number)
        desk.write("d/1", "undo me\n")
        desk.undo()
        same(files, desk.files())
    assert n > 8
