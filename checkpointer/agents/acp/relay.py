"""What each line means to us, and what becomes of it: passed on, held until the files are kept, or answered by us."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from checkpointer.agents import typed
from checkpointer.agents.acp import message
from checkpointer.agents.acp.facts import CallFacts, bounded
from checkpointer.agents.acp.lines import Piece
from checkpointer.agents.acp.message import Message
from checkpointer.agents.acp.recorder import Recorder, Ticket

COMMANDS: Final = ("undo", "redo", "log")
"""The verbs that are offered as commands. Those of `typed.VERBS` are understood."""

_BEGINS: Final = frozenset(("session/new", "session/load", "session/resume", "session/fork"))
_EFFECTS: Final = frozenset(("session/request_permission", "fs/write_text_file", "terminal/create"))
"""What an agent asks of its editor, and waits for, before something is done."""

REFUSED: Final = -32000
_MOST_KNOWN: Final = 10_000


@dataclass
class Passage:
    """Bytes that go on once `ticket` is done, and lines of ours for the editor, before or right behind them.

    `resolve` is asked then: it gives the lines before, and may forbid the bytes. Without bytes nothing waits for it.
    """

    data: bytes | None
    ticket: Ticket | None = None
    resolve: Callable[[Ticket], list[bytes]] = lambda ticket: []
    after: list[bytes] = field(default_factory=list)


@dataclass
class _Asked:
    """A request of the editor's that the agent has not answered. `directory` is what a session is to work in."""

    method: str
    session: str | None
    directory: str | None = None


