"""Surroundings that break other tools: locale, umask, configuration, limits, many processes, another user's files."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness import gitrepo
from harness.machine import NOBODY, needs_root
from harness.manifest import same
from harness.world import World

ODD = ["能", "caf\u00e9", "tab\there", "new\nline"]


@pytest.mark.parametrize("locale", ["C", "de_DE.ISO-8859-1", None])
def test_any_locale(world: World, locale: str | None) -> None:
    env = {"LANG": locale, "LC_ALL": locale, "PYTHONUTF8": None, "PYTHONIOENCODING": None}
    for name in [*ODD, b"caf\xe9"]:
        world.write(name, "1\n")
    gitrepo.init(world)
    before = world.files()
    world.step('for f in *; do echo 2 > "$f"; done', env=env)
    for verb in (["status"], ["log"], ["show"], ["diff"], ["diff", "--stat"], ["log", "--json"]):
        world.ckpt(*verb, env=env)
    world.go("undo", to=before, env=env)
    world.ckpt("save", "-m", "能", env=env)
    world.ckpt("cat", "能", "能", env=env)


def test_python_that_warns_and_ascii_streams(world: World) -> None:
    world.write("能", "1\n")
    env = {"PYTHONIOENCODING": "ascii:strict", "PYTHONWARNINGS": "error", "PYTHONUTF8": "0", "LC_ALL": "C"}
    before = world.files()
    world.step("echo 2 > 能", env=env)
    world.ckpt("status", env=env)
    world.ckpt("diff", env=env)
    world.go("undo", to=before, env=env)


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_any_umask(world: World, umask: int) -> None:
    world.write("f", "1\n", 0o644)
    world.write("x", "1\n", 0o755)
    world.write("d/secret", "1\n", 0o600)
    os.chmod(world.at("d"), 0o750)
    start = world.save(umask=umask)
    before = world.files()
    world.sh("rm -r d f x")
    world.go("restore", str(start), to=before, umask=umask)


HOSTILE = """[core]
\tautocrlf = true
\tsafecrlf = true
\teol = crlf
\tfsmonitor = {home}/monitor
\tuntrackedCache = true
\tignorecase = true
\tprecomposeunicode = true
\tsymlinks = false
\tfileMode = false
\tprotectHFS = true
\tprotectNTFS = true
\tattributesFile = {home}/attributes
\thooksPath = {home}/hooks
\tsshCommand = touch {home}/ran
\tpager = touch {home}/ran
\teditor = touch {home}/ran
\tbigFileThreshold = 1
\tcompression = 0
\tlooseCompression = 0
\tsharedRepository = 0666
\tfsync = none
\tworktree = {home}
\tlogAllRefUpdates = always
\tsparseCheckout = true
[filter "bad"]
\tclean = touch {home}/ran; false
\tsmudge = touch {home}/ran; false
\tprocess = touch {home}/ran; false
\trequired = true
[diff]
\texternal = touch {home}/ran
\trenames = copies
[diff "bad"]
\ttextconv = touch {home}/ran; echo
\tcommand = touch {home}/ran
[merge]
\tdefault = bad
\tconflictStyle = zdiff3
\trenames = true
[merge "bad"]
\tdriver = touch {home}/ran; false
[safe]
\tdirectory =
\tbareRepository = explicit
[commit]
\tgpgSign = true
[gpg]
\tprogram = touch {home}/ran; false
[gc]
\tauto = 1
\tautoDetach = true
[pack]
\tpackSizeLimit = 1
[user]
\tuseConfigOnly = true
[transfer]
\tfsckObjects = true
[receive]
\tdenyCurrentBranch = refuse
[fetch]
\trecurseSubmodules = true
[submodule]
\trecurse = true
[feature]
\tmanyFiles = true
[init]
\ttemplateDir = {home}/template
\tdefaultObjectFormat = sha256
\tdefaultRefFormat = reftable
[include]
\tpath = {home}/missing
\tpath = {home}/.gitconfig
"""


def test_a_hostile_global_configuration(world: World) -> None:
    world.write("f", b"one\r\ntwo\nthree\n" * 10)
    world.write("s.sh", "#!/bin/sh\n", 0o755)
    world.write("Foo", "1")
    world.write("foo", "2")
    world.write("model.bin", os.urandom(3000))
    os.symlink("f", world.at("l"))
    gitrepo.init(world)
    (world.home / "hooks").mkdir()
    for name in ("pre-commit", "reference-transaction", "post-checkout", "pre-auto-gc", "post-index-change"):
        (world.home / "hooks" / name).write_text(f"#!/bin/sh\ntouch {world.home}/ran\nexit 1\n")
        (world.home / "hooks" / name).chmod(0o755)
    (world.home / "monitor").write_text(f"#!/bin/sh\ntouch {world.home}/ran\n")
    (world.home / "monitor").chmod(0o755)
    (world.home / "attributes").write_text(
        "* text eol=crlf filter=bad diff=bad merge=bad ident working-tree-encoding=UTF-16\n"
    )
    (world.home / "template/hooks").mkdir(parents=True)
    shutil.copy(world.home / "hooks/pre-commit", world.home / "template/hooks/reference-transaction")
    (world.home / ".gitconfig").write_text(HOSTILE.format(home=world.home))
    before = world.files()
    env = {"PAGER": None, "GIT_PAGER": f"touch {world.home}/ran", "GIT_EXTERNAL_DIFF": f"touch {world.home}/ran"}
    world.step(
        "sed -i 's/one/ONE/' f; chmod 644 s.sh; echo 3 > foo; rm l; head -c 999 /dev/urandom > model.bin", env=env
    )
    for verb in ("status", "log", "show", "diff", "verify", "gc"):
        world.ckpt(verb, env=env)
    world.sh("printf 'tail\\n' >> f")
    world.go("undo", "--", "f", env=env)
    assert world.read("f") == before[b"f"].content + b"tail\n"
    world.go("undo", env=env)
    assert before.differing(world.files()) == {b"f"}
    assert not (world.home / "ran").exists()


def test_hostile_attributes_in_the_workspace(world: World) -> None:
    lines = "".join(f"{i}\n" for i in range(30))
    world.write("f", lines)
    gitrepo.init(world)
    world.sh(f"git config merge.bad.driver 'touch {world.base}/ran; false'; git config filter.bad.clean false")
    world.write(".gitattributes", "* merge=bad filter=bad -text\n*.txt merge=union\n")
    world.step("sed -i s/^5$/FIVE/ f")
    world.sh("sed -i s/^25$/TWENTYFIVE/ f")
    world.go("undo")
    assert world.read("f").decode() == lines.replace("25\n", "TWENTYFIVE\n")
    assert not (world.base / "ran").exists()


@needs_root
def test_root_on_another_users_workspace(world: World) -> None:
    world.write("f", "1\n")
    world.write("d/g", "1\n", 0o600)
    gitrepo.init(world)
    for directory, directories, files in os.walk(world.root):
        for name in (".", *directories, *files):
            os.chown(os.path.join(directory, name), NOBODY, NOBODY)
    before = world.files()
    world.step("echo 2 > f; rm -r d")
    world.go("undo", to=before)
    for name in ("f", "d", "d/g"):
        assert os.stat(world.at(name)).st_uid == NOBODY


@needs_root
def test_another_users_store_is_not_written(worlds: Callable[..., World]) -> None:
    world = worlds()
    world.write("f", "1\n")
    world.save()
    (world.base / "home").chmod(0o755)
    other = World(world.base / "home", uid=None)
    other.uid = NOBODY
    other.root, other.state, other.env["CKPT_HOME"] = world.root, world.state, str(world.state)
    refused = other.ckpt("save", ok=(1, 2, 5))
    assert refused.err.strip()
    assert world.ckpt("cat", "1", "f").stdout == b"1\n"


def _few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


def test_few_descriptors_and_a_thousand_checkpoints(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.watch_git = False
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    world.write("f", "0\n")
    world.save()
    _save_many(world, 1_000)
    before = world.files()
    few = {"preexec_fn": _few_descriptors}
    world.ckpt("log", "-n", "5", **few)
    world.ckpt("status", **few)
    world.step("echo agent > f; mkdir new; touch new/1", **few)
    world.go("undo", to=before, **few)
    world.go("restore", "2", **few)
    assert world.read("f") == b"1\n"
    world.go("undo", to=before, **few)
    world.ckpt("verify", **few)
    world.ckpt("gc", "--yes", **few)
    assert world.ckpt("cat", "500", "f", **few).stdout == b"499\n"


def _save_many(world: World, count: int) -> None:
    """Checkpoints 2 .. count + 1, made in this process and without syncs: `f` holds the number before."""
    from checkpointer.workspace.workspace import Workspace

    workspace = Workspace(os.fsencode(world.root), Path(world.store))
    for i in range(1, count + 1):
        world.write("f", f"{i}\n")
        assert workspace.save().checkpoint.number == i + 1


def test_eight_processes_save_eight_times_each(world: World) -> None:
    """Every one of the 64 saves names a checkpoint that holds what its process had written before it."""
    world.watch_git = False
    world.write("start", "x")
    world.save()

    def saves(worker: int) -> list[tuple[str, str, str]]:
        done = []
        for turn in range(8):
            name, text = f"w{worker}", f"{worker} {turn}\n"
            world.write(name, text)
            with world.popen("save", "--json") as process:
                out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            done.append((json.loads(out)["commit"], name, text))
        return done

    with ThreadPoolExecutor(8) as pool:
        recorded = [record for records in pool.map(saves, range(8)) for record in records]
    assert len(recorded) == 64
    kept = set(world.shadow("rev-list", "timeline").split())
    for commit, name, text in recorded:
        assert commit in kept
        assert world.shadow("show", f"{commit}:files/{name}") == text
    world.ckpt("verify")


def test_saves_while_a_restore_is_at_work(world: World) -> None:
    world.watch_git = False
    for i in range(800):
        world.write(f"d{i % 8}/f{i}", "1\n")
    world.save()
    first = world.files()
    for i in range(800):
        world.write(f"d{i % 8}/f{i}", "2\n")
    world.save()
    with ExitStack() as stack:
        all_of_them = [stack.enter_context(world.popen(*words)) for words in (["restore", "1"], *[["save"]] * 3)]
        for process in all_of_them:
            _, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
    assert not world.leftovers()
    same(first, world.files())


def test_ctrl_c_leaves_nothing_half_done(world: World) -> None:
    world.watch_git = False
    started = {"PYTHONHASHSEED": "0"}  # an interpreter of its own: what Ctrl-C meets must be ours
    for i in range(3000):
        world.write(f"d{i % 30}/f{i}", f"{i}\n")
    for pause in (0, 0.1, 0.2):
        with world.popen("save", env=started) as process:
            world.at_work(process)
            time.sleep(pause)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=20)
        assert process.returncode in (0, 130), err
        assert b"Traceback" not in err
    number = world.save()  # those that were interrupted may have used numbers up
    before = world.files()
    world.sh("for f in d*/*; do echo x > $f; done")
    edited = world.files()
    for pause in (0, 0.15, 0.3):
        with world.popen("restore", str(number), env=started) as process:
            world.at_work(process)
            time.sleep(pause)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=20)
        assert b"Traceback" not in err
        now = world.files().told()
        assert now in (edited.told(), before.told()), f"half restored, status {process.returncode}: {err!r}"
        if process.returncode == 0:
            world.go("undo", to=edited)
        else:
            assert process.returncode == 130, err


@pytest.mark.parametrize("words", [["undo"], ["log"], ["show"], ["diff"], ["status"], ["save"]], ids=lambda w: w[0])
def test_a_closed_output(world: World, words: list[str]) -> None:
    world.write("f", "1\n" * 3000)
    world.step("for i in $(seq 3000); do echo $i; done > f")
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as out:
        world.ckpt(*words, stdout=out, ok=None)
    assert world.ckpt("status").status == 0
