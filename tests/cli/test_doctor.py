"""What `ckpt doctor` finds: each thing that can be wrong, made wrong, and named with what mends it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness.machine import IS_ROOT, tmpfs
from transcript import Shell, without_agents

CKPT = Path(sys.executable).with_name("ckpt")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A workspace, and a PATH that reaches this ckpt and no agent."""
    made = Shell(tmp_path)
    (made.root / "a").write_text("1\n")
    directory = tmp_path / "path"
    directory.mkdir()
    (directory / "ckpt").symlink_to(CKPT)
    made.env["PATH"] = f"{directory}:{without_agents('/usr/bin:/bin', tmp_path)}"
    stub = tmp_path / "bin" / "ckpt"
    stub.parent.mkdir()
    stub.write_text("#!/bin/sh\necho ckpt 0\n")
    stub.chmod(0o755)
    return made


def examine(
    shell: Shell, *words: str, status: int | None = None, cwd: Path | None = None, **env: str
) -> dict[str, Any]:
    """The findings by what they are, each `(level, message, mend)`."""
    done = shell.ckpt("doctor", *words, "--json", cwd=cwd, **env)
    document = json.loads(done.out)
    assert done.status == (0 if document["sound"] else 1), done.err
    assert document["sound"] == all(f["level"] != "broken" for f in document["findings"])
    if status is not None:
        assert done.status == status
    for finding in document["findings"]:
        assert finding["level"] == "ok" or finding["mend"] or finding["what"] in ("uncovered", "second-ckpt"), finding
    return {f["what"]: (f["level"], f["message"], f["mend"]) for f in document["findings"]}


def install(shell: Shell, agent: str) -> None:
    done = shell.ckpt("install", agent, "--command", str(shell.base / "bin" / "ckpt"))
    assert done.status == 0, done.err


def test_all_is_well(shell: Shell) -> None:
    shell.ckpt("save")
    found = examine(shell, status=0)
    assert found["program"][0] == "ok"
    assert found["stores"][0] == "ok"
    level, message, _ = found["checkpoint"]
    assert (level, "1 file looked at in" in message) == ("ok", True)
    before = sorted(str(p) for p in shell.base.rglob("*"))
    examine(shell)
    assert sorted(str(p) for p in shell.base.rglob("*")) == before


def test_for_people(shell: Shell) -> None:
    shell.ckpt("save")
    install(shell, "claude")
    done = shell.ckpt("doctor", "claude")
    assert "claude    hooks in ~/.claude/settings.json\n" in done.out
    assert done.out.endswith("nothing is broken\n")
    done = shell.ckpt("doctor", "gemini")
    assert done.status == 1
    assert "            ckpt install gemini\n" in done.out
    assert done.out.endswith("1 thing is broken\n")


def test_before_anything(shell: Shell) -> None:
    found = examine(shell, status=0)
    assert found["no-store"][2] == ["ckpt save"]
    assert "not-configured" not in found
    assert examine(shell, "claude", status=1)["not-configured"][2] == ["ckpt install claude"]
    assert examine(shell, "aider", status=0)["no-hooks"][2] == ["ckpt run -- aider"]
    (shell.base / "home" / ".claude").mkdir()
    assert examine(shell, status=0)["not-configured"][0] == "note"


def test_a_stranger_of_our_name(shell: Shell) -> None:
    other = shell.base / "other" / "ckpt"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    found = examine(shell, status=1, PATH=f"{other.parent}:{shell.env['PATH']}")
    assert str(other) in found["shadowed"][1]
    assert examine(shell, PATH=f"{shell.env['PATH']}:{other.parent}")["second-ckpt"][0] == "note"
    assert examine(shell, PATH="/usr/bin:/bin")["not-on-path"][0] == "note"


