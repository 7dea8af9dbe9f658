"""Nobody's git configuration, environment, hook or filter is obeyed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.shadow import sound

HARNESS = Path(__file__).parents[1]


HOSTILE = """
[core]
\tautocrlf = true
\tsafecrlf = true
\tattributesFile = {home}/attributes
\texcludesFile = {home}/attributes
\thooksPath = {home}/hooks
\tfsmonitor = {home}/hooks/reference-transaction
\trepositoryformatversion = 99
\tcompression = 9
[extensions]
\tobjectFormat = sha256
\trefStorage = reftable
[gc]
\tauto = 1
[user]
\tuseConfigOnly = true
[commit]
\tgpgSign = true
[filter "x"]
\tclean = false
\trequired = true
"""


def test_nobodys_configuration_is_obeyed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    for hook in ("reference-transaction", "post-commit", "pre-auto-gc"):
        (home / "hooks" / hook).write_text(f"#!/bin/sh\necho {hook} >> {home}/ran\nexit 1\n")
        (home / "hooks" / hook).chmod(0o755)
    (home / "attributes").write_text("* filter=x text eol=crlf ident\n")
    (home / ".gitconfig").write_text(HOSTILE.format(home=home))
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/config").write_text(HOSTILE.format(home=home))
    code = f"""
import sys; sys.path.insert(0, {str(HARNESS)!r})
from harness.shadow import checkpoint, contents
from checkpointer.workspace.shadow.store import Store
store = Store.create({str(tmp_path / "shadow.git")!r})
made = checkpoint(store, {{"a": b"1\\r\\n$Id$\\n", ".gitattributes": b"* filter=x"}})
made = checkpoint(store, {{"b": b"2\\n"}})
assert contents(store, made)[b"a"] == b"1\\r\\n$Id$\\n"
from checkpointer.workspace.odb.libgit import pygit2
repository = pygit2().Repository({str(tmp_path / "shadow.git")!r})
assert not [e.name for e in repository.config if e.name.startswith(("filter.", "user.", "commit."))]
assert repository.head.target == made.id
"""
    outside = tmp_path / "outside"
    subprocess.run(["git", "init", "-q", outside], check=True)
    before = sorted((p, p.lstat().st_mtime_ns) for p in outside.rglob("*"))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_DIR": str(outside / ".git"),
        "GIT_WORK_TREE": str(outside),
        "GIT_INDEX_FILE": str(outside / "index"),
        "GIT_OBJECT_DIRECTORY": str(outside / "objects"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "false",
        "GIT_NAMESPACE": "x",
        "GIT_DEFAULT_HASH": "sha256",
    }
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=outside)
    assert not (home / "ran").exists()
    assert sorted((p, p.lstat().st_mtime_ns) for p in outside.rglob("*")) == before
    sound(tmp_path / "shadow.git")


def test_libgit2_shows_the_caller_its_environment_again() -> None:
    code = (
        "import os; from checkpointer.workspace.odb.libgit import pygit2; g = pygit2();"
        "assert os.environ['HOME'] == '/nonexistent' and os.environ['GIT_DIR'] == '/x';"
        "assert g is pygit2() and g.settings.mwindow_file_limit == 64 and not g.settings.owner_validation"
    )
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_DIR": "/x"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
