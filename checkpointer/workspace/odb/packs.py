"""Everything stored in one repository, read raw: packs in our own code, few descriptors, no configuration obeyed.

Packs that we wrote hold no deltas; those a user's `git gc` made, and loose objects, are read too. Nothing is mapped
into memory: a file that is cut short under us must be an error, not a signal.
"""

from __future__ import annotations

import errno
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from checkpointer.errors import Damaged, MissingObject
from checkpointer.workspace.odb import loose
from checkpointer.workspace.odb.objects import CHUNK, ObjectType, new_hash, oid_of
from checkpointer.workspace.odb.packfile import ID_DELTA, OFFSET_DELTA, TYPES, PackFile, chunks_of
from checkpointer.workspace.odb.packindex import PackIndex
from checkpointer.workspace.odb.reindex import indexed_again
from checkpointer.workspace.unreadable import unreadable

T = TypeVar("T")

_OPEN = 16
_SMALL = 4096
_GLANCE = 64 << 10


class PackedObjects:
    """Reading from the `objects` directory of a repository (see `Objects`).

    What was written by others after the last look is found by `get`, `size` and `stream`: an object counts as missing
    only after the directory was read again. `in` does not look again, and so can answer no too often.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = os.fspath(directory)
        self.pack_directory = os.path.join(self.directory, "pack")
        self.damaged: dict[str, str] = {}
        """Packs whose idx file cannot be used -> why."""
        self._packs: dict[str, PackIndex] = {}
        self._large: list[PackIndex] = []
        self._small: dict[bytes, tuple[PackIndex, int]] = {}
        self._fans: frozenset[str] = frozenset()
        self._open: OrderedDict[str, PackFile] = OrderedDict()
        self._listed: tuple[int, ...] | None = None
        self._unindexed: set[str] = set()
        self._checked: set[str] = set()
        self.distrusted: set[str] = set()
        """Packs that were found damaged: read from in need, never relied upon."""
        self._unsound: set[bytes] = set()

    # What is there

    def refresh(self) -> None:
        """Look again at which packs and loose objects there are. Raises `Damaged` where the store cannot be read."""
        try:
            stamp = os.stat(self.pack_directory).st_mtime_ns
            names = os.listdir(self.pack_directory)
            fans = frozenset(n for n in os.listdir(self.directory) if len(n) == 2)
        except FileNotFoundError as e:
            raise Damaged(f"the store is damaged: {e.filename} is missing") from e
        except OSError as e:
            raise unreadable(e, "the store") from e
        indexed = {name[:-4] for name in names if _is_pack(name, ".idx")}
        packed = {name[:-5] for name in names if _is_pack(name, ".pack")}
        self._fans = fans
        self._unindexed = packed - indexed
        gone = self._packs.keys() - indexed
        if gone:
            self._forget(gone)
        self.damaged = {}
        for name in sorted(indexed - self._packs.keys()):
            self._load(name)
        self._listed = (stamp,)

    def _load(self, name: str) -> None:
        try:
            with open(os.path.join(self.pack_directory, name + ".idx"), "rb") as f:
                self._learn(PackIndex(name, f.read()))
        except FileNotFoundError:
            pass  # removed since the listing, by a gc
        except OSError as e:
            self.damaged[name] = unreadable(e, f"{name}.idx").message
        except Damaged as e:
            self.damaged[name] = e.message

    def _learn(self, index: PackIndex) -> None:
        self._packs[index.name] = index
        if index.name in self.distrusted:
            return
        if index.count > _SMALL:
            self._large.append(index)
            return
        for oid, offset in index.places():
            self._small.setdefault(oid, (index, offset))

    def learn(self, name: str, index: bytes) -> None:
        """A pack was just written by this process: no need to read its idx file."""
        if self._listed is None:
            return
        if name in self._packs or name in self.distrusted:  # the same bytes again, in the place of damaged ones
            self.distrusted.discard(name)
            self._forget({name})
        self._checked.add(name)
        self._learn(PackIndex(name, index))

    def _forget(self, gone: set[str]) -> None:
        for name in gone:
            self.close_pack(name)
        rest = [index for name, index in self._packs.items() if name not in gone]
        self._packs, self._large, self._small = {}, [], {}
        for index in rest:
            self._learn(index)

    def _look(self) -> None:
        if self._listed is None:
            self.refresh()

    @property
    def packs(self) -> dict[str, PackIndex]:
        """Index of every readable pack, by name."""
        self._look()
        return self._packs

    @property
    def unindexed(self) -> set[str]:
        """Names of packs whose idx file is missing or damaged, as of the last look."""
        return self._unindexed | self.damaged.keys()

    def close(self) -> None:
        """Close every descriptor; they are opened again as needed."""
        for name in list(self._open):
            self.close_pack(name)

    def close_pack(self, name: str) -> None:
        pack = self._open.pop(name, None)
        if pack is not None:
            pack.close()

    def open_pack(self, name: str) -> PackFile:
        """A pack file, kept open among the newest few. Raises OSError."""
        pack = self._open.get(name)
        if pack is not None:
            self._open.move_to_end(name)
            return pack
        path = os.path.join(self.pack_directory, name + ".pack")
        try:
            pack = PackFile(path)
        except OSError as e:
            if e.errno not in (errno.EMFILE, errno.ENFILE) or not self._open:
                raise
            self.close()
            pack = PackFile(path)
        self._open[name] = pack
        if len(self._open) > _OPEN:
            self.close_pack(next(iter(self._open)))
        return pack

    def _places(self, oid: bytes) -> Iterator[tuple[PackIndex, int]]:
        first = self._small.get(oid)
        if first is not None:
            yield first
        for index in self._large:
            offset = index.find(oid)
            if offset is not None:
                yield index, offset
        if first is not None:  # the same object in other small packs, should the first be damaged
            for index in list(self._packs.values()):
                offset = index.find(oid) if index.count <= _SMALL and index is not first[0] else None
                if offset is not None:
                    yield index, offset
        for name in sorted(self.distrusted & self._packs.keys()):
            offset = self._packs[name].find(oid)
            if offset is not None:
                yield self._packs[name], offset

    def __contains__(self, oid: bytes) -> bool:
        self._look()
        if oid in self._small or any(index.find(oid) is not None for index in self._large):
            return True
        return bool(self._fans) and oid not in self._unsound and self._loose(oid) is not None

    def _loose(self, oid: bytes) -> str | None:
        if oid.hex()[:2] not in self._fans:
            return None
        path = self.loose_path(oid)
        return path if os.path.exists(path) else None

    def loose_path(self, oid: bytes) -> str:
        """Where the object's own file stands, if it has one."""
        text = oid.hex()
        return os.path.join(self.directory, text[:2], text[2:])

    @property
    def doubts(self) -> int:
        """How many packs and loose objects were found damaged so far; 0 while everything read was sound."""
        return len(self.distrusted) + len(self._unsound)

    def distrust_damaged_packs(self) -> None:
        """From now on, do not count as stored what stands in a pack that is not what its idx file says.

        A damaged pack would else be relied upon by every new checkpoint. Of larger packs only the last bytes are
        compared, which tells of one that was cut short or overwritten; `verify` reads them whole.
        """
        for name, index in list(self._packs.items()):
            if name not in self._checked:
                try:
                    pack = self.open_pack(name)
                    small = pack.length <= _GLANCE
                    digest = pack.check_digest() if small else os.pread(pack.fd, 20, pack.length - 20)
                    fine = digest == index.pack_digest
                except Damaged:
                    fine = False
                except OSError as e:
                    unreadable(e, f"{name}.pack")
                    fine = False
                self._checked.add(name)
                if not fine:
                    self.distrusted.add(name)
        if self.distrusted:
            self._forget(set())

    # Reading

    def _read(self, oid: bytes, packed: Callable[[PackFile, int], T], unpacked: Callable[[str], T]) -> T:
        """Try every place where the object stands, then look again at what is there, then at packs without an idx."""
        self._look()
        problem: Damaged | None = None
        for attempt in range(3):
            bad: set[str] = set()
            for index, offset in self._places(oid):
                try:
                    return packed(self.open_pack(index.name), offset)
                except Damaged as e:
                    problem = e
                except OSError as e:
                    problem = unreadable(e, f"{index.name}.pack")
                bad.add(index.name)
            path = self._loose(oid)
            if path is not None:
                try:
                    return unpacked(path)
                except Damaged as e:
                    problem = e
                except OSError as e:
                    problem = unreadable(e, path)
            if attempt == 0:
                self.refresh()
            elif not self._index_again():
                break
        self._unsound.add(oid)
        if problem is None:
            raise MissingObject(f"object {oid.hex()} is not in the store", object=oid.hex())
        self.distrusted |= bad
        self._forget(set())
        raise type(problem)(f"object {oid.hex()}: {problem.message}", object=oid.hex()) from problem

    def _index_again(self) -> bool:
        """Index in memory the packs whose idx file is missing or damaged. Is there anything new?"""
        new = False
        for name in sorted(self.unindexed):
            if name not in self._packs:
                try:
                    self._learn(PackIndex(name, indexed_again(os.path.join(self.pack_directory, name + ".pack"))))
                    new = True
                except (Damaged, OSError):
                    continue
        return new

    def get(self, oid: bytes) -> tuple[ObjectType, bytes]:
        def packed(pack: PackFile, offset: int) -> tuple[ObjectType, bytes]:
            header = pack.header(offset)
            if header.number in TYPES:
                kind, data = TYPES[header.number], pack.inflate(header)
            else:
                kind, data = pack.resolve(offset, self.get)
            return _verified(oid, kind, data)

        return self._read(oid, packed, lambda path: _verified(oid, *loose.read(path)))

    def stream(self, oid: bytes) -> Iterator[bytes]:
        def packed(pack: PackFile, offset: int) -> Iterator[bytes]:
            header = pack.header(offset)
            if header.number not in TYPES or header.size <= CHUNK:
                data = self.get(oid)[1]
                return (data[at : at + CHUNK] for at in range(0, len(data), CHUNK))
            return _verified_chunks(oid, header.size, chunks_of(pack.path, header))

        def unpacked(path: str) -> Iterator[bytes]:
            found = loose.LooseObject(path)
            return _verified_chunks(oid, found.size, found.chunks())

        yield from self._read(oid, packed, unpacked)

    def size(self, oid: bytes) -> int:
        """Content size in bytes, without reading the content."""

        def packed(pack: PackFile, offset: int) -> int:
            header = pack.header(offset)
            return pack.delta_size(header) if header.number in (OFFSET_DELTA, ID_DELTA) else header.size

        return self._read(oid, packed, lambda path: loose.head(path)[1])

    def kind(self, oid: bytes) -> ObjectType:
        """Type of an object, without reading its content where that is possible."""

        def packed(pack: PackFile, offset: int) -> ObjectType:
            header = pack.header(offset)
            return TYPES[header.number] if header.number in TYPES else pack.resolve(offset, self.get)[0]

        return self._read(oid, packed, lambda path: loose.head(path)[0])

    def everything(self, *, without: Collection[str] = ()) -> Iterator[bytes]:
        """The id of every object there is, some perhaps more than once; `without` names packs to pass over."""
        self.refresh()
        self._index_again()
        for name, index in list(self._packs.items()):
            if name not in without:
                yield from (index.oid(n) for n in range(index.count))
        yield from self.loose()

    def loose(self) -> Iterator[bytes]:
        """The ids of all loose objects, as of the last look."""
        for fan in sorted(self._fans):
            for rest in os.listdir(os.path.join(self.directory, fan)):
                if re.fullmatch(r"[0-9a-f]{38}", rest):
                    yield bytes.fromhex(fan + rest)


def _is_pack(name: str, suffix: str) -> bool:
    return name.startswith("pack-") and name.endswith(suffix) and len(name) == 45 + len(suffix)


def _verified(oid: bytes, kind: ObjectType, data: bytes) -> tuple[ObjectType, bytes]:
    if oid_of(kind, data) != oid:
        raise Damaged("its content is not what its id says")
    return kind, data


def _verified_chunks(oid: bytes, size: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    h = new_hash("blob", size)
    for chunk in chunks:
        if chunk:
            h.update(chunk)
            yield chunk
    if h.digest() != oid:
        raise Damaged(f"object {oid.hex()}: its content is not what its id says", object=oid.hex())