def test_an_agents_settings(shell: Shell) -> None:
    install(shell, "claude")
    path = shell.base / "home" / ".claude" / "settings.json"
    text = path.read_text()
    found = examine(shell, "claude", status=0)
    assert found["configured"][0] == "ok"
    assert found["never-heard-of"][0] == "note"
    path.write_text(text.replace('"timeout": 60', '"timeout": 1'))
    assert examine(shell, "claude", status=0)["outdated"][2] == ["ckpt install claude"]
    path.write_text("{" + '"disableAllHooks": true,' + text[1:])
    assert str(path) in examine(shell, "claude", status=1)["switched-off"][1]
    path.write_text("{")
    assert examine(shell, "claude", status=1)["unreadable"][2][-1] == "ckpt install claude"
    path.write_text("{" + '"sandbox": {"enabled": true},' + text[1:])
    assert "allowWrite" in examine(shell, "claude", status=0)["sandbox"][2][0]
    path.write_text(text)
    (shell.base / "bin" / "ckpt").unlink()
    assert examine(shell, "claude", status=1)["ckpt-gone"][2] == ["ckpt install claude"]


def test_a_projects_hooks_need_a_ckpt_on_the_path(shell: Shell) -> None:
    (shell.root / ".git").mkdir()
    assert shell.ckpt("install", "claude", "--project").status == 0
    found = examine(shell, "claude", status=0)
    assert found["configured-project"][0] == "ok"
    assert examine(shell, "claude", status=1, PATH="/usr/bin:/bin")["project-ckpt"][0] == "broken"


def test_when_it_was_last_heard_of(shell: Shell) -> None:
    install(shell, "claude")
    payload = {"session_id": "s1", "cwd": str(shell.root), "hook_event_name": "UserPromptSubmit", "prompt": "go"}
    shell.ckpt("hook", "claude", "UserPromptSubmit", stdin=json.dumps(payload).encode())
    assert "last heard of in this directory" in examine(shell, "claude", status=0)["last-event"][1]
    elsewhere = shell.base / "home" / "elsewhere"
    elsewhere.mkdir()
    assert "elsewhere" in examine(shell, "claude", cwd=elsewhere)["last-event"][1]


def test_what_a_hook_could_not_do(shell: Shell) -> None:
    install(shell, "claude")
    (shell.base / "state" / "hooks.log").write_text("2999-01-01T00:00:00Z 7 claude Stop: OSError: it broke\n")
    assert "OSError: it broke" in examine(shell, "claude", status=0)["hook-failed"][1]
    assert "hook-failed" not in examine(shell, "codex", status=1)


def test_places_where_nothing_can_be_kept(shell: Shell) -> None:
    assert "home directory" in examine(shell, cwd=shell.base / "home", status=1)["refused-root"][1]
    assert shell.ckpt("doctor", "-C", str(shell.root / "nowhere")).status == 2
    assert examine(shell, status=1, CKPT_OFF="1")["off"][2] == ["unset CKPT_OFF"]
    shell.ckpt("save")
    shutil.rmtree(shell.root)
    assert examine(shell, "-C", str(shell.root), cwd=shell.base, status=1)["gone"][2][0] == "ckpt undo"


def test_what_is_not_covered(shell: Shell) -> None:
    (shell.root / "big").write_bytes(b"x" * 5000)
    shell.ckpt("config", "capture.limit", "4 KB")
    shell.ckpt("save")
    level, message, mend = examine(shell, status=0)["uncovered"]
    assert (level, "big (too large)" in message) == ("note", True)
    assert mend[0].startswith("ckpt config capture.limit")


def test_stores_that_will_not_last(shell: Shell, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "memory", "8m") as place:
        assert examine(shell, status=1, CKPT_HOME=str(place / "state"))["fleeting"][0] == "broken"


