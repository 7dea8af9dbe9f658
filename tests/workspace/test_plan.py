"""What may be carried out: ignored paths stay, what cannot give way is in the way, the rest is left as asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.workspace.entry import Entry, parents
from checkpointer.workspace.undoing.plan import Plan, make_plan

Change = tuple[Entry | None, Entry | None]

A, B = Entry("file", b"a", 0o644), Entry("file", b"b", 0o644)
LINK = Entry("link", b"l", 0)
DIR = Entry("dir", b"", 0o755)
STUCK = [Entry("socket", b"", 0o755), Entry("device", b"", 0), Entry("uncovered", b"", 0)]


def plan(changes: dict[bytes, Change], ignored: tuple[bytes, ...] = (), strangers: tuple[bytes, ...] = ()) -> Plan:
    return make_plan(
        changes,
        protected=lambda path, is_dir: any(path == i or path.startswith(i + b"/") for i in ignored),
        strangers=lambda directory: [s for s in strangers if s.startswith(directory + b"/")],
    )


def kept(made: Plan) -> dict[bytes, str]:
    return dict(made.kept)


def obstructions(made: Plan) -> list[tuple[bytes, bytes]]:
    return [(path, because) for path, _, because in made.obstructions]


def test_what_is_in_nobodys_way_is_carried_out() -> None:
    changes: dict[bytes, Change] = {
        b"a": (A, B),
        b"d": (DIR, None),
        b"d/x": (A, None),
        b"l": (None, LINK),
        b"s": (A, LINK),
    }
    made = plan(changes)
    assert (made.changes, made.kept, made.obstructions) == (changes, (), ())
    assert made.result == {b"a": B, b"d": None, b"d/x": None, b"l": LINK, b"s": LINK}


def test_an_ignored_path_is_never_removed_but_may_be_rewritten() -> None:
    made = plan({b"data": (DIR, None), b"data/1": (A, None), b"log": (A, B)}, ignored=(b"data", b"log"))
    assert made.changes == {b"log": (A, B)}
    assert kept(made) == {b"data/1": "ignored", b"data": "it holds data/1"}


def test_an_empty_ignored_directory_stays() -> None:
    assert kept(plan({b"build": (DIR, None)}, ignored=(b"build",))) == {b"build": "ignored"}


def test_a_directory_that_holds_what_is_not_ours_stays_whole_way_up() -> None:
    made = plan(
        {b"d": (DIR, None), b"d/e": (DIR, None), b"d/e/x": (A, None), b"d/f": (DIR, None)}, strangers=(b"d/e/.git",)
    )
    assert made.changes == {b"d/e/x": (A, None), b"d/f": (DIR, None)}
    assert kept(made) == {b"d": "it holds d/e", b"d/e": "it holds d/e/.git"}


@pytest.mark.parametrize("wanted", [B, LINK, Entry("fifo", b"", 0o600)])
def test_a_directory_that_must_give_way_but_holds_what_stays(wanted: Entry) -> None:
    made = plan({b"d": (DIR, wanted), b"d/x": (A, None)}, strangers=(b"d/.venv",))
    assert obstructions(made) == [(b"d", b"d/.venv")]
    assert made.changes == {b"d/x": (A, None)}
    made = plan({b"d": (DIR, wanted), b"d/x": (A, None)}, ignored=(b"d/x",))
    assert (obstructions(made), kept(made)) == ([(b"d", b"d/x")], {b"d/x": "ignored"})


def test_an_obstruction_below_holds_the_directories_above() -> None:
    made = plan(
        {b"d": (DIR, A), b"d/e": (DIR, None), b"d/e/f": (DIR, None), b"d/e/f/x": (A, None)}, strangers=(b"d/e/f/own",)
    )
    assert obstructions(made) == [(b"d", b"d/e/f")]
    assert sorted(kept(made)) == [b"d/e", b"d/e/f"]


@pytest.mark.parametrize("stuck", STUCK, ids=lambda e: str(e.kind))
def test_what_no_checkpoint_holds_is_in_the_way(stuck: Entry) -> None:
    made = plan({b"a": (stuck, A), b"b": (stuck, None), b"c": (A, stuck), b"d": (stuck, DIR), b"d/x": (None, A)})
    assert obstructions(made) == [(b"a", b"a"), (b"d", b"d"), (b"d/x", b"d")]
    assert sorted(kept(made)) == [b"b", b"c"]
    assert made.changes == {}


def test_the_workspace_itself_is_never_removed() -> None:
    assert kept(plan({b"": (DIR, None), b"a": (A, None)})) == {b"": "the workspace itself"}


PATHS = st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=3).map(b"/".join)
ENTRIES = st.sampled_from([None, A, B, LINK, DIR, *STUCK])


def files(chosen: dict[bytes, Entry | None]) -> dict[bytes, Entry]:
    """A tree that can stand: directories above everything, nothing below what is none."""
    out: dict[bytes, Entry] = {}
    for path in sorted(chosen):
        entry = chosen[path]
        if entry is None or any(out.get(top, DIR).kind != "dir" for top in parents(path)):
            continue
        out |= {top: DIR for top in parents(path) if top not in out}
        out[path] = entry
    return out


TREES = st.dictionaries(PATHS, ENTRIES, max_size=6).map(files)


@given(TREES, TREES, st.sets(PATHS, max_size=2), st.sets(PATHS.map(lambda p: p + b"/own"), max_size=2))
def test_a_plan_can_always_be_carried_out(
    present: dict[bytes, Entry], wanted: dict[bytes, Entry], ignored: set[bytes], strangers: set[bytes]
) -> None:
    strangers = {s for s in strangers if all(present.get(top, A).kind == "dir" for top in parents(s))}
    paths = {p for p in present.keys() | wanted.keys() if present.get(p) != wanted.get(p)}
    made = plan({p: (present.get(p), wanted.get(p)) for p in paths}, tuple(ignored), tuple(strangers))
    assert made.changes.keys() | kept(made).keys() | {o.path for o in made.obstructions} == paths
    after = {p: e for p, e in {**present, **made.result}.items() if e is not None}
    standing = {**after, **dict.fromkeys(strangers, A)}
    for path in standing:
        assert all(standing.get(top, A).kind == "dir" for top in parents(path)), path
    for path, entry in present.items():
        gone = path not in after
        if any(path == i or path.startswith(i + b"/") for i in ignored) and entry.kind != "dir":
            assert not gone
        if entry in STUCK:
            assert after[path] == entry
