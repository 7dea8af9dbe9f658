"""What each agent's payloads come to, and how each is answered; no process, no files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agents.hooking import AGENTS, FIXTURES

from checkpointer.agents import dialects, excerpt, goingon, typed
from checkpointer.agents.dialects import Reply, Report, toolset

PROMPTS = {"claude": 2, "codex": 1, "codex-edge": 2, "gemini": 1, "qwen": 1, "copilot": 2, "opencode": 1, "cline": 1,
           "hermes": 1, "cursor": 1, "goose": 1, "openhands": 1}  # fmt: skip


def read(name: str) -> list[Report]:
    reports = json.loads((FIXTURES / f"{name}.json").read_text())["reports"]
    out = []
    for one in reports:
        payload = one["argv"][0] if one.get("argv") else one["stdin"]
        out.append(dialects.read(one["called"], one["event"], payload, one.get("env", {})))
    return out


@pytest.mark.parametrize("name", AGENTS)
def test_every_payload_is_understood(name: str) -> None:
    for report in read(name):
        assert report.kind != "unknown", report
        if report.kind not in dialects.IGNORED:
            assert report.session
            assert report.directory == "/home/dev/proj" or name == "goose"
        for call in report.calls:
            assert call.tool != "unknown"
            assert call.arguments is not None


@pytest.mark.parametrize("name", AGENTS)
def test_prompts_are_found_and_only_they(name: str) -> None:
    found = [r.text for r in read(name) if r.kind == "prompt"]
    assert len(found) == PROMPTS[name], found
    assert all(found)


@pytest.mark.parametrize("name", AGENTS)
def test_the_event_may_stand_in_either_place(name: str) -> None:
    """In the words of the call alone, or in the payload alone, where the payload has it."""
    reports = json.loads((FIXTURES / f"{name}.json").read_text())["reports"]
    for one in reports:
        if one.get("argv") or one["called"] != name:
            continue
        whole = dialects.read(name, one["event"], one["stdin"], {})
        names = ("hook_event_name", "hookName", "event", "event_type")
        bare = {key: value for key, value in one["stdin"].items() if key not in names}
        if name not in ("cursor",):  # its calls are told apart by the event in the payload alone
            assert dialects.read(name, one["event"], bare, {}).kind == whole.kind
        if len(bare) < len(one["stdin"]):
            assert dialects.read(name, "", one["stdin"], {}).kind == whole.kind


@pytest.mark.parametrize("agent", dialects.NAMES)
@pytest.mark.parametrize(
    "payload",
    [{}, {"tool_input": 5, "tool_calls": [1, None], "input": "x", "tool_name": ["a"]}, {"input": [], "args": 3},
     {"session_id": {"a": 1}, "cwd": 7, "prompt": ["a", {"text": "b"}], "hook_event_name": ["x"]}],
)  # fmt: skip
def test_any_shape_is_taken(agent: str, payload: dict[str, Any]) -> None:
    events = "nonsense PreToolUse PostToolBatch UserPromptSubmit chat.message tool.execute.after BeforeAgent preToolUse"
    for event in ("", *events.split(), "pre_llm_call", "afterFileEdit"):
        report = dialects.read(agent, event, payload, {})
        assert Report.from_json(json.loads(json.dumps(report.as_json()))).kind == report.kind
        for reply in (Reply(), Reply("no"), Reply(person="hi"), Reply(context="so")):
            said = dialects.spoken(agent, report, reply)
            assert not said or isinstance(json.loads(said), dict)


def prompt_of(agent: str) -> Report:
    name = "copilot" if agent == "copilot" else agent
    return next(r for r in read(name) if r.kind == "prompt" and not r.subagent)


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("claude", {"decision": "block", "reason": "undid"}),
        ("codex", {"decision": "block", "reason": "undid"}),
        ("qwen", {"decision": "block", "reason": "undid"}),
        ("copilot", {"decision": "block", "reason": "undid"}),
        ("opencode", {"decision": "block", "reason": "undid"}),
        ("goose", {"decision": "block", "reason": "undid"}),
        ("gemini", {"decision": "deny", "reason": "undid"}),
        ("openhands", {"decision": "deny", "reason": "undid"}),
        ("cursor", {"continue": False, "user_message": "undid"}),
        ("cline", {"cancel": True, "errorMessage": "undid"}),
    ],
)
def test_a_prompt_is_kept_from_the_model(agent: str, said: dict[str, Any]) -> None:
    assert json.loads(dialects.spoken(agent, prompt_of(agent), Reply(block="undid"))) == said


def test_where_it_cannot_be_the_model_is_told() -> None:
    said = json.loads(dialects.spoken("hermes", prompt_of("hermes"), Reply(block="undid t1")))
    assert "undid t1" in said["context"]
    assert "do nothing else" in said["context"]


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "qwen", "goose", "opencode"])
def test_words_for_the_person_and_for_the_model(agent: str) -> None:
    report = prompt_of(agent)
    said = json.loads(dialects.spoken(agent, report, Reply(person="careful", context="changed")))
    assert said["systemMessage"] == "careful"
    assert said["hookSpecificOutput"] == {"hookEventName": report.event, "additionalContext": "changed"}


def test_silence() -> None:
    for agent in dialects.NAMES:
        assert dialects.spoken(agent, prompt_of(agent), Reply()) == ("{}" if agent == "gemini" else "")


def test_claude_hooks_under_copilot_are_copilots() -> None:
    report = dialects.read("claude", "Stop", {"session_id": "s"}, {"COPILOT_CLI": "1"})
    assert (report.agent, report.shape) == ("copilot", "snake")


def test_only_an_idle_notification_says_something() -> None:
    base = {"session_id": "s", "hook_event_name": "Notification"}
    assert dialects.read("claude", "", {**base, "notification_type": "idle_prompt"}, {}).kind == "idle"
    assert dialects.read("claude", "", {**base, "notification_type": "permission_prompt"}, {}).kind == "ignored"


@pytest.mark.parametrize(
    ("tool", "effect"),
    [("Read", "read"), ("read_file", "read"), ("view", "read"), ("TodoWrite", "read"), ("Edit", "workspace"),
     ("apply_patch", "workspace"), ("Bash", "external"), ("run_shell_command", "external"), ("mcp__x__y", "external"),
     ("brand_new", "external")],
)  # fmt: skip
def test_tools(tool: str, effect: str) -> None:
    assert toolset.effect(tool) == effect


def test_our_own_tools_are_known_under_every_name() -> None:
    for name in ("mcp__ckpt__undo", "mcp_ckpt_undo", "ckpt_undo", "ckpt-undo", "mcp__plugin_ckpt_ckpt__save"):
        assert toolset.ours(name), name
    for name in ("undo", "mcp__git__undo", "ckpt", "notckpt_undo", "ckpt_undo_all"):
        assert not toolset.ours(name), name


COMMANDS = {
    "ckpt undo": ["undo"],
    "  ckpt undo\n": ["undo"],
    "/ckpt-undo t3": ["undo", "t3"],
    "ckpt undo t3..": ["undo", "t3.."],
    "ckpt undo t3..t5 --skip": ["undo", "t3..t5", "--skip"],
    "ckpt undo t3.2": ["undo", "t3.2"],
    "ckpt redo t3": ["redo", "t3"],
    "ckpt log -n 5": ["log", "-n", "5"],
    "ckpt diff t3- now": ["diff", "t3-", "now"],
    "ckpt diff --stat": ["diff", "--stat"],
    "ckpt status": ["status"],
}
FOR_THE_MODEL = r"""
ckpt|undo|ckpt undo please|please ckpt undo|ckpt undo\nand then go on|ckpt undo t|CKPT undo|ckpt undo t1 t2|ckpt undo 3
ckpt purge x|ckpt forget .|ckpt undo --|ckpt status now|ckptundo|/undo|ckpt-undo|ckpt undo; rm -rf /|ckpt log -n x
what does ckpt undo do?||ckpt undo --run r1|ckpt -C / undo
"""


@pytest.mark.parametrize("prompt", COMMANDS)
def test_what_is_a_command(prompt: str) -> None:
    assert typed.call_of(prompt) == COMMANDS[prompt]


def test_what_is_for_the_model() -> None:
    for line in FOR_THE_MODEL.strip().split("\n"):
        for prompt in line.split("|"):
            assert typed.call_of(prompt.replace("\\n", "\n")) is None, prompt


def test_secrets_go_and_everything_else_stays() -> None:
    gone = ["AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1" * 18, "sk-ant-" + "x9" * 20, "hunter2hunter2"]
    text = f"aws {gone[0]} gh {gone[1]} key {gone[2]} PASSWORD={gone[3]} https://me:{gone[3]}@host/x"
    kept = excerpt.words(text)
    assert not [secret for secret in gone if secret in kept]
    plain = "commit 9fceb02d0ae598e95dc970b74767f19372d61af8, token = next(tokens); password: str; sha256:" + "ab" * 32
    assert excerpt.words(plain) == plain


def test_half_a_token_is_nowhere() -> None:
    token = "ghp_" + "a1" * 18
    kept = excerpt.kept({"text": "y" * (excerpt.LONGEST * 3 // 4 - 10) + f" {token} " + "z" * excerpt.LONGEST})
    assert "ghp_" not in json.dumps(kept)


def test_what_is_kept_is_bounded() -> None:
    deep: Any = "x"
    for _ in range(50):
        deep = {"a": [deep, float("nan")]}
    kept = excerpt.kept({"text": "y" * 100_000, "list": list(range(1000)), "deep": deep, "api_key": "abcdefgh"})
    assert len(json.dumps(kept)) < 10_000
    assert kept["api_key"] == "[redacted: api_key]"
    assert kept["text"].startswith("yyy")
    assert kept["text"].endswith("yyy")


G = goingon.GO_ON
WAYS: dict[tuple[str, str], list[str]] = {
    ("claude", "claude --model x"): ["claude", "--resume", "ID"],
    ("claude", "claude -p task --model x"): ["claude", "--resume", "ID", "--model", "x", "-p", G],
    ("claude", "node /x/claude-code/cli.js --continue"): ["claude", "--resume", "ID"],
    ("codex", "codex"): ["codex", "resume", "ID"],
    ("codex", "/v/codex exec --json -m y task"): ["/v/codex", "exec", "resume", "ID", "--json", "-m", "y", G],
    ("codex", "codex exec resume --last --json task"): ["codex", "exec", "resume", "ID", "--json", G],
    ("codex", "codex exec resume OLD --json task"): ["codex", "exec", "resume", "ID", "--json", G],
    ("gemini", "node /b/gemini --resume latest -p task --yolo"): [
        "node", "/b/gemini", "--resume", "ID", "--yolo", "-p", G,
    ],
    ("opencode", "opencode run -c --format json task"): ["opencode", "run", "--session", "ID", "--format", "json", G],
    ("copilot", ""): ["copilot", "--resume", "ID"],
    ("cursor", "cursor-agent"): ["cursor-agent", "--resume", "ID"],
    ("aider", "aider"): [],
}  # fmt: skip


@pytest.mark.parametrize(("agent", "command"), WAYS)
def test_how_an_agent_goes_on(agent: str, command: str) -> None:
    assert goingon.words(agent, "ID", command.split()) == WAYS[agent, command]


def test_without_a_session_nobody_goes_on() -> None:
    assert goingon.words("claude", "", ["claude"]) == []


def test_an_agent_that_can_ask_is_told_to_in_its_own_words() -> None:
    reply = Reply(ask="may happen twice")
    asked = {"permissionDecision": "ask", "permissionDecisionReason": "may happen twice"}
    for agent in ("claude", "qwen"):
        report = Report(agent, "PreToolUse", "tool-start")
        said = json.loads(dialects.spoken(agent, report, reply))
        assert said == {"hookSpecificOutput": {"hookEventName": "PreToolUse", **asked}}
    camel = Report("copilot", "preToolUse", "tool-start", shape="camel")
    assert json.loads(dialects.spoken("copilot", camel, reply)) == asked
    shell = Report("cursor", "beforeShellExecution", "tool-start")
    assert json.loads(dialects.spoken("cursor", shell, reply)) == {
        "permission": "ask",
        "user_message": "may happen twice",
    }
    assert [name for name in dialects.NAMES if dialects.dialect(name).asks] == ["claude", "qwen", "copilot", "cursor"]
