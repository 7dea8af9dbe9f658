"""Immutable sequences and mappings that grow cheaply: what was appended is shared between all that came after.

A `Trail` or `Ledger` is a view of the first `n` entries of a store that is only ever appended to. Growing the newest
view costs as much as appending to a list; growing an older one copies it first. No view ever changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Trail(Sequence[T]):
    """An immutable sequence; `add` gives a longer one."""

    __slots__ = ("_items", "_n")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = list(items)
        self._n = len(self._items)

    def add(self, item: T) -> Trail[T]:
        items, n = self._items, self._n
        if len(items) == n:
            items.append(item)
        if items[n] is not item:  # an older view, or another thread was first
            items = [*items[:n], item]
        longer: Trail[T] = object.__new__(Trail)
        longer._items = items
        longer._n = n + 1
        return longer

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._items[i] for i in range(*index.indices(self._n)))
        if not -self._n <= index < self._n:
            raise IndexError(index)
        return self._items[index % self._n]

    def __iter__(self) -> Iterator[T]:
        items = self._items
        return (items[i] for i in range(self._n))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trail):
            return NotImplemented
        same = self._items is other._items
        return self._n == other._n and (same or self._items[: self._n] == other._items[: self._n])

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Trail({self._items[: self._n]!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Trail, (self._items[: self._n],))


class Ledger(Mapping[K, V], Generic[K, V]):
    """An immutable mapping; `put` gives one with an entry more, or in another's place. Entries are never taken out."""

    __slots__ = ("_n", "_rows", "_where")

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._rows: list[tuple[K, V]] = list(entries.items()) if entries else []
        self._where: dict[K, list[int]] = {k: [i] for i, (k, _) in enumerate(self._rows)}
        self._n = len(self._rows)

    def put(self, key: K, value: V) -> Ledger[K, V]:
        rows, n, row = self._rows, self._n, (key, value)
        if len(rows) == n:
            rows.append(row)
        if rows[n] is not row:  # an older view, or another thread was first
            return Ledger(dict(self.items())).put(key, value)
        self._where.setdefault(key, []).append(n)
        longer: Ledger[K, V] = object.__new__(Ledger)
        longer._rows, longer._where, longer._n = rows, self._where, n + 1
        return longer

    def __getitem__(self, key: K) -> V:
        for i in reversed(self._where[key]):
            if i < self._n:
                return self._rows[i][1]
        raise KeyError(key)

    def get(self, key: K, default: Any = None) -> Any:
        """The entry of `key`, or `default`; faster than the inherited one, for it is asked on every event."""
        where = self._where.get(key)
        if where is None:
            return default
        if where[-1] < self._n:
            return self._rows[where[-1]][1]
        return next((self._rows[i][1] for i in reversed(where) if i < self._n), default)

    def __contains__(self, key: object) -> bool:
        where = self._where.get(key)  # type: ignore[arg-type]
        return where is not None and where[0] < self._n

    def __iter__(self) -> Iterator[K]:
        """The keys, in the order in which they first came in."""
        return (k for i, (k, _) in enumerate(self._rows[: self._n]) if self._where[k][0] == i)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return f"Ledger({dict(self.items())!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Ledger, (dict(self.items()),))
