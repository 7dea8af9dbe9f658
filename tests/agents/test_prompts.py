"""ckpt typed to an agent: answered by the hook, by the person, and the agent is told what changed behind its back."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
from agents.hooking import Player, Told, told, until
from agents.test_hooks import Claude
from harness.world import World

from checkpointer.agents import visit
from checkpointer.agents.dialects.report import Report


@pytest.fixture
def player(world: World) -> Player:
    return Player(world)


@pytest.fixture
def claude(player: Player) -> Claude:
    return Claude(player)


def turn(claude: Claude, words: str, **files: str) -> None:
    """A turn that writes files."""
    claude.prompt(words)
    claude.before(words, command=f"make {words}")
    for name, text in files.items():
        claude.player.world.write(name, text)
    claude.after(words, command=f"make {words}")
    claude("Stop", last_assistant_message=f"{words} is done")


def test_undo_and_redo_as_prompts(player: Player, claude: Claude) -> None:
    turn(claude, "one", a="1\n")
    turn(claude, "two", b="2\n")
    said = claude.prompt("ckpt undo")
    assert said["decision"] == "block"
    assert said["reason"].startswith('ckpt: undid t2 "two"')
    assert not (player.world.root / "b").exists()
    assert (player.world.root / "a").exists()
    assert "redid t2" in claude.prompt("/ckpt-redo")["reason"]
    assert "undid t1" in claude.prompt("ckpt undo t1")["reason"]
    assert sorted(path.name for path in player.world.root.iterdir()) == ["b", "greet.py", "notes.txt"]
    log = claude.prompt("ckpt log")["reason"]
    assert '"one"' in log
    assert "undone" in log
    assert "t2" in claude.prompt("ckpt status")["reason"]
    assert "b/a" in claude.prompt("ckpt diff 1 2")["reason"]
    by = [c["by"] for c in player.world.ckpt("log", "--checkpoints", "--json").lines if c["kind"] in ("undo", "redo")]
    assert by == ["person"] * 3
    assert player.world.ckpt("log", "--json").lines[0]["turn"] == "t2"  # no turn was made of any of these


def test_an_agent_that_hears_nothing_has_no_prompt_taken(player: Player) -> None:
    """goose reads nothing that a hook prints: its model gets the prompt all the same, and would undo a second time."""
    reports = told("goose", player.world.root)
    player.play(reports)
    before = player.world.files()
    asked = next(one for one in reports if one.event == "UserPromptSubmit")
    stdin = {**asked.stdin, "message": "ckpt undo"}
    assert player.hook(Told("goose", "UserPromptSubmit", stdin, env=asked.env)) == ""
    assert player.world.files() == before
    assert player.world.ckpt("log", "--json").lines[0]["undone"] is False


@pytest.mark.parametrize(
    ("name", "event", "field"),
    [("gemini", "BeforeAgent", "prompt"), ("copilot", "userPromptSubmitted", "prompt"),
     ("opencode", "chat.message", "text"), ("cursor", "beforeSubmitPrompt", "prompt"),
     ("openhands", "UserPromptSubmit", "message"), ("hermes", "pre_llm_call", "user_message")],
)  # fmt: skip
def test_each_agent_after_its_own_turn(player: Player, name: str, event: str, field: str) -> None:
    reports = told(name, player.world.root)
    player.play(reports)
    asked = next(one for one in reports if one.event == event and not one.stdin.get("agent_id"))
    stdin = json.loads(json.dumps(asked.stdin))
    where = stdin["extra"] if name == "hermes" else stdin
    where[field] = ["ckpt undo"] if name == "opencode" else "ckpt undo"
    for stamp in ("turn_id", "generation_id", "timestamp"):
        where.pop(stamp, None)
    said = player.hook(Told(name, event, stdin, env=asked.env))
    assert "undid t1" in said
    assert player.world.files().differing(player.start) == set()


def test_a_conflict_is_told_in_ten_lines(player: Player, claude: Claude) -> None:
    files = {f"file{n}": "theirs\n" for n in range(15)}
    turn(claude, "many", **files)
    for name in files:
        player.world.write(name, "mine\n")
    before = player.world.files()
    said = claude.prompt("ckpt undo")["reason"]
    assert len(said.split("\n")) <= 10
    assert "nothing changed" in said
    assert "ckpt undo --skip" in said
    assert "ckpt undo --force" in said
    assert player.world.files().differing(before) == set()
    assert "left" in claude.prompt("ckpt undo --skip")["reason"]


def test_the_agent_is_told_what_a_person_undid_and_only_once(player: Player, claude: Claude) -> None:
    turn(claude, "one", a="1\n")
    turn(claude, "two", b="2\n")
    player.world.ckpt("undo")
    player.world.ckpt("restore", "1", "--", "a")
    told = claude.prompt("and now?")["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    context = told["additionalContext"]
    assert "undid t2: b (removed)" in context
    assert "restored checkpoint 1" in context
    assert "a (removed)" in context
    assert claude.prompt("and then?") == {}
    claude("Stop")
    causes = [e["cause"] for e in player.events() if e["type"] == "workspace_changed"]
    assert causes.count("undo") == 1


def test_its_own_undo_is_not_told_to_it(player: Player, claude: Claude) -> None:
    turn(claude, "one", a="1\n")
    claude.prompt("undo that")
    claude.before("u", command="ckpt undo")
    player.world.ckpt("undo", env={"CKPT_RUN": "r1"})
    claude.after("u", command="ckpt undo")
    claude("Stop")
    assert claude.prompt("next") == {}
    assert [c["by"] for c in player.world.ckpt("log", "--checkpoints", "--json").lines if c["kind"] == "undo"] == [
        "agent"
    ]


def test_it_reaches_the_turns_of_its_session(player: Player, claude: Claude) -> None:
    """Another session's turn, newer, is left alone."""
    turn(claude, "mine", a="1\n")
    other = Claude(player, "s2")
    turn(other, "theirs", b="2\n")
    assert "undid t1" in claude.prompt("ckpt undo")["reason"]
    assert (player.world.root / "b").exists()
    refused = claude.prompt("ckpt undo")["reason"]
    assert "nothing to undo" in refused
    assert (player.world.root / "b").exists()


