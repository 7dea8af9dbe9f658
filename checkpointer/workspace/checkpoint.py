"""One checkpoint: what its commit says beside the files, encoded to and decoded from a commit message.

The message is a subject for people, an empty line, and trailers `Ckpt-Key: value`. Numbers name checkpoints, never
ids, so that a purge may rewrite ids without touching what undo is decided from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from checkpointer.errors import Damaged
from checkpointer.workspace.entry import from_json, to_json

CheckpointKind = Literal[
    "base", "step", "turn", "save", "before-restore", "restore", "undo", "redo", "crash", "outside"
]
By = Literal["person", "agent", "watch"]
_KINDS = frozenset(get_args(CheckpointKind))
_BYS = frozenset(get_args(By))
OPERATIONS: frozenset[CheckpointKind] = frozenset(("undo", "redo", "restore"))


class Segment(NamedTuple):
    """The stretch of the timeline from checkpoint `before` to checkpoint `after` (numbers)."""

    before: int
    after: int


Paths = tuple[bytes, ...] | None
"""Sorted paths of a segment's changes; None stands for every one of them."""


class Operation(NamedTuple):
    """What an undo, redo or restore did. Its effect is the segment (parent of its checkpoint, its checkpoint).

    `unit` names what was taken back, for people (`t3`, `t3..t5`, `restore 17`). `target` is the checkpoint restored,
    or for a redo the checkpoint of the undo that it takes back. `taken` and `left` name changes by segment.
    """

    unit: str
    target: int | None = None
    taken: tuple[tuple[Segment, Paths], ...] = ()
    left: tuple[tuple[Segment, Paths], ...] = ()


class Meta(NamedTuple):
    """What is written beside the tree.

    `steps` are the handles (`t3.2`, or `t3` for a turn known only by its ends) of every step open during the interval
    from the checkpoint before to this one, `runs` the runs they belong to; both are empty for an interval of nobody's.
    `head` is the project's branch (`main`, or `detached`), None without a project git. `names` are labels that it had
    before `label`; they are not written beside the tree.
    """

    kind: CheckpointKind
    at: datetime
    runs: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    label: str | None = None
    head: str | None = None
    by: By = "person"
    operation: Operation | None = None
    names: tuple[str, ...] = ()

    @property
    def unprotected(self) -> bool:
        """Was an agent at work in the interval of whose work nothing could be kept? Then it is nobody's for certain."""
        return self.kind == "outside" and self.by == "agent" and not self.steps and not self.runs

    def subject(self) -> str:
        words = [self.kind, *self.steps]
        if self.operation is not None:
            words.append(self.operation.unit)
        if self.label:
            words.append(f'"{_one_line(self.label)}"')
        return " ".join(words)


class Checkpoint(NamedTuple):
    """A commit on the timeline. `id`, `tree` and `parent` are 40 hex digits; `parent` is None at the kept end."""

    number: int
    id: str
    tree: str
    parent: str | None
    meta: Meta

    @property
    def kind(self) -> CheckpointKind:
        return self.meta.kind


def _one_line(text: str) -> str:
    """Backslash escapes for what would break a trailer: JSON's, without the quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")


def _from_line(text: str) -> str:
    return str(json.loads(f'"{text}"'))


def _segments(key: str, segments: Iterable[tuple[Segment, Paths]]) -> Iterator[str]:
    for segment, paths in segments:
        which = "" if paths is None else " " + json.dumps([to_json(p) for p in paths], ensure_ascii=True)
        yield f"{key}: {segment.before}-{segment.after}{which}"


def encode(number: int, meta: Meta) -> bytes:
    """The commit message of a checkpoint."""
    lines = [f"Ckpt-Number: {number}", f"Ckpt-Kind: {meta.kind}"]
    if meta.runs:
        lines.append(f"Ckpt-Run: {' '.join(meta.runs)}")
    if meta.steps:
        lines.append(f"Ckpt-Turn: {' '.join(meta.steps)}")
    if meta.label:
        lines.append(f"Ckpt-Label: {_one_line(meta.label)}")
    if meta.head:
        lines.append(f"Ckpt-Head: {_one_line(meta.head)}")
    lines.append(f"Ckpt-By: {meta.by}")
    op = meta.operation
    if op is not None:
        lines.append(f"Ckpt-Unit: {_one_line(op.unit)}")
        if op.target is not None:
            lines.append(f"Ckpt-Target: {op.target}")
        lines.extend(_segments("Ckpt-Taken", op.taken))
        lines.extend(_segments("Ckpt-Left", op.left))
    text = f"{meta.subject()}\n\n" + "\n".join(lines) + "\n"
    return text.encode("utf-8", "backslashreplace")


def _segment(value: str) -> tuple[Segment, Paths]:
    numbers, _, listed = value.partition(" ")
    before, _, after = numbers.partition("-")
    paths = tuple(from_json(v) for v in json.loads(listed)) if listed else None
    return Segment(int(before), int(after)), paths


def decode(message: bytes, at: datetime) -> tuple[int, Meta]:
    """Number and meta of a commit message. `at` is the commit's time. Raises `Damaged` on anything not ours."""
    try:
        trailers = message.decode("utf-8").split("\n\n", 1)[1].split("\n")
        pairs = [line.split(": ", 1) for line in trailers if line]
        one = dict(pairs)
        many = [(key, _segment(value)) for key, value in pairs if key in ("Ckpt-Taken", "Ckpt-Left")]
        kind = one["Ckpt-Kind"]
        if kind not in _KINDS or one["Ckpt-By"] not in _BYS:
            raise ValueError(kind)
        operation = None
        if "Ckpt-Unit" in one:
            operation = Operation(
                unit=_from_line(one["Ckpt-Unit"]),
                target=int(one["Ckpt-Target"]) if "Ckpt-Target" in one else None,
                taken=tuple(s for key, s in many if key == "Ckpt-Taken"),
                left=tuple(s for key, s in many if key == "Ckpt-Left"),
            )
        meta = Meta(
            kind=kind,  # type: ignore[arg-type]
            at=at,
            runs=tuple(one.get("Ckpt-Run", "").split()),
            steps=tuple(one.get("Ckpt-Turn", "").split()),
            label=_from_line(one["Ckpt-Label"]) if "Ckpt-Label" in one else None,
            head=_from_line(one["Ckpt-Head"]) if "Ckpt-Head" in one else None,
            by=one["Ckpt-By"],  # type: ignore[arg-type]
            operation=operation,
        )
        return int(one["Ckpt-Number"]), meta
    except (ValueError, IndexError, KeyError, TypeError) as e:
        raise Damaged(f"not a checkpoint's message: {e}") from e


def relabelled(meta: Meta, names: Sequence[str]) -> Meta:
    """With the names that it was given later: the last is its label, the others find it all the same."""
    if not names:
        return meta
    older = dict.fromkeys((*([meta.label] if meta.label else []), *meta.names, *names[:-1]))
    return meta._replace(label=names[-1], names=tuple(name for name in older if name != names[-1]))