def test_a_store_that_cannot_be_written(tmp_path: Path, as_nobody: Callable[[Callable[[], Any]], None]) -> None:
    from checkpointer.agents.checkup import ground

    tmp_path.chmod(0o500)
    if IS_ROOT:
        os.chown(tmp_path, 0, 0)

    def look() -> None:
        assert ground.writable(tmp_path) == "Permission denied"

    as_nobody(look)
    tmp_path.chmod(0o700)
    assert ground.writable(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_moved_store_is_adopted(shell: Shell) -> None:
    shell.ckpt("save")
    (shell.root / "a").write_text("2\n")
    copy = shell.base / "home" / "elsewhere" / "w"
    copy.parent.mkdir()
    shutil.copytree(shell.root, copy)  # other inodes: nothing proves that it is the same
    refused = shell.ckpt("doctor", "--adopt", str(shell.root), cwd=copy)
    assert (refused.status, "still there" in refused.err) == (2, True)
    shutil.rmtree(shell.root)
    level, _, mend = examine(shell, cwd=copy, status=0)["adoptable"]
    assert (level, mend) == ("note", [f"ckpt doctor --adopt {shell.root}"])
    assert shell.ckpt("doctor", "--adopt", str(shell.root), cwd=copy, CKPT_RUN="r1").status == 3
    nobody = shell.ckpt("doctor", "--adopt", "/nowhere", cwd=copy)
    assert (nobody.status, "ckpt workspaces" in nobody.err) == (2, True)
    done = shell.ckpt("doctor", "--adopt", str(shell.root), cwd=copy)
    assert done.status == 0, done.err
    assert (copy / "a").read_text() == "2\n"
    assert shell.ckpt("restore", "1", cwd=copy).status == 0
    assert (copy / "a").read_text() == "1\n"
    assert examine(shell, cwd=copy, status=0)["checkpoint"][0] == "ok"
    again = shell.ckpt("doctor", "--adopt", str(copy), cwd=copy)
    assert (again.status, "already" in again.err) == (2, True)


CODEX = """\
import json, sys
trusted = {trusted!r}
for line in sys.stdin:
    call = json.loads(line)
    print("noise")
    print(json.dumps({{"method": "something/else", "params": {{}}}}))
    if call["method"] == "config/batchWrite":
        with open({log!r}, "a") as f:
            f.write(json.dumps(call["params"]) + "\\n")
        trusted = True
    state = "trusted" if trusted else "untrusted"
    hooks = [
        {{"key": "k" + e, "eventName": e, "command": c, "currentHash": "h" + e, "trustStatus": state, "enabled": True,
         "sourcePath": {path!r}}}
        for e, c in (("stop", "/x/ckpt hook codex Stop"), ("other", "say done"))
    ]
    result = {{"data": [{{"hooks": hooks}}]}} if call["method"] == "hooks/list" else {{}}
    if "id" in call:
        print(json.dumps({{"id": call["id"], "result": result}}), flush=True)
"""


def test_codex_is_asked_for_its_trust(shell: Shell) -> None:
    log = shell.base / "log"
    codex = shell.base / "path" / "codex"

    def write(path: str = "/home/x/.codex/hooks.json", **more: Any) -> None:
        codex.write_text(f"#!{sys.executable}\n" + CODEX.format(log=str(log), path=path, **more))
        codex.chmod(0o755)

    write(trusted=False)
    install(shell, "codex")
    level, message, mend = examine(shell, "codex", status=1)["untrusted"]
    assert (level, "1 of 1" in message, mend[-1]) == ("broken", True, "ckpt install codex --trust")
    assert not log.exists()
    done = shell.ckpt("install", "codex", "--trust", "--command", str(shell.base / "bin" / "ckpt"))
    assert (done.status, "1 hook trusted now" in done.out) == (0, True)
    edits = [json.loads(line)["edits"] for line in log.read_text().splitlines()]
    assert edits == [[{"keyPath": 'hooks.state."kstop".trusted_hash', "value": "hstop", "mergeStrategy": "replace"}]]
    write(trusted=True)
    assert examine(shell, "codex", status=0)["trusted"][0] == "ok"
    assert "writable_roots" in examine(shell, "codex")["sandbox"][2][0]
    config = shell.base / "home" / ".codex" / "config.toml"
    config.write_text(f'[sandbox_workspace_write]\nwritable_roots = ["{shell.base}"]\n')
    assert "sandbox" not in examine(shell, "codex")
    config.write_text("[features]\nhooks = false\n")
    assert examine(shell, "codex", status=1)["switched-off"][0] == "broken"
    config.unlink()
    (shell.root / ".git").mkdir()
    assert shell.ckpt("install", "codex", "--project").status == 0
    assert examine(shell, "codex", status=1)["untrusted-project"][0] == "broken"
    write(trusted=True, path=str(shell.root / ".codex" / "hooks.json"))
    assert "untrusted-project" not in examine(shell, "codex", status=0)
    codex.write_text("#!/bin/sh\nexit 1\n")
    assert examine(shell, "codex")["trust-unknown"][0] == "note"
    assert os.listdir(shell.base / "home" / ".codex") is not None
