# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report words that no manual of the field uses, as `file:line: word`; exit status 1 if there is one.

Checked is every line of text that git tracks, of Python only comments and strings: a name may be any word. A
docstring begins with a noun or an imperative.
"""

from __future__ import annotations

import io
import pathlib
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: Say instead: reports, shows, notified, unknown, an administrator, the user, again, mlnode's, is not a
WORDS = re.compile(
    r"\b(?:tells|told|nobody|somebody|anybody|whoever|anew|ours)\b"
    r"|\b(?<!there )(?:is|are) no (?!longer\b)[a-z]+"
    # Say instead: for which, the user, overrides, cannot set, lacks, as intended
    r"|\b(?:for whom|who runs this|what beats|has no (?:say over|word for)|as is meant|(?<!-)of who)\b",
    re.IGNORECASE,
)
#: Of strings in three quotes; `in words` says nothing, as every message is
DOCSTRINGS = re.compile(r'^[rbu]*"""(?:What|That|Who|Whether)\b|\bin words\b', re.IGNORECASE)

#: Tests, history, licenses, lock files and the list itself
LEFT_OUT = (
    *("tests", "changelogs", "CHANGELOG.md", "COPYING", "LICENSES", "requirements/*.txt"),
    "tools/words.py",
)

#: In f-strings, the text between the fields is a token of its own since Python 3.12.
_PROSE = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
_F_STRING = re.compile(r"[rb]?f", re.IGNORECASE)
_QUOTES = re.compile(r'[rbu]*"""', re.IGNORECASE)
_FIELD = re.compile(r"\{[^{}\n]*\}")


def tracked() -> list[str]:
    """Paths of all files that are not binary, without links."""
    command = ["git", "grep", "-zIl", "-e", "", "--", ".", *(f":(exclude){path}" for path in LEFT_OUT)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def texts(path: str) -> Iterator[tuple[int, str, Sequence[re.Pattern[str]]]]:
    """Line numbers and lines of prose, and what they must not have."""
    content = (ROOT / path).read_text(encoding="utf-8")
    if not path.endswith(".py"):
        yield from ((number, line, (WORDS,)) for number, line in enumerate(content.split("\n"), 1))
        return
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type in _PROSE:
            text = _FIELD.sub("", token.string) if _F_STRING.match(token.string) else token.string
            patterns = (WORDS, DOCSTRINGS) if _QUOTES.match(text) else (WORDS,)
            yield from (
                (number, line, patterns) for number, line in enumerate(text.split("\n"), token.start[0])
            )


def found() -> Iterator[str]:
    for path in tracked():
        for number, line, patterns in texts(path):
            matches = (match for pattern in patterns for match in pattern.finditer(line))
            yield from (f"{path}:{number}: {match[0]}" for match in matches)


def main() -> int:
    lines = [*found()]
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
