"""The ignore rules are git's: the same line of the same file decides about every path."""

from __future__ import annotations

import os

from hypothesis import given, settings
from ignoretree import Tree, check_ignore, grow, make_git, place, trees, write_rules

from checkpointer.workspace.ignore import Rules


def _ours(rules: Rules, root: bytes, paths: list[bytes]) -> dict[bytes, tuple[bytes, int, bytes] | None]:
    found: dict[bytes, tuple[bytes, int, bytes] | None] = {}
    for path in paths:
        origin = rules.explain(path, os.path.isdir(os.path.join(root, path)))
        found[path] = None if origin is None else (origin.source, origin.line, origin.pattern)
    return found


@given(trees())
@settings(max_examples=150)
def test_the_same_line_decides_as_for_git(tree: Tree) -> None:
    with place() as (base, environment):
        root = base + b"/w"
        make_git(root + b"/.git")
        grow(root, tree.files)
        write_rules(root, tree.rules)
        paths = grow(root, [])
        assert _ours(Rules(root, environment=environment), root, paths) == check_ignore(root, environment, paths)
