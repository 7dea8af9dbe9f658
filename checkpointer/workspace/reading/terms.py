"""What holds for a whole scan, and is the same for all who take part in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from checkpointer.workspace.odb.objects import Objects
from checkpointer.workspace.reading.ours import Ours

if TYPE_CHECKING:
    from checkpointer.workspace.lending.loan import Loan


class Terms(NamedTuple):
    """What holds for a whole scan.

    `device` is the root's file system, `store` the device and inode of a directory that is never looked into.
    `started_ns` is the time of day at its start. An entry of the table counts only where its times are before
    `trusted_before_ns`. `ours_same`: the checkpoint before and the tracked paths are those of the table. `limit` is the
    size in bytes above which a file that was never covered is not. `usual` are the usual modes of files, executables,
    directories. `loan` has what need not be read: the project's own git holds it.
    """

    root: bytes
    device: int
    store: tuple[int, int] | None
    started_ns: int
    trusted_before_ns: int | None
    ours: Ours
    ours_same: bool
    objects: Objects | None
    limit: int
    usual: tuple[int, int, int]
    reopenable: bool
    loan: Loan | None = None
