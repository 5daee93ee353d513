# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts, numbers and booleans of a declaration. All functions raise DeclarationError."""

from __future__ import annotations

import math
import re
from typing import Any, Protocol

from . import strict_json
from .errors import DeclarationError
from .record import regex

#: JSON has numbers of any size; no kernel value is wider than 64 bits (strict_json.py)
_WIDEST = (1 << 64) - 1
_NUMBER = regex(r"-?[0-9]{1,20}\Z", re.ASCII)
#: As Ansible reads them (ansible.module_utils.parsing.convert_bool)
_TRUE = ("y", "yes", "on", "1", "true", "t")
_FALSE = ("n", "no", "off", "0", "false", "f")


class Form(Protocol):
    """As schema.Form."""

    @property
    def words(self) -> str: ...
    def spelled(self, text: str) -> str: ...


class Option(Protocol):
    """The part of schema.Option that counts here."""

    @property
    def form(self) -> Form | None: ...
    @property
    def least(self) -> int | None: ...
    @property
    def most(self) -> int | None: ...


def wrong(where: str, allowed: str, raw: Any, advice: str = "") -> DeclarationError:
    return DeclarationError(f"{where}: must be {allowed}, got {strict_json.shown(raw)}{advice}")


def line(where: str, text: str) -> str:
    """A text without line ends and other characters that do not print; tabs are blanks to the kernel."""
    if not text.replace("\t", " ").isprintable():
        raise DeclarationError(f"{where}: {strict_json.shown(text)} holds a character that does not print")
    return text


def text_of(where: str, option: Option, raw: Any) -> str:
    if isinstance(raw, bool):
        raise wrong(where, "a text", raw, ", which is a YAML boolean: put the word in quotes")
    if not isinstance(raw, (str, int, float)):
        raise wrong(where, "a text", raw)
    text = line(where, str(raw))
    if option.form is None:
        return text
    try:
        return option.form.spelled(text)
    except ValueError as error:
        if str(error):
            raise DeclarationError(f"{where}: {error}") from error
        raise wrong(where, option.form.words, raw) from error


def integer(where: str, option: Option, raw: Any) -> int:
    whole = isinstance(raw, int) and not isinstance(raw, bool)
    if not whole and not (isinstance(raw, str) and _NUMBER.match(raw)):
        raise wrong(where, "a whole number", raw)
    least = -_WIDEST if option.least is None else option.least
    most = _WIDEST if option.most is None else option.most
    if not least <= int(raw) <= most:
        bounds = f"at least {least}" if option.most is None and option.least is not None else ""
        raise wrong(where, bounds or f"from {least} to {most}", raw)
    return int(raw)


def decimal(where: str, _option: Option, raw: Any) -> float:
    try:
        number = math.nan if isinstance(raw, bool) else float(raw)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise wrong(where, "a number", raw)
    return number


def boolean(where: str, _option: Option, raw: Any) -> bool:
    word = str(raw).lower() if isinstance(raw, (bool, int, str)) else ""
    if word not in (*_TRUE, *_FALSE):
        raise wrong(where, "true or false", raw)
    return word in _TRUE


def number_or(text: str) -> str | int:
    """A number in its one spelling as a number: templates and vaults make texts of them."""
    if not _NUMBER.match(text) or str(int(text)) != text or not -_WIDEST <= int(text) <= _WIDEST:
        return text
    return int(text)
