"""What must not stop halfway is done in a thread: a Ctrl-C that comes meanwhile is answered afterwards."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def shielded(act: Callable[[], T]) -> tuple[T, BaseException | None]:
    """Do `act` to its end; gives its result, and what was raised into this thread meanwhile.

    Python interrupts the main thread alone: any other one just goes on. Raises what `act` raises.
    """
    if threading.current_thread() is not threading.main_thread():
        return act(), None
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def go() -> None:
        try:
            results.append(act())
        except BaseException as e:
            errors.append(e)
        finally:
            done.set()

    thread = threading.Thread(target=contextvars.copy_context().run, args=(go,), daemon=True)
    stopped: BaseException | None = None
    try:
        thread.start()
    except BaseException as e:
        if thread.ident is None:
            raise
        stopped = e
    while not done.is_set():
        try:
            done.wait()
        except BaseException as e:
            stopped = e
    if errors:
        raise errors[0] from stopped
    return results[0], stopped
