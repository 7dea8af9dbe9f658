"""A line holds an event, and its digests are those of the bytes that are stored."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_canon import values
from test_events import SAMPLES

from checkpointer import events as E
from checkpointer import record
from checkpointer.errors import Damaged, LogDamaged, MissingObject, NeedsMigration, NewerFormat
from checkpointer.line import BadLine, peek, raw

SALT = "5a" * 16
PREVIOUS = "ab" * 32


def placed(event: E.AnyEvent, seq: int = 7, **more: Any) -> E.AnyEvent:
    place = {"seq": seq, "w": seq, "id": f"{seq:032x}", "at": "2026-12-01T15:22:03.104233Z", "epoch": 3, **more}
    return event.model_copy(update=place)


def line_of(event: E.AnyEvent, **more: Any) -> bytes:
    return record.encode(placed(event), PREVIOUS, SALT, **more).line[:-1]


def message(content: Any) -> E.UserMessage:
    return E.UserMessage(context="main", unprotected="a test", content=content)


def rechained(line: bytes, old: bytes, new: bytes) -> bytes:
    """The line with something else in `e`, and a sum that fits."""
    e = line[5 : line.index(b'"},"sum":"') + 2]
    changed = e.replace(old, new)
    assert changed != e
    total = sha256(PREVIOUS.encode() + changed).hexdigest().encode()
    return b'{"e":' + changed + b',"sum":"' + total + line[5 + len(e) + 8 + 64 :]


def test_the_form_of_a_line() -> None:
    commit = E.Commit(id="9f1c", captured=True)
    line = line_of(E.ToolCallStarted(context="main", commit=commit, key="k", tool="t", effect="read", arguments={}))
    whole = json.loads(line)
    assert list(whole) == ["e", "sum", "salt", "d"]
    head = ["seq", "w", "v", "type", "id", "at", "epoch", "context", "commit"]
    assert list(whole["e"])[:9] == head
    assert list(whole["e"])[-1] == "dd"
    assert whole["e"]["commit"] == {"kind": "shadow", "id": "9f1c", "captured": True}
    assert whole["d"] == {"arguments": {}}
    e = line[5 : line.index(b',"sum"')]
    d = line[line.index(b'"d":') + 4 : -1]
    assert whole["sum"] == sha256(PREVIOUS.encode() + e).hexdigest()
    assert whole["e"]["dd"] == sha256(whole["salt"].encode() + d).hexdigest()


def test_why_there_is_no_checkpoint_stands_beside_null() -> None:
    e = json.loads(line_of(message("x")))["e"]
    assert (e["commit"], e["unprotected"]) == (None, "a test")


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_type_is_read_back(name: str) -> None:
    found = record.decode(line_of(SAMPLES[name]), PREVIOUS, 7)
    loaded = found.load()
    expected = placed(SAMPLES[name])
    notes = {n: None for n, _ in E.content_fields(type(expected)).items() if getattr(expected, n) is E.ABSENT}
    assert loaded == expected.model_copy(update=notes)
    assert all(getattr(found.event, n) is E.ABSENT for n in E.content_fields(type(expected)))


@given(values)
def test_any_contents_are_read_back(value: Any) -> None:
    line = line_of(message(value))
    assert b"\n" not in line
    assert record.decode(line, PREVIOUS, 7).load() == placed(message(value))


@given(st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_no_changed_byte_goes_unseen(where: int, new: bytes) -> None:
    line = line_of(message("some words"))
    where %= len(line)
    changed = line[:where] + new + line[where + len(new) :]
    if changed == line:
        return
    with pytest.raises(BadLine):
        record.decode(changed, PREVIOUS, 7)


@pytest.mark.parametrize("size", range(1, 40))
def test_no_part_of_a_line_is_taken_for_one(size: int) -> None:
    line = line_of(message("some words"))
    step = len(line) // 40 * size
    for part in (line[:step], line[step:], line[:step] + b"\0" * (len(line) - step)):
        with pytest.raises(BadLine):
            record.decode(part, PREVIOUS, 7)
        assert peek(part) is None


def test_a_line_in_another_place_is_refused() -> None:
    line = line_of(message("x"))
    with pytest.raises(BadLine, match="event 7"):
        record.decode(line, PREVIOUS, 8)
    with pytest.raises(BadLine, match="follow"):
        record.decode(line, "cd" * 32, 7)
    assert record.decode(line, None, 7).seq == 7
    assert peek(line) == (7, 7, 1, 1, "user_message")


def test_large_contents_stand_beside() -> None:
    text = "x" * 100_000
    encoded = record.encode(placed(message(text)), PREVIOUS, SALT)
    (name, data), *none = encoded.objects
    assert not none
    assert sha256(data).hexdigest() == name
    assert len(encoded.line) < 1000
    found = record.decode(encoded.line[:-1], PREVIOUS, 7)
    assert found.objects() == {"content": (name, len(data))}
    assert found.load().content is E.ABSENT
    assert found.load({name: data}.__getitem__).content == text
    whole = record.encode(placed(message(text)), PREVIOUS, SALT, large=10**9)
    assert whole.objects == ()

    def gone(sha: str) -> bytes:
        raise MissingObject(f"{sha} is gone")

    with pytest.raises(MissingObject):
        found.load(gone)


def test_redacted_contents_are_gone_and_the_chain_holds() -> None:
    line = line_of(message("my secret"))
    left = record.redact(line)
    assert b"secret" not in left
    assert SALT.encode() not in left
    found = record.decode(left, PREVIOUS, 7)
    assert found.redacted
    assert found.sum == record.decode(line, PREVIOUS, 7).sum
    assert found.event == record.decode(line, PREVIOUS, 7).event
    assert found.load().content is E.ABSENT
    assert found.objects() == {}
    again = record.encode_redacted(placed(message("my secret")), PREVIOUS, json.loads(line)["e"]["dd"])
    assert again.line[:-1] == left


def test_only_whole_events_with_a_place_are_written() -> None:
    for event in (message("x"), placed(E.UserMessage(context="main", unprotected="x"))):
        with pytest.raises(ValueError):
            record.encode(event, PREVIOUS, SALT)


def test_unknown_facts_of_a_newer_writer_are_ignored() -> None:
    line = rechained(line_of(message("x")), b'"trust":"trusted"', b'"trust":"trusted","mood":{"dd":"x"}')
    assert record.decode(line, PREVIOUS, 7).event == placed(message("x")).model_copy(update={"content": E.ABSENT})


def test_newer_types_and_versions_are_refused_by_name() -> None:
    line = line_of(message("x"))
    with pytest.raises(NewerFormat, match="user_song"):
        record.decode(rechained(line, b"user_message", b"user_song"), PREVIOUS, 7)
    with pytest.raises(NewerFormat, match="user_message in version 2"):
        record.decode(rechained(line, b'"v":1', b'"v":2'), PREVIOUS, 7)
    rewound = line_of(SAMPLES["context_rewound"])
    with pytest.raises(NeedsMigration, match="context_rewound"):
        record.decode(rechained(rewound, b'"v":1', b'"v":0'), PREVIOUS, 7)


def test_a_line_that_was_written_wrong_is_damage_and_no_torn_tail() -> None:
    with pytest.raises(LogDamaged, match="does not fit user_message") as e:
        record.decode(rechained(line_of(message("x")), b'"trust":"trusted"', b'"trust":"blind"'), PREVIOUS, 7)
    assert e.value.seq == 7
    assert "\n" not in str(e.value)


def test_broken_contents_say_which() -> None:
    line = line_of(message("x"))
    d = b'{"content":1,"content":2}'
    dd = sha256(SALT.encode() + d).hexdigest().encode()
    old = json.loads(line)["e"]["dd"].encode()
    broken = rechained(line, old, dd)
    broken = broken[: broken.index(b'"d":') + 4] + d + b"}"
    with pytest.raises(Damaged, match="event 7"):
        record.decode(broken, PREVIOUS, 7).load()


def test_raw_lines_of_any_type() -> None:
    line = rechained(line_of(message("x")), b"user_message", b"user_song")
    found = raw(line, PREVIOUS, 7)
    assert (found.seq, found.event.type, found.d) == (7, "user_song", {"content": "x"})
    with pytest.raises(BadLine):
        raw(line, PREVIOUS, 8)
