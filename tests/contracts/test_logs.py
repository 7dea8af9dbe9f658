"""Every backend keeps the contract of a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.log import JsonlRuns, MemoryRuns, Runs
from checkpointer.testing.contract import LogContract


class TestMemory(LogContract):
    @pytest.fixture
    def runs(self) -> Runs:
        return MemoryRuns()


class TestJsonl(LogContract):
    @pytest.fixture
    def runs(self, tmp_path: Path) -> Runs:
        return JsonlRuns(str(tmp_path / "runs"))
