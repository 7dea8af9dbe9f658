"""Real agents, with the configuration that `ckpt install` writes, and a model that answers by heart.

Only where `CKPT_CLIENTS` names a directory that holds them (`npm install --prefix $CKPT_CLIENTS/codex @openai/codex`,
the same for `gemini` and `@google/gemini-cli`): they are large, and not ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents.hooking import GREET, NOTES, until
from agents.model import Model, Step
from harness.manifest import Manifest, same
from harness.world import World

CLIENTS = os.environ.get("CKPT_CLIENTS", "")
pytestmark = pytest.mark.skipif(not CLIENTS, reason="CKPT_CLIENTS names no directory with agents")

PATCH = """\
*** Begin Patch
*** Update File: greet.py
@@
 def greet(name):
-    return 'hello ' + name
+    return 'HELLO ' + name
*** Add File: new.txt
+made
*** End Patch
"""
SHELL = "printf 'second line\\n' >> notes.txt; mkdir -p sub; echo x > sub/x.txt"
HANGS = "echo half > half.txt; sleep 600"


class Client:
    """A real agent in a world; `program` is the words that start it."""

    name = ""
    package = ""
    lines: dict[str, list[Step]]

    def __init__(self, world: World, model: Model) -> None:
        self.world, self.model = world, model
        self.program = str(Path(CLIENTS) / self.name / "node_modules" / ".bin" / self.name)
        if not os.path.exists(self.program):
            pytest.skip(f"{self.program} is not there")
        world.write("greet.py", GREET)
        world.write("notes.txt", NOTES)
        world.sh("git init -q . && git add -A && git commit -qm base")
        self.start = world.files()
        self.ckpt = str(Path(sys.executable).with_name("ckpt"))
        self.configure()
        done = self.run([self.ckpt, "install", "--command", self.ckpt, self.name])
        assert done.returncode == 0, done.stderr

    def configure(self) -> None:
        raise NotImplementedError

    def words(self, prompt: str, *, again: bool = False) -> list[str]:
        raise NotImplementedError

    @property
    def env(self) -> dict[str, str]:
        return {**self.world.env, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "PATH": os.environ["PATH"]}

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.world.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def asks(self, prompt: str, *, again: bool = False) -> Manifest:
        """A prompt; the files after it."""
        self.run(self.words(prompt, again=again))
        return self.world.files()


class Codex(Client):
    name = "codex"
    lines = {
        "TASK-ONE": [
            Step("I edit.", [("apply_patch", PATCH)]), Step("", [("exec_command", {"cmd": SHELL})]), Step("All done."),
        ],
        "TASK-TWO": [Step("", [("exec_command", {"cmd": "rm new.txt"})]), Step("Removed.")],
        "TASK-HANG": [Step("", [("exec_command", {"cmd": HANGS, "yield_time_ms": 60_000})]), Step("done")],
        "go on": [Step("I go on.")],
    }  # fmt: skip

    def configure(self) -> None:
        directory = self.world.home / ".codex"
        directory.mkdir()
        (directory / "config.toml").write_text(
            f'model = "gpt-5.5"\nmodel_provider = "heart"\ncheck_for_update_on_startup = false\n'
            f"[analytics]\nenabled = false\n"
            f'[model_providers.heart]\nname = "heart"\nbase_url = "{self.model.url}/v1"\nwire_api = "responses"\n'
            f'env_key = "HEART_KEY"\nrequest_max_retries = 0\nstream_max_retries = 0\nsupports_websockets = false\n'
            f'[projects."{self.world.root}"]\ntrust_level = "trusted"\n'
        )

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "HEART_KEY": "none", "CODEX_HOME": str(self.world.home / ".codex")}

    def words(self, prompt: str, *, again: bool = False) -> list[str]:
        resumed = ["resume", "--last"] if again else []
        options = ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust", "--json"]
        return [self.program, "exec", *resumed, *options, prompt]


class Gemini(Client):
    name = "gemini"
    lines = {
        "TASK-ONE": [
            Step("I look.", [("read_file", {"file_path": "greet.py"})]),
            Step("", [("replace", {"file_path": "greet.py", "instruction": "shout", "old_string": "'hello '",
                                   "new_string": "'HELLO '"}),
                      ("write_file", {"file_path": "new.txt", "content": "made\n"})]),
            Step("", [("run_shell_command", {"command": SHELL, "description": "append"})]),
            Step("All done."),
        ],
        "TASK-TWO": [
            Step("", [("run_shell_command", {"command": "rm new.txt", "description": "remove"})]), Step("Removed."),
        ],
        "TASK-HANG": [Step("", [("run_shell_command", {"command": HANGS, "description": "hang"})]), Step("done")],
        "go on": [Step("I go on.")],
    }  # fmt: skip

    def configure(self) -> None:
        directory = self.world.home / ".gemini"
        directory.mkdir()
        (directory / "settings.json").write_text(
            '{"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},\n'
            ' "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},\n'
            ' "privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false},\n'
            ' "tools": {"useRipgrep": false}, "model": {"name": "gemini-2.5-flash"}}\n'
        )

    @property
    def env(self) -> dict[str, str]:
        more = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.model.url, "GEMINI_CLI_NO_RELAUNCH": "true"}
        return {**super().env, **more, "GEMINI_CLI_TRUST_WORKSPACE": "true"}

    def words(self, prompt: str, *, again: bool = False) -> list[str]:
        return [self.program, *(["--resume", "latest"] if again else []), "-p", prompt, "--yolo"]


@pytest.fixture(params=[Codex, Gemini], ids=["codex", "gemini"])
def client(request: pytest.FixtureRequest, world: World) -> Iterator[Client]:
    with Model(request.param.lines) as model:
        yield request.param(world, model)


def test_edits_a_resumed_session_and_undo(client: Client) -> None:
    one = client.asks("TASK-ONE please")
    assert client.world.read("greet.py") == b"def greet(name):\n    return 'HELLO ' + name\n"
    assert client.world.read("notes.txt") == b"first line\nsecond line\n"
    client.asks("TASK-TWO please", again=True)
    assert not (client.world.root / "new.txt").exists()
    asked = len(client.model.asked)
    same(one, client.asks("ckpt undo", again=True))
    assert len(client.model.asked) == asked  # no request went to the model
    client.asks("go on", again=True)
    assert "undid t2: new.txt" in str(client.model.asked[-1])
    client.world.ckpt("undo")
    same(client.start, client.world.files())
    rows = [r for r in client.world.ckpt("log", "--json").lines if r["kind"] == "turn"]
    assert [r["prompt"] for r in rows] == ["go on", "TASK-TWO please", "TASK-ONE please"]
    client.world.ckpt("verify")


@pytest.mark.parametrize("around", [True, False], ids=["ckpt run", "alone"])
def test_killed_inside_a_tool_and_resumed(client: Client, around: bool) -> None:
    words: list[Any] = [*([client.ckpt, "run", "--"] if around else []), *client.words("TASK-HANG please")]
    child = subprocess.Popen(words, cwd=client.world.root, env=client.env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    with until("the tool is at work") as done:
        while not done((client.world.root / "half.txt").exists()):
            assert child.poll() is None
    children = _below(child.pid)
    os.killpg(child.pid, signal.SIGKILL)
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    child.wait()
    resumed = client.run([client.ckpt, "resume", "r1"])
    assert "goes on as" in resumed.stderr, resumed.stderr
    told = next(str(body) for body in client.model.asked if "cut off in the middle" in str(body))
    assert "half.txt" in told
    assert client.world.read("half.txt") == b"half\n"
    (item,) = client.world.ckpt("uncertain", "--json").json["uncertain"]
    assert "half.txt" in item["about"]
    client.world.ckpt("verify")


def _below(pid: int) -> list[int]:
    """The processes below one, as they are now."""
    import psutil

    return [one.pid for one in psutil.Process(pid).children(recursive=True)]
