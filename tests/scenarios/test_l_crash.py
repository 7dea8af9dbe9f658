"""Scenarios 108-123 as far as they concern files: crashes, power loss, a damaged store.

Left out here, because they are about the events of a run and how it is resumed: 111, 114 and 120 in full, 112's repair
of a log that is appended to again. What they mean for the files is here: undo is decided by the timeline alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import gitrepo
from harness.machine import SLOW, wait_until
from harness.manifest import same
from harness.world import World


def packs(world: World) -> list[Path]:
    """Packs of the store, oldest first."""
    found = list((world.store / "shadow.git/objects/pack").glob("*.pack"))
    return sorted(found, key=lambda p: p.stat().st_mtime_ns)


def loosen(world: World, rev: str) -> Path:
    """Make this object the only loose one that no pack holds, as a user's `git unpack-objects` can; its file."""
    oid = world.shadow("rev-parse", rev).strip()
    store = world.store / "shadow.git"
    kept = packs(world)
    for pack in kept:
        pack.rename(world.base / pack.name)
        pack.with_suffix(".idx").unlink()
    for pack in kept:
        world.sh(f"git -c safe.directory=* -C {store} unpack-objects -q < {world.base / pack.name}")
    return store / "objects" / oid[:2] / oid[2:]


@pytest.mark.parametrize("which", ["commit", "tree", "blob"])
def test_s108_a_damaged_object(world: World, which: str) -> None:
    world.damaged = True
    world.write("f", "1\n")
    world.write("d/g", "1\n")
    world.save()
    world.write("f", "2\n")
    world.save()
    rev = {"commit": "timeline", "tree": "timeline:files", "blob": "timeline:files/f"}[which]
    path = loosen(world, rev)
    path.chmod(0o600)
    path.write_bytes(b"")
    before = world.files()
    status = world.ckpt("status", ok=(0, 5))
    log = world.ckpt("log", "--checkpoints", ok=(0, 5))
    assert status.text
    assert log.text
    world.go("restore", "1")
    assert world.read("f") == b"1\n"
    refused = world.ckpt("restore", "--json", "2", ok=(0, 2, 5))
    if refused.status:
        assert "2" in refused.error["message"]
    else:  # what was damaged stood in the files, too, and was stored again before they were changed
        assert world.read("f") == b"2\n"
        world.go("restore", "1")
    world.step("echo 3 > f")
    world.go("undo")
    assert world.read("f") == b"1\n"
    verified = world.ckpt("verify", ok=(0, 5) if which == "commit" else 5)
    assert verified.text
    assert before.told() != world.files().told()


@pytest.mark.parametrize("name", ["workspace.toml", "shadow.git/config", "shadow.git/HEAD"])
def test_s109_one_workspaces_damage_is_not_anothers(world: World, worlds: Callable[..., World], name: str) -> None:
    world.damaged = True
    world.write("f", "1\n")
    world.save()
    target = world.store / name
    target.write_bytes(b"\0" * max(20, target.stat().st_size))
    other = worlds(state=world.state)
    other.damaged = True
    other.write("f", "1\n")
    before = other.files()
    other.step("echo 2 > f")
    other.go("undo", to=before)
    other.ckpt("workspaces", ok=(0, 5))
    world.write("f", "2\n")
    done = world.ckpt("save", "--json", ok=(0, 5))
    if done.status:
        assert done.error["message"]
        assert done.error["next"] or done.error["kept"]
    else:
        world.go("restore", "1")
        assert world.read("f") == b"1\n"


@pytest.mark.parametrize("damage", ["torn", "nul", "middle", "empty", "gone"])
def test_s111_s112_s114_a_damaged_event_log_costs_no_file(world: World, damage: str) -> None:
    world.write("f", "1\n")
    start = world.files()
    world.step("echo 2 > f")
    second = world.files()
    (log,) = (world.store / "runs").glob("*/events.jsonl")
    lines = log.read_bytes().split(b"\n")
    whole = b"\n".join(lines)
    log.chmod(0o600)
    log.write_bytes(
        {
            "torn": whole + b'{"e":{"seq":',
            "nul": whole + b"\0" * 500,
            "middle": b"\n".join([lines[0], b"#" * 40, *lines[2:]]),
            "empty": b"",
            "gone": whole,
        }[damage]
    )
    if damage == "gone":
        log.unlink()
    assert world.ckpt("log").out
    world.ckpt("status")
    world.step("echo 3 > f")
    newest = max((world.store / "runs").glob("*/events.jsonl"), key=lambda p: p.stat().st_mtime_ns)
    for line in newest.read_bytes().splitlines():
        json.loads(line)
    world.go("undo", to=second)
    world.go("undo", to=start)


