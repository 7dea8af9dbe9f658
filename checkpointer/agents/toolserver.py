"""A Model Context Protocol server: a model looks at the workspace's history, saves, and takes its own work back.

Each tool calls ckpt in a process of its own, so that nothing is answered otherwise than in a terminal. Whoever calls is
a model: an undo reaches what its own session did and nothing else, and no tool takes `--force`.

Stands on the extra `mcp`; imported only by who has it.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import anyio.to_thread
from mcp.server import MCPServer
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from checkpointer.agents import asking
from checkpointer.release import VERSION
from checkpointer.workspace.entry import from_json, show

LONGEST: Final = 60_000
"""Characters of a text that a model is given; of a longer one the beginning."""

INSTRUCTIONS: Final = """\
ckpt keeps checkpoints of this workspace. Turns (t3) are prompts, steps (t3.2) tool calls, checkpoints are numbers (17).
Use `undo` to take back what you changed in this session, `redo` to take the undo back; both never touch anything else.
Files change on disk when you do: read the paths named in `read_again` before you go on. When files are in conflict,
nothing is changed and the result says what to do. Everything else (other sessions' work, restoring, deleting) is for
the person at the terminal."""

_LOOKS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_SAVES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)

_TURNS = re.compile(r"t[1-9]\d*(\.[1-9]\d*|\.\.(t[1-9]\d*)?)?")

Paths = Annotated[Sequence[str], Field(description="Only these files and directories, relative to the directory.")]
Turns = Annotated[str, Field(description="t3, t3.2, t3.. or t3..t5; empty for the newest.")]
DryRun = Annotated[bool, Field(description="Say what would be done and do nothing.")]
Leave = Annotated[bool, Field(description="Leave files in conflict as they are and do the others.")]


class Server:
    """`directory` is where calls are about. `session` gives the run whose agent we serve, None where nobody knows."""

    def __init__(self, directory: str, environment: Mapping[str, str], session: Callable[[], str | None]) -> None:
        self._directory = directory
        self._environment = asking.as_person(environment)
        self._session = session

    async def status(self) -> CallToolResult:
        """Is this directory protected, what changed since the newest turn, what would undo take back."""
        return await self._look(["status"], document=True)

    async def log(
        self, limit: Annotated[int, Field(ge=1, le=200, description="So many lines at most.")] = 20, paths: Paths = ()
    ) -> CallToolResult:
        """Turns, saves and restores, newest first, with what each changed; undone ones are marked."""
        return await self._look(["log", "-n", str(limit), *_after(paths)], document=True)

    async def show(
        self,
        what: Annotated[str, Field(description="t3, t3.2 or a checkpoint's number; empty for what undo takes")] = "",
    ) -> CallToolResult:
        """What one turn, step or checkpoint changed, step by step and as a patch."""
        return await self._look(["show", *_word(what)])

    async def diff(
        self,
        first: Annotated[str, Field(description="t3 (right after), t3- (right before), 17, @10m; empty: default")] = "",
        second: Annotated[str, Field(description="The same, or now (the files on disk).")] = "",
        paths: Paths = (),
        stat: Annotated[bool, Field(description="Only how many lines in which files.")] = False,
    ) -> CallToolResult:
        """Two points compared, as git prints it; by default from before the newest turn to the files on disk."""
        flags = ["--stat"] if stat else []
        return await self._look(["diff", *flags, *_word(first), *_word(second), *_after(paths)])

    async def save(
        self, label: Annotated[str, Field(description="A name for the checkpoint; it is then kept for good.")] = ""
    ) -> CallToolResult:
        """Make a checkpoint of the files as they are now. Changes no file."""
        named = ["-m", label] if label else []
        said = await self._ask(["save", "--json", *named], self._session() or "mcp")
        return self._result(said, _saved)

    async def undo(
        self, turns: Turns = "", paths: Paths = (), dry_run: DryRun = False, leave_conflicts: Leave = False
    ) -> CallToolResult:
        """Take back what this session changed: its newest turn, or the turns named. Later edits of others stay. Read
        the paths of `read_again` before going on.
        """
        return await self._travel("undo", turns, paths, dry_run, leave_conflicts)

    async def redo(
        self, turns: Turns = "", paths: Paths = (), dry_run: DryRun = False, leave_conflicts: Leave = False
    ) -> CallToolResult:
        """Take back the newest undo of this session, or apply an undone turn of it again. Read the paths of
        `read_again` before going on.
        """
        return await self._travel("redo", turns, paths, dry_run, leave_conflicts)

    # -- parts

    async def _ask(self, words: Sequence[str], session: str | None = None) -> asking.Said:
        environment = dict(self._environment)
        if session is not None:
            environment["CKPT_RUN"] = session
        return await anyio.to_thread.run_sync(functools.partial(asking.ask, words, self._directory, environment))

    async def _look(self, words: list[str], *, document: bool = False) -> CallToolResult:
        said = await self._ask([*words[:1], "--color", "never", *words[1:]])
        if said.status:
            return _failed(_error_of(said))
        found: dict[str, Any] | None = None
        if document:
            as_json = await self._ask([*words[:1], "--json", *words[1:]])
            lines = [json.loads(line) for line in as_json.out.splitlines() if line.startswith("{")]
            found = lines[0] if words[0] == "status" and lines else {"schema": 1, "lines": lines}
        return _told(said.out.strip("\n") or said.err.strip("\n") or "nothing", found)

    async def _travel(self, verb: str, turns: str, paths: Sequence[str], dry: bool, leave: bool) -> CallToolResult:
        session = self._session()
        if session is None:
            return _failed(_STRANGER)
        if turns and not _TURNS.fullmatch(turns):
            return _failed({"code": "usage", "message": f"{turns!r} names no turn", "kept": _NOTHING, "next": ["log"]})
        flags = [*(["-n"] if dry else []), *(["--skip"] if leave else [])]
        words = [verb, "--json", *flags, *([turns] if turns else []), *_after(paths)]
        return self._result(await self._ask(words, session), functools.partial(_travelled, verb))

    def _result(self, said: asking.Said, words: Callable[[dict[str, Any]], str]) -> CallToolResult:
        if said.status:
            return _failed(_error_of(said))
        document = json.loads(said.out)
        document["read_again"] = [p for name in ("written", "removed", "merged") for p in document.get(name, ())]
        return _told(words(document), document)


_NOTHING = "nothing was written"
_STRANGER: Final = {
    "code": "no-session",
    "message": "ckpt does not know which session asks, so nothing here is known to be its own work to take back",
    "kept": _NOTHING,
    "next": [
        "ask the person to undo: ckpt undo in a terminal",
        "for the next time: ckpt install AGENT, or start the agent with ckpt run -- AGENT",
    ],
}


def _after(paths: Sequence[str]) -> list[str]:
    return ["--", *paths] if paths else []


def _word(text: str) -> list[str]:
    """One word of a call, which is never taken for an option."""
    return [text.lstrip("-")] if text.strip("- ") else []


def _named(path: Any) -> str:
    return path if isinstance(path, str) else show(from_json(path))


def _saved(document: dict[str, Any]) -> str:
    number = document["checkpoint"]
    return f"checkpoint {number}" if document["created"] else f"nothing changed since checkpoint {number}"


def _travelled(verb: str, document: dict[str, Any]) -> str:
    past = {"undo": "undid", "redo": "redid"}[verb]
    lines = [f"{f'would {verb}' if document['dry_run'] else past} {document['unit']}"]
    for name in ("written", "removed", "merged", "skipped", "kept"):
        if document.get(name):
            lines.append(f"{name}: {' '.join(map(_named, document[name]))}")
    lines += document.get("notes", ())
    again = document["read_again"]
    if again and not document["dry_run"]:
        lines.append(f"read again before you go on: {' '.join(map(_named, again))}")
    return "\n".join(lines)


def _error_of(said: asking.Said) -> dict[str, Any]:
    """The failure that a call printed, as a document or in words."""
    try:
        found = json.loads(said.out)["error"]
    except (ValueError, KeyError, TypeError):
        found = {"code": "failed", "message": said.text or "no answer", "kept": "", "next": []}
    return dict(found)


def _failed(error: Mapping[str, Any]) -> CallToolResult:
    """A failure as a tool's: what happened, what was kept, what to do; what only a person may do is said as such."""
    lines = [str(error["message"])]
    for conflict in error.get("conflicts", ()):
        where = conflict.get("lines") or conflict.get("why") or ""
        lines.append(f"  {_named(conflict['path'])}  {where}  {conflict.get('by') or ''}".rstrip())
    if error.get("kept"):
        lines.append(f"kept: {error['kept']}")
    for step in error.get("next", ()):
        if "--skip" in step:
            lines.append("next: the same with leave_conflicts=true")
        elif "--force" in step:
            lines.append(f"a person may say: {step}")
        else:
            lines.append(f"next: {step}")
    text = asking.shortened("\n".join(lines), 40)
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content={"schema": 1, "said": text, "error": dict(error)},
        is_error=True,
    )


def _told(text: str, document: dict[str, Any] | None) -> CallToolResult:
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n[{len(text) - LONGEST:,} characters more; name paths to see less at once]"
    # Some clients show a model the document alone, so that the words stand there too.
    both = {**document, "said": text} if document is not None else None
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=both)


def server(directory: str, session: Callable[[], str | None]) -> MCPServer:
    """The server with its tools, ready to run."""
    ours = Server(directory, os.environ, session)
    made = MCPServer("ckpt", title="ckpt", version=VERSION, instructions=INSTRUCTIONS, log_level="ERROR")
    for tool, hints in (
        (ours.status, _LOOKS),
        (ours.log, _LOOKS),
        (ours.show, _LOOKS),
        (ours.diff, _LOOKS),
        (ours.save, _SAVES),
        (ours.undo, _WRITES),
        (ours.redo, _WRITES),
    ):
        made.tool(annotations=hints, structured_output=False)(tool)
    return made
