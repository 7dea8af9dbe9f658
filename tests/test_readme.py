"""README's blocks are true: every command of its tour is typed, and prints what stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.S | re.M)

AGENT = """\
sed -i.bak s/cart/basket/ src/cart.py && rm src/cart.py.bak
rm data/prices.db
mv src/ship.py src/deliver.py
"""


def project(base: Path) -> Path:
    """The project of the tour, with the agent beside it and `ckpt` on the PATH."""
    shop = base / "home" / "shop"
    (shop / "src").mkdir(parents=True)
    (shop / "data").mkdir()
    (shop / "src" / "cart.py").write_text("def total(cart):\n    return sum(item.price for item in cart)\n")
    (shop / "src" / "ship.py").write_text("def ship(order):\n    return order.id\n")
    (shop / "data" / "prices.db").write_bytes(bytes(range(256)) * 20)
    (base / "home" / "agent.sh").write_text(AGENT)
    (base / "bin").mkdir()
    shim = base / "bin" / "ckpt"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m checkpointer "$@"\n')
    shim.chmod(0o755)
    return shop


def normal(text: str) -> str:
    """What differs from run to run, in one form: ages, sizes, the columns around them."""
    text = re.sub(r"\b\d+ (s|min)\b", "N s", text)
    text = re.sub(r"\b[\d.]+ (B|KB|MB)\b", "N KB", text)
    text = re.sub(r"\b\d\d:\d\d\b", "HH:MM", text)
    return re.sub(r" +", " ", text)


def typed(line: str, shop: Path, base: Path) -> str:
    env = {
        "PATH": f"{base / 'bin'}:{os.environ['PATH']}",
        "HOME": str(base / "home"),
        "CKPT_HOME": str(base / "state"),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=shop,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout.decode()


def test_the_tour_prints_what_it_says(tmp_path: Path) -> None:
    shop = project(tmp_path)
    blocks = BLOCK.findall(README.read_text())
    assert blocks
    said, found = [], []
    for block in blocks:
        for part in re.split(r"^(?=\$ )", block, flags=re.M):
            line, _, answer = part.partition("\n")
            if line.startswith("$ "):
                said.append(f"{line}\n{answer}")
                found.append(f"{line}\n{typed(line[2:], shop, tmp_path)}")
    if os.environ.get("CKPT_TRANSCRIPTS") == "write":
        print("\n".join(found))
    assert [normal(text) for text in found] == [normal(text) for text in said]


@pytest.mark.parametrize("script", sorted(p.name for p in (ROOT / "examples").glob("*.sh")))
def test_the_examples_run(tmp_path: Path, script: str) -> None:
    shop = project(tmp_path)
    out = typed(f"sh {ROOT / 'examples' / script} && echo all well", shop, tmp_path)
    assert out.endswith("all well\n"), out
