"""Only a whole prompt that is a call of ckpt is one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from checkpointer.agents import answering
from checkpointer.agents.typed import VERBS, call_of
from checkpointer.run.session import Session
from checkpointer.workspace.checkpoint import Checkpoint, CheckpointKind, Meta, Operation
from checkpointer.workspace.outcome import Settled


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("ckpt undo", ["undo"]),
        (" /ckpt-undo \n", ["undo"]),
        ("/ckpt-undo t3", ["undo", "t3"]),
        ("ckpt undo t3..", ["undo", "t3.."]),
        ("ckpt undo t3..t5 --skip", ["undo", "t3..t5", "--skip"]),
        ("ckpt undo t3.2", ["undo", "t3.2"]),
        ("ckpt undo t3 -- 'a b' c", ["undo", "t3", "--", "a b", "c"]),
        ("ckpt redo t2", ["redo", "t2"]),
        ("/ckpt-log -n 5", ["log", "-n", "5"]),
        ("ckpt diff t3- now --stat", ["diff", "t3-", "now", "--stat"]),
        ("ckpt status", ["status"]),
    ],
)
def test_taken(prompt: str, words: list[str]) -> None:
    assert call_of(prompt) == words


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "ckpt",
        "undo",
        "ckpt undo the last change please",
        "ckpt undo t3 please",
        "ckpt undo 3",
        "ckpt undo t3 t4",
        "ckpt undo t0",
        "ckpt undo\nand then go on",
        "please ckpt undo",
        "/ckpt-undo what you did to 'a",
        "ckpt redo t2..",
        "ckpt log -n five",
        "ckpt log why",
        "ckpt status --json",
        "ckpt purge a",
        "ckpt undo --",
        "/ckpt- undo",
        "ckpt diff 1 2 3",
        "ckpt undo " + "--skip " * 1000,
    ],
)
def test_left_to_the_model(prompt: str) -> None:
    assert call_of(prompt) is None


def test_every_verb_can_be_typed_alone() -> None:
    for verb in VERBS:
        assert call_of(f"/ckpt-{verb}") == call_of(f"ckpt {verb}") == [verb]


@pytest.mark.parametrize(
    ("text", "kind", "abandoned", "it_is"),
    [
        ("ckpt undo", "undo", "", True),
        ("/ckpt-undo t2", "undo", "", True),
        ("ckpt redo", "undo", "", False),
        ("ckpt undo", "restore", "", False),
        ("ckpt undo", "undo", "the store is damaged", False),
    ],
)
def test_only_what_was_typed_is_said_to_be_finished(
    text: str, kind: CheckpointKind, abandoned: str, it_is: bool
) -> None:
    """What was cut short somewhere else, and finished now, is no answer to a prompt."""
    session = Session(asked={"text": text})
    meta = Meta(kind, datetime.now(UTC), operation=Operation("t2"))
    done = Settled(Checkpoint(4, "0" * 40, "0" * 40, None, meta), 3, abandoned=abandoned)
    assert answering.is_finished(session, done) == it_is
    assert ("is finished now" in answering.cut_short(session, done)) == it_is
    assert ("type it again if it is not done" in answering.cut_short(session, done)) != it_is
