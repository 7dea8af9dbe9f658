"""Views never change, whoever grows what they share."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from checkpointer.trail import Ledger, Trail


def same(row: object) -> object:
    return row


@given(st.lists(st.tuples(st.integers(0, 30), st.integers()), max_size=60))
def test_every_view_keeps_what_it_showed(steps: list[tuple[int, int]]) -> None:
    """Grow any earlier view, again and again; compare all of them with plain lists."""
    views = [(Trail(same), [])]
    for which, item in steps:
        view, model = views[which % len(views)]
        store = view.thaw()
        store.append(item)
        views.append((store.freeze(), [*model, item]))
    for view, model in views:
        assert list(view) == model
        assert len(view) == len(model)
        assert view == Trail(same, model)
        assert view[:2] == tuple(model[:2])


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.integers()), max_size=60))
def test_every_ledger_keeps_what_it_showed(steps: list[tuple[int, int, int]]) -> None:
    views: list[tuple[Ledger[int, object], dict[int, int]]] = [(Ledger(same), {})]
    for which, key, value in steps:
        view, model = views[which % len(views)]
        book = view.thaw()
        book.put(key, value)
        assert book.get(key) == value
        views.append((book.freeze(), {**model, key: value}))
    for view, model in views:
        assert dict(view) == model
        assert list(view) == list(model)
        assert len(view) == len(model)
        assert all((key in view) == (key in model) for key in range(6))
        assert view == Ledger(same, model.items())
        assert hash(view) == hash(Ledger(same, model.items()))


def test_a_grower_that_gave_up_spoils_nothing() -> None:
    one = Trail(same, [1])
    one.thaw().append("stray")
    two = one.thaw()
    two.append(2)
    assert (list(one), list(two.freeze())) == ([1], [1, 2])


def test_threads_that_grow_the_same_view() -> None:
    base = Trail(same, range(3))
    made: list[tuple[int, Trail[object]]] = []
    gate = threading.Barrier(8)

    def grow(n: int) -> None:
        gate.wait()
        view = base
        for _ in range(50):
            store = view.thaw()
            store.append(n)
            view = store.freeze()
        made.append((n, view))

    threads = [threading.Thread(target=grow, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, view in made:
        assert list(view) == [0, 1, 2, *[n] * 50]
