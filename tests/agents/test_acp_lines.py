"""What is read of a stream: nothing is lost or changed, whatever it is cut into."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from checkpointer.agents.acp import message
from checkpointer.agents.acp.facts import LARGEST, CallFacts, bounded
from checkpointer.agents.acp.lines import Lines
from checkpointer.canon import freeze

BYTES = st.lists(st.sampled_from([b"\n", b"\r\n", b"{}", b"x" * 30, b"\xff", b""]), max_size=30).map(b"".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(BYTES, st.lists(st.integers(1, 40)), st.integers(1, 50))
def test_pieces_are_the_stream(stream: bytes, cuts: list[int], limit: int) -> None:
    lines, found, at = Lines(limit), [], 0
    for cut in [*cuts, len(stream)]:
        found += lines.feed(stream[at : at + cut])
        at += cut
        assert len(lines._kept) <= limit
    found += lines.rest()
    assert b"".join(p.data for p in found) == stream
    assert all(b"\n" not in p.data[:-1] and p.data for p in found)
    assert [p.last for p in found[:-1]] == [p.data.endswith(b"\n") for p in found[:-1]]
    assert [p.first for p in found] == [True, *(p.last for p in found)][: len(found)]
    assert all(p.whole for p in found if p.first and len(p.data) <= limit)


def test_a_long_line_is_not_kept() -> None:
    lines = Lines(limit=100)
    first = list(lines.feed(b"x" * 150))
    assert [(p.first, p.last, len(p.data)) for p in first] == [(True, False, 150)]
    assert [(p.first, p.last) for p in lines.feed(b"y" * 10)] == [(False, False)]
    assert [(p.first, p.last, p.data) for p in lines.feed(b"z\n{}\n")] == [(False, True, b"z\n"), (True, True, b"{}\n")]


def test_ids_are_told_apart_as_the_protocol_does() -> None:
    assert message.same(1) == message.same(1.0)
    assert len({message.same(i) for i in (1, "1", None, True, "true", [1], {"a": 1}, "null")}) == 8


def test_messages_of_any_shape() -> None:
    assert message.read(b'{"id":null,"method":"m"}')[0].kind == "request"
    assert message.read(b'{"method":"m","params":[1]}')[0].params is None
    assert message.read(b'{"id":7,"error":{}}')[0].failed
    assert [m.kind for m in message.read(b'[{"id":1,"method":"m"},3,{"id":2,"result":null}]')] == [
        "request",
        "response",
    ]
    odd = [
        b"",
        b"\n",
        b"no",
        b"{",
        b"[]",
        b"7",
        b'"x"',
        b"\xff\xfe",
        b"{}" * 3,
        b"[" * 100_000,
        b"9" * 10_000,
        b"null\r\n",
    ]
    for line in odd:
        assert message.read(line) == []
        message.read_head(line)


def test_the_head_of_a_long_line_tells_what_stands_first() -> None:
    long = json.dumps(
        {"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": {"sessionId": "s", "prompt": "x" * 99}}
    )
    m = message.read_head(long[:100].encode())[0]
    assert (m.kind, m.id, m.method, m.params, m.head) == ("request", 9, "session/prompt", {"sessionId": "s"}, True)
    assert message.read_head(long[:40].encode()) == []


@given(st.lists(JSON, max_size=3), st.text(), st.booleans(), st.booleans())
def test_what_is_added_to_a_line_leaves_every_other_byte(
    listed: list[object], text: str, first: bool, spaced: bool
) -> None:
    value = {"a": {"x": [1], "list": listed, "after": text}, "b": text}
    line = json.dumps(value, ensure_ascii=False, indent=1 if spaced else None).encode("utf-8", "surrogatepass")
    added = message.with_more(line, ("a", "list"), [{"new": text}], first=first)
    try:
        line.decode()
    except UnicodeDecodeError:
        assert added == line
        return
    expected = [{"new": text}, *listed] if first else [*listed, {"new": text}]
    assert json.loads(added)["a"]["list"] == expected
    new = json.dumps({"new": text}, ensure_ascii=False, separators=(",", ":")).encode()
    assert (
        any(added.replace(new + extra, b"", 1) == line for extra in (b"", b","))
        or added.replace(b"," + new, b"", 1) == line
    )


def test_a_line_without_that_list_stays() -> None:
    for line in (b'{"a":{"list":3}}', b'{"a":[]}', b"no", b'{"a":{"list":[1}}'):
        assert message.with_more(line, ("a", "list"), [1]) == line


@given(JSON | st.floats(allow_nan=True) | st.text(st.characters(), min_size=1))
def test_whatever_a_call_was_given_can_stand_in_a_log(value: object) -> None:
    freeze(bounded(value))
    facts = CallFacts("c").told({"rawInput": value, "kind": "edit", "title": 3, "content": value, "status": None})
    freeze(facts.arguments)
    freeze(facts.gave)


def test_large_arguments_are_cut() -> None:
    assert len(bounded("x" * 10 * LARGEST)) < LARGEST + 50
    assert len(bounded({"a": ["y" * 10 * LARGEST]})) < LARGEST + 50
    assert bounded({"a": ["y"]}) == {"a": ["y"]}


def test_what_may_change_files() -> None:
    assert CallFacts("c", kind="read").effect == "read"
    assert CallFacts("c", kind="edit").effect == "workspace"
    assert CallFacts("c", kind="execute").effect == CallFacts("c", kind="news").effect == "external"


def test_words_of_a_prompt() -> None:
    blocks = [
        {"type": "text", "text": "see"},
        {"type": "resource_link", "name": "a.py", "uri": "file:///a.py"},
        {"type": "resource", "resource": {"uri": "file:///b"}},
        {"type": "image", "data": "QUJD"},
        7,
    ]
    assert message.words_of(blocks) == "see\n[a.py]\n[file:///b]\n[image]"
    assert message.only_text(blocks) == message.only_text(None) == message.only_text([{"type": "image"}]) == ""
    assert message.only_text([{"type": "text", "text": ""}, {"type": "text", "text": "ckpt undo"}]) == "ckpt undo"
