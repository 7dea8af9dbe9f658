"""The code in the pages of docs/ runs as it is printed, in order, in a workspace of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness.world import World

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("tools.md", "library.md", "frameworks.md")


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(world: World, page: str) -> None:
    if page == "frameworks.md":
        for name in ("langgraph.graph", "pydantic_ai"):
            pytest.importorskip(name, reason=f"the package {name} is not installed")
    code = blocks(page)
    assert code
    program = world.base / "page.py"
    program.write_text("\n".join(code))
    for _ in range(2 if page == "tools.md" else 1):
        world.sh(f"python {program}", env={"PYTHONPATH": str(DOCS.parent), "PATH": _python_first(world)})
    if page == "library.md":
        assert world.read("q3.txt") == b"all paid"
        world.ckpt("undo")
        assert not world.has("q3.txt")


def test_a_loop_is_started_again_and_changes_nothing(world: World) -> None:
    program = world.base / "page.py"
    program.write_text(blocks("library.md")[0])
    for _ in range(2):
        world.sh(f"python {program}", env={"PYTHONPATH": str(DOCS.parent), "PATH": _python_first(world)})
    assert world.ckpt("log").out.count("bill the third quarter") == 1


def _python_first(world: World) -> str:
    import sys

    return f"{Path(sys.executable).parent}:{world.env['PATH']}"
