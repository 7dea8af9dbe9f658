"""What it means when the store cannot be read: damage, or something that passes and must not be taken for it."""

from __future__ import annotations

import errno

from checkpointer.errors import Damaged, Failed, MissingObject

_PASSES = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM, errno.EINTR, errno.EAGAIN, errno.ESTALE)
)


def unreadable(e: OSError, what: str) -> Damaged:
    """The damage that an OSError stands for; a file that is not there is a `MissingObject`.

    Raises `Failed` where it says nothing about the store: no descriptors, no memory, no permission. A recovery from
    such would lead the timeline back to an older checkpoint for nothing.
    """
    message = f"{what} cannot be read: {e.strerror or e}"
    if e.errno in _PASSES:
        raise Failed(message, kept="nothing was written") from e
    if e.errno == errno.ENOENT:
        return MissingObject(message)
    return Damaged(message)
