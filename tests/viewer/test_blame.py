"""Each line has the turn that wrote it, against histories whose answer is known."""

from __future__ import annotations

from harness.world import World
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.viewer.blame import Version, blame, split


def test_lines_end_after_a_newline_alone() -> None:
    assert split(b"") == []
    assert split(b"a\r\nb\x0cc\n\nd") == [b"a\r\n", b"b\x0cc\n", b"\n", b"d"]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=4),
        min_size=1,
        max_size=8,
    )
)
def test_every_line_is_of_the_version_that_first_had_it(edits: list[list[tuple[int, bool]]]) -> None:
    """Every line ever written is another, so who wrote it stands in it."""
    lines: list[bytes] = []
    versions = []
    written = 0
    for number, edit in enumerate(edits):
        for at, insert in edit:
            if insert or not lines:
                lines.insert(at % (len(lines) + 1), b"%d of version %d\n" % (written, number))
                written += 1
            else:
                del lines[at % len(lines)]
        versions.append(Version(number, b"".join(lines)))
    told = blame(versions)
    assert b"".join(line for _, line in told) == versions[-1].content
    for origin, line in told:
        assert line.endswith(b"of version %d\n" % origin)


def test_what_an_undo_brought_back_is_of_who_wrote_it() -> None:
    versions = [
        Version("a", b"1\n2\n"),
        Version("b", b"1\nB\n"),
        Version("undo", b"1\n2\n"),
        Version("c", b"1\n2\n3\n"),
    ]
    assert blame(versions) == [("a", b"1\n"), ("a", b"2\n"), ("c", b"3\n")]


def test_a_binary_version_is_new_as_a_whole() -> None:
    assert blame([Version(1, b"a\nb\n"), Version(2, b"a\n\0\n")]) == [(2, b"a\n"), (2, b"\0\n")]
    assert blame([Version(1, b"a\0"), Version(2, b"a\nb\n")]) == [(2, b"a\n"), (2, b"b\n")]


def test_a_history(world: World) -> None:
    world.write("f", "a\nb\nc\n")
    world.ckpt("save")
    world.ckpt("run", "--", "sh", "-c", "sed -i s/b/B/ f")
    world.write("f", "a\nB\nc\nmine\n")
    world.ckpt("save")
    world.ckpt("run", "--", "sh", "-c", "echo other > f")
    world.ckpt("undo")
    world.write("f", "a\nB\nc\nmine\nnow\n")
    told = world.ckpt("blame", "f", "--json").lines
    assert [(d["line"], d["text"], d["step"], d["checkpoint"], d["oldest"]) for d in told] == [
        (1, "a", None, 1, True),
        (2, "B", "t1.1", 2, False),
        (3, "c", None, 1, True),
        (4, "mine", None, 3, False),
        (5, "now", None, None, False),
    ]
    assert told[1]["prompt"] == "sh -c 'sed -i s/b/B/ f'"
    assert told[1]["run"] == "r1"
    shown = world.ckpt("blame", "-L", "2,4", "f").out.splitlines()
    assert [line.split()[0] for line in shown[:3]] == ["t1.1", "1", "3"]
    assert shown[-1].startswith("t1  \"sh -c 'sed -i s/b/B/ f'\"")
    assert [d["text"] for d in world.ckpt("blame", "--at", "1", "--json", "f").lines] == ["a", "b", "c"]


def test_what_cannot_be_told(world: World) -> None:
    world.write("f", "a\n")
    world.write("b", "\0\n")
    world.write("empty", "")
    world.ckpt("save")
    world.rm("f")
    assert "next: ckpt blame --at 1 -- f" in world.ckpt("blame", "f", ok=1).err
    assert "no file nope" in world.ckpt("blame", "nope", ok=1).err
    assert "no text" in world.ckpt("blame", "b", ok=2).err
    assert world.ckpt("blame", "empty").err == "it is empty\n"
    assert "one path" in world.ckpt("blame", ok=2).err
    assert "only 1 line" in world.ckpt("blame", "-L", "2", "--at", "1", "f", ok=2).err
    for lines in ("0", "2,1", "x"):
        assert "-L" in world.ckpt("blame", "-L", lines, "--at", "1", "f", ok=2).err
