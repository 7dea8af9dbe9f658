"""Old checkpoints are let go: the chain's old end is cut by git's `shallow` file, then what nobody needs is removed.

Ids never change. Every step is durable before the next, so that a kill leaves the longer or the shorter timeline:
refs for the older checkpoints that stay, `workspace.toml`, `shallow`; only then are objects removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from checkpointer.errors import Busy, Failed
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.facts import Facts
from checkpointer.workspace.shadow import shallow
from checkpointer.workspace.shadow.consolidation import consolidate
from checkpointer.workspace.shadow.reach import Reach, stored_sizes
from checkpointer.workspace.shadow.refs import break_if_stale
from checkpointer.workspace.shadow.repository import OLD
from checkpointer.workspace.shadow.store import Store
from checkpointer.workspace.shadow.sweep import Swept, drop_caches_of_git, let_go, remove_temporaries, sweep

KEEP_AGE = timedelta(days=30)
KEEP_NUMBER = 200
BUDGET = 5 << 30
RESTORE_AGE = timedelta(days=7)
"""How long what stood before a restore is kept, whatever the limits say."""


@dataclass(frozen=True)
class Limits:
    """A checkpoint stays while it is younger than `age` or among the `number` newest ones.

    Where the store is still larger than `budget` bytes, older ones go until it fits; the newest always stays.
    """

    age: timedelta = KEEP_AGE
    number: int = KEEP_NUMBER
    budget: int = BUDGET


@dataclass
class Collected:
    """What a gc did, or (`dry_run`) would do. `dropped` are numbers; `first_kept` is None in an empty store."""

    dropped: list[int] = field(default_factory=list)
    first_kept: int | None = None
    swept: Swept = field(default_factory=Swept)
    consolidated: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def freed(self) -> int:
        """Bytes given back."""
        return max(self.swept.bytes, 0)


def gc(
    store: Store,
    facts: Facts,
    limits: Limits,
    *,
    now: datetime,
    may_cut: Callable[[int], bool] = lambda number: True,
    needed_from: int | None = None,
    needed: Collection[int] = (),
    dry_run: bool = False,
) -> Collected:
    """Let old checkpoints go and remove what nobody needs; the workspace lock is held, nothing is pending.

    Pinned and labelled checkpoints stay, those of `needed`, and those taken before a restore less than a week ago.
    `may_cut(n)` answers whether the timeline may begin at checkpoint `n`, so that no unit and no undo that can be
    redone is cut in two; where it says no, the cut moves to an older one. A budget drops nothing from `needed_from` on.
    `facts` is changed and saved. Raises `Failed` while a restore is pending, `Busy` while git is at work on the store,
    `Damaged` (nothing was removed) where a checkpoint that stays cannot be read.
    """
    out = Collected()
    if store.pending() is not None:
        raise Failed("a restore was cut short and is not finished", kept="nothing was removed", next=("ckpt status",))
    chain = store.checkpoints()
    if not dry_run:
        only_us(store)
        store.writer().abort()  # repairs, with notices
        chain = store.checkpoints()
        remove_temporaries(store, out.swept)
    if chain:
        stays = {*store.pinned(), *needed}
        start, old, live = _decide(store, chain, limits, now, may_cut, needed_from, stays, out.notes)
        out.dropped = sorted(c.number for c in (*chain[:start], *store.kept()) if c not in old)
        out.first_kept = chain[start].number
        if dry_run:
            return out
        _cut(store, facts, chain[start], old)
        out.swept = _sweep(store, live, out)
    elif dry_run:
        return out
    out.consolidated = consolidate(store.objects, store.notices)
    return out


def _sweep(store: Store, live: set[bytes], out: Collected) -> Swept:
    drop_caches_of_git(store)
    let_go(store.objects)
    swept = sweep(store, live)
    swept.bytes += out.swept.bytes
    swept.temporaries = out.swept.temporaries
    out.notes.extend(f"{name} was left as it is: {why}" for name, why in swept.left.items())
    return swept


def only_us(store: Store) -> None:
    """Raises `Busy` while a user's `git gc` runs; a lock it left behind is broken."""
    if not break_if_stale(os.path.join(store.path, "gc.pid.lock"), store.notices, wait=True):
        raise Busy("git gc is at work on the store", kept="nothing was removed")
    try:
        with open(os.path.join(store.path, "gc.pid"), encoding="ascii", errors="replace") as f:
            pid = f.read(64).split(maxsplit=1)[:1]
    except FileNotFoundError:
        return
    if pid and pid[0].isdigit() and _runs(int(pid[0])):
        raise Busy(f"git gc (process {pid[0]}) is at work on the store", kept="nothing was removed", next=("ckpt gc",))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _stays(checkpoint: Checkpoint, stays: Collection[int], now: datetime) -> bool:
    """Does a checkpoint older than the cut stay, by a ref of its own?"""
    recent = checkpoint.kind == "before-restore" and now - checkpoint.meta.at < RESTORE_AGE
    return checkpoint.number in stays or bool(checkpoint.meta.label) or recent


