"""Files that are not read: the project's git offers their blobs, and what it offers is found to be true."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from checkpointer.workspace.odb.objects import Sink
from checkpointer.workspace.reading.found import Tally
from checkpointer.workspace.reading.frame import Frame
from checkpointer.workspace.reading.reader import read_listed
from checkpointer.workspace.reading.table import Stat

if TYPE_CHECKING:
    from checkpointer.workspace.lending.loan import Loan

_LOW = 0xFFFFFFFF


class Borrower:
    """Decides file by file, for one process's walk."""

    def __init__(self, loan: Loan | None, sink: Sink) -> None:
        self._loan = loan
        self._sink = sink
        self._converted: dict[tuple[str, str], bool] = {}
        """Of each kind of file: is the first one anything else than the blob that is offered?"""

    def blob(self, frame: Frame, name: str, st: Stat, tally: Tally) -> bytes | None:
        """The blob of a file for which there is an offer, without a look into it; None: read it. Raises OSError.

        The first of each kind, by top directory and suffix, is read all the same. It shows then what git made of such
        files, should it have been told to make anything that no attribute says any more.
        """
        assert self._loan is not None
        inode, size, mtime, ctime, oid = self._loan.known(frame.lent[name])
        if st[2:] != (size, mtime, ctime) or st[1] & _LOW != inode or not stat.S_ISREG(st[0]):
            return None
        kind = frame.path.partition("/")[0], name.rpartition(".")[2]
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
