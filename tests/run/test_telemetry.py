"""Who watches with OpenTelemetry sees what a driven run does, by names and numbers alone; who does not pays nothing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import call, living_in
from harness.world import World

from checkpointer import Fenced, Match, NeedsPerson, machine, open_run, tool
from checkpointer.events import RunStarted
from checkpointer.log import JsonlLog, claim
from checkpointer.run import telemetry

SECRET = "hunter2"
"""In every argument, result, prompt, error, path and environment value of the run that is watched."""


@tool(effect="workspace")
def write(path: str, text: str) -> str:
    Path(path).write_text(text)
    return f"{SECRET} in {path}"


def look_up(arguments: Any, key: str) -> Match:
    return Match({"order": arguments["order"]}, result=SECRET)


@tool(effect="external", risk="high", reconcile=look_up, effect_fields=("order",))
def pay(order: str) -> str:
    raise ConnectionError(f"{SECRET}: the line went dead")


@tool(effect="read")
async def look(what: str) -> str:
    return SECRET


@pytest.fixture
def place(world: World) -> Iterator[World]:
    with living_in(world):
        os.environ["TOKEN"] = SECRET
        yield world


class Mistaken(machine.World):
    """Takes every other process for dead."""

    def started(self, pid: int) -> str | None:
        return ""


def watched(act: Callable[[], object], answer: Path) -> dict[str, Any]:
    """Do `act` in a forked child whose OpenTelemetry keeps all in memory, and read what it kept."""
    child = os.fork()
    if child == 0:
        try:
            from opentelemetry import metrics, trace
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import InMemoryMetricReader
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import SimpleSpanProcessor
            from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

            spans, numbers, tracing = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
            tracing.add_span_processor(SimpleSpanProcessor(spans))
            trace.set_tracer_provider(tracing)
            metrics.set_meter_provider(MeterProvider([numbers]))
            telemetry._api.cache_clear()
            act()
            told = [json.loads(one.to_json()) for one in spans.get_finished_spans()]
            found = numbers.get_metrics_data()
            answer.write_text(json.dumps({"spans": told, "metrics": json.loads(found.to_json()) if found else {}}))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "see stderr"
    return dict(json.loads(answer.read_text()))


def points(found: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The data points of each metric."""
    scopes = [scope for one in found["metrics"]["resource_metrics"] for scope in one["scope_metrics"]]
    return {metric["name"]: metric["data"]["data_points"] for scope in scopes for metric in scope["metrics"]}


def value(of: list[dict[str, Any]], **attributes: str) -> float:
    (one,) = [
        p for p in of if attributes.items() <= {k.replace(".", "_"): v for k, v in p["attributes"].items()}.items()
    ]
    return one["value"] if "value" in one else one["count"]


def drive() -> None:
    with open_run(".", run_id="x", tools=[write, pay], agent="biller", prompt=SECRET) as run:
        run.user_message(f"the password is {SECRET}")
        asked = [
            {**call("write", path=f"{SECRET}.txt", text=SECRET), "id": "call_1"},
            {**call("pay", order=SECRET), "id": f"{SECRET} is no id"},
            call(f"{SECRET} is no tool"),
        ]
        usage = {"input": 120, "output": 7, "cache_read": 100}
        turn = run.model_turn(SECRET, asked, usage, model="maker/m-1", stop="tool_use")
        for one in turn.tool_calls[:2]:
            assert not run.call(one).failed
        assert run.call(turn.tool_calls[0]).replayed


def test_a_run_is_told_by_names_and_numbers(place: World) -> None:
    found = watched(drive, place.base / "told.json")
    spans = {span["name"]: span for span in found["spans"]}
    tools = {name: span["attributes"] for name, span in spans.items() if name.startswith("execute_tool ")}
    assert set(tools) == {"execute_tool write", "execute_tool pay"}
    wrote = tools["execute_tool write"]
    assert wrote["gen_ai.operation.name"] == "execute_tool"
    assert (wrote["gen_ai.tool.name"], wrote["gen_ai.tool.call.id"]) == ("write", "call_1")
    assert (wrote["gen_ai.conversation.id"], wrote["ckpt.run"], wrote["ckpt.step"]) == ("x", "r1", "t1.1")
    assert (wrote["ckpt.call.effect"], wrote["ckpt.call.status"]) == ("workspace", "completed")
    paid = tools["execute_tool pay"]
    assert (paid["error.type"], paid["ckpt.call.status"], paid["ckpt.call.risk"]) == (
        "ConnectionError",
        "uncertain",
        "high",
    )
    assert "gen_ai.tool.call.id" not in paid  # it is no id
    assert spans["execute_tool pay"]["status"] == {"status_code": "ERROR"}
    turn = spans["ckpt.model_turn"]["attributes"]
    assert turn["gen_ai.response.model"] == "maker/m-1"
    assert (turn["gen_ai.usage.input_tokens"], turn["gen_ai.usage.output_tokens"], turn["ckpt.calls"]) == (120, 7, 3)
    (decided,) = [event for span in found["spans"] for event in span["events"]]
    assert decided["name"] == "ckpt.recovery.decision"
    assert (decided["attributes"]["ckpt.verdict"], decided["attributes"]["ckpt.by"]) == ("complete", "receiver")
    opened = spans["ckpt.open_run"]["context"]["span_id"]
    assert {spans[name]["parent_id"] for name in ("ckpt.replay", "ckpt.claim")} == {opened}
    assert spans["ckpt.claim"]["attributes"]["ckpt.claim.after"] == "begun"
    everything = json.dumps(found["spans"]) + json.dumps(points(found))
    for never in (SECRET, str(place.root), "went dead", "Traceback"):
        assert never not in everything