def test_s115_undo_stops_at_a_gap(world: World) -> None:
    world.damaged = True
    world.write("f", "0\n")
    states = [world.files()]
    for i in range(1, 5):
        world.step(f"echo {i} > f; echo {i} > f{i}")
        states.append(world.files())
    gone = packs(world)[2]
    for path in (gone, gone.with_suffix(".idx")):
        path.unlink()
    world.go("undo", to=states[3])
    seen = []
    for _ in range(4):
        before = world.files()
        done = world.ckpt("undo", "--json", ok=(0, 1, 5))
        if done.status:
            same(before, world.files())
            seen.append(done.status)
            assert done.error["message"]
            break
    assert seen, "undo went across a gap without a word"
    assert world.ckpt("log", "--checkpoints", ok=(0, 5)).text


@pytest.mark.parametrize("place", ["middle", "oldest"])
def test_s117_a_part_that_is_gone_is_said(world: World, place: str) -> None:
    world.damaged = True
    for i in range(5):
        world.write("f", f"{i}\n")
        world.write(f"g{i}", f"{i}\n")
        world.save()
    gone = packs(world)[2 if place == "middle" else 0]
    gone.unlink()
    gone.with_suffix(".idx").unlink()
    verified = world.ckpt("verify", ok=5)
    assert verified.text
    before = world.files()
    world.go("restore", "3" if place == "middle" else "1", ok=5)
    same(before, world.files())
    done = world.ckpt("restore", "--json", "2" if place == "middle" else "3", ok=(0, 5))
    if done.status:  # something of it was only in what is gone
        same(before, world.files())
    elif place == "middle":
        assert world.read("f") == b"1\n"
        assert not world.has("g2")
    else:
        assert world.read("f") == b"2\n"
        assert world.read("g0") == b"0\n"


def test_s118_the_facts_are_always_whole(world: World) -> None:
    world.write("f", "1")
    world.save()
    facts = world.store / "workspace.toml"
    rounds = 60 if SLOW else 12
    choose = random.Random(118)
    for i in range(rounds):
        world.write("f", f"{i} {'x' * choose.randrange(1, 200)}")
        world.killed("save", "-m", "label" * choose.randrange(1, 30), after=choose.uniform(0, 0.06))
        tomllib.loads(facts.read_text())
        assert world.ckpt("status").status == 0
    world.save()


def test_s121_one_record_a_line_whatever_the_names(world: World) -> None:
    gitrepo.init(world)
    names = ["u\u2028x", "n\u0085x", "r\rx", "n\nx"]
    script = "; ".join(f"echo 1 > '{n}'" for n in names) + "; printf 'a\\342\\200\\250b\\302\\205c\\r\\n'"
    world.step(script)
    (log,) = (world.store / "runs").glob("*/events.jsonl")
    for line in log.read_bytes().rstrip(b"\n").split(b"\n"):
        assert json.loads(line)["e"]["seq"]
    for line in world.ckpt("log", "--json").stdout.rstrip(b"\n").split(b"\n"):
        assert json.loads(line)["checkpoint"]
    assert len(world.ckpt("log").out.split("\n")) < 6
    added = world.ckpt("diff", "--name-only").stdout
    assert added.count(b"\n") == len(names)
    world.go("undo")
    assert set(world.files()) == {b""}


def test_s122_one_of_many_paths_cannot_be_written(world: World) -> None:
    world.watch_git = False
    for i in range(600):
        world.write(f"d{i % 3}/f{i}", f"{i}\n")
    before = world.files()
    world.step("for f in d*/*; do echo x > $f; done")
    edited = world.files()
    os.rename(world.at("d1"), world.base / "d1")
    world.write("d1", "a file stands where a folder was")
    in_the_way = world.files()
    world.go("undo", ok=3)
    same(in_the_way, world.files())
    world.rm("d1")
    os.rename(world.base / "d1", world.at("d1"))
    same(edited, world.files())
    world.go("undo", to=before)


def test_s123_killed_between_the_agents_end_and_the_checkpoint(world: World) -> None:
    world.write("f", "1\n")
    world.write("g", "1\n")
    script = "echo $$ > ../pid; echo agent > f; touch ../ready; for i in $(seq 200); do sleep 0.05; done"
    with world.popen("run", "--", "sh", "-c", script) as process:
        wait_until((world.base / "ready").exists, 20, "the agent's edit")
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((world.base / "pid").read_text()), signal.SIGKILL)
    world.write("g", "the user's\n")
    edited = world.files()
    refused = world.go("undo", ok=3)
    assert "--force" in " ".join(refused.error["next"]) + refused.error["message"]
    same(edited, world.files())
    world.go("undo", "--force")
    assert world.read("f") == b"1\n"
    world.go("redo", to=edited)
    assert world.read("g") == b"the user's\n"
