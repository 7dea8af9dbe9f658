"""The garbage collector, which is told to wait while nothing can be garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is collected inside: for work that makes many small things and keeps them (a fold, a scan, the import
    of many modules), so that each collection would look at all of them once more, and find nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
