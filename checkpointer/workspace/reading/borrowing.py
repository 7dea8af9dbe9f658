"""Files that are not read: the project's git offers their blobs, and what it offers is found to be true."""

from __future__ import annotations

import stat

from checkpointer.workspace.odb.objects import Sink
from checkpointer.workspace.reading.found import Tally
from checkpointer.workspace.reading.frame import Frame
from checkpointer.workspace.reading.reader import read_listed
from checkpointer.workspace.reading.table import Stat

_LOW = 0xFFFFFFFF


class Borrower:
    """Decides file by file, for one process's walk."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._converted: dict[tuple[str, str], bool] = {}
        """Of each kind of file: is the first one anything else than the blob that is offered?"""

    def blob(self, frame: Frame, name: str, st: Stat, tally: Tally) -> bytes | None:
        """The blob of a file for which there is an offer, without a look into it; None: read it. Raises OSError.

        The first of each kind is read all the same. It shows then what git made of such files, should it have been told
        to make anything that no attribute says any more.
        """
        inode, seen, oid, kind = frame.lent[name]
        if st[2:] != seen or st[1] & _LOW != inode or not stat.S_ISREG(st[0]):
            return None
        converted = self._converted.get(kind)
        if converted is None:
            found = read_listed(name, frame.fd, st, self._sink)
            if found is not None:
                self._converted[kind] = found != oid
                tally.bytes += st[2]
            return found
        if converted:
            return None
        tally.lent.add(oid)
        return oid
