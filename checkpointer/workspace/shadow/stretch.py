"""A stretch of the timeline taken out of one shadow repository and put into another, which has none yet.

What is taken are whole checkpoints with all their objects, never a part of one. Ids and numbers stay as they are; where
the stretch begins, git's `shallow` file says so in its new home.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from checkpointer.errors import Damaged
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.facts import Facts
from checkpointer.workspace.odb.packs import PackedObjects
from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.odb.reindex import write_index
from checkpointer.workspace.shadow import pins, repository, shallow
from checkpointer.workspace.shadow.commits import read_commit
from checkpointer.workspace.shadow.consolidation import add_whole, copy_pack
from checkpointer.workspace.shadow.history import History
from checkpointer.workspace.shadow.reach import reachable
from checkpointer.workspace.shadow.refs import Refs
from checkpointer.workspace.shadow.repository import OLD, TIMELINE


class Stretch(NamedTuple):
    """`chain` is a piece of the timeline without a gap, `alone` are older checkpoints kept by refs of their own; both
    oldest first. `missing` are the numbers of those that were wanted and are kept no more.
    """

    chain: tuple[Checkpoint, ...] = ()
    alone: tuple[Checkpoint, ...] = ()
    missing: tuple[int, ...] = ()

    @property
    def all(self) -> tuple[Checkpoint, ...]:
        return (*self.alone, *self.chain)


def named(history: History, numbers: Collection[int], runs: Collection[str] = ()) -> Stretch:
    """The checkpoints of these numbers and all between the first and the last of them, and those made in these runs
    (by handle). Raises `Damaged` where the timeline has a gap there.
    """
    chain = history.checkpoints()
    wanted = {*numbers, *(c.number for c in chain if not set(runs).isdisjoint(c.meta.runs))}
    there = [n for n, c in enumerate(chain) if c.number in wanted]
    piece = chain[there[0] : there[-1] + 1] if there else []
    for older, newer in pairwise(piece):
        if newer.parent != older.id:
            raise Damaged(
                f"the timeline is damaged between checkpoints {older.number} and {newer.number}", next=("ckpt verify",)
            )
    alone = [c for c in history.kept() if c.number in wanted]
    missing = wanted - {c.number for c in (*piece, *alone)}
    return Stretch(tuple(piece), tuple(alone), tuple(sorted(missing)))


def cut_at(objects: PackedObjects, stretch: Stretch) -> list[str]:
    """The ids of the commits whose parents do not come along: what `shallow` lists."""
    first = (*stretch.alone, *stretch.chain[:1])
    return [c.id for c in first if read_commit(objects, c.id).parent is not None]


def write_pack(history: History, checkpoints: Sequence[Checkpoint], directory: str) -> str | None:
    """One pack, without deltas, of all that these checkpoints need, in `directory/pack`; its path, None for no
    checkpoint. Raises `Damaged`, `MissingObject`, `NoSpace`, `Failed`.
    """
    objects = history.objects
    live = reachable(objects, checkpoints)
    os.makedirs(os.path.join(directory, "pack"), mode=0o700, exist_ok=True)
    with PackWriter(directory, PackedObjects(directory), keep=False) as writer:
        for name in sorted(objects.packs.keys() - objects.distrusted):
            if any(oid in live for oid, _ in objects.packs[name].places()):
                try:
                    copy_pack(objects, name, writer, only=live)
                except Damaged:
                    continue  # what could not be copied may stand elsewhere; if not, the next lines say so
        for oid in sorted(live):
            if not writer.has(oid):
                add_whole(objects, oid, writer)
        made = writer.finish()
    return None if made is None else os.path.join(directory, "pack", made + ".pack")


def begin(directory: str, bring_packs: Callable[[str], None] | None = None) -> History:
    """Make a shadow repository in a store's `directory` that is being made, without a timeline.

    `bring_packs(into)` puts packs into their directory; those without an index get one, which tells what they hold.
    """
    path = os.path.join(directory, "shadow.git")
    repository.make(path)
    if bring_packs is not None:
        packs = os.path.join(path, "objects", "pack")
        bring_packs(packs)
        for name in sorted(os.listdir(packs)):
            if name.endswith(".pack") and not os.path.exists(os.path.join(packs, name[:-5] + ".idx")):
                write_index(packs, name[:-5])
    return History(path)


def lead_to(
    history: History, facts: Facts, stretch: Stretch, cut: Sequence[str], labels: Mapping[int, tuple[str, ...]]
) -> None:
    """The timeline of such a repository is this stretch from now on, and `workspace.toml` says so."""
    refs = Refs(history.path, [])
    shallow.save(history.path, cut)
    for one in stretch.alone:
        refs.write(f"{OLD}{one.number}", one.id)
    if stretch.chain:
        refs.write(TIMELINE, stretch.chain[-1].id)
        facts.first_kept = stretch.chain[0].number
    if labels:
        pins.save(history.directory, dict(labels))
    facts.cut = list(cut)
    facts.last_number = max([facts.last_number, *(one.number for one in stretch.all)])
    facts_file.save(history.directory, facts)
