# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text for a terminal, of values, file lines and names that any user of the machine may have chosen.

A terminal obeys control characters: they move its cursor, change its title and hide what was printed before.
Bidirectional overrides (Unicode Standard Annex #9) show a text in another order than it has.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """One line in which each invisible character is spelled, such as \\x1b or \\u202e."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def paragraphs(text: str) -> str:
    """As printable(), of a text whose line ends and tabs are meant."""
    lines = (line.split("\t") for line in text.split("\n"))
    return "\n".join("\t".join(map(printable, parts)) for parts in lines)
