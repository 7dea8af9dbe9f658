"""What goes wrong with hooks in practice, each through the real hook."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agents.hooking import Player, Told, told, until
from harness.manifest import same
from harness.world import World

from checkpointer.agents import ancestry, diary, protection
from checkpointer.agents.dialects.report import Report
from checkpointer.agents.intake import FULL, PLENTY, Intake
from checkpointer.agents.observing import Observer


class Claude:
    """A session of Claude Code in a world."""

    def __init__(self, player: Player, session: str = "s1") -> None:
        self.player = player
        self.session = session
        self.cwd = str(player.world.root)
        self.more: dict[str, Any] = {}

    def __call__(self, event: str, **more: Any) -> dict[str, Any]:
        given = {"session_id": self.session, "cwd": self.cwd, "hook_event_name": event, **self.more, **more}
        return self.player.answer("claude", event, **given)

    def prompt(self, text: str, **more: Any) -> dict[str, Any]:
        return self("UserPromptSubmit", prompt=text, **more)

    def before(self, call: str, tool: str = "Bash", **arguments: Any) -> dict[str, Any]:
        return self("PreToolUse", tool_name=tool, tool_input=arguments, tool_use_id=call)

    def after(self, call: str, tool: str = "Bash", **arguments: Any) -> dict[str, Any]:
        return self("PostToolUse", tool_name=tool, tool_input=arguments, tool_use_id=call, tool_response={"ok": True})


@pytest.fixture
def player(world: World) -> Player:
    return Player(world)


@pytest.fixture
def claude(player: Player) -> Claude:
    return Claude(player)


def shown(player: Player, turn: str) -> dict[str, set[str]]:
    """Which files each step of a turn changed."""
    document = player.world.ckpt("show", turn, "--json").json
    return {s["handle"]: {c["path"] for c in s["changed"]} for s in document["steps"]}


def test_a_call_whose_end_is_never_told(player: Player, claude: Claude) -> None:
    """A failed patch, a command in the background, an interruption: the turn's end has what it changed."""
    claude.prompt("go")
    claude.before("c1", "apply_patch", command="*** Begin Patch")
    player.world.write("half.txt", "half\n")
    claude.before("c2", command="sleep 9 &", run_in_background=True)
    claude.after("c2", command="sleep 9 &", run_in_background=True)
    player.world.write("late.txt", "late\n")
    assert claude("Stop", last_assistant_message="done") == {}
    assert set().union(*shown(player, "t1").values()) == {"half.txt", "late.txt"}
    player.world.go("undo", to=player.start)


def test_the_first_report_takes_the_base_whichever_it_is(player: Player, claude: Claude) -> None:
    claude.after("c0", command="true")
    player.world.write("new.txt", "x\n")
    claude.after("c1", command="make")
    player.world.go("undo", to=player.start)


def test_what_a_person_does_between_steps_is_not_the_agents(player: Player, claude: Claude) -> None:
    claude.prompt("go")
    claude.before("c1", command="cat notes")
    claude.after("c1", command="cat notes")
    player.world.write("mine.txt", "mine\n")
    claude.before("c2", command="make")
    player.world.write("its.txt", "its\n")
    claude.after("c2", command="make")
    player.world.write("mine too.txt", "mine\n")
    claude("Stop")
    assert shown(player, "t1") == {"t1.2": {"its.txt"}}
    player.world.ckpt("undo")
    assert player.world.read("mine.txt") == b"mine\n"
    assert player.world.read("mine too.txt") == b"mine\n"
    assert not (player.world.root / "its.txt").exists()


def test_escape_tells_nothing_and_the_next_prompt_ends_the_turn(player: Player, claude: Claude) -> None:
    claude.prompt("go")
    claude.before("c1", command="make")
    player.world.write("a", "1\n")
    claude.prompt("no, otherwise")
    player.world.write("b", "2\n")  # a person, before the agent does anything
    claude.before("c2", command="make")
    player.world.write("c", "3\n")
    claude.after("c2", command="make")
    assert shown(player, "t1") == {"t1.1": {"a"}}
    assert shown(player, "t2") == {"t2.1": {"c"}}
    claude("Stop")
    verdicts = [e["verdict"] for e in player.events() if e["type"] == "tool_call_reconciled"]
    assert verdicts == ["unreported"]


def test_an_idle_notification_ends_the_turn(player: Player, claude: Claude) -> None:
    claude.prompt("go")
    claude.before("c1", command="make")
    player.world.write("a", "1\n")
    claude("Notification", notification_type="idle_prompt")
    assert player.world.ckpt("--json", "status").json["open_turn"] is None
    player.world.write("b", "mine\n")
    player.world.ckpt("undo")
    assert (player.world.root / "b").exists()
    assert not (player.world.root / "a").exists()


