"""JSON values as this program writes them: one value, one form.

Allowed are None, bool, int, float, str, bytes, lists and tuples, and mappings with text keys. `freeze` checks a value
and makes it immutable all the way down; `dumps` writes a frozen value as bytes, keys in order of their code points,
without white space; `loads` is its exact inverse. An integral float below 2**53 is an int, -0 is 0, other ints are
exact. Nothing is normalised as Unicode. NaN, infinities, floats that overflow and duplicate names are refused.

JSON has no bytes, and UTF-8 no lone surrogates. They are written in an escaped form:

    {"b64":"/w=="}                   the bytes ff
    {"b64":"7aCA","text":true}       the text U+D800, as UTF-8 would write it
    {"b64":[["k",1],["b64","x"]]}    an object, by its pairs, that would be mistaken for one of these or whose names
                                     hold lone surrogates
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ESCAPES = (frozenset(("b64",)), frozenset(("b64", "text")))
_EXACT_FLOAT = 2.0**53
_DEEPEST = 200
_LONGEST_INT = 14_000  # bits; beyond about 4,300 digits Python itself refuses to read an int back


class NotJson(ValueError):
    """The value has no place in a log: its type, a NaN, a name twice, nested too deep."""


class FrozenDict(dict[K, V]):
    """A dict that cannot change, so that it may be shared and hashed."""

    __slots__ = ()

    def _refuse(self, *args: object, **kw: object) -> NoReturn:
        raise TypeError("a frozen mapping cannot change")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))

    def __deepcopy__(self, memo: object) -> FrozenDict[K, V]:
        return self

    def __copy__(self) -> FrozenDict[K, V]:
        return self


def freeze(value: Any) -> Any:
    """The same value, immutable: tuples for lists, `FrozenDict` for mappings, names in order. Raises `NotJson`."""
    return _freeze(value, 0)


def _freeze(value: Any, depth: int) -> Any:
    kind = type(value)
    if value is None or kind in (str, bool, bytes, FrozenDict):
        return value
    if kind is int or isinstance(value, int):
        if value.bit_length() > _LONGEST_INT:
            raise NotJson("an int of more than 4,200 digits")
        return int(value)
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if depth == _DEEPEST:
        raise NotJson(f"nested more than {_DEEPEST} deep")
    if isinstance(value, (list, tuple)):
        return tuple([_freeze(v, depth + 1) for v in value])
    if isinstance(value, Mapping):
        if not all(isinstance(k, str) for k in value):
            raise NotJson("a name that is no text")
        return FrozenDict({str.__str__(k): _freeze(v, depth + 1) for k, v in sorted(value.items())})
    raise NotJson(f"a value of type {kind.__name__}")


def thaw(value: Any) -> Any:
    """A copy that may be changed: lists for tuples, dicts for frozen ones."""
    if isinstance(value, tuple):
        return [thaw(v) for v in value]
    if isinstance(value, dict):
        return {k: thaw(v) for k, v in value.items()}
    return value


def _number(value: float) -> int | float:
    if not math.isfinite(value):
        raise NotJson("a number that is not finite")
    if value.is_integer() and abs(value) < _EXACT_FLOAT:
        return int(value)
    return value


def dumps(value: Any) -> bytes:
    """A frozen value's bytes, UTF-8. Equal values have equal bytes."""
    try:
        data = _json(value).encode("utf-8")
        if b'"b64"' not in data:
            return data
    except (TypeError, UnicodeEncodeError):
        pass  # bytes or lone surrogates somewhere inside
    return _json(_escape(value)).encode("utf-8")


_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


def _is_text(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _escape(value: Any) -> Any:
    if isinstance(value, str):
        if _is_text(value):
            return value
        data = value.encode("utf-8", "surrogatepass")
        return {"b64": base64.b64encode(data).decode("ascii"), "text": True}
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, tuple):
        return [_escape(v) for v in value]
    if isinstance(value, dict):
        if frozenset(value) in _ESCAPES or not all(map(_is_text, value)):
            return {"b64": [[_escape(k), _escape(v)] for k, v in sorted(value.items())]}
        return {k: _escape(v) for k, v in value.items()}
    return value


def loads(data: bytes | str) -> Any:
    """The frozen value that `dumps` wrote as `data`. Raises `NotJson` on anything that breaks the rules above."""
    try:
        if isinstance(data, bytes):
            data = data.decode("utf-8")
        return _restore(json.loads(data, object_pairs_hook=_object, parse_constant=_refuse, parse_float=_float))
    except NotJson:
        raise
    except (ValueError, RecursionError) as e:
        raise NotJson(f"not JSON: {e}") from e


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise NotJson("a name twice in one object")
    return made


def _refuse(text: str) -> NoReturn:
    raise NotJson(f"{text} is no JSON number")


def _float(text: str) -> int | float:
    return _number(float(text))


def _restore(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_restore(v) for v in value])
    if isinstance(value, dict):
        if "b64" in value and frozenset(value) in _ESCAPES:
            return _unescape(value)
        return FrozenDict({k: _restore(v) for k, v in value.items()})
    return _freeze(value, 0)


def _unescape(value: dict[str, Any]) -> Any:
    held, is_text = value["b64"], "text" in value
    if isinstance(held, list) and not is_text:
        pairs = [_restore(pair) for pair in held]
        if not all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
            raise NotJson("an escaped object that is no list of pairs")
        return FrozenDict(_object(pairs))
    if not isinstance(held, str) or value.get("text", True) is not True:
        raise NotJson("a broken escape")
    try:
        data = base64.b64decode(held, validate=True)
        return data.decode("utf-8", "surrogatepass") if is_text else data
    except (binascii.Error, ValueError) as e:
        raise NotJson(f"a broken escape: {e}") from e
