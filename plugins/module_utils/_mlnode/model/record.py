# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NamedTuple, dataclass and regular expressions that cost a short command little.

A command of the agent runs for a tenth of a second, and it makes some hundred classes and patterns before it
reads a file. Python's own take a third of that time: typing.NamedTuple evaluates each annotation, dataclasses
imports inspect, both compile a function for each class, and re compiles patterns that are never used. These
have the same meaning in the library, and a type checker is given the original ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, AnyStr, Callable, Mapping, Pattern, cast

__all__ = ["NamedTuple", "asdict", "dataclass", "field", "regex", "replace"]

if TYPE_CHECKING:
    from dataclasses import asdict, dataclass, field, replace
    from typing import NamedTuple
else:
    from collections import _tuplegetter  # as of namedtuple: half of the time of a property

    _new = tuple.__new__
    #: For a field without a default
    _MISSING = object()

    class _Made:
        """A default that is made for each object."""

        def __init__(self, make: Callable[[], Any]) -> None:
            self.make = make

    def _values(fields: Any, defaults: Mapping[str, Any], given: Any, named: dict[str, Any]) -> list[Any]:
        """The value of each field. Raises TypeError, as a function with these parameters does."""
        values = [*given]
        for name in fields[len(values) :]:
            default = defaults.get(name, _MISSING)
            if name in named:
                values.append(named.pop(name))
            elif default is _MISSING:
                raise TypeError(f"{name} is missing")
            else:
                values.append(default.make() if isinstance(default, _Made) else default)
        if named or len(values) > len(fields):
            raise TypeError(f"{', '.join(fields)} are expected, not {[*given]!r} and {named!r}")
        return values

    class _Tuple(tuple):
        """The methods of all named tuples."""

        __slots__ = ()
        _fields = ()

        def _replace(self, **changes: Any) -> Any:
            record = _new(type(self), [changes.pop(name, old) for name, old in zip(self._fields, self)])
            if changes:
                raise ValueError(f"Got unexpected field names: {[*changes]!r}")
            return record

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self))

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            pairs = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
            return f"{type(self).__name__}({pairs})"

    class _Naming(type):
        def __new__(cls, name: str, bases: Any, space: dict[str, Any]) -> Any:
            if not bases:
                return type.__new__(cls, name, bases, space)
            fields = tuple(space.get("__annotations__", ()))
            defaults = {field_name: space.pop(field_name) for field_name in fields if field_name in space}

            def new(_class: Any, /, *given: Any, **named: Any) -> Any:
                if named or len(given) != len(fields):
                    given = _values(fields, defaults, given, named)
                return _new(_class, given)

            space.update((field_name, _tuplegetter(number, None)) for number, field_name in enumerate(fields))
            space.update(__slots__=(), _fields=fields, _field_defaults=defaults, __new__=new)
            return type(name, (_Tuple,), space)

    class NamedTuple(metaclass=_Naming):
        """See typing.NamedTuple."""

    def field(*, default_factory: Callable[[], Any]) -> Any:
        """See dataclasses.field."""
        return _Made(default_factory)

    def _is_equal(self: Any, other: Any) -> Any:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def _hash(self: Any) -> int:
        return hash(tuple(self.__dict__.values()))

    def _repr(self: Any) -> str:
        pairs = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({pairs})"

    def _refuse(_self: Any, name: str, _value: Any = None) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def _prepared(cls: type, frozen: bool) -> type:
        known = dict(getattr(cls, "_known", {}))
        for name in cls.__dict__.get("__annotations__", ()):  # noqa: RUF063  # the strings, unevaluated
            known[name] = cls.__dict__.get(name, _MISSING)
        defaults = {name: value for name, value in known.items() if value is not _MISSING}
        for name, value in defaults.items():
            if isinstance(value, _Made):
                setattr(cls, name, None)
        fields = tuple(known)

        def init(_self: Any, /, *given: Any, **named: Any) -> None:
            _self.__dict__.update(zip(fields, _values(fields, defaults, given, named)))

        cls._known, cls._fields, cls.__init__ = known, fields, init
        cls.__eq__, cls.__hash__ = _is_equal, _hash if frozen else None
        if frozen:
            cls.__setattr__ = cls.__delattr__ = _refuse
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _repr
        return cls

    def dataclass(cls: Any = None, *, frozen: bool = False) -> Any:
        """See dataclasses.dataclass."""
        return _prepared(cls, frozen) if cls is not None else lambda decorated: _prepared(decorated, frozen)

    def replace(item: Any, **changes: Any) -> Any:
        """See dataclasses.replace."""
        if not changes.keys() <= {*item._fields}:
            raise TypeError(f"{', '.join(item._fields)} are expected, not {changes!r}")
        made = object.__new__(type(item))
        made.__dict__.update({name: item.__dict__[name] for name in item._fields}, **changes)
        return made

    def asdict(item: Any) -> dict[str, Any]:
        """Fields of an object without nested objects of this kind."""
        return {name: getattr(item, name) for name in item._fields}


#: Attributes of a pattern that the library uses
_METHODS = (
    *("findall", "finditer", "flags", "fullmatch", "groupindex", "match", "pattern", "search", "split"),
    *("sub", "subn"),
)


class _Late:
    """A pattern that is compiled when it is first used."""

    def __init__(self, text: Any, flags: int) -> None:
        self._given = (text, flags)

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._given)
        self.__dict__.update((method, getattr(compiled, method)) for method in _METHODS)
        return getattr(compiled, name)


def regex(text: AnyStr, flags: int = 0) -> Pattern[AnyStr]:
    """As re.compile(), and compiled at its first use."""
    return cast("Pattern[AnyStr]", _Late(text, flags))
