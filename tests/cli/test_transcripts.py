"""Every command as a person sees it: success, the empty case, each refusal.

`CKPT_TRANSCRIPTS=write pytest tests/cli/test_transcripts.py` writes what comes out now; read the difference before it
is committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from transcript import play

TRANSCRIPTS = Path(__file__).parent / "transcripts"


@pytest.mark.parametrize("name", sorted(p.name for p in TRANSCRIPTS.glob("*.txt")))
def test_transcript(tmp_path: Path, name: str) -> None:
    path = TRANSCRIPTS / name
    wanted = path.read_text(encoding="utf-8")
    found = play(wanted, tmp_path)
    assert "Traceback" not in found, found
    assert "failed unexpectedly" not in found, found
    if os.environ.get("CKPT_TRANSCRIPTS") == "write":
        path.write_text(found, encoding="utf-8")
        return
    assert found == wanted
