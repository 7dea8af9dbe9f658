"""Looking at a log without the vocabulary finds what reading it with the vocabulary finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from checkpointer.errors import CheckpointerError, NoStore
from checkpointer.events import TYPES
from checkpointer.log import JsonlLog, glance

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
EVERY = sorted(path.parent for path in LOGS.glob("**/events.jsonl"))


def test_it_knows_every_type_in_today_s_version() -> None:
    assert set(TYPES) == glance.TYPES
    assert max(cls.version for cls in TYPES.values()) == glance.VERSION


def _ending(reading: object) -> tuple[list[int], str, object]:
    seqs, error = [], ""
    try:
        for record in reading:  # type: ignore[attr-defined]
            seqs.append(record.seq)
    except CheckpointerError as e:
        error = e.code
    return seqs, error, reading.position  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "directory", [d for d in EVERY if d.parent.name != "v0" and d.name != "wrong-facts"], ids=lambda d: d.name
)
def test_the_same_lines_the_same_end(directory: Path) -> None:
    """Lines not known yet are refused alike; only facts that do not fit their type go unnoticed."""
    assert _ending(glance.look(str(directory))) == _ending(JsonlLog(str(directory)).read())


@pytest.mark.parametrize("directory", [d for d in EVERY if d.parent.name == "v1"], ids=lambda d: d.name)
def test_the_same_facts_and_contents(directory: Path) -> None:
    log = JsonlLog(str(directory))
    for seen, record in zip(glance.look(str(directory)), log.read(), strict=True):
        assert seen.facts["type"] == record.event.type
        assert seen.facts["at"] == record.event.at
        loaded = record.load(log.fetch)
        for name, value in seen.contents(log.fetch).items():
            assert getattr(loaded, name) == value


def test_no_log(tmp_path: Path) -> None:
    with pytest.raises(NoStore):
        glance.look(str(tmp_path / "none"))


def test_it_is_light() -> None:
    code = "import sys, checkpointer.log.glance; print('pydantic' in sys.modules, 'checkpointer.events' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False False\n", done.stderr
