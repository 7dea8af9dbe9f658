"""Configurations of all shapes: what is put in comes out to the byte, and nothing else is touched on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkpointer.agents.editing import document, jsontext
from checkpointer.agents.editing.document import Format
from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.editing.values import Entry, holds, minus, ours_in, plus
from checkpointer.agents.recipes.recipe import ours, path_in

OURS = ours("claude")
EVENTS = ("Start", "Stop", "Tool")


def entries(path: str = "/opt/ckpt") -> list[Entry]:
    return [
        Entry(("hooks", e), {"matcher": "*", "hooks": [{"type": "command", "command": f"{path} hook claude {e}"}]})
        for e in EVENTS
    ]


def flat() -> list[Entry]:
    return [Entry(("hooks", e), {"command": f"/opt/ckpt hook claude {e}", "timeout": 30}) for e in EVENTS]


keys = st.sampled_from(["hooks", "Start", "Stop", "model", "a b", 'q"', "ü", "x"])
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**6), st.sampled_from(["", "//", "/*", "}", "é\n", '"'])
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)
groups = st.lists(st.fixed_dictionaries({"hooks": st.just([{"command": "theirs"}])}), max_size=2)
hooks = st.one_of(st.dictionaries(st.sampled_from(EVENTS), st.one_of(groups, st.none()), max_size=3), st.none())
documents = st.one_of(
    st.dictionaries(keys.filter(lambda k: k != "hooks"), values, max_size=3),
    st.tuples(st.dictionaries(keys, values, max_size=3), hooks).map(lambda p: {**p[0], "hooks": p[1]}),
)


@st.composite
def written(draw: st.DrawFn, value: Any, *, comments: bool) -> str:
    """A value as JSON text, with white space, and where it is allowed comments and trailing commas, anywhere."""
    space = ["", "", " ", "\n", "\n  ", "\t", "\r\n"]
    if comments:
        space += [" // note\n", "/* c */", " /* two\nlines */ "]
    gaps = st.sampled_from(space)

    def write(node: Any) -> str:
        if isinstance(node, dict):
            parts = [f"{draw(gaps)}{json.dumps(k)}{draw(gaps)}:{draw(gaps)}{write(v)}" for k, v in node.items()]
        elif isinstance(node, list):
            parts = [f"{draw(gaps)}{write(v)}" for v in node]
        else:
            return json.dumps(node, ensure_ascii=draw(st.booleans()))
        body = f"{draw(gaps)},".join(parts)
        if parts and comments and draw(st.booleans()):
            body += draw(gaps) + ","
        return ("{%s}" if isinstance(node, dict) else "[%s]") % (body + draw(gaps))

    return draw(gaps) + write(value) + draw(gaps)


@st.composite
def json_texts(draw: st.DrawFn) -> tuple[Format, str]:
    comments = draw(st.booleans())
    shape = draw(st.sampled_from(["any", "any", "indented"]))
    value = draw(documents)
    if shape == "indented":
        indent = draw(st.sampled_from([2, 4, "\t"]))
        return "jsonc" if comments else "json", json.dumps(value, indent=indent) + "\n"
    return "jsonc" if comments else "json", draw(written(value, comments=comments))


@given(json_texts())
@example(("json", "{}"))
@example(("json", '{"hooks": {"Stop": []}}'))
@example(("jsonc", '{\n  "a": 1, // last\n}\n'))
def test_json_comes_back_to_the_byte(case: tuple[Format, str]) -> None:
    form, text = case
    there = document.added(form, text, entries())
    value = document.value_of(form, there)
    assert holds(value, entries(), OURS)
    assert minus(value, OURS, document.value_of(form, text)) == document.value_of(form, text)
    back = document.removed(form, there, OURS, text)
    assert document.value_of(form, back) == document.value_of(form, text)
    assert back == text or _only_null_or_empty(form, text)
    # Whatever stood there stands there still, in its order and its own bytes.
    assert _is_subsequence(text, there) or "null" in text


def _only_null_or_empty(form: Format, text: str) -> bool:
    """Only a container that was empty may look otherwise after it was filled and emptied: its bytes are in the copy."""
    root = jsontext.parse(text, comments=form == "jsonc")
    places = [root, root.at(("hooks",)), *(root.at(("hooks", e)) for e in EVENTS)]
    return any(p is not None and not p.items and text[p.start + 1 : p.end - 1].strip() for p in places)


def _is_subsequence(text: str, whole: str) -> bool:
    rest = iter(whole)
    return all(c in rest for c in text)


@given(json_texts(), st.sampled_from(["front", "back"]))
def test_what_others_wrote_since_stays(case: tuple[Format, str], where: str) -> None:
    form, text = case
    there = document.added(form, text, entries())

    def edited(before: str) -> str | None:
        root = jsontext.parse(before, comments=form == "jsonc")
        if not root.items:
            return None
        at = root.items[0].start if where == "front" else root.end - 1
        if where == "front":
            return before[:at] + '"theirs": [1,  2], ' + before[at:]
        return before[: root.items[-1].node.end] + ',"theirs": [1,  2]' + before[root.items[-1].node.end :]

    wanted, now = edited(text), edited(there)
    if wanted is None or now is None:
        return
    back = document.removed(form, now, OURS, text)
    assert document.value_of(form, back) == document.value_of(form, wanted)
    if where == "front":
        assert back == wanted or _only_null_or_empty(form, text)
    assert not list(ours_in(document.value_of(form, back), OURS))


@given(json_texts())
def test_twice_is_once(case: tuple[Format, str]) -> None:
    form, text = case
    once = document.added(form, text, entries("/old/ckpt"))
    base = document.removed(form, once, OURS, text)
    again = document.added(form, base, entries())
    assert holds(document.value_of(form, again), entries(), OURS)
    assert document.value_of(form, again) == plus(document.value_of(form, text), entries())


@pytest.mark.parametrize(
    ("form", "text", "why"),
    [
        ("json", "{", "not valid JSON: line 1"),
        ("json", '{\n "a": 1,\n}', "line 2: a comma behind the last value"),
        ("json", "{} // x", "a comment"),
        ("json", '{"a" 1}', "a colon"),
        ("json", "{a: 1}", "a key in double quotes"),
        ("json", '{"a": 01}', "unexpected"),
        ("json", "{} {}", "behind its end"),
        ("json", '["x"]', "something else than an object at its top"),
        ("jsonc", '{"hooks": 1}', "something else than an object at hooks"),
        ("jsonc", '{"hooks": {"Stop": {}}}', "something else than a list at hooks.Stop"),
        ("jsonc", '{"hooks": {}, "hooks": {}}', "twice"),
        ("jsonc", "[" * 500 + "]" * 500, "nested too deeply"),
        ("toml", "a = ", "not valid TOML"),
        ("toml", "hooks = 1\n", "something else than an object at hooks"),
        ("toml", "hooks = {}\n", "cannot be changed safely"),
        ("yaml", "a: [", "not valid YAML"),
        ("yaml", "- a\n", "something else than an object at its top"),
        ("yaml", "{a: 1}\n", "flow style"),
        ("yaml", "hooks: {Stop: [{command: x}]}\n", "flow style"),
        ("yaml", "hooks: on\n", "something else than an object at hooks"),
    ],
)
def test_what_is_refused(form: Format, text: str, why: str) -> None:
    with pytest.raises(Unfit) as caught:
        document.added(form, text, flat())
    assert why in str(caught.value)


def test_not_text() -> None:
    with pytest.raises(Unfit, match="UTF-8"):
        document.text_of(b"\xff{}")


lines = st.lists(
    st.sampled_from(
        ["# c", "a: 1", "b:\n  - x\n  - y  # z", "c: |\n  text\n  more", 'd: "q: {}"', "", "e:\n    f: {g: []}"]
    ),
    unique=True,
    max_size=4,
)
yaml_hooks = st.sampled_from(
    [
        "",
        "hooks:",
        "hooks: {}",
        "hooks: {}   # none yet",
        "hooks:\n  Stop: []",
        "hooks:\n  Stop:\n  - command: theirs\n    timeout: 3",
        "hooks:\n    Other:\n        - command: theirs  # mine\n\n    # end of hooks",
        "hooks:\n  Tool:\n    - {command: theirs}\n  Stop:",
    ]
)


@settings(max_examples=40)
@given(lines, yaml_hooks, lines, st.sampled_from(["", "\n", "\n\n"]), st.sampled_from(["\n", "\r\n"]))
def test_yaml_comes_back_to_the_byte(above: list[str], middle: str, below: list[str], end: str, newline: str) -> None:
    below = [line for line in below if line not in above or line in ("", "# c")]
    text = ("\n".join([*above, *([middle] if middle else []), *below]) + end).replace("\n", newline)
    if (
        text.endswith("more") and not middle
    ):  # the last line of a text that has no line end: behind it, it would have one
        with pytest.raises(Unfit, match="safely"):
            document.added("yaml", text, flat())
        return
    there = document.added("yaml", text, flat())
    value = document.value_of("yaml", there)
    assert holds(value, flat(), OURS)
    assert document.removed("yaml", there, OURS, text) == text
    # Without the copy, only what was empty before us goes with us.
    try:
        after = document.removed("yaml", there, OURS, None)
    except Unfit:
        assert "#" in middle, "a comment within is the only reason"
        return
    assert document.value_of("yaml", after) == minus(value, OURS)
    assert all(word in after for word in ("# mine", "# end of hooks", "# none yet") if word in there)
    edited = there + ("" if there.endswith("\n") or not there else newline) + f"late: 1{newline}"
    assert document.value_of("yaml", document.removed("yaml", edited, OURS, text))["late"] == 1


@given(
    st.lists(
        st.sampled_from(["# c", "a = 1", '[x]\ny = """\nlong\n"""', "[[hooks.Stop]]\nm = 1", "[hooks.state.z]\nt = 1"]),
        unique=True,
        max_size=4,
    ),
    st.sampled_from(["", "\n", "\n\n"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_toml_comes_back_to_the_byte(parts: list[str], end: str, newline: str) -> None:
    parts.sort(key=lambda p: p.startswith("["))
    text = ("\n".join(parts) + end).replace("\n", newline)
    there = document.added("toml", text, entries())
    assert holds(document.value_of("toml", there), entries(), OURS)
    assert document.removed("toml", there, OURS, None) == text
    later = there + ("" if there.endswith("\n") else newline) + f"[late]{newline}b = 2{newline}"
    assert document.value_of("toml", document.removed("toml", later, OURS, None))["late"] == {"b": 2}


def test_toml_that_its_program_rewrote_since() -> None:
    text = 'a = 1\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = "mine"\n'
    there = document.added("toml", text, entries())
    noted = '\n[hooks.state."x:stop:1:0"]\ntrusted_hash = "y"\n'
    # Codex notes a person's trust as a table behind the last one, which is before the comment that ends ours.
    among = there.replace("# ckpt: end\n", noted + "# ckpt: end\n")
    assert among != there
    assert document.removed("toml", among, OURS, text) == text + noted
    bare = "".join(line for line in there.splitlines(keepends=True) if not line.startswith("# ckpt"))
    assert document.removed("toml", bare, OURS, text) == text


def test_toml_where_ours_and_theirs_cannot_be_told_apart_is_left_to_a_person() -> None:
    text = 'hooks = {Stop = [{hooks = [{command = "/opt/ckpt hook claude Stop"}]}]}\n'
    with pytest.raises(Unfit, match="by hand"):
        document.removed("toml", text, OURS, None)


@pytest.mark.parametrize(
    ("value", "mine", "path"),
    [
        ({"command": "/a/ckpt hook claude Stop"}, True, "/a/ckpt"),
        ({"command": "'/a b/ckpt' hook claude Stop"}, True, "/a b/ckpt"),
        ({"command": "/a b/ckpt", "args": ["hook", "claude", "Stop"]}, True, "/a b/ckpt"),
        ({"bash": "command -v ckpt >/dev/null || exit 0; exec ckpt hook claude Stop"}, True, "ckpt"),
        ({"command": "/bin/notify done; /a/ckpt hook claude Stop"}, False, ""),
        ({"command": "/a/ckpt hook claude Stop && say done"}, False, ""),
        ({"command": "/x;/ckpt hook claude Stop"}, False, ""),
        ({"command": "sh", "args": ["-c", "say done; ckpt hook claude Stop"]}, False, ""),
        ({"command": "/a/ckpt hook codex Stop"}, False, "/a/ckpt"),
        ({"command": "/a/ckpt hook claudette Stop"}, False, "/a/ckpt"),
        ({"command": "nockpt hook claude Stop"}, False, "nockpt"),
        ({"command": "echo hook claude"}, False, "echo"),
        ({"command": 7}, False, "7"),
        ({}, False, ""),
    ],
)
def test_which_hooks_are_ours(value: dict[str, Any], mine: bool, path: str) -> None:
    assert OURS(value) is mine
    if mine:
        assert path_in(value) == path


def test_a_group_that_holds_others_too_stays() -> None:
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"command": "/x/ckpt hook claude Stop"}, {"command": "mine"}]}]}})
    back = document.removed("json", text, OURS, None)
    assert json.loads(back) == {"hooks": {"Stop": [{"hooks": [{"command": "mine"}]}]}}
