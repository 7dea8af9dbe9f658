"""Trees of checkpoints against a plain dictionary: what is put in is there, differences and edits are exact."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.shadow import checkpoint, empty, entries, sound
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpointer.errors import Damaged, MissingObject, NewerFormat
from checkpointer.workspace.entry import Entry, below, parents
from checkpointer.workspace.odb.objects import MemorySink, oid_of
from checkpointer.workspace.shadow.store import Store
from checkpointer.workspace.trees.extras import Extras
from checkpointer.workspace.trees.gittree import FILE, LINK, TREE, decode_nodes, decode_tree, encode_tree
from checkpointer.workspace.trees.tree import Tree, diff, edited, write_root

Model = dict[bytes, Entry]

BLOB = oid_of("blob", b"one")
OTHER = oid_of("blob", b"other")


class Nothing:
    """Stores nothing; what a MemorySink is laid over."""

    def get(self, oid: bytes) -> tuple[str, bytes]:
        raise MissingObject(oid.hex())

    stream = size = get

    def __contains__(self, oid: bytes) -> bool:
        return False


def memory() -> MemorySink:
    sink = MemorySink(Nothing())  # type: ignore[arg-type]
    sink.add("blob", b"one")
    sink.add("blob", b"other")
    return sink


NAMES = st.sampled_from([b"a", b"b", b"a.b", b"a0", b".git", b"\xff", b"ckpt%x", b".gitignore"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o700, 0o4755, 0, 0o444])
LEAVES = st.one_of(
    st.builds(Entry, st.just("file"), st.sampled_from([BLOB, OTHER]), MODES),
    st.builds(Entry, st.just("link"), st.sampled_from([BLOB, OTHER]), st.just(0)),
    st.builds(Entry, st.just("fifo"), st.just(b""), MODES),
    st.builds(Entry, st.just("dir"), st.just(b""), MODES),
)


def put(model: Model, path: bytes, entry: Entry) -> None:
    """Set a path as `edited` promises to: parents come into being, a leaf takes away what is below."""
    for above in parents(path):
        if above not in model or model[above].kind != "dir":
            model[above] = Entry("dir", b"", 0o755)
    if entry.kind != "dir":
        for old in [p for p in model if p != path and below(p, path)]:
            del model[old]
    model[path] = entry


@st.composite
def models(draw: st.DrawFn) -> Model:
    model: Model = {b"": Entry("dir", b"", draw(MODES))}
    for path, entry in draw(st.lists(st.tuples(PATHS, LEAVES), max_size=8)):
        put(model, path, entry)
    return model


def tree_of(model: Model, sink: MemorySink, usual: tuple[int, int, int] = (0o644, 0o755, 0o755)) -> Tree:
    """Built bottom up by hand, not by `edited`."""
    file_mode, exec_mode, dir_mode = usual
    modes: dict[bytes, int] = {}
    directories = set()
    fifos = {}
    inside: dict[bytes, list[tuple[bytes, int, bytes]]] = {}
    for path, entry in sorted(model.items(), reverse=True):
        directory, _, name = path.rpartition(b"/")
        if entry.kind == "dir":
            if entry.mode != dir_mode:
                modes[path] = entry.mode
            items = inside.pop(path, [])
            if not path:
                files = sink.add("tree", encode_tree(items))
            elif items:
                inside.setdefault(directory, []).append((name, TREE, sink.add("tree", encode_tree(items))))
            else:
                directories.add(path)
        elif entry.kind == "fifo":
            fifos[path] = entry.mode
        elif entry.kind == "link":
            inside.setdefault(directory, []).append((name, LINK, entry.oid))
        else:
            executable = entry.mode & 0o100
            if entry.mode != (exec_mode if executable else file_mode):
                modes[path] = entry.mode
            inside.setdefault(directory, []).append((name, 0o100755 if executable else FILE, entry.oid))
    extras = Extras(file_mode, exec_mode, dir_mode, modes, frozenset(directories), fifos)
    return Tree(sink, write_root(sink, files, extras))


@given(models())
def test_a_tree_holds_exactly_what_was_put_in(model: Model) -> None:
    sink = memory()
    tree = tree_of(model, sink)
    assert dict(tree.walk()) == model
    assert list(dict(tree.walk())) == sorted(model, key=lambda p: p.split(b"/") if p else [])
    for path in model:
        assert tree.entry(path) == tree.covered(path) == model[path]
        inner = {p: e for p, e in model.items() if below(p, path)}
        assert dict(tree.walk(path)) == inner
    assert tree.entry(b"no/such") is None
    assert dict(tree.walk(b"no/such")) == {}


@given(models(), models(), st.lists(PATHS, max_size=2), st.booleans())
@settings(max_examples=300)
def test_diff_is_exact(a: Model, b: Model, paths: list[bytes], other_usual: bool) -> None:
    sink = memory()
    one = tree_of(a, sink)
    two = tree_of(b, sink, (0o600, 0o700, 0o700) if other_usual else (0o644, 0o755, 0o755))
    expected = {p: (a.get(p), b.get(p)) for p in a.keys() | b.keys() if a.get(p) != b.get(p)}
    assert diff(one, two) == expected
    if paths:
        chosen = {p: c for p, c in expected.items() if any(below(p, x) for x in paths)}
        assert diff(one, two, paths) == chosen


@given(models(), models(), st.booleans())
@settings(max_examples=300)
def test_an_edit_by_a_difference_makes_the_other_tree(a: Model, b: Model, other_usual: bool) -> None:
    sink = memory()
    one = tree_of(a, sink, (0o600, 0o700, 0o700) if other_usual else (0o644, 0o755, 0o755))
    target = tree_of(b, sink)
    changes = {path: after for path, (_, after) in diff(one, target).items()}
    made = Tree(sink, edited(one, changes, sink))
    assert dict(made.walk()) == b
    if not other_usual:
        assert made.root == target.root, "and byte for byte the same one"


@given(models(), st.lists(st.tuples(PATHS, LEAVES), max_size=5))
@settings(max_examples=200)
def test_setting_paths_makes_and_takes_away_what_it_must(model: Model, sets: list[tuple[bytes, Entry]]) -> None:
    wished: dict[bytes, Entry] = {}
    for path, entry in sets:  # a consistent wish: nothing below a leaf
        if not any(p in wished and wished[p].kind != "dir" for p in parents(path)) and (
            entry.kind == "dir" or not any(below(p, path) for p in wished if p != path)
        ):
            wished[path] = entry
    sink = memory()
    made = Tree(sink, edited(tree_of(model, sink), wished, sink))
    expected = dict(model)
    for path in sorted(wished, key=lambda p: p.count(b"/")):
        old = expected.get(path)
        put(expected, path, wished[path])
        if wished[path].kind == "dir" and old is not None and old.kind != "dir":
            expected[path] = wished[path]
    assert dict(made.walk()) == expected
    assert made.root == tree_of(expected, sink).root


@given(models(), st.lists(PATHS, max_size=4))
@settings(max_examples=200)
def test_removing_paths_keeps_directories_that_hold_something(model: Model, paths: list[bytes]) -> None:
    sink = memory()
    made = dict(Tree(sink, edited(tree_of(model, sink), dict.fromkeys(paths), sink)).walk())
    expected = {p: e for p, e in model.items() if p not in paths}
    for path in list(expected):
        for above in parents(path):
            expected.setdefault(above, model[above])
    assert made == expected


def test_a_wish_below_a_file_is_refused() -> None:
    sink = memory()
    base = Tree(sink, empty(sink))
    with pytest.raises(ValueError, match="below"):
        edited(base, {b"a": Entry("file", BLOB, 0o644), b"a/b": Entry("file", BLOB, 0o644)}, sink)
    with pytest.raises(ValueError, match="socket"):
        edited(base, {b"a": Entry("socket", b"", 0)}, sink)


def uncovered(sink: MemorySink, files: dict[bytes, bytes], reasons: dict[bytes, str], directories: set[bytes]) -> Tree:
    base = Tree(sink, empty(sink, Extras(uncovered=reasons, directories=frozenset(directories))))
    return Tree(sink, edited(base, entries(sink, files), sink))


def test_what_was_not_read_is_never_taken_for_deleted() -> None:
    sink = memory()
    full = uncovered(sink, {b"big": b"1", b"d/x": b"2", b"s": b"3", b"u/kept": b"4"}, {}, set())
    listed = {b"big": "too-large", b"d": "other-filesystem", b"s": "socket", b"new": "device", b"u": "unreadable"}
    gone = Tree(sink, empty(sink, Extras(uncovered=listed)))
    assert {p: (a and a.kind, b and b.kind) for p, (a, b) in diff(full, gone).items()} == {
        b"big": ("file", "uncovered"),
        b"d": ("dir", "uncovered"),
        b"s": ("file", "socket"),
        b"u": ("dir", "uncovered"),
    }
    assert set(diff(gone, full)) == {b"big", b"d", b"s", b"u"}
    assert gone.entry(b"d/x") == Entry("uncovered", b"", 0)
    assert not gone.covers(b"d")
    assert not gone.covers(b"d/x")
    assert dict(gone.walk()).keys() == {b""}
    nothing = Tree(sink, empty(sink))
    assert diff(nothing, gone) == {}
    assert diff(gone, nothing) == {}
    changed = Tree(sink, empty(sink, Extras(uncovered={**listed, b"big": "unreadable"})))
    assert diff(gone, changed) == {}


def test_what_cannot_be_read_now_keeps_its_content() -> None:
    sink = memory()
    before = uncovered(sink, {b"secret": b"1", b"d/x": b"2"}, {}, set())
    extras = before.extras._replace(
        modes={b"secret": 0, b"d": 0}, uncovered={b"secret": "unreadable", b"d": "unreadable"}
    )
    after = Tree(sink, write_root(sink, before.files, extras))
    assert set(diff(before, after)) == {b"secret", b"d"}, "their modes"
    assert after.entry(b"secret") == Entry("file", oid_of("blob", b"1"), 0)
    assert after.covers(b"d/x")
    assert after.read(b"d/x") == b"2"
    assert after.entry(b"d/y") == Entry("uncovered", b"", 0), "nobody knows"
    assert {path for path in after.extras.uncovered if after.covers(path)} == {b"secret", b"d"}


def test_setting_a_path_takes_it_off_the_lists() -> None:
    sink = memory()
    base = Tree(sink, empty(sink, Extras(uncovered={b"a": "too-large", b"b": "socket"}, torn=frozenset({b"c", b"d"}))))
    made = Tree(sink, edited(base, {b"a": Entry("file", BLOB, 0o644), b"c": None}, sink)).extras
    assert dict(made.uncovered) == {b"b": "socket"}
    assert made.torn == {b"d"}


def test_a_directory_with_a_socket_in_it_stays() -> None:
    sink = memory()
    base = Tree(sink, empty(sink, Extras(uncovered={b"d/s": "socket"}, directories=frozenset({b"d"}))))
    base = Tree(sink, edited(base, {b"d/f": Entry("file", BLOB, 0o644)}, sink))
    made = Tree(sink, edited(base, {b"d/f": None, b"d": None}, sink))
    assert made.covered(b"d") == Entry("dir", b"", 0o755)


def test_paths_beyond_every_limit(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "shadow.git")
    deep = b"/".join([b"d" * 3] * 1700)
    long = b"/".join([b"n" * 250] * 30)
    first = checkpoint(store, {deep + b"/f": b"1", long + b"/f": b"2", b"top": b"3"})
    second = checkpoint(store, {deep + b"/f": b"4", long + b"/f": None})
    changed = diff(store.tree(first), store.tree(second))
    assert changed.keys() == {deep + b"/f", long + b"/f"}
    assert store.tree(second).covered(long) == Entry("dir", b"", 0o755)
    assert len(list(store.tree(second).walk())) == 1 + 1700 + 1 + 30 + 1
    sound(store)


def test_a_hundred_thousand_entries_in_one_directory(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "shadow.git")
    with store.writer() as writer:
        blob = writer.add("blob", b"x")
        files = writer.add("tree", encode_tree((b"f%06d" % i, FILE, blob) for i in range(100_000)))
        root = write_root(writer, files, Extras())
        writer.finish()
    changes: dict[bytes, Entry | None] = {b"f000001": None}
    with store.writer() as writer:
        second = edited(Tree(store.objects, root), changes, writer)
        writer.finish()
    assert diff(Tree(store.objects, root), Tree(store.objects, second)).keys() == {b"f000001"}


@given(
    st.dictionaries(st.binary(max_size=6), st.integers(0, 0o7777)),
    st.frozensets(st.binary(max_size=6)),
    st.dictionaries(st.binary(max_size=6), st.sampled_from(["too-large", "socket"])),
)
def test_extras_come_back(modes: dict[bytes, int], paths: frozenset[bytes], reasons: dict[bytes, str]) -> None:
    extras = Extras(0o640, 0o750, 0o2755, modes, paths, modes, reasons, paths)
    data = extras.encode()
    assert Extras.decode(data) == extras
    lines = data.splitlines()
    sections = (modes, paths, modes, reasons, paths)
    assert len(lines) == 9 + sum(len(s) + bool(s) for s in sections), "one line a path"


def test_extras_of_a_newer_version_and_damaged_ones() -> None:
    data = Extras().encode()
    with pytest.raises(NewerFormat):
        Extras.decode(data.replace(b'"version": 1', b'"version": 2'))
    for bad in (b"", b"\0" * 100, data[:-20], b"[]", b"{}", data.replace(b"644", b"99"), b"\xff" + data, b"null"):
        with pytest.raises(Damaged):
            Extras.decode(bad)


ENTRY = b"100644 a\0" + b"x" * 20


@pytest.mark.parametrize(
    "bad",
    [
        b"100644 a",
        ENTRY[:-1],
        b"100664 a\0" + b"x" * 20,
        b" \0" + b"x" * 20,
        b"100644 \0" + b"x" * 20,
        b"1" + ENTRY,
        b"x" + ENTRY,
        ENTRY + b"\0" + ENTRY,
        ENTRY + b"x",
        ENTRY + b"0100644 b\0" + b"x" * 20,
    ],
)
def test_a_damaged_tree_is_damage(bad: bytes) -> None:
    for read in (decode_tree, decode_nodes):
        with pytest.raises(Damaged):
            read(bad)
    assert decode_nodes(ENTRY + ENTRY.replace(b"a", b"b c")) == {b"a": (FILE, b"x" * 20), b"b c": (FILE, b"x" * 20)}


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b", b"a\0b"])
def test_what_no_tree_can_hold_is_refused(name: bytes) -> None:
    with pytest.raises(ValueError, match="name"):
        encode_tree([(name, FILE, BLOB)])


def test_errors_name_the_checkpoint(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "shadow.git")
    made = checkpoint(store, {"a": b"1"})
    with pytest.raises(MissingObject, match="checkpoint 7 cannot be read"):
        Tree(store.objects, b"\1" * 20, "checkpoint 7").entry(b"a")
    with pytest.raises(KeyError):
        store.tree(made).read(b"none")
