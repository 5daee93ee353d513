# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Elements of HTML, in which a text of a node is never markup."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import Element, tostring

#: Text or an element; None is left out
Child = Element | str | None


def make(tag: str, *children: Child, **attributes: object) -> Element:
    """An element. Attributes are given as class_ or data_hosts."""
    given = {name.rstrip("_").replace("_", "-"): shown(str(value)) for name, value in attributes.items()}
    made = Element(tag, given)
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif child and len(made):
            made[-1].tail = (made[-1].tail or "") + shown(child)
        elif child:
            made.text = (made.text or "") + shown(child)
    return made


def table(head: Iterable[str], rows: Iterable[Element]) -> Element:
    """A table; a row is a `tr` with as many cells as the head has words."""
    titles = make("tr", *(make("th", title, scope="col") for title in head))
    return make("table", make("thead", titles), make("tbody", *rows))


def text(element: Element) -> str:
    return tostring(element, "unicode", "html")


def shown(value: str) -> str:
    """Text without characters that a browser hides, or that reverse the direction of later text."""
    if value.isprintable():
        return value
    return "".join(char if char.isprintable() or char in "\n\t" else f"\\u{ord(char):04x}" for char in value)


def embedded(value: Any) -> str:
    """JSON inside a script element, which ends at its end tag wherever that stands."""
    dumped = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        dumped = dumped.replace(char, f"\\u{ord(char):04x}")
    return dumped