def test_interrupted_calls_are_uncertain_where_nobody_can_tell(player: Player, claude: Claude) -> None:
    claude.prompt("go")
    claude.before("c1", "Read", file_path="greet.py")
    claude.before("c2", "Write", file_path="w.txt")
    claude.before("c3", command="curl -X POST https://example.org/pay")
    player.world.write("w.txt", "w\n")
    claude("Interrupt")
    items = player.world.ckpt("uncertain", "--json").json["uncertain"]
    assert [i["tool"] for i in items] == ["Bash"]
    assert "outside this folder" in items[0]["rule"]
    told = claude.prompt("go on")["hookSpecificOutput"]["additionalContext"]
    assert "cut off" in told
    assert "Bash: UNKNOWN" in told
    assert "w.txt" in told
    assert claude.prompt("and on") == {}


def test_who_wants_it_is_asked_before_a_call_in_question_is_made_again(player: Player, claude: Claude) -> None:
    pay = {"command": "curl -X POST https://example.org/pay"}
    claude.prompt("go")
    claude.before("c1", **pay)
    claude("Interrupt")
    claude.prompt("go on")
    assert claude.before("c2", **pay) == {}, "nobody wanted it"
    claude.after("c2", **pay)
    player.world.ckpt("config", "hooks.ask", "true")
    said = claude.before("c3", **pay)["hookSpecificOutput"]
    assert said["permissionDecision"] == "ask"
    assert "may happen twice" in said["permissionDecisionReason"]
    assert "ckpt settle u1 --happened" in said["permissionDecisionReason"]
    assert claude.before("c4", command="curl https://example.org") == {}
    assert claude.before("c5", "Read", **pay) == {}
    player.world.ckpt("settle", "u1", "--did-not-happen", "--why", "the bank says so")
    assert "you said: did not happen; its run takes that in" in player.world.ckpt("uncertain").out
    assert claude.before("c6", **pay) == {}


def test_the_directory_moves_with_the_calls(player: Player, claude: Claude) -> None:
    """Also into a repository of its own inside: the session stays with the workspace it was started in."""
    root = player.world.root
    claude("SessionStart", source="startup")
    player.world.sh("mkdir -p sub/deep && git init -q sub")
    claude.cwd = str(root / "sub")
    claude.prompt("go")
    claude.cwd = str(root / "sub/deep")
    claude.before("c1", command="make")
    (root / "sub/deep/x").write_text("x\n")
    claude.after("c1", command="make")
    claude.cwd = "/tmp"
    claude("Stop")
    assert len(player.world.stores()) == 1
    assert shown(player, "t1") == {"t1.1": {"sub/deep/x"}}


def test_a_subagent_belongs_to_its_session(player: Player, claude: Claude) -> None:
    """Its prompt begins no turn, its calls are steps of the turn, also under ids that the session uses itself."""
    claude.prompt("go")
    claude.before("c1", "Task", prompt="kid")
    kid = {"agent_id": "a1", "agent_type": "worker"}
    claude.more = kid
    claude.prompt("kid, work")
    claude.before("c1", command="make kid")
    player.world.write("kid.txt", "kid\n")
    claude.after("c1", command="make kid")
    claude("SubagentStop", last_assistant_message="kid is done")
    claude.more = {}
    claude.after("c1", "Task", prompt="kid")
    claude("Stop", last_assistant_message="done")
    lines = player.world.ckpt("log", "--json").lines
    assert [line["turn"] for line in lines if line["kind"] == "turn"] == ["t1"]
    assert shown(player, "t1") == {"t1.2": {"kid.txt"}}
    assert {e["context"] for e in player.events() if e["type"] == "model_turn"} == {"main", "agent a1"}


def test_subagents_of_opencode_have_sessions_of_their_own(player: Player) -> None:
    cwd = str(player.world.root)

    def send(event: str, **more: Any) -> None:
        player.say("opencode", event, cwd=cwd, **more)

    send("event:session.created", properties={"info": {"id": "root"}})
    send("chat.message", input={"sessionID": "root"}, text=["go"])
    send("event:session.created", properties={"info": {"id": "kid", "parentID": "root"}})
    send("chat.message", input={"sessionID": "kid"}, text=["kid, work"])
    send("tool.execute.before", input={"tool": "bash", "sessionID": "kid", "callID": "c"}, args={"command": "make"})
    player.world.write("kid.txt", "kid\n")
    send(
        "tool.execute.after", input={"tool": "bash", "sessionID": "kid", "callID": "c"}, args={}, output={"output": ""}
    )
    send("event:session.idle", properties={"sessionID": "kid"})
    assert player.session()["open"]
    send("event:session.idle", properties={"sessionID": "root"})
    assert [r["turns"] for r in player.world.ckpt("runs", "--json").lines] == [["t1"]]
    player.world.go("undo", to=player.start)


