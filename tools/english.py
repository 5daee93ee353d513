# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the share of sentences with a grammar that readers of manuals stumble over.

The exit status is 1 if more than 3 % of the sentences of a file, or more than 2 % of all sentences, match a
pattern. The sentences of each file above its limit are printed as `FILE:LINE: [PATTERN] SENTENCE`.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import yaml
from ansible_collections.mlnode.tuning.tools.prose import KINDS, Text

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: Percent. Well-written collections and tools have 0 to 2.7 % (community.crypto, saptune, nmstate, tuned).
MOST_OF_FILE = 3
MOST_OF_ALL = 2

#: A shorter text is a heading or a label.
LEAST_WORDS = 4
#: The style asks for 25. A list within a sentence is easy to read, and may add ten.
MOST_WORDS = 35

#: Texts that this project did not write, that are history, or that quote mistakes
LEFT_OUT = (
    *("tests", "changelogs", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "COPYING", "LICENSES"),
    *("requirements/*.txt", "tools/english.py"),
)


class Pattern(NamedTuple):
    """name: as reported. found: a place to rewrite, unless the text before it ends with `unless`."""

    name: str
    found: re.Pattern[str]
    unless: re.Pattern[str] | None = None


def _any(*expressions: str) -> re.Pattern[str]:
    return re.compile("|".join(expressions), re.IGNORECASE)


#: Verbs with an indirect question: "shows what a run would change and where a value comes from"
_ASKS = (
    r"\b(?:shows?|showing|explains?|describes?|reports?|records?|lists?|prints?|sees?|knows?|learns?|decides?"
    r"|checks?|asks?|determines?|documents?|defines?|understands?|finds? out|states?|remembers?|about"
    r"|no matter)"
    r"(?: (?:you|users?|exactly|only))?"
)
_ASKED = _any(rf"{_ASKS}(?: [^.;:]*,? (?:and|or|but))? $")
#: Nouns of places: "the folder where it is installed"
_PLACES = (
    "folder|directory|file|path|host|node|machine|server|line|column|table|section|place|point|case|position"
)
_PLACED = _any(rf"(?:{_ASKS}|\b(?:{_PLACES})s?)(?: [^.;:]*,? (?:and|or))? $")
_CLAUSE = "|".join(
    (
        *(
            "it",
            "they",
            "there",
            "one",
            "an?",
            "no",
            "nothing",
            "none",
            "that",
            "this",
            "all",
            "each",
            "another",
        ),
        *("some", "such", "either", "neither", "both", "too", "only", "not", "what"),
    )
)
_VERB = "|".join(
    (
        *("is", "was", "are", "were", "has", "have", "had", "they", "it", "an?", "the", "this", "that", "no"),
        *("each", "others?", "those", "these", "only", "[a-z]+s"),
    )
)
#: Verbs of a purpose: "so that it can be undone"
_PURPOSE = "can|could|may|might|cannot|does not|do not|need not|never"

PATTERNS = (
    Pattern(
        "what as a noun",
        _any(rf"(?<![\w-])what (?!if\b|about\b|happens\b|to\b)(?:{_VERB})\b(?![^?]*\?)"),
        _ASKED,
    ),
    Pattern("where for if or when", _any(rf"\bwhere (?:{_CLAUSE})\b"), _PLACED),
    Pattern(
        "that of, of its own",
        _any(r"\b(?:that|those) (?:of(?! course)|which|who)\b", r"\bof (?:its|their) own\b"),
    ),
    Pattern("one that, one of which", _any(r"\bone (?:that|of which|which|whose|where)\b")),
    Pattern("of which, of what", _any(r"\bof (?:which|whom|what)\b", r"(?<!-)\bof who\b", r"\bfor whom\b")),
    Pattern("so that for a result", _any(rf"\bso that\b(?!(?: [\w'-]+){{1,6}}? (?:{_PURPOSE})\b)")),
    Pattern("beside, by turns", _any(r"\bbeside\b", r"\bby turns\b")),
    Pattern(
        "look whether, have it do",
        re.compile(
            r"\b[Ll]ook(?:s|ed|ing)? (?:whether|which|in which|what|at whether)\b|\bit is looked\b"
            r"|^(?:Say (?!that\b)|Have (?:the|a|[A-Z])|Stop where|End where)"
            r"|^Name (?:the|each|all|hosts|nodes|what|it)\b(?! of\b)"
        ),
    ),
    Pattern(
        "is none, is no, another than",
        _any(
            r"\banother than\b",
            r"(?<!\bthere )\b(?:is|are) none\b",
            r"(?<!\bthere )\b(?:is|are) no (?!longer\b|more\b|less\b|fewer\b|different\b|match\b)[a-z]+",
        ),
    ),
    Pattern(
        "begins with Of, What, That, Where",
        re.compile(
            r"^(?:Of|What(?! to\b)|That(?! (?:is|was|means|makes|leaves|way)\b)|Where(?! (?:possible|to)\b))"
            r"\b(?!.*\?$)"
        ),
    ),
    Pattern(
        "a word that no manual uses",
        _any(
            r"\b(?:tells|told|nobody|somebody|anybody|whoever|anew|ours)\b",
            r"\bwhatever (?:is|it|they|has|else|this)\b",
            r"\b(?:who runs this|has no (?:say over|word for)|as is meant)\b",
            r"\b(?:is|are) as (?:it|they) (?:is|are)\b",
        ),
    ),
)


