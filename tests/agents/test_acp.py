"""`ckpt acp` between a scripted editor and a scripted agent: turns, undo, and every byte as it was."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable

import psutil
import pytest
from editor import PATIENCE, Editor, text
from harness.world import World


def events(world: World, run: str = "r1") -> list[dict[str, object]]:
    return world.ckpt("events", run, "--json").lines


def of(world: World, kind: str, run: str = "r1") -> list[dict[str, object]]:
    return [e for e in events(world, run) if e["type"] == kind]


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_prompts_are_turns_and_calls_are_steps(world: World) -> None:
    world.write("a", "one\n")
    with Editor(world) as editor:
        s = editor.session()
        one = [["begin", "c1", "edit"], ["write", "a", "two\n"], ["end", "c1", "completed"], ["say", "half"]]
        editor.prompt(s, *one, ["ask", "c2"], ["write", "b", "x"], ["end", "c2", "completed"], words="first")
        world.write("mine", "kept")
        two = [["begin", "c1", "execute"], ["write", "c", "3"], ["end", "c1", "failed"]]
        editor.prompt(s, ["begin", "r", "read"], ["end", "r", "completed"], *two)
        answer = editor.say(s, "/ckpt-undo t1")
        assert answer["result"] == {"stopReason": "end_turn"}
        assert "undid t1" in editor.said()
        assert (world.read("a"), world.has("b"), world.read("c"), world.read("mine")) == (
            b"one\n",
            False,
            b"3",
            b"kept",
        )
        editor.say(s, "ckpt undo")
        assert (world.has("c"), world.read("mine")) == (False, b"kept")
        editor.say(s, "/ckpt-redo")
        assert world.read("c") == b"3"
        assert editor.end() == 0
    assert editor.heard.read_bytes().count(b"session/prompt") == 2
    assert [(e["turn"], e["step"], e["tool"], e["effect"]) for e in of(world, "tool_call_started")] == [
        (1, 1, "edit", "workspace"),
        (1, 2, "edit", "workspace"),
        (2, 1, "read", "read"),
        (2, 2, "execute", "external"),
    ]
    assert [e.get("failed", False) for e in of(world, "tool_call_completed")] == [False, False, False, True]
    assert [(e["cause"], e["by"]) for e in of(world, "workspace_changed") if e["cause"] != "step"] == [
        ("edit", "unknown"),
        ("undo", "person"),
        ("undo", "person"),
        ("redo", "person"),
    ]
    assert of(world, "user_message")[0]["context"] == s
    assert [e["stop"] for e in of(world, "model_turn")] == [None, "end_turn", "end_turn"]
    assert of(world, "run_finished")[0]["outcome"] == "ended"


def test_the_agent_is_told_of_an_undo_at_its_next_prompt(world: World) -> None:
    with Editor(world) as editor:
        s = editor.session()
        editor.prompt(s, ["write", "a", "1"])
        world.ckpt("undo")
        editor.say(s, "/init")  # a command of the agent's: nothing may stand beside it
        editor.prompt(s, ["say", "x"])
        editor.prompt(s, ["say", "y"])
        editor.end()
    heard = [json.loads(line)["params"]["prompt"] for line in editor.heard.read_bytes().splitlines()[1:]]
    assert [len(prompt) for prompt in heard] == [1, 1, 2, 1]
    assert "undid t1: a (removed)" in heard[2][1]["text"]
    assert heard[2][0] == text(["say", "x"])


def test_between_turns_edits_are_the_persons(world: World) -> None:
    world.write("a", "1\n")
    with Editor(world) as editor:
        editor.prompt(editor.session(), ["write", "a", "2\n"])
        world.write("a", "3\n")
        assert world.ckpt("--json").json["open_turn"] is None
        assert "outside any agent" in world.ckpt("undo", ok=3).err
        assert world.read("a") == b"3\n"


def test_every_byte_passes(world: World) -> None:
    odd = [
        b"not json at all\r\n",
        b'{"jsonrpc": "2.0",   "id": null, "method": "x/y"}\r\n',
        b"\n",
        b'{"id":{"a":[1.50]},"method":"session/prompt","params":{"sessionId":7}}\n',
        b'{"id":1e400,"method":"session/prompt","params":[]}\n',
        b'[{"id":"b1","method":"x"},{"id":"b2","method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}]\n',
        b'{"\xff\xfe": 1}\n',
        b"[" * 5000 + b"\n",
        b'{"id":"big","method":"session/prompt","params":{"sessionId":"s9","prompt":"' + b"x" * (9 << 20) + b'"}}\n',
        b"no end of line",
    ]
    back = [
        '{"method": "session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call"}}}\r\n',
        "{]\n",
        "\n",
    ]
    back += ['{"id":"zz","result":' + "y" * 100_000 + "}\n", '[{"id":1,"result":{}},5]\n', "\udcff\udcfe\n", "rest\n"]
    with Editor(world) as editor:
        s = editor.session()
        at = len(editor.lines)
        editor.prompt(s, *(["raw", piece] for piece in back))
        for line in odd:
            for cut in range(0, len(line), 3_000_000):
                editor.write(line[cut : cut + 3_000_000])
        assert editor.end() == 0
    came = b"".join(editor.lines[at:])
    sent = "".join(back).encode("utf-8", "surrogateescape")
    assert sent in came
    heard = editor.heard.read_bytes()
    assert heard.endswith(b"".join(odd))
    assert heard.count(b"\n") == 2 + sum(line.count(b"\n") for line in odd)


def test_our_commands_stand_beside_the_agents(world: World) -> None:
    with Editor(world) as editor:
        s = editor.session()
        editor.until("session/update", "method")
        editor.prompt(s, ["commands", ["init", "ckpt-log"]])
        editor.prompt(s, ["commands", []])
        listed = [u["availableCommands"] for u in editor.updates if u["sessionUpdate"] == "available_commands_update"]
    ours = ["ckpt-undo", "ckpt-redo", "ckpt-log"]
    assert [[c["name"] for c in one] for one in listed] == [ours, ["init", "ckpt-log", "ckpt-undo", "ckpt-redo"], ours]
    assert all(c["description"] for one in listed for c in one)


def test_a_slow_editor_stops_nobody_and_fills_no_memory(world: World) -> None:
    with Editor(world) as editor:
        s = editor.session()
        editor.reading.clear()
        last = editor.ask("session/prompt", sessionId=s, prompt=[text(["spin", 30_000])])
        for n in range(200):  # more than pipes and buffers hold: somebody reads them
            editor.write(b'{"method":"x","params":"' + b"p" * 100_000 + b'%d"}\n' % n)
        most = psutil.Process(editor.process.pid).memory_info().rss
        assert len(editor.lines) < 1000
        editor.reading.set()
        assert editor.until(last)["result"]
        assert editor.end() == 0
    assert most < 200 << 20
    assert sum(b"agent_thought_chunk" in line for line in editor.lines) == 30_000
    assert editor.heard.read_bytes().count(b'"method":"x"') == 200


def test_a_killed_proxy_takes_its_agent_along(world: World) -> None:
    world.write("a", "1")
    with Editor(world, STAYS="1") as editor:
        s = editor.session()
        agent = editor.agent
        editor.ask(
            "session/prompt", sessionId=s, prompt=[text(["begin", "c", "edit"], ["write", "a", "2"], ["wait", "never"])]
        )
        wait_for(lambda: world.read("a") == b"2")
        editor.process.kill()
        assert psutil.wait_procs([agent], PATIENCE)[1] == []
    wait_for(lambda: bool(of(world, "run_released")))
    assert of(world, "run_released")[0]["how"] == "interrupted"
    world.ckpt("undo")
    assert world.read("a") == b"1"


def test_calls_at_once_are_one_step_and_unreported_ends_are_normal(world: World) -> None:
    with Editor(world) as editor:
        s = editor.session()
        editor.prompt(s, ["begin", "c1", "edit"], ["begin", "c2", "execute"], ["write", "a", "1"], ["write", "b", "2"],
                      ["end", "c2", "completed"])  # fmt: skip
        assert [e["verdict"] for e in of(world, "tool_call_reconciled")] == ["unreported"]
        assert world.ckpt("uncertain").out == "nothing is uncertain\n"
        world.ckpt("undo")
        assert not world.has("a")
        assert not world.has("b")


def test_a_cancelled_turn_leaves_what_nobody_knows_as_a_question(world: World) -> None:
    with Editor(world) as editor:
        s = editor.session()
        begun = [["begin", f"c{n}", kind] for n, kind in enumerate(("edit", "execute", "read"))]
        editor.prompt(s, *begun, ["write", "a", "1"], ["stop", "cancelled"])
        questions = world.ckpt("uncertain", "--json").lines
        verdicts = {e["key"]: e["verdict"] for e in of(world, "tool_call_reconciled")}
        tools = {e["key"]: e["tool"] for e in of(world, "tool_call_started")}
        told = {tools[key]: verdict for key, verdict in verdicts.items()}
        assert told["execute"] == "escalate"
        assert told["read"] == "unreported"
        assert "do c1" in json.dumps(questions)
        assert editor.end() == 0
    assert of(world, "run_released")[0]["how"] == "ended"
    world.ckpt("undo")
    assert not world.has("a")


def test_an_agent_that_dies_ends_the_run(world: World) -> None:
    world.write("a", "1")
    with Editor(world) as editor:
        s = editor.session()
        editor.ask(
            "session/prompt", sessionId=s, prompt=[text(["begin", "c", "edit"], ["write", "a", "2"], ["die", 9])]
        )
        assert editor.process.wait(PATIENCE) == 137
    assert [(e["how"], e["status"]) for e in of(world, "run_released")] == [("interrupted", 137)]
    assert "interrupted" in world.ckpt("runs").out
    world.ckpt("undo")
    assert world.read("a") == b"1"


def test_an_editor_that_dies_ends_agent_and_run(world: World) -> None:
    with Editor(world) as editor:
        s = editor.session()
        go = world.base / "go"
        steps = [["write", "a", "2"], ["write", os.fspath(go), ""], ["wait", "never"]]
        editor.ask("session/prompt", sessionId=s, prompt=[text(*steps)])
        wait_for(go.exists)
        assert editor.end() == 0
    assert [e["how"] for e in of(world, "run_released")] == ["interrupted"]
    world.ckpt("undo")
    assert not world.has("a")


def test_status_and_signals_are_the_agents(world: World) -> None:
    with Editor(world, ENDS_WITH="7") as editor:
        editor.session()
        assert editor.end() == 7
    with Editor(world) as editor:
        editor.session()
        editor.process.send_signal(signal.SIGTERM)
        assert editor.process.wait(PATIENCE) == 143
    assert [e["status"] for e in of(world, "run_finished")] == [7]
    assert [e["how"] for e in of(world, "run_released", "r2")] == ["interrupted"]
    with Editor(world, agent=("no-such-agent-here",)) as editor:
        assert editor.process.wait(PATIENCE) == 127
    assert "not found" in editor.stderr
    assert of(world, "run_released", "r3")


def test_what_cannot_be_protected_is_not_started(world: World) -> None:
    ran = os.fspath(world.root / "ran")
    done = world.ckpt("-C", "/", "acp", "--", "touch", ran, ok=125)
    assert "nothing was started; ckpt acp --unprotected" in done.err
    assert done.out == ""
    assert not world.has("ran")
    done = world.ckpt("-C", "/", "acp", "--unprotected", "--", "touch", ran)
    assert "NOT PROTECTED" in done.err
    assert world.has("ran")


def test_a_session_elsewhere_is_protected_there_or_refused(world: World) -> None:
    other = world.base / "other"
    other.mkdir()
    (other / "f").write_text("1")
    with Editor(world) as editor:
        refused = editor.call("session/new", cwd="/", mcpServers=[])
        assert "no session was started" in refused["error"]["message"]
        s = editor.session(other)
        editor.prompt(s, ["write", os.fspath(other / "f"), "2"])
        assert "undid t1" in world.ckpt("-C", os.fspath(other), "undo").out
        assert (other / "f").read_text() == "1"
        assert editor.end() == 0
    assert b'"cwd": "/"' not in editor.heard.read_bytes()
    with Editor(world, "--unprotected") as editor:
        assert editor.call("session/new", cwd="/", mcpServers=[])["result"]["sessionId"] == "s1"
        editor.end()
    assert "NOT PROTECTED" in editor.stderr


def test_what_is_told_of_an_old_conversation_is_no_work(world: World) -> None:
    with Editor(world) as editor:
        editor.call("session/load", sessionId="old", cwd=os.fspath(world.root), mcpServers=[])
        editor.prompt("old", ["write", "a", "1"])
        editor.end()
    assert of(world, "tool_call_started") == []
    assert [e["context"] for e in of(world, "user_message")] == ["old"]


def test_the_agents_own_undo_is_the_agents(world: World) -> None:
    world.ckpt("run", "--", "sh", "-c", "echo 1 > before")
    ckpt = [sys.executable, "-P", "-m", "checkpointer"]
    with Editor(world) as editor:
        s = editor.session()
        editor.prompt(s, ["ckpt", [*ckpt, "undo"]])
        assert "nothing to undo" in editor.said()
        assert world.has("before")
        editor.prompt(s, ["write", "a", "1"], ["ckpt", [*ckpt, "undo", "--force"]], ["ckpt", [*ckpt, "undo"]])
        assert "for a person to do" in editor.said()
        assert not world.has("a")
        editor.end()
    assert [(e["cause"], e["by"]) for e in of(world, "workspace_changed", "r2") if e["cause"] != "step"] == [
        ("undo", "agent")
    ]


@pytest.mark.parametrize("who", ["proxy", "agent", "proxy and agent"])
def test_a_kill_leaves_a_whole_store(world: World, who: str) -> None:
    world.write("a", "0")
    with Editor(world) as editor:
        s = editor.session()
        agent = editor.agent
        steps = [
            step
            for n in range(40)
            for step in (["begin", f"c{n}", "edit"], ["write", "a", f"{n}"], ["end", f"c{n}", "completed"])
        ]
        editor.ask("session/prompt", sessionId=s, prompt=[text(*steps)])
        wait_for(lambda: sum("tool_call_update" in u["sessionUpdate"] for u in list(editor.updates)) >= 5)
        if "agent" in who:
            agent.kill()
        if "proxy" in who:
            editor.process.kill()
        editor.process.wait(PATIENCE)
        psutil.wait_procs([agent], PATIENCE)
    wait_for(lambda: world.ckpt("runs", "--json").lines[0]["status"] == "interrupted")
    world.ckpt("verify")
    world.ckpt("undo")
    assert world.read("a") == b"0"


def test_protection_that_is_lost_is_told_once(world: World) -> None:
    with Editor(world) as editor:
        s = editor.session()
        packs = world.store / "shadow.git/objects/pack"
        away = packs.with_name("away")
        packs.rename(away)
        packs.write_text("in the way")
        for n in range(3):
            assert editor.prompt(s, ["begin", "c", "edit"], ["write", "a", f"{n}"], ["end", "c", "completed"])["result"]
        assert editor.said().count("NOT PROTECTED from here on") == 1
        packs.unlink()
        away.rename(packs)
        editor.prompt(s, ["write", "a", "x"])
        assert editor.said().count("protected again") == 1
        assert editor.end() == 0
    assert editor.stderr.count("NOT PROTECTED from here on") == 1


def test_the_agents_own_hooks_report_nothing_twice(world: World) -> None:
    payload = {"session_id": "h", "cwd": os.fspath(world.root), "hook_event_name": "UserPromptSubmit", "prompt": "x"}
    hook = ["sh", "-c", f"echo '{json.dumps(payload)}' | {world.env['CKPT']} hook claude UserPromptSubmit"]
    with Editor(world) as editor:
        editor.prompt(editor.session(), ["ckpt", hook])
        editor.end()
    assert [info["id"] for info in world.ckpt("runs", "--json").lines] == ["r1"]
