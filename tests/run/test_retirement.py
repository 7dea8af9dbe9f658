"""Logs of runs: which go when their time has come, which never do, and what a person dismisses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from driving import call, living_in
from harness.crashing import killed_everywhere
from harness.world import World

from checkpointer import Busy, NeedsPerson, home, open_run, tool
from checkpointer.errors import Finished, NothingToDo
from checkpointer.log import JsonlLog, JsonlRuns
from checkpointer.run import dismissing, leftoff, retirement, roster
from checkpointer.workspace.workspace import Workspace

DAYS = timedelta(days=90)
LATER = datetime.now(UTC) + timedelta(days=100)


@tool(effect="workspace")
def write(path: str, text: str) -> str:
    Path(path).write_text(text)
    return text


@tool(effect="external", policy="person")
def mail(to: str) -> str:
    raise OSError("connection lost")


@pytest.fixture
def place(world: World) -> Iterator[World]:
    with living_in(world):
        yield world


def opened(run: str | None, **more: Any) -> Any:
    return open_run(".", run_id=run, tools=[write, mail], **more)


def work(name: str, how: str) -> None:
    """A run that wrote a file, and ended so."""
    with opened(name) as run:
        run.user_message("do")
        run.call(run.model_turn("go", [call("write", path=name, text=how)]).tool_calls[0])
        if how == "finished":
            run.finish("done")
    if how == "interrupted":
        with pytest.raises(KeyboardInterrupt), opened(name):
            raise KeyboardInterrupt
    elif how == "uncertain":
        with pytest.raises(NeedsPerson), opened(name) as run:
            run.call(run.model_turn("go", [call("mail", to="me")]).tool_calls[0])


def workspace_of(world: World) -> Workspace:
    found = home.find(os.fsencode(world.root))
    assert found is not None
    return found


def retire(world: World, **more: Any) -> retirement.Retired:
    given: dict[str, Any] = {"checkpoints": [], "named": set(), "age": DAYS, "now": LATER, **more}
    with workspace_of(world).locked("a test"):
        return retirement.retire(world.store, **given)


def names(done: retirement.Retired) -> list[str]:
    return [one.run for one in done.runs]


def log_of(world: World, name: str) -> JsonlLog:
    return JsonlRuns(str(world.store / "runs")).log(name)


def test_what_is_over_goes_and_nothing_else(place: World) -> None:
    for how in ("finished", "ended", "interrupted", "uncertain"):
        work(how, how)
    work("dropped", "interrupted")
    work("asked", "uncertain")
    place.ckpt("run", "--", "true")
    workspace = workspace_of(place)
    for name in ("dropped", "asked"):
        dismissing.dismiss(workspace, log_of(place, name))
    work("damaged", "finished")
    lines = log_of(place, "damaged").path
    Path(lines).write_bytes(Path(lines).read_bytes().replace(b'"do"', b'"no"', 1))
    with opened("owned"):
        would = retire(place, dry_run=True)
        assert names(would) == ["dropped", "finished", "r7"]
        assert len(roster.names(place.store)) == 9
        done = retire(place)
    assert names(done) == names(would)
    assert done.bytes > 1000
    assert "damaged" in done.notes[0]
    left = {"ended", "interrupted", "uncertain", "asked", "damaged", "owned"}
    assert set(roster.names(place.store)) == left
    assert retire(place).runs == []


def test_a_log_stays_while_its_checkpoints_do(place: World) -> None:
    work("a", "finished")
    work("b", "finished")
    store = workspace_of(place).store
    chain = store.checkpoints()
    mine = {c.number: c for c in chain if "r1" in c.meta.runs}
    assert mine
    assert names(retire(place, checkpoints=chain, dry_run=True)) == []
    assert names(retire(place, checkpoints=list(mine.values()), dry_run=True)) == ["b"]
    assert names(retire(place, named={max(mine)}, dry_run=True)) == []  # both runs' logs name it
    assert names(retire(place, named={chain[-1].number}, dry_run=True)) == ["a"]
    assert names(retire(place, age=DAYS * 2, dry_run=True)) == []
    assert names(retire(place, now=datetime.now(UTC), age=timedelta(0), dry_run=True)) == ["a", "b"]


def test_a_run_that_went_is_not_begun_anew_under_its_name(place: World) -> None:
    work("billing", "finished")
    assert names(retire(place)) == ["billing"]
    with pytest.raises(Finished, match="its log was let go"), opened("billing"):
        pass
    assert roster.names(place.store) == []
    assert "was let go by ckpt gc" in place.ckpt("events", "billing", ok=2).err
    with opened("other") as run:
        assert run.handle == "r2"


def test_a_removal_that_is_killed_leaves_a_whole_log_or_none(place: World) -> None:
    work("a", "finished")
    work("b", "finished")
    (place.base / "store").symlink_to(place.store)

    def act(store: Path) -> None:
        retirement.retire(store, [], set(), DAYS, now=LATER)

    def check(store: Path) -> None:
        for name in roster.names(store):
            assert not roster.read(store, name).problem
            assert roster.read(store, name).status == "done"
        for name in {"a", "b"} - set(roster.names(store)):
            assert retirement.gone(store, name) is not None
        act(store)
        assert roster.names(store) == []
        assert sorted(os.listdir(store / "runs")) == ["retired"]

    assert killed_everywhere(place.store, act, check) > 10


def test_a_person_dismisses_what_was_cut_off(place: World) -> None:
    work("cut", "interrupted")
    work("asked", "uncertain")
    work("whole", "finished")
    store = place.store
    assert {info.run for info in leftoff.resumable(store)} == {"cut", "asked"}
    assert "r1  interrupted   <- ckpt resume r1" in place.ckpt("status").out
    files = sorted(os.listdir(place.root))
    said = place.ckpt("runs", "--dismiss", "r1", "--dismiss", "asked", "--json").json
    (question,) = said["dismissed"][1]["uncertain"]
    assert said["dismissed"] == [
        {"run": "r1", "id": "cut", "uncertain": []},
        {"run": "r2", "id": "asked", "uncertain": [question]},
    ]
    assert sorted(os.listdir(place.root)) == files
    status = place.ckpt("status", "--json").json
    assert status["resumable"] == []
    assert [one["handle"] for one in status["uncertain"]] == [question]
    assert "interrupted, dismissed" in place.ckpt("runs").out
    again = place.ckpt("runs", "--dismiss", "r1", "--json", ok=1)
    assert "dismissed already" in again.error["message"]
    assert "for a person" in place.ckpt("runs", "--dismiss", "r2", ok=3, env={"CKPT_RUN": "r1"}).err
    with pytest.raises(NothingToDo):
        dismissing.dismiss(workspace_of(place), log_of(place, "whole"))
    place.ckpt("resume", "r1", "--no-exec")
    assert [info.run for info in leftoff.resumable(store)] == ["cut"]
    with opened("cut"), pytest.raises(Busy):
        dismissing.dismiss(workspace_of(place), log_of(place, "cut"))


def test_what_died_is_dismissed_with_the_files_as_they_are(place: World) -> None:
    place.ckpt("run", "--", "sh", "-c", "echo 1 > f; kill -9 $PPID; exec true", ok=None)
    place.write("mine", "later")
    assert "cut off: r1 is gone" in place.ckpt("status").out
    assert place.ckpt("runs", "--dismiss", "r1").out == "dismissed r1: it is listed as cut off no more\n"
    said = place.ckpt("status").out
    assert "r1 is gone" not in said
    assert "ckpt resume" not in said
    assert (place.read("f"), place.read("mine")) == (b"1\n", b"later")
    place.write("mine", "still")
    place.ckpt("undo", "t1", ok=None)
    assert place.read("mine") == b"still"


def test_the_command_lets_logs_go_with_their_checkpoints(place: World) -> None:
    for n in (1, 2):
        place.ckpt("run", "--", "sh", "-c", f"echo {n} > f{n}")
    often = ("gc", "--keep-days", "0", "--keep-number", "1", "--keep-runs", "0", "--yes")
    would = place.ckpt(*often, "-n")
    assert "would drop 1 run's log: r1 (" in would.out
    assert [one["run"] for one in place.ckpt(*often, "-n", "--json").json["runs"]] == ["r1"]
    assert place.ckpt("gc").out.startswith("dropped no checkpoint")
    done = place.ckpt(*often).out
    assert "dropped 1 run's log: r1 (" in done
    assert roster.names(place.store) == ["r2"]
    assert "sh -c echo 2 > f2" in place.ckpt("runs").out
    assert place.ckpt("gc", "--keep-runs", "0", "--json", ok=3).error["code"] == "needs-person"
