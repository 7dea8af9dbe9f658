"""A model that answers by heart, on the loopback: for Codex (the Responses API) and for Gemini.

Its lines are steps for each prompt that holds a word: what it says, and which tools it calls. Which step is next is
read off the request: so many as there are results of tools after that prompt.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Step:
    """What the model says, and the calls that it asks for: (tool, arguments); text as arguments is a free-form call."""

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()


@dataclass
class Model:
    """Serve it as a block. `asked` are the bodies of the requests that it got."""

    lines: Mapping[str, Sequence[Step]]
    asked: list[Any] = field(default_factory=list)

    def __enter__(self) -> Model:
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send("application/json", b'{"object": "list", "data": [], "models": []}')

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
                if self.path.split("?")[0].endswith("/responses"):
                    model.asked.append(body)
                    self._events(_responses(*model.next(_said_to_codex(body))))
                elif "GenerateContent" in self.path or "generateContent" in self.path:
                    model.asked.append(body)
                    answer = _gemini(*model.next(_said_to_gemini(body)))
                    if "stream" in self.path:
                        self._events(iter([("", answer)]))
                    else:
                        self._send("application/json", json.dumps(answer).encode())
                else:
                    self._send("application/json", b'{"totalTokens": 10}')

            def _events(self, events: Iterator[tuple[str, Any]]) -> None:
                parts = (
                    (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n" for name, data in events
                )
                self._send("text/event-stream", "".join(parts).encode())

            def _send(self, kind: str, data: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def next(self, said: Sequence[tuple[str, str]]) -> tuple[Step, str]:
        """The step that is due after (`user` or `result`, text) items, and a name for it that no other has."""
        for nth in range(len(said) - 1, -1, -1):
            role, text = said[nth]
            word = next((word for word in self.lines if word in text), None) if role == "user" else None
            if word is not None:
                done = sum(one == "result" for one, _ in said[nth:])
                steps, before = self.lines[word], 0
                for number, step in enumerate(steps):
                    if done <= before:
                        return step, f"{len(said)}_{number}"
                    before += len(step.calls)
                return (steps[-1] if not steps[-1].calls else Step("done")), f"{len(said)}_end"
        return Step("ok"), f"{len(said)}"


def _said_to_codex(body: Any) -> list[tuple[str, str]]:
    out = []
    for item in body.get("input", ()):
        if item.get("type") == "message" and item.get("role") == "user":
            out.append(("user", " ".join(part.get("text", "") for part in item["content"])))
        elif str(item.get("type", "")).endswith("call_output"):
            out.append(("result", ""))
    return out


def _responses(step: Step, name: str) -> Iterator[tuple[str, Any]]:
    items: list[dict[str, Any]] = []
    if step.text:
        content = [{"type": "output_text", "text": step.text, "annotations": []}]
        items.append({"type": "message", "id": f"msg_{name}", "role": "assistant", "content": content})
    for nth, (tool, arguments) in enumerate(step.calls):
        call = {"id": f"item_{name}_{nth}", "call_id": f"call_{name}_{nth}", "name": tool}
        if isinstance(arguments, str):
            items.append({"type": "custom_tool_call", "input": arguments, **call})
        else:
            items.append({"type": "function_call", "arguments": json.dumps(arguments), **call})
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": f"resp_{name}", "object": "response", "status": "in_progress", "output": []}
    yield "response.created", {"type": "response.created", "response": response}
    for nth, item in enumerate(items):
        done = {"type": "response.output_item.done", "output_index": nth, "item": {**item, "status": "completed"}}
        yield "response.output_item.done", done
    whole = {**response, "status": "completed", "output": items, "usage": usage}
    yield "response.completed", {"type": "response.completed", "response": whole}


def _said_to_gemini(body: Any) -> list[tuple[str, str]]:
    out = []
    for content in body.get("contents", ()):
        for part in content.get("parts", ()):
            if "functionResponse" in part:
                out.append(("result", ""))
            elif content.get("role") == "user":
                out.append(("user", part.get("text", "")))
    return out


def _gemini(step: Step, name: str) -> Any:
    parts: list[dict[str, Any]] = [{"text": step.text}] if step.text else []
    for nth, (tool, arguments) in enumerate(step.calls):
        parts.append({"functionCall": {"name": tool, "args": arguments, "id": f"call_{name}_{nth}"}})
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "by-heart"}
