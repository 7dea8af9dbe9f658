"""What is derived may be wrong or gone: a snapshot that misleads is trusted nowhere; without any all is the same."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

from driving import Loop, call, living_in
from harness.world import World

from checkpointer import open_run
from checkpointer.log import JsonlLog, catch_up
from checkpointer.run import keeper


def talk(run: str, much: int) -> None:
    with open_run(".", run_id=run, snapshot_every=2) as open_:
        for n in range(much):
            open_.memory("m", n)


def misleading(snapshot: Path) -> None:
    """The snapshot with another state in it, and the right digest."""
    body = snapshot.read_bytes().partition(b"\n")[2].removesuffix(b"\n").replace(b'"model_turns":0', b'"model_turns":7')
    snapshot.write_bytes(sha256(body).hexdigest().encode() + b"\n" + body + b"\n")


def test_verify_gates_the_version_of_a_snapshot_that_misleads(world: World) -> None:
    with living_in(world):
        talk("a", 5)
        talk("b", 5)
        assert world.ckpt("verify", "--json").json["checked"]["snapshots"] == 4
        older = min((world.store / "runs" / "a" / "snapshots").glob("[0-9]*.json"), key=lambda p: int(p.stem))
        misleading(older)
        said = world.ckpt("verify", ok=5)
        assert f"the snapshot of event {older.stem} is not what the log comes to" in said.out
        assert "no snapshot of this version is used here any more" in said.out
        again = world.ckpt("verify")
        assert "snapshot" not in again.out
        status = world.ckpt("status", "--json").json
        assert (status["full_replay_equivalence_failures"], status["snapshots_quarantined"]) == (1, True)
        before = keeper.of(log_of(world, "b")).seqs()
        talk("b", 9)
        talk("c", 9)
        assert keeper.of(log_of(world, "b")).seqs() == before  # none written, none read
        assert keeper.of(log_of(world, "c")).seqs() == []
        shutil.rmtree(world.store / "runs" / "a" / "snapshots")
        assert world.ckpt("status", "--json").json["full_replay_equivalence_failures"] == 1
        banned = world.store / "runs" / "quarantined-snapshots"
        banned.write_text("1-ofanotherversion\n")  # as after an upgrade
        talk("c", 9)
        assert keeper.of(log_of(world, "c")).seqs() != []
        misleading(max((world.store / "runs" / "c" / "snapshots").glob("[0-9]*.json"), key=lambda p: int(p.stem)))
        found = world.ckpt("verify", "--json", ok=5).json
        assert found["quarantined"]
        assert banned.read_text().startswith("1-ofanotherversion\n")


def log_of(world: World, run: str) -> JsonlLog:
    return JsonlLog(str(world.store / "runs" / run))


LOOKS = (
    ("log", "--json"), ("show", "t1", "--json"), ("diff", "t1-", "now"), ("cat", "t1", "a"), ("runs", "--json"),
    ("events", "loop", "--json"), ("uncertain", "--json"), ("undo", "t1", "-n", "--json"), ("verify",),
)  # fmt: skip
FIGURES = ("replay", "snapshot", "events_replayed", "store_bytes", "full_replay")


def seen(world: World) -> dict[str, Any]:
    """All that can be looked at, but for what looking costs."""
    found: dict[str, Any] = {" ".join(words): world.ckpt(*words, ok=None).out for words in LOOKS}
    found["verify"] = found["verify"].partition(": checked")[0]
    status = world.ckpt("status", "--json").json
    found["status"] = {name: value for name, value in status.items() if not name.startswith(FIGURES)}
    return found


def derived(store: Path) -> list[Path]:
    """Every snapshot, cache, lease file and table of a store."""
    runs = [path for name in ("lease.json", "snapshots") for path in store.glob(f"runs/*/{name}")]
    loose = [store / "scan", store / "prompt", store / "resident", store / "runs" / "quarantined-snapshots"]
    hooks = [path for path in store.glob("hooks/*/*") if path.name not in ("journal", "queue")]
    return [path for path in (*runs, *loose, *hooks) if path.exists()]


def test_without_anything_derived_all_is_the_same(world: World) -> None:
    world.write("mine", "kept\n")
    world.ckpt("config", "run.snapshot_every", "2")
    first = [call("write", path="a", text="one\n"), call("write", path="b", text="two\n"), call("keyed", order=1)]
    loop = Loop(world, first, [call("write", path="a", text="three\n"), call("keyed", order=2)])
    loop.die("keyed-after:2")
    before, state = seen(world), loop.state()
    gone = derived(world.store)
    assert {path.name for path in gone} >= {"lease.json", "snapshots", "scan"}
    for path in gone:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert catch_up(loop.log()).state == state
    after = seen(world)
    for name, value in before.items():
        assert json.dumps(after[name]) == json.dumps(value), name
    loop.finish()
    assert [one["order"] for one in loop.ledger("keyed")] == [1, 2, 2]  # the same key: the receiver knows it
    assert len({one["key"] for one in loop.ledger("keyed")}) == 2
    assert (world.read("a"), world.read("mine")) == (b"three\n", b"kept\n")
    for path in derived(world.store):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    world.ckpt("undo")
    assert not world.has("b")
    assert world.read("mine") == b"kept\n"
    world.ckpt("redo")
    assert world.read("a") == b"three\n"
