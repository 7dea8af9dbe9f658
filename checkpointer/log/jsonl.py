"""A log as a file of lines on a local file system.

    <run>/events.jsonl    the lines, only ever appended to (a purge of contents writes the file anew)
          lock            held for each write; never renamed or removed
          lease.json      a hint: until when the owner means to renew
          objects/        large contents, by their sha256
          inbox/ late/    lines left by others than the owner, by event id
          torn/           bytes of writes that were cut off
          fenced          a byte for each append that was refused because the run was another's

What an append promises: when it returns, its lines were synced to stable storage (see `disk.sync`); a crash at any
moment leaves either all of them or none that a reader takes for whole.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from checkpointer import disk, machine
from checkpointer.errors import Behind, CheckpointerError, Failed, Fenced, Finished, LogDamaged, NoStore, OutcomeUnknown
from checkpointer.lease import Lease
from checkpointer.lease import decode as decode_lease
from checkpointer.line import BadLine, Raw, raw
from checkpointer.lock import Gate
from checkpointer.log import glance
from checkpointer.log.beside import Beside
from checkpointer.log.follow import follow
from checkpointer.log.lines import CHUNK, Starts, ends_at, lines
from checkpointer.log.place import START, Cut, Position
from checkpointer.log.scan import Scan, lost
from checkpointer.record import Encoded, Record, decode

NETWORK = frozenset(
    (
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "afpfs", "webdav", "davfs", "ceph", "glusterfs", "lustre", "afs",
        "beegfs", "gpfs", "ocfs2", "gfs2", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.goofys", "fuse.rclone",
        "fuse.glusterfs", "fuse.ceph-fuse",
    )
)  # fmt: skip


class JsonlLog(Beside):
    """The log of one run in `directory`, which need not exist before the first append."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        super().__init__(self.directory)
        self.path = os.path.join(self.directory, "events.jsonl")
        self._gate = Gate(os.path.join(self.directory, "lock"))
        self._mutex = threading.Lock()
        self._starts = Starts()
        self._fd: int | None = None

    @property
    def run(self) -> str:
        return os.path.basename(self.directory)

    # Reading

    def read(self, after: Position = START) -> Scan[Record]:
        return self._scan(after)

    def head(self, after: Position = START) -> Position:
        scan = self._scan(after)
        for _ in scan:
            pass
        return scan.position

    def find(self, seq: int, sum: str, offset: int) -> Position | None:
        place = Position(seq, sum, offset)
        with self.open() as file:
            return place if ends_at(file, place) else None

    def at(self, seqs: Sequence[int]) -> list[Record]:
        with self.open() as file:
            found = self._starts.read(file, seqs)
        try:
            return [decode(line, None, seq) for seq, line in zip(seqs, found, strict=True)]
        except BadLine as e:
            raise KeyError(*seqs) from e

    def follow(self, after: Position = START, *, wait: Callable[[], bool]) -> Iterator[Record | Cut]:
        return follow(self, after, wait)

    def resolve(self, event_id: str) -> int | None:
        wanted = f'"id":"{event_id}"'.encode()
        with self.open() as file:
            for number, line in enumerate(file, 1):
                if wanted in line[:400]:
                    head = self._whole(line, number)
                    if head is not None and head.event.id == event_id:
                        return head.seq
        return None

    @staticmethod
    def _whole(line: bytes, seq: int) -> Record | None:
        try:
            return decode(line.removesuffix(b"\n"), None, seq)
        except BadLine:
            return None

    def lease(self) -> Lease | None:
        try:
            with open(os.path.join(self.directory, "lease.json"), "rb") as f:
                return decode_lease(f.read(4096))
        except OSError:
            return None

    def open(self) -> BinaryIO:
        """The file, to read. Raises `NoStore`, `Failed`, `LogDamaged` where only the file is gone."""
        try:
            return open(self.path, "rb", buffering=CHUNK)
        except FileNotFoundError as e:
            if glance.was_begun(self.directory):
                raise lost("its file is gone") from e
            raise NoStore(f"run {self.run} has no log") from e
        except OSError as e:
            raise Failed(f"the log of run {self.run} cannot be read: {e.strerror}") from e

    def _scan(self, after: Position) -> Scan[Record]:
        begun = not after.seq and glance.was_begun(self.directory)  # before the look: it may be begun just now
        file = self.open()
        try:
            found = self._locate(file, after)
            file.seek(found.offset)
        except BaseException:
            file.close()
            raise
        return Scan(lines(file), found, decode, begun=begun)

    def _locate(self, file: BinaryIO, place: Position) -> Position:
        """The same place, found again where the file was written anew. Raises `LogDamaged` if it is not there."""
        if ends_at(file, place):
            return place
        file.seek(0)
        offset = 0
        for number, line in enumerate(file, 1):
            offset += len(line)
            if number == place.seq and ends_at(file, place._replace(offset=offset)):
                return place._replace(offset=offset)
            if number >= place.seq:
                break
        raise LogDamaged(f"event {place.seq} of run {self.run} is gone or is not what it was", seq=place.seq)

    # Writing

    @contextlib.contextmanager
    def _held(self, *, make: bool = False) -> Iterator[int]:
        """The lock, and the log open for appending. Raises `NoStore` where there is none, unless told to `make` it."""
        with self._mutex, disk.plain_errors(f"the log of run {self.run}"):
            if not os.path.isdir(self.directory):
                if not make:
                    raise NoStore(f"run {self.run} was deleted")
                _make(self.directory)
            with self._gate.held():
                yield self._descriptor(make)

    def _descriptor(self, make: bool) -> int:
        if self._fd is not None:
            try:
                now, then = os.stat(self.path), os.fstat(self._fd)
                if (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino):
                    return self._fd
            except FileNotFoundError:
                pass
            os.close(self._fd)
            self._fd = None
        kind = machine.file_system(self.directory)
        if kind in NETWORK:
            raise Failed(
                f"{self.directory} is on {kind}: a log must be on a local file system",
                kept="nothing was written",
                file_system=kind,
            )
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._fd = os.open(self.path, flags)
        except FileNotFoundError:
            if not make:
                raise NoStore(f"run {self.run} has no log any more") from None
            os.close(disk.create(self.path))
            disk.sync_directory(self.directory)
            self._fd = os.open(self.path, flags)
        return self._fd

    def append(
        self,
        expected: Position,
        epoch: int,
        lines: Sequence[Encoded],
        *,
        durable: bool = True,
        lease: Lease | None = None,
    ) -> Position:
        with self._held(make=expected.seq == 0) as fd:
            end = self._clear(fd, expected, epoch)
            data = b"".join(one.line for one in lines)
            try:
                disk.append(fd, data, path=self.path, durable=durable)
            except OSError:
                self._cut_back(fd, end.offset)
                raise
            if lease is not None:
                self._write_lease(lease)
        if not lines:
            return end
        return Position(end.seq + len(lines), lines[-1].sum, end.offset + len(data))

    def _clear(self, fd: int, expected: Position, epoch: int) -> Position:
        """The end of the log, if that is `expected`; a torn tail after it is set aside and cut."""
        if os.fstat(fd).st_size == expected.offset:
            return expected
        scan = self._scan(expected)
        found = [record.event for record in scan]
        if found:
            newer = max(event.epoch for event in found)
            if newer > epoch:
                raise Fenced(f"run {self.run} has another owner now (epoch {newer})", epoch=newer)
            if any(event.type == "run_finished" for event in found):
                raise Finished(f"run {self.run} is finished")
            raise Behind(f"the log of run {self.run} is at event {found[-1].seq}, not {expected.seq}")
        end = scan.position
        size = os.fstat(fd).st_size
        if size > end.offset:
            self.set_aside(end.seq, os.pread(fd, size - end.offset, end.offset))
            disk.truncate(fd, end.offset, self.path)
        return end

    def _cut_back(self, fd: int, offset: int) -> None:
        """After a failed write: nothing of it may be taken for a record. Raises `OutcomeUnknown` if it might be."""
        try:
            disk.truncate(fd, offset, self.path)
        except OSError as e:
            raise OutcomeUnknown(
                f"the log of run {self.run} could not be written, nor cut back: {e.strerror}",
                next=("ckpt verify",),
            ) from e
        with contextlib.suppress(OSError):
            disk.sync(fd, self.path)

    def renew(self, expected: Position, epoch: int, lease: Lease) -> None:
        with self._held() as fd:
            if os.fstat(fd).st_size != expected.offset:
                newer = max((r.event.epoch for r in self._scan(expected)), default=0)
                if newer > epoch:
                    raise Fenced(f"run {self.run} has another owner now (epoch {newer})", epoch=newer)
            self._write_lease(lease)

    def _write_lease(self, lease: Lease) -> None:
        with contextlib.suppress(OSError):  # only a hint: the claim stands in the log
            disk.replace(os.path.join(self.directory, "lease.json"), lease.encode(), durable=False)

    def raw(self, after: Position = START) -> Scan[Raw]:
        """The records after a place, verified but not understood. Raises `LogDamaged`."""
        file = self.open()
        file.seek(after.offset)
        return Scan(lines(file), after, raw)

    def swap(self, data: bytes, expected: Position, keep: str | None = None) -> None:
        """Put other lines in the file's place, in one step, if the log still ends there. Raises `Behind`.

        The old file is kept under the name `keep`, or goes; a torn tail is set aside.
        """
        with self._held() as fd:
            size = os.fstat(fd).st_size
            if size < expected.offset or any(True for _ in self.raw(expected)):
                raise Behind(f"the log of run {self.run} has changed meanwhile", kept="nothing was written")
            if size > expected.offset:
                self.set_aside(expected.seq, os.pread(fd, size - expected.offset, expected.offset))
            if keep is not None:
                disk.link(self.path, os.path.join(self.directory, keep))
            disk.replace(self.path, data)

    def close(self) -> None:
        """Let the files go; a later append opens them again."""
        with self._mutex:
            self._gate.close()
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None


