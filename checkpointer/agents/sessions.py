"""Which workspace a session works on: the one it was started in, however its directory moves later.

That is noted beside the stores, `sessions/<agent>-<hash>`, one small file for each session; the oldest go.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from checkpointer import disk
from checkpointer.agents.dialects.report import Report
from checkpointer.places import home_directory, locate
from checkpointer.workspace import guard

MOST = 500
_PROJECT = (
    "CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "COPILOT_PROJECT_DIR", "OPENHANDS_PROJECT_DIR", "QWEN_PROJECT_DIR",
)  # fmt: skip


def adopt(report: Report) -> None:
    """Where a session is a part of another one, the report is that one's, by a subagent."""
    parent = report.parent if report.parent != report.session else ""
    if not parent:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            parent = str(json.loads(_note(report).read_bytes())["parent"])
    if parent:
        if report.parent:
            _write(_note(report), {"parent": parent})
        report.session, report.subagent = parent, report.subagent or report.session
        if report.kind in ("session-start", "session-end"):
            report.kind = "ignored"
        elif report.kind == "turn-end":
            report.kind = "subagent-end"


def place(report: Report, environ: Mapping[str, str], here: str) -> tuple[bytes, Path | None]:
    """The workspace's path, and the directory of its store, None where there is none yet."""
    inside = environ.get("CKPT_WORKSPACE", "")
    if inside and environ.get("CKPT_RUN"):
        found = locate(os.fsencode(inside))
        return (found.root, found.directory) if found is not None else (guard.real(os.fsencode(inside)), None)
    note = _note(report)
    known = _known(note)
    if known is not None:
        return known
    start = os.fsencode(_start(report, environ, here))
    found = locate(start)
    root = found.root if found is not None else guard.real(start)
    if report.session:
        _write(note, {"root": os.fsdecode(root)})
    if found is not None and found.state == "moved":
        from checkpointer import home

        return root, home.open_place(found).directory
    ours = found is not None and found.state != "imported"  # what only is to be looked at refuses to be made again
    return root, found.directory if found is not None and ours else None


def _start(report: Report, environ: Mapping[str, str], here: str) -> str:
    """Where the session was started, as far as its first report tells."""
    now = report.directory or here
    for name in _PROJECT:
        project = environ.get(name, "")
        if project.startswith("/") and os.path.isdir(project):
            above = os.path.realpath(project)
            below = os.path.realpath(now) if now else above
            if below == above or below.startswith(above.rstrip("/") + "/"):
                return project
    return now if now and os.path.isdir(now) else here


def _note(report: Report) -> Path:
    digest = hashlib.sha256(report.session.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return home_directory() / "sessions" / f"{report.agent}-{digest}"


def _known(note: Path) -> tuple[bytes, Path] | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        root = os.fsencode(json.loads(note.read_bytes())["root"])
        found = locate(root)
        if found is not None and found.root == root and found.state in ("here", "remade", "gone"):
            return root, found.directory
    return None


def _write(note: Path, data: Mapping[str, str]) -> None:
    with contextlib.suppress(OSError):
        os.makedirs(note.parent, mode=0o700, exist_ok=True)
        disk.replace(note, json.dumps(data).encode(), durable=False)
        names = os.listdir(note.parent)
        if len(names) > MOST:
            aged = sorted(names, key=lambda name: os.lstat(note.parent / name).st_mtime_ns)
            for name in aged[: len(names) - MOST // 2]:
                disk.remove(note.parent / name, missing_ok=True)
