"""Real SIGKILLs at random moments of a save and of a restore, with a user's edit before the next command.

A few rounds here, 50 with CKPT_SLOW=1. The moments come from a fixed seed, spread over the time that the same command
took when it was left alone.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

import pytest
from harness.machine import SLOW, group, wait_until
from harness.manifest import Manifest, same, untouched
from harness.world import World

ROUNDS = 50 if SLOW else 3
FILES = 5_000


@pytest.fixture
def world(worlds: Callable[..., World]) -> World:
    return worlds(in_memory=not SLOW)


def tree(world: World, text: str, files: int = FILES) -> None:
    for i in range(files):
        if i % 100 == 0:
            os.makedirs(world.at(f"d{i // 100}"), exist_ok=True)
        with open(world.at(f"d{i // 100}/f{i}"), "w") as f:
            f.write(f"{text} {i}\n")


def killed(world: World, pause: float, *args: str) -> int:
    """Run until killed after `pause` seconds; its exit status. Its workers must be gone soon after it."""
    with world.popen(*args) as process:
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: not group(process.pid), 10, "the workers of a killed process to end")
    return process.returncode


def duration(world: World, *args: str) -> float:
    start = time.monotonic()
    world.ckpt(*args)
    return time.monotonic() - start


def test_a_save_killed_at_random_moments(world: World) -> None:
    world.watch_git = False
    choose = random.Random(9)
    files = FILES if SLOW else 2_000
    tree(world, "first", files)
    whole = 1.5
    numbers: list[int] = []
    for i in range(ROUNDS):
        killed(world, choose.uniform(0.02, whole), "save")
        if world.stores():
            world.sound()
        before = world.files()
        world.write(f"d{i}/f{i * 100}", f"edited {i}\n")
        assert world.ckpt("status", ok=0 if world.stores() else 1).text
        edited = world.files()
        assert before.differing(edited) <= {f"d{i}/f{i * 100}".encode()}
        start = time.monotonic()
        numbers.append(world.save())
        whole = min(whole, max(0.3, time.monotonic() - start))
        untouched(edited, world.files(), set())
        assert world.ckpt("cat", str(numbers[-1]), f"d{i}/f{i * 100}").stdout == f"edited {i}\n".encode()
        tree(world, f"round {i}", files)
    assert numbers == sorted(set(numbers)), "a number was used twice"


def settled(world: World, before: Manifest, after: Manifest, mine: dict[bytes, bytes]) -> bool:
    """Is everything but my own edits as before, or everything as after? True: as after."""
    now = world.files()
    for path, content in mine.items():
        assert path in now, f"the user's edit of {path!r} is gone"
        assert now[path].content == content, path
    others = now.differing(after) - mine.keys()
    if not others:
        return True
    same(before.without(*mine), now.without(*mine))
    return False


@pytest.mark.parametrize("verb", ["restore", "undo"])
def test_a_restore_killed_with_an_edit_before_the_next_command(world: World, verb: str) -> None:
    world.watch_git = False
    choose = random.Random(123)
    files = FILES if SLOW or verb == "restore" else 2_000
    last = f"d{(files - 1) // 100}/f{files - 1}".encode()
    tree(world, "old", files)
    os.symlink("d1", world.at("link"))
    world.save()
    old = world.files()
    args = ("restore", "1") if verb == "restore" else ("undo",)
    whole = None
    rounds = 0
    outcomes = []
    while rounds < ROUNDS or (rounds < 50 and not any(status == -signal.SIGKILL for status, _ in outcomes)):
        _mutate(world, rounds, verb, files)
        new = world.files()
        if whole is None:
            whole = duration(world, *args)
            same(old, world.files())
            continue
        # The first part is looking; most kills shall fall into the writing.
        start = time.monotonic()
        status = killed(world, choose.uniform(0.1 * whole, 1.02 * whole), *args)
        whole = whole if status == -signal.SIGKILL else min(whole, time.monotonic() - start)
        rounds += 1
        mine = {}
        for path in (b"d3/f333", last, b"mine.txt"):
            world.write(path, b"the user, round %d\n" % rounds)
            mine[path] = world.read(path)
        looked = world.files()
        world.ckpt("status", cut_short=True)
        world.ckpt("log", cut_short=True)
        same(looked, world.files())
        saved = world.ckpt("save", "--json", ok=(0, 3))
        done = settled(world, new, old, mine)
        outcomes.append((status, done))
        number = saved.json.get("checkpoint") if saved.status == 0 else world.save()
        for path, content in mine.items():
            assert world.ckpt("cat", str(number), "--", path).stdout == content
        world.sound()
        world.rm("mine.txt")
        world.ckpt("restore", "1")
        same(old, world.files())
    assert any(status == -signal.SIGKILL for status, _ in outcomes), "no kill came in time"


def _mutate(world: World, i: int, verb: str, files: int) -> None:
    """New contents in every file, some files and folders gone, some made: by the user, or by an agent's turn."""
    script = (
        "import os, shutil\n"
        f"for n in range({files}):\n"
        "    p = f'd{n // 100}/f{n}'\n"
        "    if n % 97 == 0: os.unlink(p)\n"
        f"    else: open(p, 'w').write(f'new {i} {{n}}\\n')\n"
        "shutil.rmtree('d7'); os.unlink('link'); os.mkdir('link'); os.chmod('d8', 0o700)\n"
        "os.mkdir('made'); open('made/x', 'w').write('made')\n"
    )
    (world.base / "edit.py").write_text(script)
    if verb == "undo":
        world.ckpt("run", "-q", "--", "python3", "../edit.py")
    else:
        world.sh("python3 ../edit.py")
        world.save()