def test_copilot_tells_everything_twice(player: Player) -> None:
    player.play(told("copilot", player.world.root))
    tools = [e["tool"] for e in player.events() if e["type"] == "tool_call_started"]
    assert tools == ["view", "edit", "create", "bash"]
    assert [line["turn"] for line in player.world.ckpt("log", "--json").lines if line["kind"] == "turn"] == ["t1"]


def test_the_same_call_again_is_another_one(player: Player) -> None:
    """Without ids, two calls with the same words are told apart by their times, and paired oldest first."""
    base = {"session_id": "g", "cwd": str(player.world.root), "tool_name": "run_shell_command"}
    for n in range(2):
        call = {**base, "tool_input": {"command": "date >> dates"}}
        player.say("gemini", "BeforeTool", **call, timestamp=f"2026-01-01T00:00:0{n}.1Z")
        with (player.world.root / "dates").open("a") as f:
            f.write(f"{n}\n")
        player.say("gemini", "AfterTool", **call, timestamp=f"2026-01-01T00:00:0{n}.2Z", tool_response={})
    player.say("gemini", "AfterAgent", session_id="g", cwd=str(player.world.root), prompt_response="ok")
    assert shown(player, "t1") == {"t1.1": {"dates"}, "t1.2": {"dates"}}
    assert [e["paired"] for e in player.events() if e["type"] == "tool_call_completed"] == ["guess", "guess"]


def test_failure_is_told_in_many_ways(player: Player, claude: Claude) -> None:
    claude.prompt("go")
    claude.before("c1", command="false")
    claude("PostToolUseFailure", tool_name="Bash", tool_input={"command": "false"}, tool_use_id="c1", error="exit 1")
    claude("Stop")
    (made,) = (e for e in player.events() if e["type"] == "tool_call_completed")
    assert made["failed"]
    assert made["effect"] == "done"  # that it failed is no proof that it did nothing


def test_a_batch_ends_its_calls(player: Player, claude: Claude) -> None:
    claude.prompt("go")
    claude.before("c1", "Write", file_path="a")
    claude.before("c2", "Write", file_path="b")
    player.world.write("a", "a\n")
    player.world.write("b", "b\n")
    calls = [
        {"tool_name": "Write", "tool_input": {"file_path": p}, "tool_use_id": c} for c, p in (("c1", "a"), ("c2", "b"))
    ]
    claude("PostToolBatch", tool_calls=calls)
    assert player.session()["calls"] == {}
    assert shown(player, "t1") == {"t1.1+2": {"a", "b"}}


def test_a_burst_costs_one_capture(player: Player, claude: Claude) -> None:
    """Forty ends at once: all are known, none fails, and there are far fewer checkpoints than that."""
    claude.prompt("go")
    base = {"session_id": "s1", "cwd": str(player.world.root), "tool_name": "Bash", "tool_input": {"command": "x"}}
    for n in range(40):
        player.world.write(f"f{n}", f"{n}\n")
    running = [player.spawn(Told("claude", "PostToolUse", {**base, "tool_use_id": f"c{n}"})) for n in range(40)]
    for pid, read in running:
        os.close(read)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    claude("Stop")
    assert len({e["key"] for e in player.events() if e["type"] == "tool_call_completed"}) == 40
    assert len(player.world.ckpt("log", "--checkpoints", "--json").lines) < 12
    player.world.go("undo", to=player.start)


def test_the_queue_is_bounded(tmp_path: Path) -> None:
    intake = Intake(tmp_path, "run")
    intake.make()
    big = Report("claude", "PreToolUse", "tool-start", "s", text="x" * 60_000)
    taken = [intake.add(big, needed=False) for _ in range(10)]
    assert taken.count(True) < 10
    assert (intake.place / "queue").stat().st_size <= PLENTY
    while intake.add(big, needed=True):
        pass
    assert (intake.place / "queue").stat().st_size <= FULL
    assert len(intake.take()) > 50
    intake.close()


