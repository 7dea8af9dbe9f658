"""The page of a history: foreign text is only ever text, nothing is fetched, and a real browser shows all of it."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from harness.world import World
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.viewer.page import File, Item, Page, Step, write

AT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</pre></details><iframe src=//evil.example>",
    "&lt;b&gt; &amp; <!-- --> ]]>",
    "javascript:alert(1)",
    "right\u202eto left \u2066\x00\x1b[31m\ud800",
]
ALLOWED = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "header",
    "h1",
    "p",
    "dl",
    "div",
    "dt",
    "dd",
    "nav",
    "ol",
    "li",
    "a",
    "b",
    "span",
    "main",
    "h2",
    "h3",
    "article",
    "time",
    "code",
    "details",
    "summary",
    "pre",
    "blockquote",
    "footer",
}
ATTRIBUTES = {"lang", "charset", "name", "content", "http-equiv", "class", "href", "id", "aria-hidden", "aria-label"}


class Seen(HTMLParser):
    """Every element and attribute of a page, and all its text."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page.decode("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(word: str) -> Page:
    """A page in which every foreign text is this one."""
    file = File(word, 1, 1, "changed", (f"@@ {word}", f"+{word}", f"-{word}", word), whole=False)
    step = Step(word, word, word, word, (file, File(word, 0, 0, "gone")))
    kinds = ("turn", "save", "restore", "edit", "event")
    items = [Item(kind, word, AT, word, word, word, word, (step,), word, "bad") for kind in kinds]
    return Page(word, word, AT, ((word, word),), items)


def harmless(page: bytes) -> Seen:
    seen = Seen(page)
    assert set(seen.tags) <= ALLOWED
    assert {name for name, _ in seen.attributes} <= ATTRIBUTES
    for name, value in seen.attributes:
        if name == "href":
            assert value is not None
            assert value.startswith("#")
    return seen


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_text_is_text(word: str) -> None:
    page = write(page_of(word))
    seen = harmless(page)
    shown = "".join(c if c.isprintable() and c not in "\u202e\u2066" else f"\\u{ord(c):04x}" for c in word)
    assert shown in seen.text
    for c in "\u202e\u2066\x00\x1b":
        assert c.encode("utf-8") not in page


@given(st.text(max_size=30))
def test_any_text_is_text(word: str) -> None:
    assert harmless(write(page_of(f"w{word}"))).tags == Seen(write(page_of("x"))).tags


def test_nothing_is_fetched_and_nothing_runs() -> None:
    page = write(page_of("x"))
    assert b"default-src 'none'" in page
    for word in (b"http:", b"https:", b"<script", b"url(", b"@import", b"src=", b"<link"):
        assert word not in page


@pytest.fixture
def told(world: World) -> World:
    world.write("cart.py", "price\n")
    world.ckpt("save", "-m", "before")
    world.ckpt("run", "--agent", "claude", "--", "sh", "-c", "echo '<i>cents</i>' > cart.py; echo new > '<b>.py'")
    world.ckpt("run", "--agent", "codex", "--", "sh", "-c", "rm cart.py")
    world.ckpt("undo")
    return world


def test_a_history(told: World, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    done = told.ckpt("log", "--html", str(target))
    assert done.out.startswith(f"wrote {target}: 3 entries, ")
    seen = harmless(target.read_bytes())
    for word in ("before", "t1", "t2", "claude r1", "undone", "<b>.py", "+<i>cents</i>", "-price", "deleted"):
        assert word in seen.text, word
    assert seen.tags.count("article") == 3
    assert target.stat().st_mode & 0o777 == 0o600
    narrowed = told.ckpt("log", "--json", "--run", "r1", "--html", str(target)).json
    assert (narrowed["items"], narrowed["bytes"]) == (1, target.stat().st_size)


def test_where_it_cannot_be_written(told: World, tmp_path: Path) -> None:
    assert "give the name of a file" in told.ckpt("log", "--html", str(tmp_path), ok=2).err
    assert "give the name of a file" in told.ckpt("log", "--html", str(tmp_path / "no" / "x"), ok=2).err


def test_only_a_page_is_replaced(told: World, tmp_path: Path) -> None:
    target = tmp_path / "ign"
    target.write_text("the only copy")
    refused = told.ckpt("log", "--html", str(target), ok=2).err
    assert f"{target}: that is there already" in refused
    assert f"ckpt log --html {target}.html" in refused
    assert target.read_text() == "the only copy"
    page, link = tmp_path / "page.html", tmp_path / "link"
    link.symlink_to(page)
    assert "that is there already" in told.ckpt("log", "--html", str(link), ok=2).err
    assert link.is_symlink()
    told.ckpt("log", "--html", str(page))
    page.write_bytes(page.read_bytes()[:-1])
    told.ckpt("log", "--html", str(page))
    assert page.read_bytes().endswith(b"</html>\n")


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium here")
def test_a_browser_shows_it(told: World, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    told.ckpt("log", "--html", str(target))
    quiet = ("quiet", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-sync")
    flags = [f"--{flag}" for flag in (*quiet, "disable-component-update", "no-sandbox", "headless", "dump-dom")]
    done = subprocess.run(
        ["chromium", *flags, f"--user-data-dir={tmp_path / 'profile'}", target.as_uri()],
        capture_output=True,
        timeout=120,
    )
    shown = harmless(done.stdout)
    assert shown.tags.count("article") == 3
    assert "+<i>cents</i>" in shown.text
