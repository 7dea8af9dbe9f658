"""JSON values have one form, and every value has one."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer import canon

texts = st.text(st.characters(codec=None), max_size=8)
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
names = texts | st.sampled_from(["b64", "text", "e", "sum"])
_HUGE = 1 << 20_000
values = st.recursive(
    plain | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_what_is_written_is_read_back(value: object) -> None:
    frozen = canon.freeze(value)
    data = canon.dumps(frozen)
    assert canon.loads(data) == frozen
    assert canon.dumps(canon.loads(data)) == data
    assert b"\n" not in data
    data.decode("utf-8")


@given(st.dictionaries(names, values, max_size=6))
def test_order_of_names_does_not_matter(value: dict[str, object]) -> None:
    backwards = dict(reversed(value.items()))
    assert canon.dumps(canon.freeze(value)) == canon.dumps(canon.freeze(backwards))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (1.0, b"1"),
        (-0.0, b"0"),
        (2.0**53, b"9007199254740992.0"),
        (2**53 + 1, b"9007199254740993"),
        (1e300, b"1e+300"),
        ("\u2028\r\n\0é", b'"\xe2\x80\xa8\\r\\n\\u0000\xc3\xa9"'),
        ("e\u0301", b'"e\xcc\x81"'),
        ({"\uffff": 1, "\U00010000": 2, "a": 3}, b'{"a":3,"\xef\xbf\xbf":1,"\xf0\x90\x80\x80":2}'),
        (b"\xff", b'{"b64":"/w=="}'),
        ("\ud800", b'{"b64":"7aCA","text":true}'),
        ({"b64": "x"}, b'{"b64":[["b64","x"]]}'),
        ({"b64": "x", "more": 1}, b'{"b64":"x","more":1}'),
    ],
)
def test_forms(value: object, data: bytes) -> None:
    assert canon.dumps(canon.freeze(value)) == data
    assert canon.loads(data) == canon.freeze(value)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -float("inf"), {1: 2}, {None: 1}, object(), {1, 2}, _HUGE, 1j],
    ids=[str(n) for n in range(9)],
)
def test_what_has_no_place_is_refused(value: object) -> None:
    with pytest.raises(canon.NotJson):
        canon.freeze([value])


def test_depth_is_bounded_alike_for_writing_and_reading() -> None:
    def nest(depth: int) -> object:
        value: object = "x"
        for _ in range(depth):
            value = [value]
        return value

    assert canon.loads(canon.dumps(canon.freeze(nest(200)))) == canon.freeze(nest(200))
    with pytest.raises(canon.NotJson):
        canon.freeze(nest(201))


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":2}',
        b"NaN",
        b"-Infinity",
        b"1e999",
        b'"\xff"',
        b"[1",
        b"",
        b'{"b64":1}',
        b'{"b64":"?"}',
        b'{"b64":"7aCA","text":false}',
        b'{"b64":[["a"]]}',
        b'{"b64":[["a",1],["a",2]]}',
        b"[" * 100_000,
    ],
)
def test_what_breaks_the_rules_is_not_read(data: bytes) -> None:
    with pytest.raises(canon.NotJson):
        canon.loads(data)


def test_frozen_all_the_way_down() -> None:
    inner = [1, {"a": [2]}]
    frozen = canon.freeze({"k": inner})
    inner.append(3)
    assert frozen == {"k": (1, {"a": (2,)})}
    for change in (
        lambda d: d.__setitem__("k", 1),
        lambda d: d.update(x=1),
        lambda d: d.pop("k"),
        lambda d: d.clear(),
        lambda d: d.setdefault("x", 1),
        lambda d: d.__delitem__("k"),
        lambda d: d.__ior__({"x": 1}),
        lambda d: d.popitem(),
    ):
        with pytest.raises(TypeError):
            change(frozen)
    hash(frozen)
    assert copy.deepcopy(frozen) is frozen
    assert pickle.loads(pickle.dumps(frozen)) == frozen