def test_anything_else_goes_to_the_model(player: Player, claude: Claude) -> None:
    turn(claude, "one", a="1\n")
    for prompt in ("ckpt undo please", "what does ckpt undo do?", "undo", "/undo", "ckpt undo\nthen go on"):
        assert claude.prompt(prompt) == {}
    assert (player.world.root / "a").exists()


def test_an_agent_that_reads_no_answer_is_left_alone(player: Player) -> None:
    """Its model would get the words as well, and might undo once more."""
    player.play(told("goose", player.world.root))
    before = player.world.files()
    assert player.say("goose", "UserPromptSubmit", session_id="s1", message="ckpt undo") == ""
    assert player.world.files().differing(before) == set()


def test_in_the_middle_of_a_turn(player: Player, claude: Claude) -> None:
    """What the turn did so far is its own, also what no end was told of."""
    claude.prompt("go")
    claude.before("c1", command="make")
    player.world.write("a", "1\n")
    said = claude.prompt("ckpt undo")["reason"]
    assert "undid t1" in said
    assert not (player.world.root / "a").exists()


def test_a_slash_command(player: Player, claude: Claude) -> None:
    turn(claude, "one", a="1\n")
    asked: dict[str, Any] = {"expansion_type": "slash_command", "command_name": "ckpt-undo", "command_args": "t1"}
    assert "undid t1" in claude("UserPromptExpansion", prompt="/ckpt-undo t1", **asked)["reason"]
    asked["command_name"] = "review"
    assert claude("UserPromptExpansion", prompt="/review", **asked) == {}


def test_what_the_log_tells_of_a_conversation(player: Player, claude: Claude) -> None:
    """From the log of a run alone: what was asked, what each turn changed, what was undone, what is uncertain."""
    turn(claude, "make it loud", a="1\n")
    claude.prompt("what did you do?")
    claude.before("r", "Read", file_path=str(player.world.root / "a"))
    claude.after("r", "Read", file_path=str(player.world.root / "a"))
    claude("Stop", last_assistant_message="I made a.")
    claude.prompt("pay")
    claude.before("p", command="pay 42")
    claude("Interrupt")
    player.world.ckpt("undo")
    text = player.world.ckpt("log", "--run", "r1").out
    for words in ('"make it loud"', "t1.1", "make make it loud", "undone", '"what did you do?"', "no change", "Read  a",
                  'answer: "I made a."', '"pay"', "Bash  pay 42", "uncertain"):  # fmt: skip
        assert words in text, f"{words!r} not in\n{text}"
    shown = player.world.ckpt("show", "t2").out
    assert "claude r1" in shown
    assert "no files changed" in shown
    assert player.world.ckpt("show", "t2", "--json").json["prompt"] == "what did you do?"


def test_a_prompt_that_is_reported_twice_is_carried_out_once(player: Player, claude: Claude) -> None:
    for name in ("one", "two", "three"):
        claude.more = {"prompt_id": name}
        turn(claude, name, **{name: "x\n"})
    claude.more = {"prompt_id": "p4"}
    said = claude.prompt("ckpt undo")
    assert "undid t3" in said["reason"]
    assert claude.prompt("ckpt undo") == said
    assert (player.world.root / "two").exists()
    claude.more = {"prompt_id": "p5"}
    assert "undid t2" in claude.prompt("ckpt undo")["reason"]
    claude.more = {"prompt_id": "p6"}
    redone = claude.prompt("/ckpt-redo")
    assert "redid t2" in redone["reason"]
    assert claude.prompt("/ckpt-redo") == redone
    assert not (player.world.root / "three").exists()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="nothing tells what a process has open")
