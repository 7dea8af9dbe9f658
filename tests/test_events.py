"""Every type is versioned, classified, frozen and strict, here, on import and in the type checker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from checkpointer import events as E
from checkpointer.events.envelope import Event

AT = {"context": "main", "unprotected": "a test"}
HOLDER = E.Holder(host="h", boot="b", namespace="n", pid=1, started="2")

SAMPLES: dict[str, E.AnyEvent] = {
    e.type: e
    for e in (
        E.RunStarted(run="r1", owner=HOLDER),
        E.RunResumed(owner=HOLDER, after="crash", previous_epoch=1),
        E.RunReleased(how="ended"),
        E.RunFinished(outcome="done"),
        E.LogRedacted(seqs=(1,)),
        E.UserMessage(**AT, content="x"),
        E.ModelTurn(**AT, content="x", calls=(E.AcceptedCall(tool="t", key="k", effect="read"),)),
        E.ContextCompacted(**AT, from_seq=1, to_seq=2, summarised=False),
        E.ContextRewound(**AT, to_seq=0),
        E.MemoryWritten(**AT, memory="m", content=1),
        E.ToolCallStarted(**AT, key="k", tool="t", effect="read", arguments={"a": [1]}),
        E.ToolCallCompleted(**AT, key="k", result=None),
        E.ToolCallUncertain(**AT, key="k", reason="crash"),
        E.ToolCallReconciled(**AT, key="k", verdict="wait", rule="r"),
        E.ApprovalRequested(**AT, key="k"),
        E.ApprovalDecided(**AT, key="k", decision="denied", decided_by="policy"),
        E.GuardrailTriggered(**AT, guardrail="g", severity="info", action="logged"),
        E.WorkspaceChanged(unprotected="a test", cause="edit"),
    )
}


def test_every_type_has_a_sample_here() -> None:
    assert set(SAMPLES) == set(E.TYPES)


@pytest.mark.parametrize("name", sorted(E.TYPES))
def test_types_are_versioned_classified_and_complete(name: str) -> None:
    cls, event = E.TYPES[name], SAMPLES[name]
    assert cls.version >= 1
    assert (cls in get_args(E.StateChange)) != (cls in get_args(E.RecordOnly))
    assert E.kind(event) == ("S" if cls in get_args(E.StateChange) else "R")
    assert event.missing() == ""
    assert cls.__doc__
    assert cls.group in ("run", "context", "tools", "oversight", "workspace")
    assert "objects" not in cls.model_fields


@pytest.mark.parametrize("name", sorted(E.TYPES))
def test_events_are_frozen_and_strict(name: str) -> None:
    event = SAMPLES[name]
    with pytest.raises(ValidationError):
        event.seq = 3
    with pytest.raises(ValidationError):
        type(event)(**{**dict(event), "no_such_field": 1})
    with pytest.raises(ValidationError):
        type(event)(**{**dict(event), "epoch": "1"})
    hash(event)


def _deep(value: Any) -> None:
    """No list, dict or set anywhere, unless it cannot change."""
    if isinstance(value, E.Fact):
        for inner in dict(value).values():
            _deep(inner)
    elif isinstance(value, tuple):
        for inner in value:
            _deep(inner)
    elif isinstance(value, dict):
        with pytest.raises(TypeError):
            value["x"] = 1
        _deep(tuple(value.values()))
    else:
        assert not isinstance(value, (list, set, bytearray))


def test_events_are_frozen_all_the_way_down() -> None:
    for event in SAMPLES.values():
        _deep(event)


def test_a_type_in_neither_set_fails_on_import() -> None:
    class Root(Event):
        pass

    class Lost(Root):
        """Is in no set."""

        type: str = "lost"

    with pytest.raises(TypeError, match="exactly one"):
        E.classify(Root)


def test_a_type_in_neither_set_fails_in_the_type_checker(tmp_path: Path) -> None:
    """The same with a new class, and with a type that `kind` and the fold forgot."""
    source = Path(E.__file__).read_text()
    assert "assert_never(event)" in source
    broken = tmp_path / "probe.py"
    broken.write_text(
        "from checkpointer.events import AnyEvent, Event, RecordOnly, StateChange, kind, UserMessage\n"
        "from typing import Literal, assert_never\n"
        "class Lost(Event):\n"
        "    group = 'run'\n"
        "    type: Literal['lost'] = 'lost'\n"
        "kind(Lost())  # error: not in the union\n"
        "def forgets(event: AnyEvent | Lost) -> str:\n"
        "    if isinstance(event, StateChange):\n"
        "        return 'S'\n"
        "    if isinstance(event, RecordOnly):\n"
        "        return 'R'\n"
        "    assert_never(event)  # error: Lost is left\n"
    )
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--strict", str(broken)]
    said = subprocess.run(command, capture_output=True, text=True, cwd=Path(E.__file__).parents[2]).stdout
    assert 'Argument 1 to "kind"' in said
    assert 'Argument 1 to "assert_never"' in said
    assert said.count("error:") == 2


def test_what_a_writer_must_give() -> None:
    assert "contents are not here: content" in E.UserMessage(**AT).missing()
    assert "neither a checkpoint" in E.UserMessage(context="main", content="x").missing()
    commit = E.Commit(id="0" * 40, captured=True)
    assert "or both" in E.UserMessage(**AT, commit=commit, content="x").missing()
    assert "no context" in E.UserMessage(unprotected="x", content="x").missing()
    assert E.ToolCallStarted(**AT, key="k", tool="t", effect="read").missing()
    assert not E.RunReleased(how="ended").missing()


def test_absent_contents_are_one_thing() -> None:
    assert E.Absent() is E.ABSENT
    assert not E.ABSENT
    assert E.UserMessage(**AT).content is E.ABSENT


def test_the_page_about_events_is_the_one_that_the_code_writes() -> None:
    docs = Path(E.__file__).parents[2] / "docs"
    written = subprocess.run([sys.executable, str(docs / "make_events.py")], capture_output=True, check=True).stdout
    assert (docs / "events.md").read_bytes() == written, "run: python docs/make_events.py > docs/events.md"
