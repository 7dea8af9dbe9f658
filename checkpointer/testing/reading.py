"""The contract, one part: what is written is read, by everybody and as one."""

from __future__ import annotations

from typing import Any

import pytest

from checkpointer.errors import IllegalEvent, LogDamaged, MissingObject, NoStore
from checkpointer.events import ToolCallCompleted, UserMessage
from checkpointer.log import Cut, Folded, Pen, Position, Runs, Writable, catch_up, claim
from checkpointer.testing.ground import Ground, contents, said
from checkpointer.testing.script import begin
from checkpointer.testing.world import FixedWorld


class ReadingContract(Ground):
    """Appending, reading, following, deleting."""

    # What is not there

    def test_before_the_first_claim_there_is_nothing(self, log: Writable, runs: Runs) -> None:
        for ask in (log.read, log.head, lambda: log.resolve("x"), lambda: catch_up(log)):
            with pytest.raises(NoStore):
                ask()
        assert log.lease() is None
        assert log.letters("inbox") == []
        assert runs.runs() == []

    # Appending and reading

    def test_what_is_appended_is_read(self, log: Writable, pen: Pen, runs: Runs) -> None:
        made = [pen.append(said(str(n)))[0] for n in range(5)]
        found = [r.load(log.fetch) for r in log.read()][1:]
        assert found == made
        assert [e.seq for e in found] == [2, 3, 4, 5, 6]
        assert all(e.epoch == 1 and e.w == e.seq and e.n == 1 for e in found)
        assert runs.runs() == ["r1"]
        assert runs.log("r1").head() == log.head()

    def test_a_group_is_one_write(self, log: Writable, pen: Pen) -> None:
        pen.append(said("a"), said("b"), said("c"))
        pen.append(said("d"))
        assert [(r.seq, r.event.w, r.event.n) for r in log.read()] == [
            (1, 1, 1), (2, 2, 3), (3, 2, 3), (4, 2, 3), (5, 5, 1),
        ]  # fmt: skip

    def test_reading_from_a_place(self, log: Writable, pen: Pen) -> None:
        pen.append(said("a"))
        place = log.head()
        pen.append(said("b"))
        pen.append(said("c"))
        assert [r.seq for r in log.read(place)] == [3, 4]
        assert log.head(place) == log.head() == pen.folded.position
        assert log.find(*place) == place
        assert log.find(place.seq, "f" * 64, place.offset) is None
        assert [r.load().content for r in log.at([4, 2])] == ["c", "a"]  # type: ignore[union-attr]
        for bad in ([0], [9], [1, 9]):
            with pytest.raises(KeyError):
                log.at(bad)

    def test_a_place_of_another_log_is_noticed(self, log: Writable, pen: Pen) -> None:
        pen.append(said("a"))
        place = log.head()
        for bad in (place._replace(sum="0" * 64), Position(99, place.sum, place.offset * 9)):
            with pytest.raises(LogDamaged):
                list(log.read(bad))

    def test_strange_and_large_contents(self, log: Writable, pen: Pen) -> None:
        given: list[Any] = ["\u2028\r\n\0", "\ud800", b"\xff", 2**200, "y" * 1_000_000, {"b64": 1}]
        for content in given:
            pen.append(said(content))
        assert contents(log) == given
        large = next(r for r in log.read() if r.seq == 6)
        assert len(large.line) < 2_000
        with pytest.raises(MissingObject):
            log.fetch("0" * 64)

    def test_the_fold_is_asked_first(self, log: Writable, pen: Pen) -> None:
        before = log.head()
        with pytest.raises(IllegalEvent):
            pen.append(said("fine"), ToolCallCompleted(context="main", unprotected="x", key="no", result=1))
        with pytest.raises(ValueError, match="not here"):
            pen.append(UserMessage(context="main", unprotected="no contents"))
        assert log.head() == before
        pen.append(said("still works"))
        assert pen.state == catch_up(log).state

    def test_resolve(self, log: Writable, pen: Pen) -> None:
        event = pen.append(said())[0]
        assert log.resolve(event.id) == 2
        assert log.resolve("0" * 32) is None

    # Following

    def test_following(self, log: Writable, pen: Pen) -> None:
        seen: list[Any] = []
        todo = [lambda: pen.append(said("a")), lambda: pen.append(said("b"), said("c")), None]

        def wait() -> bool:
            step = todo.pop(0)
            if step is not None:
                step()
            return step is not None

        for one in log.follow(wait=wait):
            assert not isinstance(one, Cut)
            seen.append(one.seq)
        assert seen == [1, 2, 3, 4]

    # The end

    def test_deleting(self, runs: Runs, log: Writable, pen: Pen) -> None:
        pen.append(said("z" * 100_000))
        other = runs.log("r2")
        world = FixedWorld()
        claim(other, begin(world, "r2"), world=world)
        runs.delete("r1")
        assert runs.runs() == ["r2"]
        with pytest.raises(NoStore):
            runs.log("r1").head()
        runs.delete("r1")
        assert catch_up(other, Folded()).state.run == "r2"