def test_looking_costs_no_scan_and_no_heavy_import(player: Player, claude: Claude) -> None:
    """Before and after a tool that only reads: the files are not looked at, and nothing large is imported."""
    player.agent = 0
    claude.prompt("go")
    count = len(player.world.ckpt("log", "--checkpoints", "--json").lines)
    player.world.write("mine.txt", "mine\n")
    script = (
        "import sys, json; from checkpointer.__main__ import main; status = main(sys.argv[1:]);"
        "print(json.dumps([status, sorted({n.partition('.')[0] for n in sys.modules})]))"
    )
    # The owner of the run is this process, so the interpreter below must be its child, as here.
    stdin = {"session_id": "s1", "cwd": str(player.world.root), "tool_name": "Read", "tool_input": {"file_path": "x"},
             "tool_use_id": "r1"}  # fmt: skip
    for event in ("PreToolUse", "PostToolUse"):
        done = subprocess.run(
            [sys.executable, "-c", script, "hook", "claude", event], input=json.dumps(stdin), env=player.world.env,
            capture_output=True, text=True, cwd=player.world.root,
        )  # fmt: skip
        status, modules = json.loads(done.stdout)
        assert (status, done.stderr) == (0, "")
        assert not {"pydantic", "pygit2", "click", "watchdog", "psutil", "tomlkit"}.intersection(modules)
    assert len(player.world.ckpt("log", "--checkpoints", "--json").lines) == count
    claude("Stop")
    assert [e["tool"] for e in player.events() if e["type"] == "tool_call_started"] == ["Read"]
    assert "no files changed" in player.world.ckpt("show", "t1").out


def test_our_own_tools_are_no_steps(player: Player, claude: Claude) -> None:
    claude.prompt("go")
    claude.before("c1", command="make")
    player.world.write("a", "1\n")
    claude.after("c1", command="make")
    claude.before("c2", "mcp__ckpt__undo")
    player.world.ckpt("undo", env={"CKPT_RUN": "r1"})
    claude.after("c2", "mcp__ckpt__undo")
    claude("Stop")
    assert [e["tool"] for e in player.events() if e["type"] == "tool_call_started"] == ["Bash"]
    assert claude.prompt("next") == {}  # it was the agent's own undo: nobody tells it


@pytest.mark.parametrize("sent", [b"", b"not json", b"[1, 2]", b'{"a": ', b"\xff\xfe\x00", b'"text"', b"{}" * 5])
def test_whatever_is_sent_the_agent_goes_on(player: Player, sent: bytes) -> None:
    for words in (["hook", "claude", "Unheard"], ["hook", "claude"], ["hook", "nobody", "X"], ["hook"]):
        result = player.world.ckpt(*words, input=sent) if words == ["hook", "claude", "Unheard"] else None
        if result is not None:
            assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
    assert player.hook(Told("nobody", "X", {})) == ""
    assert "passed over" in player.problems
    assert "no agent is called" in player.problems


@pytest.mark.parametrize("stdin", [[1, 2], "text", None, {"prompt": "one"}])
def test_a_report_that_names_no_session_begins_no_run(player: Player, stdin: Any) -> None:
    for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "UserPromptSubmit"):
        assert player.hook(Told("claude", event, stdin)) == ""
    assert player.world.stores() == []
    assert "it names no session" in player.problems


def test_switched_off(player: Player) -> None:
    player.world.env["CKPT_OFF"] = "1"
    for one in told("codex", player.world.root):
        assert player.hook(one) == ""
    assert player.world.stores() == []


def test_a_loss_of_protection_is_told_once_and_so_is_its_end(player: Player, claude: Claude) -> None:
    root = player.world.root
    aside = root.with_name("aside")
    assert claude.prompt("one") == {}
    claude("Stop")
    root.rename(aside)  # the files cannot be read any more
    said = []
    for event in ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "UserPromptSubmit"):
        stdin = {"session_id": "s1", "cwd": str(root), "prompt": f"p {event}", "tool_name": "Bash", "tool_use_id": "c1",
                 "tool_input": {"command": "make"}}  # fmt: skip
        said.append(player.hook(Told("claude", event, stdin), cwd=Path("/")))
    assert [bool(s) for s in said] == [True, False, False, False, False]
    message = json.loads(said[0])["systemMessage"]
    assert message.startswith("ckpt: NOT PROTECTED since")
    status = player.world.ckpt("-C", str(root), "status", cwd=Path("/"))
    assert "NOT PROTECTED" in status.out
    aside.rename(root)
    said_of = player.world.ckpt("status").out.split("\n")[0]
    assert "NOT PROTECTED: since " in said_of
    assert "the hooks of claude (session s1) could not keep what it did" in said_of
    player.world.write("notes.txt", "by the agent, unprotected\n")
    claude.before("c9", command="make")  # kept again from here on
    newest = player.world.ckpt("log", "--checkpoints").out.split("\n")[0]
    assert "an agent or you" in newest
    said = [json.dumps(claude.prompt("three")), json.dumps(claude.prompt("four"))]
    assert "protected again" in said[0]
    assert "again" not in said[1]
    assert "could not keep" not in player.world.ckpt("status").out
    refused = player.world.ckpt("restore", "1", "--dry-run", "--yes").out
    assert "what an agent did unprotected, or you: notes.txt" in refused
    other = Claude(player, "s2")
    assert other.prompt("hello") == {}
    claude("Stop")
    other("Stop")
    lost = protection.Protection(session="s3")
    lost.lost("the disk is full", "claude")
    protection.save(os.fsencode(root), player.world.store, lost)
    player.world.write("notes.txt", "whose?\n")
    assert "by an agent that is not protected, or by you: notes.txt" in player.world.ckpt("status").out


