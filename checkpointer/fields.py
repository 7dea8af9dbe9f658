"""Classes of named fields for what runs at every step of an agent: as dataclasses are, without the price of loading
those, which is more than all else that a hook does to know what it was told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform


class _Made:
    """A default that is made anew for each object."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def made(*, default_factory: Callable[[], Any]) -> Any:
    """The default of a field: what `default_factory` gives."""
    return _Made(default_factory)


@dataclass_transform(field_specifiers=(made,))
class Fields:
    """A subclass names its fields, in order, with annotations and defaults. Two of one class are equal where all of
    their fields are. Raises TypeError for a field that is not given, not known or given twice.
    """

    NAMES: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = (name for name, kind in cls.__annotations__.items() if not str(kind).startswith("ClassVar"))
        cls.NAMES = tuple(dict.fromkeys((*cls.NAMES, *own)))

    def __init__(self, *values: Any, **named: Any) -> None:
        names = self.NAMES
        if len(values) > len(names):
            raise TypeError(f"{type(self).__name__} has {len(names)} fields, not {len(values)}")
        held = self.__dict__
        held.update(zip(names, values, strict=False))
        for name in names[len(values) :]:
            if name in named:
                held[name] = named.pop(name)
                continue
            try:
                default = getattr(type(self), name)
            except AttributeError:
                raise TypeError(f"{type(self).__name__} needs {name}") from None
            held[name] = default.make() if type(default) is _Made else default
        if named:
            raise TypeError(f"{type(self).__name__} does not take {', '.join(named)}")
        self.ready()

    def ready(self) -> None:
        """Called once all fields are set."""

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, in order; those in them that have fields likewise."""
        return {name: _plain(self.__dict__[name]) for name in self.NAMES}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={self.__dict__[n]!r}' for n in self.NAMES)})"


def _plain(value: Any) -> Any:
    if isinstance(value, Fields):
        return value.as_dict()
    if type(value) is list:
        return [_plain(one) for one in value]
    if type(value) is dict:
        return {key: _plain(one) for key, one in value.items()}
    return value
