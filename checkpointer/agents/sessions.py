"""Which workspace a session works on: the one it was started in, however its directory moves later.

That is noted beside the stores, `sessions/<agent>-<hash>`, one small file for each session; the oldest go. `ckpt run`
changes nothing about it: around a session of another directory it is not there.
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
from checkpointer.agents.naming import run_name
from checkpointer.places import home_directory, locate
from checkpointer.run import session as told
from checkpointer.workspace import guard

MOST = 500
_PROJECT = (
    "CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "COPILOT_PROJECT_DIR", "OPENHANDS_PROJECT_DIR", "QWEN_PROJECT_DIR",
)  # fmt: skip
_OF_RUN = ("CKPT_RUN", "CKPT_LOG", "CKPT_EPOCH", "CKPT_WORKSPACE")


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


def surroundings(report: Report, environ: Mapping[str, str], here: str) -> Mapping[str, str]:
    """The environment as it holds for a report's session: without `ckpt run`, where that is not around the session's
    own directory. A session that the run knows already stays with it, and so does a report that names none.
    """
    inside = environ.get("CKPT_WORKSPACE", "")
    if not inside or not environ.get("CKPT_RUN") or not report.session:
        return environ
    if _belongs(report, environ, here, guard.real(os.fsencode(inside))):
        return environ
    return {name: value for name, value in environ.items() if name not in _OF_RUN}


def _belongs(report: Report, environ: Mapping[str, str], here: str, root: bytes) -> bool:
    """Is the session one of the run around it, whose workspace is `root`?"""
    note = _note(report)
    if _root(note) == root:
        return True
    known = _known(note)
    start = known[0] if known is not None else guard.real(os.fsencode(_start(report, environ, here)))
    if start == root or start.startswith(root.rstrip(b"/") + b"/"):
        if known is None:
            _write(note, {"root": os.fsdecode(root)})
        return True
    found, mine = locate(root), locate(start)
    if found is None:
        return False
    if mine is not None and mine.directory == found.directory:
        return True
    run = run_name(report, environ)
    session = told.load(found.directory, run)
    if session is not None:
        return session.session == report.session
    from checkpointer.run import roster

    return roster.read(found.directory, run).session == report.session


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


def _root(note: Path) -> bytes | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return os.fsencode(json.loads(note.read_bytes())["root"])
    return None


def _known(note: Path) -> tuple[bytes, Path] | None:
    root = _root(note)
    if root is not None:
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
