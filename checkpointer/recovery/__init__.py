"""What becomes of calls that were cut off: evidence, a verdict by rule, both as events; the queue of what is open.

`settle` judges; `policy` holds the rules, and no other part decides anything.
"""

from __future__ import annotations

from checkpointer.recovery.settle import Choice, Scene, Settled, handle, settle

__all__ = ["Choice", "Scene", "Settled", "handle", "settle"]
