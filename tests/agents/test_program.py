"""Which ckpt goes into a configuration: never one that will vanish."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from checkpointer.agents.installation import program
from checkpointer.errors import Usage


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/tmp/x/bin/ckpt", "temporary"),
        ("/var/tmp/x/bin/ckpt", "temporary"),
        ("/home/u/.cache/uv/archive-v0/abc/bin/ckpt", "uv"),
        ("/big/uv/environments-v2/x/bin/ckpt", "uv"),
        ("/home/u/.local/pipx/.cache/0a/bin/ckpt", "pipx"),
        ("/home/u/.cache/pipx/0a/bin/ckpt", "pipx"),
        ("/home/u/p/.tox/py/bin/ckpt", "tests"),
        ("/home/u/.local/bin/ckpt", ""),
        ("/home/u/.local/share/uv/tools/agent-checkpointer/bin/ckpt", ""),
        ("/home/u/.local/share/pipx/venvs/agent-checkpointer/bin/ckpt", ""),
        ("/opt/tmp/bin/ckpt", ""),
    ],
)
def test_what_vanishes(path: str, why: str) -> None:
    said = program.vanishing(path, {"HOME": "/home/u", "UV_CACHE_DIR": "/big/uv"})
    assert (why in said) if why else said == ""


def test_a_link_to_what_vanishes_vanishes(tmp_path: Path) -> None:
    link = tmp_path / "ckpt"
    link.symlink_to("/home/u/.cache/uv/archive-v0/abc/bin/ckpt")
    assert program.vanishing(str(link), {"HOME": "/home/u"})


def test_the_path_decides_only_where_it_leads_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "tool" / "ckpt"
    mine.parent.mkdir()
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)
    stranger = tmp_path / "other" / "ckpt"
    stranger.parent.mkdir()
    stranger.write_text("#!/bin/sh\necho other 1\n")
    stranger.chmod(0o755)
    shim = tmp_path / "shim" / "ckpt"
    shim.parent.mkdir()
    shim.symlink_to(mine)
    monkeypatch.setattr(program, "running", lambda: str(mine))
    monkeypatch.setattr(program, "vanishing", lambda path, environ: "")
    assert program.chosen({"PATH": f"{shim.parent}"}) == str(shim)
    assert program.chosen({"PATH": f"{stranger.parent}:{shim.parent}"}) == str(mine)
    assert program.shadowed({"PATH": f"{stranger.parent}:{shim.parent}"}) == [str(stranger)]
    with pytest.raises(Usage, match="does not answer"):
        program.named(str(stranger))
    with pytest.raises(Usage, match="absolute"):
        program.named("ckpt")
    stranger.write_text("#!/bin/sh\necho ckpt 9\n")
    assert program.named(str(stranger)) == str(stranger)
    monkeypatch.setattr(program, "running", lambda: None)
    with pytest.raises(Usage, match="was not installed"):
        program.chosen({})


def test_this_environment_has_one() -> None:
    path = program.running()
    assert path is not None
    assert os.path.isabs(path)
    assert subprocess.run([path, "--version"], capture_output=True, check=True).stdout.startswith(b"ckpt ")
