"""What every log keeps, whatever it is made of: subclass `LogContract` and give it a `runs` fixture.

    class TestMyLog(LogContract):
        @pytest.fixture
        def runs(self) -> Runs: ...

`runs` is an empty place for runs of the backend under test. Needs pytest.
"""

from __future__ import annotations

from checkpointer.testing.owning import OwningContract
from checkpointer.testing.reading import ReadingContract


class LogContract(ReadingContract, OwningContract):
    """The whole contract."""