def test_an_error_that_nobody_foresaw_is_a_loss_of_protection(
    player: Player, claude: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude.prompt("one")
    with monkeypatch.context() as patched:
        patched.setattr(Observer, "work", lambda *a, **k: {}["nothing"])
        claude.before("c1", command="make")
        said = [claude.prompt("two"), claude.prompt("three")]
        assert "NOT PROTECTED since" in said[0]["systemMessage"]
        assert "an error in ckpt itself (KeyError" in said[0]["systemMessage"]
        assert said[1] == {}
        assert claude.prompt("ckpt undo")["reason"].endswith("nothing was undone")
        assert player.world.ckpt("status", "--json").json["protected"] is False
    assert "protected again" in claude.prompt("four")["systemMessage"]
    assert player.world.ckpt("status", "--json").json["protected"] is True


def test_half_a_character_in_the_name_of_a_session(player: Player) -> None:
    claude = Claude(player, "x\ud83d")
    assert claude.prompt("one") == {}
    claude.before("c1", command="make")
    player.world.write("made", "x\n")
    claude.after("c1", command="make")
    claude("Stop")
    assert player.problems == ""
    assert shown(player, "t1") == {"t1.1": {"made"}}


def spoil(player: Player) -> bytes:
    """Change what was said in the only log, before its end; gives the log as it is then."""
    (log,) = player.world.store.glob("runs/*/events.jsonl")
    data = log.read_bytes().replace(b'"one"', b'"two"')
    log.write_bytes(data)
    return data


def test_a_session_whose_log_is_damaged_goes_on_as_another_run(player: Player, claude: Claude) -> None:
    claude.prompt("one")
    claude("SessionEnd", reason="exit")
    spoilt = spoil(player)
    said = claude("SessionStart", source="resume")["systemMessage"]
    assert "the log of r1 cannot be gone on with (the log is damaged at event" in said
    assert "this session goes on as r2, protected" in said
    claude.prompt("three")
    claude.before("c1", command="make")
    player.world.write("made", "x\n")
    claude.after("c1", command="make")
    assert claude("Stop") == {}
    assert shown(player, "t2") == {"t2.1": {"made"}}
    assert player.world.ckpt("status", "--json").json["protected"] is True
    (aside,) = player.world.store.glob("runs/*.damaged/events.jsonl")
    assert aside.read_bytes() == spoilt
    assert {line["run"] for line in player.world.ckpt("runs", "--json").lines} == {"r1", "r2"}
    told = player.world.ckpt("events", "r1", "--salvage", "--json", ok=5).lines
    assert [one["damaged"]["why"] for one in told if "damaged" in one] == ["no record"]
    assert told[-1]["type"] == "run_released"
    refused = player.world.ckpt("events", "r1", "--json", ok=5)
    assert refused.lines[-1]["error"]["next"][0] == "ckpt events r1 --salvage"


@pytest.mark.parametrize("how", ["empty", "torn", "gone"])
def test_a_session_of_whose_log_nothing_is_left_goes_on_as_another_run(
    player: Player, claude: Claude, how: str
) -> None:
    claude.prompt("one")
    claude("SessionEnd", reason="exit")
    (log,) = player.world.store.glob("runs/*/events.jsonl")
    if how == "gone":
        shutil.rmtree(log.parent)
    else:
        os.truncate(log, 0 if how == "empty" else 40)
    lost = "r1: its log is gone" if how == "gone" else f"{log.parent.name}: the log is damaged at event 1"
    assert f"run {lost}" in player.world.ckpt("verify", ok=5).text
    if how != "gone":
        assert [one["problem"] is not None for one in player.world.ckpt("runs", "--json").lines] == [True]
    said = claude("SessionStart", source="resume")["systemMessage"]
    assert "the log of r1 cannot be gone on with" in said
    assert "this session goes on as r2" in said
    assert claude.prompt("two") == {}
    claude("Stop")
    (now,) = (one for one in player.world.ckpt("runs", "--json").lines if one["problem"] is None)
    assert (now["run"], now["turns"]) == ("r2", ["t2"])
    if how != "gone":
        (aside,) = player.world.store.glob("runs/*.damaged/events.jsonl")
        assert f"ckpt events {aside.parent.name} --salvage" in said
        player.world.ckpt("events", aside.parent.name, "--salvage")


@pytest.mark.parametrize("how", ["damaged", "gone", "empty"])
def test_a_log_that_is_lost_in_the_middle_of_a_turn_costs_nothing_of_that_turn(
    player: Player, claude: Claude, how: str
) -> None:
    for said in ("one", "more"):  # what was written last could be a torn write
        claude.prompt(said)
        claude("Stop")
    claude.prompt("two")
    claude.before("c1", command="make")
    player.world.write("made", "x\n")
    if how == "gone":
        (directory,) = player.world.store.glob("runs/*")
        shutil.rmtree(directory)
    elif how == "empty":
        (log,) = player.world.store.glob("runs/*/events.jsonl")
        os.truncate(log, 0)
    else:
        spoil(player)
    claude.after("c1", command="make")
    claude("Stop")
    assert shown(player, "t3") == {"t3.1": {"made"}}
    assert "t3" in player.world.ckpt("undo").out
    assert not player.world.has("made")
    told = claude.prompt("three")["systemMessage"]
    assert ("ckpt events r1 --salvage" in told) is (how == "damaged")
    assert ("it is empty" in told) is (how == "empty")
    assert "goes on as r2" in told
    assert claude.prompt("four") == {}
    claude("Stop")
    assert player.world.ckpt("status", "--json").json["protected"] is True
    (log,) = (p for p in player.world.store.glob("runs/*/events.jsonl") if "damaged" not in str(p))
    types = [json.loads(line)["e"]["type"] for line in log.read_text().splitlines()]
    assert types[:4] == ["run_started", "user_message", "tool_call_started", "tool_call_completed"]


def test_one_sessions_loss_is_not_over_because_another_is_protected(
    player: Player, claude: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Claude(player, "s2")
    other.prompt("mine")
    with monkeypatch.context() as patched:
        patched.setattr(Observer, "work", lambda *a, **k: {}["nothing"])
        assert "NOT PROTECTED" in claude.prompt("one")["systemMessage"]
    assert other.prompt("more") == {}  # it was never lost here
    other.before("c1", command="make")
    player.world.write("made", "x\n")
    other.after("c1", command="make")
    other("Stop")
    first = player.world.ckpt("status").out.split("\n")[0]
    assert "NOT PROTECTED: since" in first
    assert "the hooks of claude (session s1)" in first
    assert "protected again" in claude.prompt("two")["systemMessage"]
    assert player.world.ckpt("status", "--json").json["protected"] is True


def test_a_directory_that_must_not_be_a_workspace(player: Player) -> None:
    home = str(player.world.home)
    stdin = {"session_id": "s", "cwd": home, "hook_event_name": "SessionStart"}
    said = json.loads(player.hook(Told("claude", "SessionStart", stdin), cwd=player.world.home))
    assert "NOT PROTECTED" in said["systemMessage"]
    for n in range(3):
        again = {**stdin, "hook_event_name": "UserPromptSubmit", "prompt": f"{n}"}
        assert player.hook(Told("claude", "UserPromptSubmit", again), cwd=player.world.home) == ""
    assert player.world.stores() == []


def test_what_is_logged_is_redacted_and_bounded(player: Player, claude: Claude) -> None:
    secret = "ghp_" + "Zz9" * 12
    claude.prompt(f"use {secret} please")
    claude.before("c1", command=f"curl -H 'Authorization: Bearer {secret}' x")
    claude("PostToolUse", tool_name="Bash", tool_input={"command": "x"}, tool_use_id="c1", tool_response="y" * 10**6)
    claude("Stop")
    raw = b"".join(p.read_bytes() for p in player.world.store.rglob("*") if p.is_file() and "shadow.git" not in str(p))
    assert secret.encode() not in raw
    assert sum(p.stat().st_size for p in player.world.store.glob("runs/*/*") if p.is_file()) < 100_000
    assert b"[redacted: github token]" in raw


def test_a_pattern_of_the_users_holds_for_hooks(player: Player, claude: Claude) -> None:
    player.world.ckpt("config", "secrets.pattern", "corp-[0-9]{6}")
    claude.prompt("use corp-123456")
    claude.before("c1", command="login corp-123456")
    claude.after("c1", command="login corp-123456")
    written = [p for p in player.world.store.rglob("*") if p.is_file() and "shadow.git" not in str(p)]
    assert not [p for p in written if b"corp-123456" in p.read_bytes()]
    claude("Stop")
    assert not [p for p in written if p.exists() and b"corp-123456" in p.read_bytes()]
    assert "[redacted: configured]" in player.world.ckpt("log").out


def test_a_secret_that_an_agent_wrote_is_told_to_the_person_once(player: Player, claude: Claude) -> None:
    claude.prompt("one")
    claude.before("c1", command="make")
    player.world.write("key.txt", "ghp_" + "a1" * 18)
    claude.after("c1", command="make")
    claude("Stop")
    assert "key.txt (github token)" in claude.prompt("two")["systemMessage"]
    assert claude.prompt("three") == {}
    assert player.world.ckpt("status", "--json").json["protected"] is True


def test_the_hook_log_is_bounded(tmp_path: Path) -> None:
    for n in range(400):
        diary.write(tmp_path, "claude", "Nonsense", f"{n} " + "z" * 1900)
    lines = (tmp_path / diary.NAME).read_text().splitlines()
    assert (tmp_path / diary.NAME).stat().st_size < diary.LIMIT + 4000
    assert " 399 z" in lines[-1]
    assert all(line.count("claude Nonsense: ") == 1 for line in lines)


AGENT = """
import json, subprocess, sys, time
for line in sys.stdin:
    event, stdin = json.loads(line)
    if event == "!":
        done = subprocess.run(["sh", "-c", stdin["command"] + " 2>&1"], capture_output=True, text=True)
        print(json.dumps({"said": done.stdout}), flush=True)
        continue
    done = subprocess.run([sys.executable, "-P", "-m", "checkpointer", "hook", "claude", event],
                          input=json.dumps(stdin), capture_output=True, text=True)
    print(done.stdout.strip() or "{}", flush=True)
"""


class Process:
    """An agent in a process of its own, which can be killed."""

    def __init__(self, world: World, words: list[str] | None = None) -> None:
        self.world = world
        self.child = subprocess.Popen(
            words or [sys.executable, "-c", AGENT], cwd=world.root, env=world.env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def __call__(self, event: str, **stdin: Any) -> dict[str, Any]:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        given = {"session_id": "s1", "cwd": str(self.world.root), **stdin}
        self.child.stdin.write(json.dumps([event, given]) + "\n")
        self.child.stdin.flush()
        found: dict[str, Any] = json.loads(self.child.stdout.readline())
        return found

    def kill(self) -> None:
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            assert pipe is not None
            pipe.close()


def test_an_agent_is_killed_inside_a_tool_and_comes_back(player: Player) -> None:
    """Its turn is cut off, its calls are judged by the files, and it is told so when it goes on with its session."""
    first = Process(player.world)
    first("SessionStart", source="startup")
    first("UserPromptSubmit", prompt="pay and write")
    first("PreToolUse", tool_name="Bash", tool_input={"command": "pay 42"}, tool_use_id="c1")
    player.world.write("half.txt", "half\n")
    first.kill()
    with until("the run is seen as dead") as done:
        while not done("died" in player.world.ckpt("runs").out):
            pass
    assert "cut off" in player.world.ckpt("status").out
    second = Process(player.world)
    second("SessionStart", source="resume")
    said = second("UserPromptSubmit", prompt="go on")["hookSpecificOutput"]["additionalContext"]
    assert "Bash: UNKNOWN" in said
    assert "half.txt" in said
    second("Stop")
    second.kill()
    (item,) = player.world.ckpt("uncertain", "--json").json["uncertain"]
    assert item["tool"] == "Bash"
    assert [r["turns"] for r in player.world.ckpt("runs", "--json").lines] == [["t1", "t2"]]
    player.world.ckpt("verify")


@pytest.mark.parametrize("program", ["claude", "mine.py"])
def test_a_call_from_inside_an_agent_is_the_agents(player: Player, tmp_path: Path, program: str) -> None:
    """Whatever its shell runs is known by the process above it: the one that hooks told for, whatever it is called."""
    script = tmp_path / program
    script.write_text(f"#!{sys.executable}\n{AGENT}")
    script.chmod(0o755)
    agent = Process(player.world, [str(script)])
    agent("UserPromptSubmit", prompt="go")
    agent("PreToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id="c1")
    player.world.write("a", "1\n")
    agent("PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id="c1")
    ckpt = f"{sys.executable} -P -m checkpointer"
    said = agent("!", command=f"{ckpt} gc; echo $?; {ckpt} undo --force; echo $?; {ckpt} undo; echo $?")["said"]
    assert said.startswith("3\n3\nundid t1")
    assert said.endswith("0\n")
    agent.kill()
    (undo,) = (c for c in player.world.ckpt("log", "--checkpoints", "--json").lines if c["kind"] == "undo")
    assert undo["by"] == "agent"
    assert not (player.world.root / "a").exists()


def test_at_a_shell_a_person_types() -> None:
    for line in ("bash", "-zsh", "/bin/bash -i", "zsh -l", "bash --rcfile /x/y", "fish", "bash -o vi"):
        assert ancestry.is_typed_at(line.split()), line
    for line in ("", "bash -c x", "bash -lc x", "sh x.sh", "bash --norc x", "python", "claude"):
        assert not ancestry.is_typed_at(line.split()), line


def test_a_dead_agents_run_is_closed_by_the_next_session(player: Player, claude: Claude) -> None:
    first = Process(player.world)
    first("UserPromptSubmit", prompt="go")
    first("PreToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id="c1")
    player.world.write("whose.txt", "?\n")
    first.kill()
    other = Claude(player, "another")
    other.prompt("hello")
    runs = {r["run"]: r["status"] for r in player.world.ckpt("runs", "--json").lines}
    assert runs == {"r1": "interrupted", "r2": "running"}
    assert (player.world.root / "whose.txt").exists()


def test_two_sessions_at_once(player: Player, claude: Claude) -> None:
    """Each has its own turns; what both may have written belongs to both, and is not undone without being told."""
    other = Claude(player, "s2")
    claude.prompt("a")
    other.prompt("b")
    claude.before("c1", command="make a")
    other.before("d1", command="make b")
    player.world.write("ab", "?\n")
    claude.after("c1", command="make a")
    other.after("d1", command="make b")
    claude("Stop")
    other("Stop")
    refused = player.world.ckpt("undo", ok=3)
    assert "worked at the same time" in refused.err
    other.prompt("c")
    other.before("d2", command="make c")
    player.world.write("only b", "b\n")
    other.after("d2", command="make c")
    other("Stop")
    player.world.ckpt("undo")
    assert not (player.world.root / "only b").exists()


def test_the_session_cache_may_be_lost_at_any_time(player: Player, claude: Claude) -> None:
    claude.prompt("go")
    claude.before("c1", command="make")
    (cache,) = player.world.store.glob("hooks/*/session.json")
    cache.unlink()
    player.world.write("a", "1\n")
    claude.after("c1", command="make")
    cache.write_text("{}")
    claude("Stop", last_assistant_message="done")
    assert shown(player, "t1") == {"t1.1": {"a"}}
    same(player.world.files(), player.world.files())
    assert len([e for e in player.events() if e["type"] == "tool_call_completed"]) == 1


def test_a_repository_that_the_agent_deleted_is_told_of_once(player: Player, claude: Claude) -> None:
    """No undo brings it back, so the person must hear of it while the agent's copy of the work may still be there."""
    subprocess.run(["git", "init", "-q", str(player.world.root)], check=True)
    claude.prompt("one")
    claude.before("c1", command="rm -rf .git")
    player.world.sh("rm -rf .git")
    claude.after("c1", command="rm -rf .git")
    claude("Stop")
    said = claude.prompt("two")["systemMessage"]
    assert ".git is gone: a repository is in no checkpoint, so no undo brings it back" in said
    claude("Stop")
    assert claude.prompt("three") == {}


def test_what_may_be_the_persons_is_named_by_undo(player: Player, claude: Claude) -> None:
    """Esc, or a call that was denied: the agent sends nothing, and what the person edits then counts as the call's."""
    world = player.world
    world.write("mine", "1\n")
    claude.prompt("one")
    claude.before("c1", command="make")
    world.write("made", "by the agent\n")
    claude.after("c1", command="make")
    claude.before("c2", command="rm -rf /")
    world.write("mine", "mine\n")
    claude.prompt("two")
    claude("Stop")
    said = world.ckpt("undo", "-n").out
    assert "perhaps yours: mine  (nobody told when t1.2 ended: what was edited until the next prompt" in said
    assert "perhaps yours: mine" in world.ckpt("undo", "t1..").out
    assert world.read("mine") == b"1\n"
    world.ckpt("redo")
    assert world.read("mine") == b"mine\n"