class JsonlRuns:
    """The runs below one directory."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)

    def runs(self) -> list[str]:
        return glance.runs(self.directory)

    def log(self, run: str) -> JsonlLog:
        if os.path.basename(run) != run or run in ("", ".", ".."):
            raise ValueError(f"not a run: {run!r}")
        return JsonlLog(os.path.join(self.directory, run))

    def set_aside(self, run: str) -> str:
        """Give a run another name, as it is, so that its own is free. Gives the new name. Raises `Busy` where somebody
        writes to it.
        """
        log = self.log(run)
        with disk.plain_errors(f"run {run}"):
            gate = Gate(os.path.join(log.directory, "lock"))
            with gate.held(wait=1.0):
                names = (f"{run}.damaged{nth}" for nth in ("", *range(2, 1000)))
                name = next(n for n in names if not os.path.lexists(os.path.join(self.directory, n)))
                disk.rename(log.directory, os.path.join(self.directory, name))
            gate.close()
            disk.sync_directory(self.directory)
        return name

    def delete(self, run: str) -> None:
        log = self.log(run)
        if not os.path.isdir(log.directory):
            return
        with disk.plain_errors(f"run {run}"):
            gate = Gate(os.path.join(log.directory, "lock"))
            with gate.held(wait=1.0):
                gone = os.path.join(self.directory, f".{run}.deleted")
                disk.rename(log.directory, gone)
            gate.close()
            disk.remove_tree(gone)
            disk.sync_directory(self.directory)


def _make(directory: str) -> None:
    above = os.path.dirname(directory)
    if not os.path.isdir(above):
        _make(above)
    disk.make_directory(directory)
    with contextlib.suppress(CheckpointerError):
        disk.sync_directory(above)
