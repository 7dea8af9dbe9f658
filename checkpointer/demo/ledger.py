"""A receiver of payments, in a process and a file of its own: it knows keys, and can be asked what became of one.

    python -m checkpointer.demo.ledger FILE [--ignore-keys] [--keys-kept S] [--late S] [--errors]

It prints its address and serves until its standard input ends, so that it does not outlive whoever started it. What it
answered is in FILE first: a line for each request that arrived, each payment made, each error, each refusal. Started
again with FILE, it goes on where it was.

* `POST /payments` `{order, cents, key, sender}`: pays. A key that it knows gets the first answer again, also if that
  was an error; one that stands for other fields is answered 422.
* `POST /lookups` `{key, sender}`: the payment made under a key, or null. From then on whatever still arrives under that
  key from another sender than this one is refused, so null is final for all that was sent before.

The options make it worse: `--ignore-keys` takes each request for a new one; `--keys-kept` forgets a key after so many
seconds; `--late` lets the first request under each key take effect so much later, whether its sender lives or not;
`--errors` answers the first request for each order with an error and no payment.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from checkpointer import disk
from checkpointer.lock import Lock

Answer = tuple[int, Any]


def entries(path: str, kind: str = "") -> list[dict[str, Any]]:
    """The lines of a ledger's file, oldest first; of one `kind`: request, payment, error, refusal or fence."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        found = [json.loads(line) for line in f if line.endswith("\n")]
    return [one for one in found if kind in ("", one["kind"])]


class Ledger:
    """The book, whoever asks. Safe for several threads."""

    def __init__(
        self,
        path: str,
        *,
        ignore_keys: bool = False,
        keys_kept: float = 24 * 3600.0,
        late: float = 0.0,
        errors: bool = False,
    ) -> None:
        self.ignore_keys = ignore_keys
        self.keys_kept = keys_kept
        self.late = late
        self.errors = errors
        self._path = path
        self._mutex = threading.Lock()
        self._entries = entries(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def pay(self, asked: dict[str, Any]) -> Answer:
        with self._mutex:
            first = not self._of("request", asked["key"])
            self._enter("request", asked)
        if first and self.late:
            time.sleep(self.late)
        with self._mutex:
            return self._decide(asked)

    def _decide(self, asked: dict[str, Any]) -> Answer:
        fences = self._of("fence", asked["key"])
        if fences and fences[-1]["sender"] != asked["sender"]:
            self._enter("refusal", asked)
            return 409, {"error": "sent before somebody asked what became of it"}
        known = [one for one in self._of("payment", asked["key"]) + self._of("error", asked["key"]) if self._keeps(one)]
        if known:
            if any(known[0][name] != asked[name] for name in ("order", "cents")):
                return 422, {"error": "this key stands for another payment"}
            return self._answer(known[0])
        broken = self.errors and not any(one["order"] == asked["order"] for one in self._all("error"))
        return self._answer(self._enter("error" if broken else "payment", asked))

    def look_up(self, asked: dict[str, Any]) -> Answer:
        with self._mutex:
            self._enter("fence", asked)
            made = self._of("payment", asked["key"])
            return 200, {name: made[0][name] for name in ("order", "cents")} if made else None

    def _answer(self, entry: dict[str, Any]) -> Answer:
        if entry["kind"] == "error":
            return 402, {"error": "the bank said no; nothing was paid"}
        return 200, {"paid": entry["cents"]}

    def _keeps(self, entry: dict[str, Any]) -> bool:
        return not self.ignore_keys and time.time() - entry["at"] < self.keys_kept

    def _of(self, kind: str, key: str) -> list[dict[str, Any]]:
        return [one for one in self._all(kind) if one["key"] == key]

    def _all(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self._entries if one["kind"] == kind]

    def _enter(self, kind: str, asked: dict[str, Any]) -> dict[str, Any]:
        entry = {"kind": kind, "at": time.time(), **asked}
        disk.append(self._fd, json.dumps(entry).encode() + b"\n", path=self._path)
        self._entries.append(entry)
        return entry


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        book = self.server.book
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        routes = {"/payments": book.pay, "/lookups": book.look_up}
        route = routes.get(self.path)
        status, answer = route(asked) if route is not None else (404, None)
        body = json.dumps(answer).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # whoever asked is gone; what was done is in the book

    def log_message(self, format: str, *args: Any) -> None:
        """Its file says all."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # what arrived is carried out before the process ends

    def __init__(self, book: Ledger) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.book = book

    def server_bind(self) -> None:
        """Without asking anybody for this machine's name, as the standard library does here."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "localhost", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A sender that dies in the middle of its request is nothing to report."""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ledger", description="A receiver of payments, for demonstrations.")
    parser.add_argument("file")
    parser.add_argument("--ignore-keys", action="store_true")
    parser.add_argument("--keys-kept", type=float, default=24 * 3600.0, metavar="SECONDS")
    parser.add_argument("--late", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--errors", action="store_true")
    said = parser.parse_args(words)
    with Lock(said.file + ".lock").held("a ledger", wait=30.0):  # one that still ends has the same file open
        book = Ledger(
            said.file,
            ignore_keys=said.ignore_keys,
            keys_kept=said.keys_kept,
            late=said.late,
            errors=said.errors,
        )
        with _Server(book) as server:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            print(f"http://127.0.0.1:{server.server_port}", flush=True)
            sys.stdin.buffer.read()
            server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