def _decide(
    store: Store,
    chain: Sequence[Checkpoint],
    limits: Limits,
    now: datetime,
    may_cut: Callable[[int], bool],
    needed_from: int | None,
    stays: Collection[int],
    notes: list[str],
) -> tuple[int, list[Checkpoint], set[bytes]]:
    """Where in the chain the timeline begins from now on, which older checkpoints stay, and every object needed."""
    everything = [*store.kept(), *chain]
    start = next(
        (n for n, c in enumerate(chain) if now - c.meta.at < limits.age or n >= len(chain) - max(limits.number, 1)),
        len(chain) - 1,
    )
    while start > 0 and not may_cut(chain[start].number):
        start -= 1
    reach = Reach(store.objects)
    old = [c for c in everything if c.number < chain[start].number and _stays(c, stays, now)]
    sizes = stored_sizes(store.objects)
    total = sum(sizes(reach.add(c)) for c in old)
    fits = len(chain) - 1
    for n in range(len(chain) - 1, start - 1, -1):
        total += sizes(reach.add(chain[n]))
        if total <= limits.budget:
            fits = n
    least = next((n for n, c in enumerate(chain) if needed_from is not None and c.number >= needed_from), fits)
    if least < fits and total > limits.budget:
        fits = max(least, start)
        notes.append("the store stays above its budget: checkpoints that undo of the newest turns needs are kept")
    if fits > start and total > limits.budget:
        while fits > start and not may_cut(chain[fits].number):
            fits -= 1
        start = fits
        reach = Reach(store.objects)
        old = [c for c in everything if c.number < chain[start].number and _stays(c, stays, now)]
        for checkpoint in (*old, *chain[start:]):
            reach.add(checkpoint)
    return start, old, reach.live


def _cut(store: Store, facts: Facts, first: Checkpoint, old: Sequence[Checkpoint]) -> None:
    """Make the timeline begin at `first`, durably; `old` ones stay by refs of their own. Removes no object."""
    pinned = store.pinned()
    for checkpoint in old:
        if checkpoint.number not in pinned:
            store.refs.write(f"{OLD}{checkpoint.number}", checkpoint.id)
    cut = [c.id for c in (*old, first) if store.has_parent(c)]
    number = max(store.highest_number(store.tip()), facts.last_number)
    first_kept = first.number if old or cut else facts.first_kept
    if (facts.cut, facts.first_kept, facts.last_number) != (cut, first_kept, number):
        facts.cut, facts.first_kept, facts.last_number = cut, first_kept, number
        facts_file.save(store.directory, facts)
    shallow.save(store.path, cut)
    stay = {f"{OLD}{c.number}" for c in old if c.number not in pinned}
    for name in store.refs.below(OLD):
        if name not in stay:
            store.refs.delete(name)
