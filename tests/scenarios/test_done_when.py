"""The whole story on a real project of some thousand files: edits before, by and after an agent, then kills."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import pytest
from harness import gitrepo
from harness.world import World, paths_of

AGENT = """
sed -i 's/^import sys$/import sys  # agent/' os.py shutil.py
sed -i 's/^import re$/import re  # agent/' json/decoder.py
rm json/scanner.py
mv json/tool.py json/instrument.py
chmod 755 abc.py
mkdir -p made/by/agent
echo 'print(1)' > made/by/agent/new.py
ln -s ../os.py made/link
rm -rf email
"""


def project(world: World, limit: int = 2500) -> None:
    """Sources of the standard library in a git repository."""
    source = Path(sysconfig.get_paths()["stdlib"])
    count = 0
    for directory, directories, files in os.walk(source):
        directories[:] = sorted(d for d in directories if d not in ("site-packages", "dist-packages", "__pycache__"))
        for name in sorted(files):
            path = Path(directory, name)
            target = world.root / path.relative_to(source)
            keep = count < limit or path.parent.name in ("json", "email") or path.parent == source
            if name.endswith(".py") and keep and path.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
                target.chmod(0o644)
                count += 1
    if not world.has("json/tool.py"):
        pytest.skip("this interpreter has no library in source form")
    gitrepo.init(world)


def test_the_whole_story(world: World) -> None:
    project(world)
    world.sh("sed -i '1i # the user, before' os.py; echo notes > notes.txt")
    before = world.files()
    world.step(AGENT)
    world.sh("echo '# the user, after' >> os.py; echo more >> notes.txt; echo mine > made/mine.txt")
    after = world.files()

    log = world.ckpt("log").out
    assert "t1" in log
    shown = world.ckpt("show", "t1", "--name-only").out.split("\n")
    assert {"json/scanner.py", "made/by/agent/new.py", "os.py"} <= set(shown)
    diff = world.ckpt("diff", "--name-only").out.split("\n")
    assert "notes.txt" in diff

    done = world.go("undo")
    assert b"os.py" in paths_of(done.json["merged"])
    assert world.read("os.py") == before[b"os.py"].content + b"# the user, after\n"
    assert world.read("notes.txt") == b"notes\nmore\n"
    assert world.read("made/mine.txt") == b"mine\n"
    now = world.files()
    assert before.differing(now) == {b"os.py", b"notes.txt", b"made", b"made/mine.txt"}
    world.go("redo", to=after)
    first = world.go("restore", "1", to=before)
    assert b"made/mine.txt" in paths_of(first.json["removed"])
    world.go("undo", to=after)
    assert world.sh("git log --format=%s").split() == ["first"]


def test_kills_in_the_middle_then_an_edit(world: World) -> None:
    world.watch_git = False
    project(world)
    world.save()
    before = world.files()
    world.step(AGENT + "for f in *.py; do echo '#' >> $f; done")
    agent = world.files()
    for pause in (0.02, 0.1, 0.2, 0.4):
        world.killed("save", after=pause / 2)
        world.killed("undo", after=pause)
        world.write("abc.py", "mine\n")
        world.ckpt("save", ok=(0, 3))
        assert world.read("abc.py") == b"mine\n"
        now = world.files().without(b"abc.py").told()
        assert now in (before.without(b"abc.py").told(), agent.without(b"abc.py").told())
        world.ckpt("save")
        world.ckpt("restore", "t1")
        assert world.files().told() == agent.told()