def test_a_run_is_counted(place: World) -> None:
    told = points(watched(drive, place.base / "told.json"))
    assert value(told["ckpt.claims"], ckpt_claim_after="begun") == 1
    assert value(told["ckpt.model_turns"]) == 1
    assert value(told["ckpt.calls.uncertain"], ckpt_reason="exception") == 1
    assert value(told["ckpt.calls.replayed"], gen_ai_tool_name="write") == 1
    assert value(told["ckpt.recovery.decisions"], ckpt_verdict="complete", ckpt_by="receiver") == 1
    assert value(told["ckpt.approvals"], ckpt_decision="denied", ckpt_by="policy") == 1
    durations = told["gen_ai.execute_tool.duration"]
    assert value(durations, gen_ai_tool_name="write", ckpt_call_status="completed") == 1
    assert value(durations, gen_ai_tool_name="pay", error_type="ConnectionError") == 1


def test_a_death_a_snapshot_and_another_owner_are_counted(place: World) -> None:
    child = os.fork()
    if child == 0:
        with open_run(".", run_id="x", snapshot_every=3) as run:
            for n in range(4):
                run.memory("m", n)
            os._exit(9)
    os.waitpid(child, 0)

    def again() -> None:
        with open_run(".", run_id="x", snapshot_every=2) as run:
            run.memory("m", 9)
            log = JsonlLog(str(place.store / "runs" / "x"))
            claim(log, RunStarted(run="x", owner=machine.holder()), world=Mistaken())
            with pytest.raises(Fenced):
                run.memory("m", 10)

    told = points(watched(again, place.base / "told.json"))
    assert value(told["ckpt.claims"], ckpt_claim_after="crash") == 1
    assert value(told["ckpt.replay.events"]) == 2  # after the snapshot of event 3
    assert [point["sum"] for point in told["ckpt.snapshot.gap"]] == [2]
    assert value(told["ckpt.fenced"]) == 1
    assert value(told["ckpt.snapshot.load.duration"]) == 1
    assert value(told["ckpt.snapshot.write.duration"]) >= 1
    assert value(told["ckpt.replay.equivalence_failures"]) == 0
    status = place.ckpt("status", "--json").json
    assert (status["claims"], status["crashes"], status["takeovers"], status["fenced_appends"]) == (
        3,
        2,
        0,
        2,
    )  # its word, and that it let go


def test_tasks_are_told_too_and_what_waits_for_a_person_is_no_error(place: World) -> None:
    async def go() -> None:
        async with open_run(".", run_id="y", tools=[look]) as run:
            turn = await run.model_turn("well", [call("look", what=SECRET), call("look", what="else")])
            await asyncio.gather(*(run.call(one) for one in turn.tool_calls))

    def act() -> None:
        asyncio.run(go())
        with pytest.raises(NeedsPerson), telemetry.span("waits", {}):
            raise NeedsPerson(SECRET)

    found = watched(act, place.base / "told.json")
    looked = [span for span in found["spans"] if span["name"] == "execute_tool look"]
    assert [span["attributes"]["ckpt.call.status"] for span in looked] == ["completed"] * 2
    assert {span["parent_id"] for span in looked} == {None}
    (waits,) = [span for span in found["spans"] if span["name"] == "waits"]
    assert waits["status"] == {"status_code": "UNSET"}
    assert waits["attributes"] == {"error.type": "checkpointer.errors.NeedsPerson"}
    assert SECRET not in json.dumps(found)


def test_only_names_ids_and_numbers_are_told() -> None:
    given = {
        "tool": "pay", "id": "call_1", "model": "maker/m-1:free", "n": 3, "yes": True, "many": ("a", "b"),
        "path": "/home/u/x", "relative": "../x", "deep": "a/b/c", "words": "two words", "line": "a\n", "empty": "",
        "none": None, "long": "x" * 300, "bytes": b"x", "some": ("a", "b c"),
    }  # fmt: skip
    assert set(telemetry.names(given)) == {"tool", "id", "model", "n", "yes", "many"}


def test_nothing_is_imported_for_it(place: World) -> None:
    code = (
        "import sys, checkpointer\n"
        "with checkpointer.open_run('.', run_id='x') as run:\n"
        "    run.model_turn('well')\n"
        "assert not [m for m in sys.modules if m.startswith('opentelemetry')]\n"
    )
    env = {**place.env, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], cwd=place.root, env=env, check=True)
