"""A long log, the same each time: what replay is measured on.

Of each ten events three are model turns (150 to 1,500 bytes of text), three starts of calls (arguments of 40 bytes to
4 KB), three ends (results of 60 bytes to 16 KB), one is a message of the user (200 bytes). The sizes of arguments and
results are spread evenly over their orders of magnitude, as those of edits, listings and test output are. A line is
about 2.3 KB on average, of which 0.7 KB are the envelope, the facts and the digests.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from checkpointer import record
from checkpointer.events import (
    AcceptedCall,
    AnyEvent,
    Commit,
    ModelTurn,
    RunStarted,
    ToolCallCompleted,
    ToolCallStarted,
    Usage,
    UserMessage,
)
from checkpointer.line import NO_SUM
from checkpointer.testing.world import FixedWorld, stamp

_TEXT = """the quick brown fox, jumped "over" a lazy dog
 def x(self): return 'täglich' # ok\t{}[]"""
_WORDS = _TEXT.split(" ")


def texts(seed: int) -> Callable[[int, int], str]:
    """Texts of between so many and so many bytes, spread evenly over their orders of magnitude."""
    return _texts(random.Random(seed))


def _texts(chance: random.Random) -> Callable[[int, int], str]:
    def text(least: int, most: int) -> str:
        size = int(least * (most / least) ** chance.random())
        return " ".join(chance.choices(_WORDS, k=1 + size // 6))

    return text


def events(count: int) -> Iterator[AnyEvent]:
    """`count` events of a run, without places."""
    chance = random.Random(17)
    world = FixedWorld()
    text = _texts(chance)

    commit = Commit(id="9" * 40, number=1, captured=True)
    yield RunStarted(run="long", owner=world.here(), mode="driven", command=["python", "loop.py"])
    made = 1
    for turn in range(count):
        if made >= count:
            return
        if turn % 3 == 0:
            yield UserMessage(context="main", commit=commit, content=text(200, 200), turn=turn // 3 + 1)
            made += 1
        key = f"{chance.getrandbits(128):032x}"
        digest = f"{chance.getrandbits(256):064x}"
        arguments = {"command": text(40, 4_000), "timeout": 60}
        asked = AcceptedCall(tool="shell", key=key, effect="workspace", args_digest=digest, call_id=f"call_{turn}")
        yield ModelTurn(
            context="main", commit=commit, model="m-1", calls=(asked,), usage=Usage(input=1200, output=80),
            cost_micros=4200, stop="tool_use", content=text(150, 1500), arguments=[arguments],
        )  # fmt: skip
        commit = Commit(id=f"{chance.getrandbits(160):040x}", number=turn + 2, captured=True)
        yield ToolCallStarted(
            context="main", commit=commit, key=key, tool="shell", effect="workspace", args_digest=digest,
            turn=turn // 3 + 1, step=turn % 3 + 1, arguments=arguments,
        )  # fmt: skip
        result = {"output": text(60, 16_000), "status": 0}
        yield ToolCallCompleted(context="main", commit=commit, key=key, result=result)
        made += 3


def lines(count: int) -> Iterator[bytes]:
    """The lines of exactly `count` events, newlines included."""
    world, total = FixedWorld(), NO_SUM
    for seq, event in enumerate(events(count), 1):
        if seq > count:
            return
        place = {"seq": seq, "w": seq, "id": f"{seq:032x}", "at": stamp(1_795_000_000_000 + seq * 250), "epoch": 1}
        one = record.encode(event.model_copy(update=place), total, world.salt())
        total = one.sum
        yield one.line
