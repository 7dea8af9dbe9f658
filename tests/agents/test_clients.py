"""What is written is what the real programs take. `CKPT_CLIENTS` names a directory with `codex/node_modules` in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ground import caller, site

from checkpointer.agents.installation import codextrust, installing
from checkpointer.agents.recipes.catalogue import named
from checkpointer.agents.recipes.recipe import Site

CODEX = Path(os.environ.get("CKPT_CLIENTS", "/nowhere"), "codex", "node_modules", ".bin")
OWN = 'model = "x"\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "say done"\n'


@pytest.mark.skipif(not (CODEX / "codex").exists(), reason="set CKPT_CLIENTS to a directory with Codex in it")
@pytest.mark.parametrize("config", ["", OWN], ids=["hooks.json", "config.toml"])
def test_codex_reads_and_trusts_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    monkeypatch.setenv("CKPT_HOME", str(tmp_path / "state"))
    codex = named("codex")
    home = site(tmp_path).home
    where = Site(home, {**os.environ, "PATH": f"{CODEX}:{os.environ['PATH']}", "CODEX_HOME": str(home / ".codex")})
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    if config:
        path.write_text(config)
    installing.install(codex, where, caller(tmp_path))
    asked = codextrust.ask(codex, where)
    assert len(asked) == len(codex.hooks)
    assert not any(t.runs for t in asked)
    assert len(codextrust.grant(codex, where)) == len(codex.hooks)
    installing.uninstall(codex, where)
    assert not codextrust.ask(codex, where)
    assert not config or path.read_text().startswith(config)
