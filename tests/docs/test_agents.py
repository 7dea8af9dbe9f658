"""What docs/agents/ says of every agent is what the recipes do, and what the hooks understand."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from checkpointer.agents import dialects
from checkpointer.agents.dialects import Reply, Report
from checkpointer.agents.recipes.catalogue import RECIPES
from checkpointer.agents.recipes.recipe import Recipe

DOCS = Path(__file__).parents[2] / "docs"
HOOKED = [r for r in RECIPES.values() if r.hooks]


def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_agents", DOCS / "make_agents.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_say_what_the_recipes_do() -> None:
    maker = make()
    for path, block in maker.pages().items():
        page = path.read_text(encoding="utf-8")
        assert maker.written(page, block) == page, f"{path.name}: python docs/make_agents.py"


def test_every_agent_has_its_page() -> None:
    pages = {p.stem for p in (DOCS / "agents").glob("*.md")}
    assert pages == {*RECIPES, "README", "acp", "mcp"}
    for name in RECIPES:
        page = (DOCS / "agents" / f"{name}.md").read_text(encoding="utf-8")
        for heading in ("## What is protected", "## Undo", "## Limits"):
            assert heading in page, (name, heading)


def test_links_lead_somewhere() -> None:
    for page in (DOCS / "agents").glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page.name, target)


def test_every_recipe_speaks_a_dialect() -> None:
    assert {r.name for r in HOOKED} == set(dialects.NAMES)


@pytest.mark.parametrize("recipe", HOOKED, ids=lambda r: r.name)
def test_every_event_that_is_asked_for_is_understood(recipe: Recipe) -> None:
    payload = {"session_id": "s", "prompt": "x", "input": {"sessionID": "s"}, "properties": {"sessionID": "s"}}
    kinds = {h.event: dialects.read(recipe.name, h.event, payload, {}).kind for h in recipe.hooks}
    assert "unknown" not in kinds.values(), kinds
    assert "prompt" in kinds.values() or recipe.name in ("opencode", "hermes"), kinds
    assert {"tool-end", "batch-end"} & set(kinds.values()), kinds


@pytest.mark.parametrize("recipe", HOOKED, ids=lambda r: r.name)
def test_what_is_typed_is_answered_as_the_table_says(recipe: Recipe) -> None:
    event = next(
        h.event
        for h in recipe.hooks
        if "prompt" in h.event.lower() or "message" in h.event or "llm" in h.event or h.event == "BeforeAgent"
    )
    report = Report(recipe.name, event, "prompt", session="s", text="ckpt undo")
    said = dialects.spoken(recipe.name, report, Reply(block="undid t1"))
    if recipe.typed == "answered":
        assert "undid t1" in said
        assert any(word in said for word in ('"block"', '"deny"', '"cancel": true', '"continue": false'))
    if recipe.typed == "told":
        assert "undid t1" in said
        assert "block" not in said