@pytest.mark.parametrize("name", ["p9", ""])
def test_two_hooks_for_one_prompt_at_the_same_time(player: Player, claude: Claude, name: str) -> None:
    """They wait at the gate of their run together, as the hooks of a person and of a project do."""
    for words in ("one", "two", "three"):
        turn(claude, words, **{words: "x\n"})
    stdin = {"session_id": "s1", "cwd": claude.cwd, "prompt": "ckpt undo", **({"prompt_id": name} if name else {})}
    (gate,) = player.world.store.glob("hooks/*/gate")
    with open(gate, "r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        hooks = [player.spawn(Told("claude", "UserPromptSubmit", stdin)) for _ in range(2)]
        with until("both wait at the gate") as done:
            while not done(all(_waits(pid, gate) for pid, _ in hooks)):
                pass
        fcntl.flock(held, fcntl.LOCK_UN)  # the hooks are forks, and share what is open
    said = []
    for pid, read in hooks:
        with open(read, "rb") as f:
            said.append(json.loads(f.read()))
        os.waitpid(pid, 0)
    assert said[0] == said[1]
    assert "undid t3" in said[0]["reason"]
    assert (player.world.root / "two").exists()


def _waits(pid: int, gate: Path) -> bool:
    """Does a process have this file open?"""
    return any(os.path.realpath(fd) == str(gate) for fd in Path(f"/proc/{pid}/fd").iterdir())


def test_a_hook_killed_before_it_did_what_was_asked(player: Player, claude: Claude) -> None:
    """Whenever it dies: nothing is done twice, nothing is done later, and the person hears of it."""
    turn(claude, "one", a="1\n")
    turn(claude, "two", b="2\n")
    stdin = {"session_id": "s1", "cwd": claude.cwd, "prompt": "ckpt undo", "prompt_id": "p"}
    before, heard = player.world.files(), ""
    for nth in range(100):
        player.hook(Told("claude", "UserPromptSubmit", {**stdin, "prompt_id": f"p{nth}"}), die_at=nth)
        assert player.world.files().differing(before) == set()
        if player.session()["asked"] or any(
            "asked" in p.read_text() for p in player.world.store.glob("hooks/*/journal")
        ):
            heard = json.dumps(claude("SessionStart", source="resume"))
            repeated = claude.prompt("ckpt undo", prompt_id=f"p{nth}")
            break
    assert "was cut short" in heard
    assert "not carried out a second time" in repeated["reason"]
    assert player.world.files().differing(before) == set()
    assert claude("SessionStart", source="resume") == {}
    assert "undid t2" in claude.prompt("ckpt undo", prompt_id="new")["reason"]


@pytest.mark.parametrize("retyped", [False, True])
def test_an_undo_killed_halfway_is_finished_and_no_further_one(player: Player, claude: Claude, retyped: bool) -> None:
    """Reported again or typed again: it is that undo."""
    before = player.world.files()
    turn(claude, "one", a="1\n")
    one = player.world.files()
    turn(claude, "two", b="2\n", c="2\n", d="2\n")
    two = player.world.files()
    stdin = {"session_id": "s1", "cwd": claude.cwd, "prompt": "ckpt undo", "prompt_id": "p"}
    player.hook(Told("claude", "UserPromptSubmit", stdin), die_at="remove c")
    now = player.world.files()
    assert now.differing(two)
    assert now.differing(one)
    said = claude.prompt("ckpt undo", prompt_id="new" if retyped else "p")["reason"]
    assert "the undo of t2 is finished now" in said
    assert "undid" not in said
    assert player.world.files().differing(one) == set()
    assert "undid t1" in claude.prompt("ckpt undo", prompt_id="newest")["reason"]
    assert player.world.files().differing(before) == set()


def test_what_was_typed_while_ckpt_was_busy_is_never_done_later(
    player: Player, claude: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn(claude, "one", a="1\n")
    (gate,) = player.world.store.glob("hooks/*/gate")
    monkeypatch.setattr(visit, "WAIT", 0.0)
    with open(gate, "r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        said = claude.prompt("ckpt undo", prompt_id="p1")
    assert said == {"decision": "block", "reason": "ckpt is busy; nothing was undone: type it again"}
    (place,) = player.world.store.glob("hooks/*-*")
    queued = Report("claude", "UserPromptSubmit", "prompt", session="s1", text="ckpt undo", turn="p1", at=gate.name)
    (place / "queue").write_text(json.dumps(queued.as_json()) + "\n")  # as an older ckpt left it
    assert claude("SessionStart", source="resume") == {}
    assert (player.world.root / "a").exists()
    assert "undid t1" in claude.prompt("ckpt undo", prompt_id="p2")["reason"]
