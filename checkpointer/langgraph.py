"""A checkpoint saver for LangGraph: the states of a graph are in ckpt's log, and the files with each of them.

    graph = builder.compile(checkpointer=Saver("."))

Stands on the extra `langgraph`. A state is durable when the graph goes on; what the graph's tools did to the files
between two states is a step, so `ckpt undo` takes it back, and `Saver.files_at(config)` names the checkpoint of the
files that belongs to a state.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from checkpointer import home
from checkpointer.threads.state import State, Typed, Version
from checkpointer.threads.thread import Thread, threads
from checkpointer.workspace.workspace import Workspace

T = TypeVar("T")
_EMPTY: Typed = ("empty", b"")


class Saver(BaseCheckpointSaver[str]):
    """Saves the threads of graphs that work in `directory`. May be shared by threads and by event loops.

    With `files=False` no checkpoints of the files are made. Raises what making a store raises (`RefusedRoot`,
    `ReadOnlyStore`, `NoSpace`), and in use what writing a log does. That the files are in no checkpoint is a
    `RuntimeWarning`, once; the graph goes on. `close` it, or leave its block, to let its runs go.
    """

    def __init__(
        self, directory: str | os.PathLike[str] = ".", *, files: bool = True, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde)
        start = os.fsencode(os.path.abspath(directory))
        place = home.locate(start)
        self.workspace: Workspace = home.open_place(place) if place is not None else home.make(start)
        self._files = files
        self._threads: dict[str, Thread] = {}
        self._mutex = threading.RLock()

    def __enter__(self) -> Saver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let every run go. The saver may go on being used."""
        with self._mutex:
            for thread in self._threads.values():
                thread.close()

    def files_at(self, config: RunnableConfig) -> int | None:
        """The number of the checkpoint that held the files when a state was saved: `ckpt restore NUMBER` brings them
        back. Without a `checkpoint_id` that of the newest state.
        """
        with self._mutex:
            found = self.get_tuple(config)
            if found is None:
                return None
            where = found.config["configurable"]
            return self._thread(where["thread_id"]).files_at((where["checkpoint_ns"], where["checkpoint_id"]))

    # -- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The state that a config names, or the newest one; None where there is none."""
        with self._mutex:
            thread, namespace = self._thread_of(config)
            wanted = get_checkpoint_id(config)
            if not wanted:
                wanted = max((i for n, i in thread.names() if n == namespace), default=None)
            return self._tuple(thread, namespace, wanted) if wanted else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """States, the newest first."""
        with self._mutex:
            found = self._listed(config, filter, before, limit)
        yield from found

    def _listed(
        self,
        config: RunnableConfig | None,
        wanted: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Sequence[CheckpointTuple]:
        given = config["configurable"] if config else {}
        names = [given["thread_id"]] if config else [*threads(self.workspace)]
        last = get_checkpoint_id(before) if before else None
        only = get_checkpoint_id(config) if config else None
        found: list[CheckpointTuple] = []
        for name in names:
            thread = self._thread(name)
            for namespace, id in sorted(thread.names(), key=lambda n: n[1], reverse=True):
                if (
                    given.get("checkpoint_ns") not in (None, namespace)
                    or (only and id != only)
                    or (last and id >= last)
                ):
                    continue
                if limit is not None and len(found) >= limit:
                    return found
                one = self._tuple(thread, namespace, id)
                meta: Any = one.metadata if one is not None else {}
                if one is not None and all(meta.get(k) == v for k, v in (wanted or {}).items()):
                    found.append(one)
        return found

    def _tuple(self, thread: Thread, namespace: str, id: str) -> CheckpointTuple | None:
        state = thread.load((namespace, id))
        if state is None:
            return None
        checkpoint: Any = self.serde.loads_typed(state.state)
        values = {}
        for channel, version in checkpoint["channel_versions"].items():
            blob = thread.blob((namespace, id), channel, version)
            if blob is not None and blob != _EMPTY:
                values[channel] = self.serde.loads_typed(blob)
        writes = [(w.task, w.channel, self.serde.loads_typed(w.value)) for w in thread.writes((namespace, id))]
        return CheckpointTuple(
            _config(thread.name, namespace, id),
            cast(Checkpoint, {**checkpoint, "channel_values": values}),
            self.serde.loads_typed(state.meta),
            _config(thread.name, namespace, state.parent) if state.parent else None,
            writes,
        )

    # -- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a state; it is durable on return."""
        with self._mutex:
            thread, namespace = self._thread_of(config)
            plain: dict[str, Any] = {**checkpoint}
            values = plain.pop("channel_values")
            blobs = {
                (channel, version): self.serde.dumps_typed(values[channel]) if channel in values else _EMPTY
                for channel, version in new_versions.items()
            }
            meta: Any = get_checkpoint_metadata(config, metadata)
            thread.put(
                State(
                    namespace,
                    checkpoint["id"],
                    config["configurable"].get("checkpoint_id"),
                    self.serde.dumps_typed(plain),
                    self.serde.dumps_typed(meta),
                    blobs,
                    meta.get("run_id"),
                ),
                begins=meta.get("source") == "input",
            )
            return _config(thread.name, namespace, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote after a state; it is durable on return."""
        with self._mutex:
            thread, namespace = self._thread_of(config)
            kept = [
                (WRITES_IDX_MAP.get(channel, nth), channel, self.serde.dumps_typed(value))
                for nth, (channel, value) in enumerate(writes)
            ]
            thread.put_writes((namespace, config["configurable"]["checkpoint_id"]), task_id, task_path, kept)

    def delete_thread(self, thread_id: str) -> None:
        """Delete all states of a thread, and its log."""
        with self._mutex:
            self._thread(thread_id).delete()
            self._threads.pop(thread_id, None)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the states that these runs of a graph saved."""
        with self._mutex:
            for name in [*threads(self.workspace)]:
                thread = self._thread(name)
                thread.forget([n for n in thread.names() if thread.run_id(n) in set(run_ids)])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Save all states of one thread in another one too."""
        with self._mutex:
            source, target = self._thread(source_thread_id), self._thread(target_thread_id)
            for name in sorted(source.names(), key=lambda n: n[1]):
                state = source.load(name)
                if state is not None:
                    target.put(state)
                for w in source.writes(name):
                    target.put_writes(name, w.task, w.path, [(w.nth, w.channel, w.value)])

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all states of these threads but the newest of each namespace, or with `delete` all of them.

        Of a thread with channels that are rebuilt from older writes nothing is deleted by `keep_latest`.
        """
        with self._mutex:
            for name in thread_ids:
                if strategy == "delete":
                    self.delete_thread(name)
                elif strategy == "keep_latest":
                    self._keep_latest(self._thread(name))
                else:
                    raise ValueError(f"prune knows keep_latest and delete, not {strategy!r}")

    def _keep_latest(self, thread: Thread) -> None:
        newest: dict[str, str] = {}
        for namespace, id in thread.names():
            newest[namespace] = max(id, newest.get(namespace, ""))
        kept = set(newest.items())
        gone = [name for name in thread.names() if name not in kept]
        whole: list[State] = []
        for name in kept if gone else ():
            state = thread.load(name)
            assert state is not None
            if self.serde.loads_typed(state.meta).get("counters_since_delta_snapshot"):
                return
            versions = self.serde.loads_typed(state.state)["channel_versions"]
            blobs: dict[tuple[str, Version], Typed] = {}
            for channel, version in versions.items():
                blob = thread.blob(name, channel, version)
                if blob is not None:
                    blobs[channel, version] = blob
            if blobs != dict(state.blobs):
                whole.append(state._replace(blobs={**state.blobs, **blobs}))
        for state in whole:  # what they had from older ones stands in them now
            thread.put(state)
        thread.forget(gone)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Versions grow, and those of two branches are never equal."""
        number = int(current.partition(".")[0]) if current is not None else 0
        return f"{number + 1:020}.{random.getrandbits(64):016x}"

    # -- the same for event loops

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for one in await asyncio.to_thread(self._locked, self._listed, config, filter, before, limit):
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))

    # -- parts

    def _locked(self, function: Callable[..., T], *given: Any) -> T:
        with self._mutex:
            return function(*given)

    def _thread_of(self, config: RunnableConfig) -> tuple[Thread, str]:
        given = config["configurable"]
        return self._thread(given["thread_id"]), given.get("checkpoint_ns", "")

    def _thread(self, name: str) -> Thread:
        found = self._threads.get(name)
        if found is None:
            found = self._threads[name] = Thread(self.workspace, str(name), files=self._files)
        return found


def _config(thread: str, namespace: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": id}}