class Relay:
    """Not to be used by two threads at once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._asked: OrderedDict[Hashable, _Asked] = OrderedDict()
        self._calls: OrderedDict[tuple[str, str], CallFacts] = OrderedDict()
        self._loading: set[str] = set()
        self._offered: set[str] = set()

    def from_editor(self, piece: Piece) -> Passage:
        """What becomes of bytes that the editor sent."""
        messages = _messages(piece)
        if len(messages) == 1 and piece.whole:
            answer = self._command(messages[0])
            if answer is not None:
                return answer
        passage = Passage(piece.data)
        for m in messages:
            if m.kind == "request":
                self._request(m, passage, alone=len(messages) == 1 and piece.whole)
        return passage

    def from_agent(self, piece: Piece) -> Passage:
        """What becomes of bytes that the agent sent."""
        passage = Passage(piece.data)
        messages = _messages(piece)
        for m in messages:
            if m.kind == "response":
                self._response(m, passage)
            elif m.method == "session/update":
                self._update(m, passage, alone=len(messages) == 1 and piece.whole)
            elif m.method in _EFFECTS:
                self._effect(m, passage)
        return passage

    # -- the editor

    def _command(self, m: Message) -> Passage | None:
        """A prompt that is a call of ckpt is answered here: the agent and its model never see it."""
        session = m.text("sessionId")
        if m.kind != "request" or m.method != "session/prompt" or session is None:
            return None
        words = typed.call_of(message.only_text((m.params or {}).get("prompt")))
        if words is None:
            return None

        def resolve(ticket: Ticket) -> list[bytes]:
            answer = message.line(id=m.raw_id, result={"stopReason": "end_turn"})
            return [message.saying(session, ticket.said), answer]

        return Passage(None, self._recorder.command(session, words), resolve)

    def _request(self, m: Message, passage: Passage, *, alone: bool) -> None:
        session = m.text("sessionId")
        if m.method == "session/prompt" and session is not None:
            self._remember(m.id, _Asked(m.method, session))
            text = message.words_of((m.params or {}).get("prompt")) if not m.head else None
            tells = alone and text is not None and not text.lstrip().startswith("/")  # that is a command of the agent's
            passage.ticket = self._recorder.prompt(session, None if text is None else bounded(text), tells=tells)
            passage.resolve = lambda ticket: self._prompted(session, passage, ticket)
        elif m.method in _BEGINS:
            directory = m.text("cwd")
            self._remember(m.id, _Asked(m.method, session, directory))
            if m.method == "session/load" and session is not None:
                self._loading.add(session)
            passage.ticket = self._recorder.session_wanted(directory)
            passage.resolve = lambda ticket: self._refusal(m, passage, ticket)

    def _prompted(self, session: str, passage: Passage, ticket: Ticket) -> list[bytes]:
        """A prompt goes on; the first one after an undo with a text of ours at its end."""
        if ticket.tell and passage.data is not None:
            passage.data = message.with_more(
                passage.data, ("params", "prompt"), [{"type": "text", "text": ticket.tell}]
            )
        return [message.saying(session, ticket.said)] if ticket.said else []

    def _refusal(self, m: Message, passage: Passage, ticket: Ticket) -> list[bytes]:
        error = ticket.refusal
        if error is None:
            return []
        passage.data = None
        self._asked.pop(m.id, None)
        self._loading.discard(m.text("sessionId") or "")
        words = f"ckpt: no session was started, since its files could not be undone: {error.message}"
        said = {"code": REFUSED, "message": words, "data": {"kept": error.kept, "next": list(error.next)}}
        return [message.line(id=m.raw_id, error=said)]

    def _remember(self, name: Hashable, asked: _Asked) -> None:
        self._asked[name] = asked
        self._asked.move_to_end(name)
        if len(self._asked) > _MOST_KNOWN:
            self._asked.popitem(last=False)

    # -- the agent

    def _response(self, m: Message, passage: Passage) -> None:
        asked = self._asked.pop(m.id, None)
        if asked is None:
            return
        result: Mapping[str, Any] = m.result if isinstance(m.result, dict) else {}
        if asked.method == "session/prompt" and asked.session is not None:
            session = asked.session
            stop = "error" if m.failed else str(result.get("stopReason") or "end_turn")
            passage.ticket = self._recorder.answered(session, stop[:40])
            passage.resolve = lambda ticket: [message.saying(session, ticket.said)] if ticket.said else []
            self._forget_calls(session)
            return
        named = result.get("sessionId") or asked.session
        self._loading.discard(asked.session or "")
        if m.failed or not isinstance(named, str):
            return
        self._recorder.session(named, asked.directory)
        if named not in self._offered:
            self._offered.add(named)
            passage.after.append(message.update(named, "available_commands_update", availableCommands=_commands(())))

    def _update(self, m: Message, passage: Passage, *, alone: bool) -> None:
        session, update = m.text("sessionId"), (m.params or {}).get("update")
        if session is None or not isinstance(update, dict):
            return
        what = update.get("sessionUpdate")
        if what == "available_commands_update" and alone:
            self._offered.add(session)
            listed = update.get("availableCommands")
            names = {c.get("name") for c in listed if isinstance(c, dict)} if isinstance(listed, list) else set()
            path = ("params", "update", "availableCommands")
            assert passage.data is not None
            passage.data = message.with_more(passage.data, path, _commands(names))
        elif session in self._loading:
            return  # what is told of an old conversation happens no more
        elif what == "agent_message_chunk":
            content = update.get("content")
            if isinstance(content, dict) and isinstance(content.get("text"), str):
                self._recorder.hear(session, content["text"])
        elif what in ("tool_call", "tool_call_update"):
            self._call(session, update)

    def _call(self, session: str, update: Mapping[str, Any], *, asks: bool = False) -> None:
        name = update.get("toolCallId")
        if not isinstance(name, str):
            return
        key = (session, name)
        known = self._calls.get(key, CallFacts(name))
        told = known.told(update)
        if asks and told.status == "pending":
            told = told.told({"status": "in_progress"})  # all that will be known before it begins
        if told.over:
            self._calls.pop(key, None)
        else:
            self._calls[key] = told
            if len(self._calls) > _MOST_KNOWN:
                self._calls.popitem(last=False)
        if told.begun and (told.over or not known.begun):
            self._recorder.call(session, told)

    def _forget_calls(self, session: str) -> None:
        for key in [key for key in self._calls if key[0] == session]:
            del self._calls[key]

    def _effect(self, m: Message, passage: Passage) -> None:
        session = m.text("sessionId")
        if session is None or m.kind != "request":
            return
        call = (m.params or {}).get("toolCall")
        if isinstance(call, dict):
            self._call(session, call, asks=True)
        passage.ticket = self._recorder.effect(session)


def _messages(piece: Piece) -> list[Message]:
    """What a piece says. Nothing that comes in may stop us: what we cannot make sense of says nothing."""
    if not piece.first:
        return []
    try:
        return message.read(piece.data) if piece.last else message.read_head(piece.data)
    except (ValueError, TypeError, RecursionError):
        return []


def _commands(there: Iterable[Any]) -> list[dict[str, Any]]:
    """Our commands, but for those that are there already."""
    known = set(there)
    hints = {"undo": {"input": {"hint": "t3, or nothing for the newest turn"}}}
    return [
        {"name": f"ckpt-{verb}", "description": f"{typed.VERBS[verb]} (asks no model)", **hints.get(verb, {})}
        for verb in COMMANDS
        if f"ckpt-{verb}" not in known
    ]
