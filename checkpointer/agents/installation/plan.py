"""What an install or an uninstall would change, decided from the files as they are; nothing is written here."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkpointer.agents.editing import document
from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.editing.values import holds, ours_in
from checkpointer.agents.installation import change, copies, ledger
from checkpointer.agents.installation.calling import called
from checkpointer.agents.installation.change import Change
from checkpointer.agents.installation.copies import Copy
from checkpointer.agents.installation.ledger import Installed
from checkpointer.agents.recipes.recipe import Caller, Merged, Owned, Recipe, Site, line_of, path_in
from checkpointer.errors import Unconfigurable

EDITED = ".edited"
"""The suffix of what was ours and was changed since: it is moved aside, not removed."""


@dataclass
class Plan:
    """The changes in the order in which they are made. `entries`: how many hooks go into, or out of, which file.

    `backups` hold a configuration as it is before an install; `kept` are copies that an uninstall leaves, and why;
    `wrapped` are lines of a person's that call a hook of ours among other things, with the file of each: they stay.
    """

    changes: list[Change] = field(default_factory=list)
    entries: dict[Path, int] = field(default_factory=dict)
    owned: list[Path] = field(default_factory=list)
    backups: list[Copy] = field(default_factory=list)
    kept: dict[Path, str] = field(default_factory=dict)
    aside: list[Path] = field(default_factory=list)
    wrapped: list[tuple[Path, str]] = field(default_factory=list)
    created: list[Path] = field(default_factory=list)
    touched: list[Path] = field(default_factory=list)


def install(recipe: Recipe, site: Site, caller: Caller) -> Plan:
    """What is missing, in an order in which the hooks come last. Raises Unconfigurable, with what to paste by hand."""
    plan = Plan()
    known = ledger.load(recipe.name, recipe.directory(site))
    parts = recipe.parts(recipe, site, caller)
    for part in sorted(parts, key=lambda p: isinstance(p, Merged)):
        plan.touched.append(part.path)
        try:
            if isinstance(part, Owned):
                _own(plan, part, known)
            else:
                _merge(plan, part, recipe, site, known)
            for made in plan.changes:
                change.check(made, site.project)
        except Unfit as e:
            raise refusal(part, e) from e
    return plan


def refusal(part: Merged | Owned, why: Unfit) -> Unconfigurable:
    """What is said where a file cannot be changed by us."""
    if isinstance(part, Owned):
        snippet = part.content.decode()
    else:
        snippet = document.added(part.form, part.skeleton, part.entries)
    return Unconfigurable(
        f"{part.path} {why}",
        kept="nothing was written",
        path=str(part.path),
        snippet=snippet,
    )


def _own(plan: Plan, part: Owned, known: Installed | None) -> None:
    data = change.read(part.path)
    if data == part.content:
        return
    if data is not None and part.mark not in data:
        raise Unfit("is in the way: it is not a file of ckpt")
    if data is None:
        plan.created.append(part.path)
    elif _edited(part, data, known):
        aside = _free(part.path)
        plan.changes.append(Change(aside, None, data, part.mode, new=True))
        plan.aside.append(aside)
    plan.owned.append(part.path)
    plan.changes.append(Change(part.path, data, part.content, part.mode))


def _free(path: Path) -> Path:
    """A name beside a file that nothing has yet."""
    names = [path.with_name(f"{path.name}{EDITED}{n}") for n in ("", *(f"-{i}" for i in range(2, 100)))]
    for name in names:
        if not os.path.lexists(name):
            return name
    raise Unfit("was changed, and there is no free name to move it to")


def _edited(part: Owned, data: bytes, known: Installed | None) -> bool:
    """Did somebody change a file of ours?"""
    return data != part.content and (known is None or known.digests.get(str(part.path)) != ledger.digest(data))


def _merge(plan: Plan, part: Merged, recipe: Recipe, site: Site, known: Installed | None) -> None:
    data = change.read(part.path)
    text = document.text_of(data) if data is not None else part.skeleton
    value = document.value_of(part.form, text)
    plan.wrapped += _wrapped(part, recipe, value)
    if data is not None and holds(value, part.entries, recipe.ours):
        return
    found = copies.ours(part.path, known.copies if known is not None else {})
    mine = any(ours_in(value, recipe.ours))
    base = _restored(part, recipe, site, text, found or _unnoted(part, known)) if mine else text
    if data is None:
        plan.created.append(part.path)
    elif not (mine and (found or _says_nothing(part, base))):
        _keep(plan, part, base.encode(), found)
    plan.entries[part.path] = len(part.entries)
    plan.changes.append(Change(part.path, data, document.added(part.form, base, part.entries).encode()))


def _keep(plan: Plan, part: Merged, data: bytes, found: list[Copy]) -> None:
    """Keep a copy, if none there holds these bytes; one that is there is never written again."""
    copy = next((c for c in found if c.data == data), None)
    if copy is None:
        copy = copies.new(part.path, data)
        plan.changes.append(copy.made())
    plan.backups.append(copy)


def _unnoted(part: Merged, known: Installed | None) -> list[Copy]:
    """Where the ledger is lost: what looks like a copy, to be read and no more."""
    copy = copies.perhaps(part.path) if known is None else None
    return [copy] if copy is not None else []


def _restored(part: Merged, recipe: Recipe, site: Site, text: str, found: list[Copy]) -> str:
    """The text as it was before us; where others changed it since, without what is ours."""
    readable = [old for copy in found if (old := _readable(part, copy.data)) is not None]
    value = document.value_of(part.form, text)
    for path in {path_in(mine) for mine in ours_in(value, recipe.ours)} if readable else ():
        caller = Caller(path if os.path.isabs(path) else "")
        for other in (*recipe.parts(recipe, site, caller), *recipe.elsewhere(recipe, site, caller)):
            if isinstance(other, Merged) and other.path == part.path:
                for before in readable:
                    if _written(other, before) == text:
                        return before
    return document.removed(part.form, text, recipe.ours, readable[0] if readable else None)


def _readable(part: Merged, kept: bytes) -> str | None:
    """A copy as text; None where somebody has spoiled it."""
    try:
        before = document.text_of(kept)
        document.value_of(part.form, before)
    except Unfit:
        return None
    return before


def _written(part: Merged, before: str) -> str | None:
    try:
        return document.added(part.form, before, part.entries)
    except Unfit:
        return None


def uninstall(recipe: Recipe, site: Site) -> Plan:
    """What is ours, in an order in which the hooks go first. Raises Unconfigurable."""
    plan = Plan()
    known = ledger.load(recipe.name, recipe.directory(site))
    rest: list[Change] = []
    for part in _everywhere(recipe, site):
        plan.touched.append(part.path)
        try:
            if isinstance(part, Owned):
                _disown(plan, rest, part, recipe, site, known)
            else:
                _unmerge(plan, rest, part, recipe, site, known)
            for made in (*plan.changes, *rest):
                change.check(made, site.project)
        except Unfit as e:
            raise Unconfigurable(
                f"{part.path} {e}",
                kept="nothing was written",
                next=(f"take out by hand what calls: ckpt hook {recipe.name}",),
                path=str(part.path),
            ) from e
    plan.changes += rest
    return plan


def _everywhere(recipe: Recipe, site: Site) -> list[Merged | Owned]:
    """The parts, in every place where they may have been put."""
    caller = Caller("/ckpt" if site.project is None else "")
    parts = list(recipe.parts(recipe, site, caller))
    known = {p.path for p in parts}
    return parts + [p for p in recipe.elsewhere(recipe, site, caller) if p.path not in known]


def _as_written(part: Owned, data: bytes, recipe: Recipe, site: Site) -> bool:
    """Is a file what this version writes for the ckpt that it calls, wherever that is?"""
    for path in called(part, data.decode("utf-8", "replace"), recipe):
        caller = Caller(path if os.path.isabs(path) else "")
        if any(
            p.path == part.path and isinstance(p, Owned) and p.content == data
            for p in recipe.parts(recipe, site, caller)
        ):
            return True
    return False


def _disown(plan: Plan, rest: list[Change], part: Owned, recipe: Recipe, site: Site, known: Installed | None) -> None:
    data = change.read(part.path)
    if data is None or part.mark not in data:
        return
    if _edited(part, data, known) and (known is not None or not _as_written(part, data, recipe, site)):
        aside = _free(part.path)
        rest.append(Change(aside, None, data, part.mode, new=True))
        plan.aside.append(aside)
    plan.owned.append(part.path)
    rest.append(Change(part.path, data, None, part.mode))


def _unmerge(plan: Plan, rest: list[Change], part: Merged, recipe: Recipe, site: Site, known: Installed | None) -> None:
    found = copies.ours(part.path, known.copies if known is not None else {})
    unnoted = _unnoted(part, known)
    data = left = change.read(part.path)
    text = document.text_of(data) if data is not None else ""
    value = document.value_of(part.form, text) if data is not None else {}
    plan.wrapped += _wrapped(part, recipe, value)
    count = len(list(ours_in(value, recipe.ours)))
    if count:
        base = _restored(part, recipe, site, text, found or unnoted)
        left = None if _alone(part, base, found, known) else base.encode()
        plan.entries[part.path] = count
        plan.changes.append(Change(part.path, data, left))
    for copy in found:
        if copy.data == left:
            rest.append(copy.gone())
        else:
            plan.kept[copy.path] = "the file now is not byte for byte what it holds"
    for copy in unnoted if count else ():
        plan.kept[copy.path] = "it is not noted whether ckpt made it"


def _wrapped(part: Merged, recipe: Recipe, value: Any) -> list[tuple[Path, str]]:
    return [(part.path, line_of(found)) for found in ours_in(value, recipe.wrapped)]


def _alone(part: Merged, left: str, found: list[Copy], known: Installed | None) -> bool:
    """Did only we make a file, and is nothing of others in it? A link stays: a person made that."""
    if found or not _says_nothing(part, left) or part.path.is_symlink():
        return False
    return str(part.path) in known.created if known is not None else not os.path.lexists(copies.first(part.path))


def _says_nothing(part: Merged, text: str) -> bool:
    """Is nothing left of a file but what we began it with?"""
    bare = "".join(text.split())
    return bare in ("", "{}", "".join(part.skeleton.split()))
