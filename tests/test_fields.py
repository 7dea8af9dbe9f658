"""Classes of named fields."""

from __future__ import annotations

import pytest

from checkpointer.fields import Fields, made


class Point(Fields):
    x: int
    y: int = 0
    tags: list[str] = made(default_factory=list)


class Named(Point):
    inside: Point | None = None

    def ready(self) -> None:
        self.total = self.x + self.y


def test_values_defaults_and_what_is_below() -> None:
    one = Named(1, tags=["a"], inside=Point(2))
    assert (one.x, one.y, one.tags, one.total) == (1, 0, ["a"], 1)
    assert one.as_dict() == {"x": 1, "y": 0, "tags": ["a"], "inside": {"x": 2, "y": 0, "tags": []}}
    assert one == Named(1, 0, ["a"], Point(2))
    assert one != Named(1, 0, ["b"], Point(2))


def test_a_default_is_made_anew() -> None:
    Point(1).tags.append("mine")
    assert Point(1).tags == []


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), ((1, 2, [], 4), {}), ((1,), {"x": 2}), ((1,), {"z": 2})], ids=str
)
def test_what_does_not_fit(values: tuple[int, ...], named: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        Point(*values, **named)  # type: ignore[arg-type]
