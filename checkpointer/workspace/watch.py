"""Watching a workspace: hints about when files changed, never about what changed.

The operating system may drop, merge, reorder or never send an event, so nothing rests on them: a hint only says that
now is a good moment for a capture, and every capture looks at the files themselves.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver

_LOG = "watchdog"


class _Complaints(logging.Handler):
    """What the watching library logs instead of raising: overflows and watches that could not be set."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(logging.WARNING)
        self.watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        self.watch.lost = self.watch.lost or record.getMessage().split(";")[0]
        self.watch.touched()


class Watch:
    """A started watch on a workspace's directory; a context manager.

    `lost` is None while hints arrive, else why some may be missing (a limit, an overflow, a root that was replaced).
    """

    def __init__(self, root: bytes, store: Path) -> None:
        self.root = root
        self.store = os.fsencode(store)
        self.lost: str | None = None
        self._observer: BaseObserver | None = None
        self._complaints = _Complaints(self)
        self._changed = threading.Condition()
        self._last: float | None = None

    def touched(self) -> None:
        """Note that something changed now."""
        with self._changed:
            self._last = time.monotonic()
            self._changed.notify_all()

    def _on_event(self, event: Any) -> None:
        path = os.fsencode(event.src_path)
        if path == self.root and event.event_type in ("deleted", "moved"):
            self.lost = self.lost or "the directory itself was replaced"
        inside = path[len(self.root) :].split(b"/")
        if b".git" in inside or path.startswith(self.store):
            return
        self.touched()

    def __enter__(self) -> Watch:
        logging.getLogger(_LOG).addHandler(self._complaints)
        try:
            self._start()
        except Exception as e:  # no hints: the captures at both ends still see everything
            self.lost = f"{e}"
        return self

    def _start(self) -> None:
        from watchdog.events import (
            DirCreatedEvent,
            DirDeletedEvent,
            DirMovedEvent,
            FileClosedEvent,
            FileCreatedEvent,
            FileDeletedEvent,
            FileModifiedEvent,
            FileMovedEvent,
            FileSystemEventHandler,
        )
        from watchdog.observers import Observer

        handler = FileSystemEventHandler()
        handler.on_any_event = self._on_event  # type: ignore[method-assign]
        # The default also subscribes to opens: any walk of the tree, our own included, would overflow the queue.
        wanted: list[Any] = [DirCreatedEvent, DirDeletedEvent, DirMovedEvent, FileClosedEvent, FileCreatedEvent]
        wanted += [FileDeletedEvent, FileModifiedEvent, FileMovedEvent]
        observer = Observer()
        observer.start()
        self._observer = observer
        observer.schedule(handler, os.fsdecode(self.root), recursive=True, event_filter=wanted)
        self.check_limit()

    def check_limit(self) -> None:
        """Set `lost` where the limit of watches is reached.

        Watches below the root fail in silence, so try one more on the store: what refuses that one refused others.
        """
        if self._observer is None or self.lost is not None:
            return
        from watchdog.events import FileDeletedEvent, FileSystemEventHandler

        try:
            extra = self._observer.schedule(
                FileSystemEventHandler(), os.fsdecode(self.store), recursive=False, event_filter=[FileDeletedEvent]
            )
            self._observer.unschedule(extra)
        except OSError as e:
            self.lost = f"{e.strerror or e}"

    def burst(self, stop: threading.Event, *, quiet: float, longest: float) -> bool:
        """Wait until files changed and then stayed quiet for `quiet` seconds, or changed on for `longest` seconds.

        Returns False when `stop` is set before that.
        """
        started: float | None = None
        with self._changed:
            while not stop.is_set():
                now = time.monotonic()
                if self._last is not None:
                    started = started if started is not None else self._last
                    if now - self._last >= quiet or now - started >= longest:
                        self._last = None
                        return True
                    self._changed.wait(min(quiet - (now - self._last), 0.25))
                else:
                    self._changed.wait(0.25)
        return False

    def __exit__(self, *_: object) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(5)
            self._observer = None
        logging.getLogger(_LOG).removeHandler(self._complaints)
