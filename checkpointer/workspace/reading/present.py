"""The files as a capture just read them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from checkpointer.workspace.entry import Signature
from checkpointer.workspace.reading.found import Unread
from checkpointer.workspace.reading.table import Record, Stat, unpack_seen
from checkpointer.workspace.rules.ignore import Rules
from checkpointer.workspace.trees.treeview import Tree


class Present:
    """What a capture found. `tree` holds it as a checkpoint would; its trees can be read at once, the content of new
    files only after the sink is finished (a `MemorySink` is always).

    `files` counts what is covered (files, links, fifos), `bytes_read` what had to be read for it. `notices` are for the
    person, one line each.
    """

    def __init__(
        self,
        tree: Tree,
        records: Mapping[str, Record],
        unread: Mapping[str, Unread],
        rules: Rules,
        files: int,
        bytes_read: int,
        notices: list[str] | None = None,
    ) -> None:
        self.tree = tree
        self.records = records
        self.unread = unread
        self.rules = rules
        self.files = files
        self.bytes_read = bytes_read
        self.notices = notices if notices is not None else []
        self._seen: dict[str, dict[str, Stat]] = {}

    @property
    def root(self) -> bytes:
        """Id of the tree that a commit would have."""
        return self.tree.root

    @property
    def uncovered(self) -> Mapping[bytes, str]:
        return self.tree.extras.uncovered

    @property
    def torn(self) -> frozenset[bytes]:
        return self.tree.extras.torn

    def signature(self, path: bytes) -> Signature | None:
        """What `lstat` said at the capture of anything that is ours or was seen; None for what was not seen."""
        where = os.fsdecode(path)
        record = self.records.get(where)
        if record is not None:
            return Signature(*self._in(where, Record(*record))[""])
        if where in self.unread:
            return Signature(*self.unread[where].stat)
        directory, _, name = where.rpartition("/")
        record = self.records.get(directory)
        if record is None or not name:
            return None
        found = self._in(directory, Record(*record)).get(name)
        return None if found is None else Signature(*found)

    def _in(self, directory: str, record: Record) -> dict[str, Stat]:
        found = self._seen.get(directory)
        if found is None:
            own, *rest = unpack_seen(record.seen)
            found = {e[0]: e[1] for e in rest if type(e) is tuple}
            found[""] = own
            self._seen[directory] = found
        return found

    def ignored(self, path: bytes, is_dir: bool = False) -> bool:
        """Do the rules, as they were at the capture, ignore this path? Whether it is covered all the same or not."""
        return self.rules.ignored(path, is_dir)
