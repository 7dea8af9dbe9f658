"""What a restore that was cut short left among the workspace's files until the next command that writes removes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkpointer.workspace.restoring.staging import is_temporary, token_of
from checkpointer.workspace.trees.tree import Tree, edited

if TYPE_CHECKING:
    from checkpointer.workspace.checkpoint import Checkpoint
    from checkpointer.workspace.odb.objects import Sink
    from checkpointer.workspace.reading.present import Present


def but_for_temporaries(present: Present, pending: Checkpoint | None, sink: Sink) -> Present:
    """Take the temporary files of the pending restore, if there is one, out of what was found: nobody made them."""
    if pending is None:
        return present
    token = token_of(pending)
    found = [path for path, _ in present.tree.walk() if is_temporary(path, token)]
    if found:
        root = edited(present.tree, dict.fromkeys(found), sink)
        present.tree = Tree(present.tree.objects, root, present.tree.name)
    return present
