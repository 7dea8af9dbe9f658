"""Every version that ever was leads to today's, or is refused by name."""

from __future__ import annotations

import pytest

from checkpointer import upcasters
from checkpointer.errors import NeedsMigration, NewerFormat
from checkpointer.events import TYPES


def test_every_old_version_has_a_way() -> None:
    known = {**upcasters.FORMS, **upcasters.MEANINGS}
    assert len(known) == len(upcasters.FORMS) + len(upcasters.MEANINGS)
    for name, version in known:
        assert version < TYPES[name].version
    for name, cls in TYPES.items():
        assert upcasters.check(name, cls.version)
        for version in range(1, cls.version):
            assert (name, version) in known


@pytest.mark.parametrize(
    ("name", "version", "error"),
    [
        ("user_song", 1, NewerFormat),
        ("user_message", 2, NewerFormat),
        ("user_message", -1, NewerFormat),
        ("run_started", 0, NewerFormat),
        ("context_rewound", 0, NeedsMigration),
    ],
)
def test_what_is_not_understood_is_refused_by_name(name: str, version: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=name):
        upcasters.check(name, version)
    with pytest.raises(error, match=name):
        upcasters.upcast({"type": name, "v": version}, None)


def test_nothing_that_was_given_is_changed() -> None:
    e = {"type": "tool_call_completed", "v": 0, "ok": False, "key": "k"}
    before = dict(e)
    after, d = upcasters.upcast(e, None)
    assert e == before
    assert d is None
    assert after == {"type": "tool_call_completed", "v": 1, "key": "k", "effect": "done", "failed": True}


def test_migration_needs_what_came_before() -> None:
    before = [
        {"type": "user_message", "seq": 2, "context": "main"},
        {"type": "user_message", "seq": 3, "context": "sub"},
        {"type": "model_turn", "seq": 4, "context": "main"},
    ]
    old = {"type": "context_rewound", "v": 0, "context": "main", "messages": 1}
    assert upcasters.migrate(old, {}, before)[0]["to_seq"] == 2
    assert upcasters.migrate({**old, "messages": 2}, {}, before)[0]["to_seq"] == 0
    assert upcasters.migrate({**old, "v": 1, "to_seq": 9}, {}, before)[0]["to_seq"] == 9
