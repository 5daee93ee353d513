# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each class is made twice, by Python's own means and by these, and both have to do the same."""

from __future__ import annotations

import copy
import dataclasses
import re
import typing
from collections.abc import Callable
from typing import Any

import pytest
from mlnode.model import record


def tuples(base: Any) -> Any:
    class Point(base):  # type: ignore[misc]  # the base is the one that is compared
        """A place."""

        x: int
        y: int = 2
        names: typing.Sequence[str] = ()

        @property
        def total(self) -> int:
            return int(self.x + self.y)

    return Point


def classes(module: Any) -> Any:
    @module.dataclass(frozen=True)
    class Base:
        x: int
        y: int = 2

        @property
        def total(self) -> int:
            return self.x + self.y

    @module.dataclass(frozen=True)
    class Point(Base):
        z: str = "z"
        more: list[int] = module.field(default_factory=list)

    return Point


POINTS = [tuples(typing.NamedTuple), tuples(record.NamedTuple)]
OBJECTS = [classes(dataclasses), classes(record)]


def both(pair: list[Any], ask: Callable[[Any], Any]) -> Any:
    """The answer of both, or the type of the error."""
    answers = []
    for made in pair:
        try:
            answers.append(ask(made))
        except (TypeError, ValueError):  # Python 3.13 has changed which of them _replace() raises
            answers.append(TypeError)
        except AttributeError:
            answers.append(AttributeError)
    assert answers[0] == answers[1]
    return answers[0]


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda made: tuple(made(1)), (1, 2, ())),
        (lambda made: tuple(made(y=5, x=1)), (1, 5, ())),
        (lambda made: made(1).total, 3),
        (lambda made: made(1) == (1, 2, ()), True),
        (lambda made: hash(made(1)) == hash((1, 2, ())), True),
        (lambda made: made(1)._replace(y=9)._asdict(), {"x": 1, "y": 9, "names": ()}),
        (lambda made: made(1)._replace(z=9), TypeError),
        (lambda made: made._fields, ("x", "y", "names")),
        (lambda made: made._field_defaults, {"y": 2, "names": ()}),
        (lambda made: repr(made("a")), "Point(x='a', y=2, names=())"),
        (lambda made: made.__doc__, "A place."),
        (lambda made: [*made(3)], [3, 2, ()]),
        (lambda made: copy.deepcopy(made([1])).x, [1]),
        (lambda made: made(), TypeError),
        (lambda made: made(1, 2, (), 4), TypeError),
        (lambda made: made(1, z=3), TypeError),
        (lambda made: setattr(made(1), "x", 3), AttributeError),
        (lambda made: setattr(made(1), "new", 3), AttributeError),
        (lambda made: made(1) < made(2), True),
    ],
)
def test_a_named_tuple_is_one(ask: Callable[[Any], Any], answer: Any) -> None:
    assert both(POINTS, ask) == answer


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda made: vars(made(1)), {"x": 1, "y": 2, "z": "z", "more": []}),
        (lambda made: vars(made(1, z="b", y=0)), {"x": 1, "y": 0, "z": "b", "more": []}),
        (lambda made: made(1, more=[1]).more, [1]),
        (lambda made: made(1).more is made(1).more, False),
        (lambda made: made(1).total, 3),
        (lambda made: made(1) == made(1), True),
        (lambda made: made(1) == made(2), False),
        (lambda made: made(1) == 1, False),
        (lambda made: hash(made(1, more=())) == hash(made(1, more=())), True),
        (lambda made: hash(made(1)), TypeError),
        (lambda made: made(), TypeError),
        (lambda made: made(1, 2, "z", [], 5), TypeError),
        (lambda made: made(1, new=1), TypeError),
        (lambda made: setattr(made(1), "x", 3), AttributeError),
        (lambda made: delattr(made(1), "x"), AttributeError),
        (lambda made: repr(made(1)).rpartition(".")[2], "Point(x=1, y=2, z='z', more=[])"),
        (lambda made: copy.deepcopy(made([1])).x, [1]),
    ],
)
def test_a_dataclass_is_one(ask: Callable[[Any], Any], answer: Any) -> None:
    assert both(OBJECTS, ask) == answer


def test_fields_are_replaced_and_listed() -> None:
    theirs, ours = (made(1, more=[3]) for made in OBJECTS)

    assert vars(record.replace(ours, y=5)) == vars(dataclasses.replace(theirs, y=5))
    assert record.asdict(ours) == dataclasses.asdict(theirs)
    with pytest.raises(TypeError):
        record.replace(ours, new=5)


def test_one_that_changes_has_no_hash() -> None:
    @record.dataclass
    class Found:
        x: int = 1

    found = Found()
    found.x = 2

    assert found == Found(2)
    with pytest.raises(TypeError):
        hash(found)


def test_a_pattern_is_compiled_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = re.compile
    monkeypatch.setattr(record.re, "compile", lambda text, flags: compiled.append(text) or real(text, flags))

    late = record.regex(r"(?P<name>[a-z]+)=(\d+)", re.ASCII)
    assert compiled == []
    match = late.match("a=1")
    assert match is not None
    assert match["name"] == "a"
    assert late.sub("x", "a=1 b=2") == "x x"
    assert compiled == [r"(?P<name>[a-z]+)=(\d+)"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda found: found.pattern,
        lambda found: found.flags,
        lambda found: dict(found.groupindex),
        lambda found: found.match("xaab"),
        lambda found: found.fullmatch("aa")["word"],
        lambda found: found.search("xaab").span(),
        lambda found: found.findall("aa b a"),
        lambda found: [match[0] for match in found.finditer("aa b a")],
        lambda found: found.split("1aa2a3"),
        lambda found: found.sub("-", "1aa2a3"),
        lambda found: found.subn("-", "1aa2a3"),
    ],
)
def test_a_pattern_answers_as_a_compiled_one(ask: Callable[[Any], Any]) -> None:
    text = "(?P<word>a+)"
    assert ask(record.regex(text, re.IGNORECASE)) == ask(re.compile(text, re.IGNORECASE))


def test_a_pattern_of_bytes_and_one_that_is_wrong() -> None:
    assert record.regex(b"a+").findall(b"aab") == [b"aa"]
    assert not hasattr(record.regex("a"), "unknown")
    with pytest.raises(re.error):
        record.regex("(").match("a")
