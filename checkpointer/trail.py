"""Immutable sequences and mappings that grow cheaply: what was added is shared between all that came after.

A `Trail` or `Ledger` is a view of the first `n` entries of a store that is only ever added to. `thaw` gives the store
to one grower at a time, if the view is the newest of it, and a copy to everybody else; `freeze` makes a view of all
that the store holds then. No view ever changes, whatever several threads do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

Row = Any
"""A plain value, best a tuple of plain values: the garbage collector forgets those."""

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Growing(list[Row]):
    """The store of trails: rows, plain tuples. `free` holds one entry while nobody grows it: taking it is atomic."""

    __slots__ = ("free", "make")

    def __init__(self, rows: Iterable[Row], make: Callable[[Row], Any]) -> None:
        super().__init__(rows)
        self.make = make
        self.free: list[None] = []

    def freeze(self) -> Trail[Any]:
        trail: Trail[Any] = object.__new__(Trail)
        trail._store, trail._n = self, len(self)
        self.free.append(None)
        return trail


class Trail(Sequence[T]):
    """An immutable sequence. Its entries are kept as rows; `make` makes an entry of a row each time it is asked for."""

    __slots__ = ("_n", "_store")

    def __init__(self, make: Callable[[Row], T], rows: Iterable[Row] = ()) -> None:
        self._store = Growing(rows, make)
        self._store.free.append(None)
        self._n = len(self._store)

    def rows(self) -> list[Row]:
        return self._store[: self._n]

    def thaw(self) -> Growing:
        """A list with these rows, to append to and then to freeze."""
        store = self._store
        try:
            store.free.pop()
        except IndexError:
            return Growing(self.rows(), store.make)
        if len(store) == self._n:
            return store
        store.free.append(None)
        return Growing(self.rows(), store.make)

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        make = self._store.make
        if isinstance(index, slice):
            return tuple(make(self._store[i]) for i in range(*index.indices(self._n)))
        if not -self._n <= index < self._n:
            raise IndexError(index)
        entry: T = make(self._store[index % self._n])
        return entry

    def __iter__(self) -> Iterator[T]:
        store, make = self._store, self._store.make
        return (make(store[i]) for i in range(self._n))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trail):
            return NotImplemented
        same = self._store is other._store
        return self._n == other._n and (same or self.rows() == other.rows())

    def __hash__(self) -> int:
        return hash(tuple(self.rows()))

    def __repr__(self) -> str:
        return f"Trail({list(self)!r})"


class Book(Generic[K, V]):
    """The store of ledgers: keys and rows in the order they came in, and where each key's rows are."""

    __slots__ = ("free", "keys", "make", "rows", "where")

    def __init__(self, make: Callable[[Row], V], entries: Iterable[tuple[K, Row]] = ()) -> None:
        self.make = make
        self.keys: list[K] = []
        self.rows: list[Row] = []
        self.where: dict[K, int | tuple[int, ...]] = {}
        self.free: list[None] = []
        for key, row in entries:
            self.put(key, row)

    def put(self, key: K, row: Row) -> None:
        n = len(self.rows)
        self.keys.append(key)
        self.rows.append(row)
        before = self.where.get(key)
        if before is None:
            self.where[key] = n
        else:
            self.where[key] = (*before, n) if isinstance(before, tuple) else (before, n)

    def get(self, key: K) -> V | None:
        """The newest entry of a key."""
        where = self.where.get(key)
        if where is None:
            return None
        return self.make(self.rows[where[-1] if isinstance(where, tuple) else where])

    def freeze(self) -> Ledger[K, V]:
        ledger: Ledger[K, V] = object.__new__(Ledger)
        ledger._book, ledger._n = self, len(self.rows)
        self.free.append(None)
        return ledger


class Ledger(Mapping[K, V], Generic[K, V]):
    """An immutable mapping. A key may have had other entries before: the newest counts. None is ever taken out."""

    __slots__ = ("_book", "_n")

    def __init__(self, make: Callable[[Row], V], entries: Iterable[tuple[K, Row]] = ()) -> None:
        self._book = Book(make, entries)
        self._book.free.append(None)
        self._n = len(self._book.rows)

    def thaw(self) -> Book[K, V]:
        """A book with these entries, to put more into and then to freeze."""
        book = self._book
        try:
            book.free.pop()
        except IndexError:
            return Book(book.make, self.entries())
        if len(book.rows) == self._n:
            return book
        book.free.append(None)
        return Book(book.make, self.entries())

    def entries(self) -> list[tuple[K, Row]]:
        """Keys and rows, in the order in which the keys first came in."""
        return [(key, self._book.rows[self._where(key)]) for key in self]

    def _where(self, key: object) -> int:
        """Where the newest row of a key is that this view shows, or -1."""
        where = self._book.where.get(key)  # type: ignore[arg-type]
        if where is None:
            return -1
        rows = where if isinstance(where, tuple) else (where,)
        return max((i for i in rows if i < self._n), default=-1)

    def __getitem__(self, key: K) -> V:
        where = self._where(key)
        if where < 0:
            raise KeyError(key)
        return self._book.make(self._book.rows[where])

    def __contains__(self, key: object) -> bool:
        return self._where(key) >= 0

    def __iter__(self) -> Iterator[K]:
        book = self._book
        for i in range(self._n):
            rows = book.where[book.keys[i]]
            if (rows[0] if isinstance(rows, tuple) else rows) == i:
                yield book.keys[i]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __hash__(self) -> int:
        return hash(frozenset(self.entries()))

    def __repr__(self) -> str:
        return f"Ledger({dict(self.items())!r})"