class Sentence(NamedTuple):
    """A sentence with the number of its line, and the names of the patterns that it matches."""

    line: int
    text: str
    patterns: list[str]


_END = re.compile(r"(?<=[.!?:])\s+|\n\s*\n")
#: Code and markup of Markdown, of Ansible's documentation and of templates
_CODE = re.compile(
    r"``[^`]+``|`[^`]*`|\b[CVOIBMLPE]\([^()]*\)|\{\{.*?\}\}|%\([a-z_]+\)s|\{[^{}\n]*\}", re.DOTALL
)


def sentences(text: Text) -> Iterator[Sentence]:
    """Every sentence of four words or more."""
    plain = _CODE.sub(lambda code: "X" + "\n" * code[0].count("\n"), text.text)
    start = 0
    for end in [*_END.finditer(plain), None]:
        part = plain[start : end.start() if end else len(plain)]
        sentence = " ".join(part.split()).strip(" *_")
        if len(re.findall(r"[^\W\d_]{2,}|\bX\b|\ba\b", sentence)) >= LEAST_WORDS:
            before = plain[:start] + part[: len(part) - len(part.lstrip())]
            yield Sentence(text.line + before.count("\n"), sentence, matches(sentence))
        start = end.end() if end else len(plain)


def matches(sentence: str) -> list[str]:
    """The names of the patterns that a sentence matches."""
    too_long = [f"more than {MOST_WORDS} words"] if len(sentence.split()) > MOST_WORDS else []
    return too_long + [
        pattern.name
        for pattern in PATTERNS
        if any(
            not (pattern.unless and pattern.unless.search(sentence[: match.start()]))
            for match in pattern.found.finditer(sentence)
        )
    ]


class Result(NamedTuple):
    """All sentences of a file, or of all files."""

    path: str
    sentences: list[Sentence]

    @property
    def flagged(self) -> list[Sentence]:
        return [sentence for sentence in self.sentences if sentence.patterns]

    def above(self, most: int) -> bool:
        """Is the share of flagged sentences above the limit, in percent?"""
        return len(self.flagged) * 100 > most * len(self.sentences)

    def row(self) -> str:
        share = 100 * len(self.flagged) / max(1, len(self.sentences))
        return f"{len(self.flagged):5}/{len(self.sentences):<5} {share:5.1f} %  {self.path}"


def read(root: pathlib.Path, path: str, kinds: Sequence[str]) -> Result:
    """The sentences of one file, in the order of their lines."""
    content = (root / path).read_text(encoding="utf-8")
    suffix = pathlib.PurePath(path).suffix
    if not suffix and content.startswith("#!") and "python" in content.partition("\n")[0]:
        suffix = ".py"
    all_sentences: list[Sentence] = []
    for reader in (KINDS[kind][suffix] for kind in kinds if suffix in KINDS[kind]):
        try:
            texts = [*reader(content)]
        except (yaml.YAMLError, SyntaxError) as error:
            raise SystemExit(f"english: {path}: cannot be parsed: {error}") from error
        all_sentences += itertools.chain.from_iterable(sentences(text) for text in texts)
    return Result(path, sorted(all_sentences, key=lambda sentence: sentence.line))


def tracked(root: pathlib.Path, paths: Sequence[str]) -> list[str]:
    """Text files below the paths that git tracks or would track, without links."""
    left_out = [f":(exclude){path}" for path in LEFT_OUT]
    command = ["git", "grep", "--untracked", "-zIl", "-e", "", "--", *(paths or ["."]), *left_out]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
    return [path for path in done.stdout.split("\0") if path and not (root / path).is_symlink()]


def report(results: Sequence[Result], *, every: bool) -> int:
    """Print the flagged sentences of files above the limit, and the total. Return the exit status."""
    total = Result("all files", [sentence for result in results for sentence in result.sentences])
    above = [result for result in results if result.above(MOST_OF_FILE)]
    shown = results if every or total.above(MOST_OF_ALL) else above
    for result in sorted(shown, key=lambda result: len(result.flagged)):
        for sentence in result.flagged:
            print(f"{result.path}:{sentence.line}: [{', '.join(sentence.patterns)}] {sentence.text}")
    for result in sorted(above, key=lambda result: -len(result.flagged)):
        print(result.row())
    print(total.row())
    if not results:
        print("english: no file to read")
    if above or total.above(MOST_OF_ALL):
        limits = f"at most {MOST_OF_FILE} % for each file and {MOST_OF_ALL} % in total"
        print(f"english: expected {limits}; rewrite the sentences")
    return 1 if above or not results or total.above(MOST_OF_ALL) else 0


def main(arguments: Sequence[str], root: pathlib.Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the flagged sentences of every file")
    parser.add_argument("--only", metavar="KIND", help=f"kinds of text, comma-separated: {', '.join(KINDS)}")
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="file or folder (default: all tracked files)"
    )
    asked = parser.parse_args(arguments)
    kinds = asked.only.split(",") if asked.only else [*KINDS]
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"--only: expected {', '.join(KINDS)}, got {unknown[0]!r}")
    results = [read(root, path, kinds) for path in tracked(root, asked.paths)]
    return report([result for result in results if result.sentences], every=asked.list)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
