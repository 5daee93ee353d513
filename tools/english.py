# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the share of sentences whose grammar is not that of a manual.

The exit status is 1 if more than 3 % of a file's sentences, or more than 2 % of all sentences, match a pattern. The
sentences of each file above its limit are printed as `FILE:LINE: [PATTERN] SENTENCE`.
"""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import pathlib
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import yaml
from markdown_it import MarkdownIt

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: Percent. Well-written collections and tools have 0 to 2.7 % (community.crypto, saptune, nmstate, tuned).
MOST_OF_FILE = 3
MOST_OF_ALL = 2

#: A shorter text is a heading or a label.
LEAST_WORDS = 4
#: 25 are the aim. A list within a sentence is easy to read, and may add ten.
MOST_WORDS = 35

#: Texts that this project did not write, that are history, or that quote mistakes
LEFT_OUT = (
    *("tests", "changelogs", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "COPYING", "LICENSES", "requirements/*.txt"),
    "tools/english.py",
)


class Pattern(NamedTuple):
    """name: as reported. found: a place to rewrite, unless the text before it ends with `unless`."""

    name: str
    found: re.Pattern[str]
    unless: re.Pattern[str] | None = None


#: Verbs that take an indirect question, as in "shows what a run would change and where a value comes from"
_ASKS = (
    r"\b(?:shows?|showing|explains?|describes?|reports?|records?|lists?|prints?|sees?|knows?|learns?|decides?|checks?"
    r"|asks?|determines?|documents?|defines?|understands?|finds? out|states?|remembers?|about|no matter)"
    r"(?: (?:you|users?|exactly|only))?"
)
_ASKED = re.compile(rf"{_ASKS}(?: [^.;:]*,? (?:and|or|but))? $", re.IGNORECASE)
#: Nouns of places: "the folder where it is installed"
_PLACE = re.compile(
    rf"(?:{_ASKS}|\b(?:folder|director(?:y|ie)|file|path|host|node|machine|server|line|column|table|section|place"
    r"|point|case)s?) $",
    re.IGNORECASE,
)
_SUBJECT = "it|they|there|one|an?|no|nothing|none|that|this|all|each|another|some|such|either|neither|both|too|only|not"
_VERB = "is|was|are|were|has|have|had|they|it|an?|the|this|that|no|each|others?|those|these|only|[a-z]+s"

PATTERNS = (
    Pattern(
        "what as a noun",
        re.compile(rf"(?<![\w-])what (?!if\b|about\b|happens\b|to\b)(?:{_VERB})\b(?![^?]*\?)", re.IGNORECASE),
        _ASKED,
    ),
    Pattern("where for if or when", re.compile(rf"\bwhere (?:{_SUBJECT}|what)\b", re.IGNORECASE), _PLACE),
    Pattern("that of, of its own", re.compile(r"\b(?:that|those) (?:of(?! course)|which|who)\b|\bof (?:its|their) own\b")),
    Pattern("one that, one of which", re.compile(r"\bone (?:that|of which|which|whose|where)\b", re.IGNORECASE)),
    Pattern("of which, of what", re.compile(r"\bof (?:which|whom|what)\b")),
    Pattern(
        "so that for a result",
        re.compile(r"\bso that\b(?!(?: [\w'-]+){1,6}? (?:can|could|may|might|cannot|does not|do not|need not|never)\b)"),
    ),
    Pattern("beside, by turns", re.compile(r"\bbeside\b|\bby turns\b|\bto and fro\b", re.IGNORECASE)),
    Pattern(
        "look whether, have it do",
        re.compile(
            r"\b[Ll]ook(?:s|ed|ing)? (?:whether|which|in which|what|at whether)\b|\bit is looked\b"
            r"|^(?:Say (?!that\b)|Have (?:the|a|[A-Z])|Name (?:the|each|all|hosts|nodes|what|it)\b(?! of\b)|Stop where|End where)",
        ),
    ),
    Pattern(
        "is none, is no, another than",
        re.compile(
            r"\banother than\b|(?<!\bthere )\b(?:is|are) (?:none\b|no (?!longer\b|more\b|less\b|fewer\b|different\b|match\b)[a-z]+)",
            re.IGNORECASE,
        ),
    ),
    Pattern(
        "begins with Of, What, That, Where",
        re.compile(
            r"^(?:Of|What(?! to\b)|That(?! (?:is|was|means|makes|leaves|way)\b)|Where(?! (?:possible|to)\b))\b(?!.*\?$)"
        ),
    ),
    Pattern(
        "a word that no manual uses",
        re.compile(
            r"\b(?:tells|told|nobody|somebody|anybody|whoever|anew|ours|whatever (?:is|it|they|has|else|this))\b|(?<!-)\bof who\b"
            r"|\b(?:for whom|who runs this|has no (?:say over|word for)|as is meant|it is that|is it that)\b"
            r"|\b(?:are|is) as (?:they|it) (?:is|are)\b",
            re.IGNORECASE,
        ),
    ),
)


class Text(NamedTuple):
    """A paragraph, without code and markup, and the number of its first line."""

    line: int
    text: str


class Sentence(NamedTuple):
    line: int
    text: str
    patterns: list[str]


_END = re.compile(r"(?<=[.!?:])\s+|\n\s*\n")
_CODE = re.compile(r"``[^`]+``|`[^`]*`|\b[CVOIBMLPE]\([^()]*\)|\{\{.*?\}\}|%\([a-z_]+\)s|\{[^{}\n]*\}", re.DOTALL)


def sentences(text: Text) -> Iterator[Sentence]:
    """Every sentence of four words or more, with the patterns that it matches."""
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


# -- texts of a file, by its format ------------------------------------------------------------


def of_markdown(content: str) -> Iterator[Text]:
    """Paragraphs, items, headings and cells of tables."""
    line = 0
    for token in MarkdownIt("commonmark").enable("table").parse(content):
        line = token.map[0] if token.map else line
        if token.type == "inline":
            parts = token.children or []
            words = "".join(
                "X" if part.type == "code_inline" else "\n" if part.type == "softbreak" else part.content
                for part in parts
                if part.type not in ("image", "html_inline")
            )
            yield Text(line + 1, words)


def comments(lines: Sequence[tuple[int, str]]) -> Iterator[Text]:
    """Comments on consecutive lines as one text; a line without words ends it, as does one that begins with a dash."""
    block: list[tuple[int, str]] = []
    for number, line in lines:
        words = line.lstrip("#:!").strip()
        if block and (number != block[-1][0] + 1 or not words or words[0] in "-*|@"):
            yield Text(block[0][0], "\n".join(text for _, text in block))
            block = []
        if words and not words.startswith(("SPDX-", "noqa", "type:", "pragma", "shellcheck", "-*-", "usr/", "/")):
            block.append((number, words))
    if block:
        yield Text(block[0][0], "\n".join(text for _, text in block))


#: Keys of Ansible, Molecule, Prometheus and the workflows of a forge whose values are for people
PROSE_KEYS = frozenset(
    {
        *("name", "short_description", "description", "notes", "msg", "fail_msg", "success_msg", "quiet_msg"),
        *("summary", "title", "reason", "about", "label", "placeholder", "prompt"),
    }
)


def of_yaml(content: str, first: int = 1) -> Iterator[Text]:
    """Names, messages, descriptions and comments."""
    spans: list[tuple[int, int]] = []
    for document in yaml.compose_all(content, Loader=yaml.SafeLoader):
        yield from _of_node(document, first, prose=False)
    for token in yaml.scan(content, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.ScalarToken):
            spans.append((token.start_mark.index, token.end_mark.index))
    found = []
    for match in re.finditer(r"(?:^|(?<=\s))#.*", content):
        if not any(start <= match.start() < end for start, end in spans):
            found.append((first + content.count("\n", 0, match.start()), match[0]))
    yield from comments(found)


def _of_node(node: yaml.Node | None, first: int, *, prose: bool) -> Iterator[Text]:
    if isinstance(node, yaml.ScalarNode) and prose:
        header = 1 if node.style in ("|", ">") else 0
        yield Text(first + node.start_mark.line + header, str(node.value))
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _of_node(item, first, prose=prose)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _of_node(value, first, prose=getattr(key, "value", "") in PROSE_KEYS)


_DOCUMENTATION = ("DOCUMENTATION", "EXAMPLES", "RETURN")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def of_python(content: str) -> Iterator[Text]:
    """Docstrings, comments, and the documentation of plugins."""
    lines = [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(content).readline)
        if token.type == tokenize.COMMENT
    ]
    yield from comments(lines)
    tree = ast.parse(content)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and (text := docstring(node)):
            yield Text(text.lineno, str(text.value))
        elif documentation := plugin_documentation(node):
            yield from of_yaml(str(documentation.value).lstrip("\n"), documentation.lineno + 1)


def docstring(node: ast.AST) -> ast.Constant | None:
    body = getattr(node, "body", None)
    if body and isinstance(body[0], ast.Expr) and isinstance(value := body[0].value, ast.Constant):
        return value if isinstance(value.value, str) else None
    return None


def plugin_documentation(node: ast.AST) -> ast.Constant | None:
    """The text that `DOCUMENTATION`, `EXAMPLES` or `RETURN` is set to."""
    if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
        return None
    named = node.targets[0].id in _DOCUMENTATION and isinstance(node.value, ast.Constant)
    return node.value if named and isinstance(node.value, ast.Constant) else None


def messages_of_python(content: str) -> Iterator[Text]:
    """Strings of code, each field of an f-string as one word."""
    tree = ast.parse(content)
    nodes = [*ast.walk(tree)]
    known = {id(text) for node in nodes if isinstance(node, _DOCUMENTED) and (text := docstring(node))}
    known |= {id(text) for node in nodes if (text := plugin_documentation(node))}
    known |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in known:
            text = node.value
        else:
            continue
        for number, line in enumerate(text.split("\n"), node.lineno):
            if is_prose(line):
                yield Text(number, line)


#: Words that a sentence has, and a list of names has not
_FUNCTION_WORD = re.compile(
    r"\b(?:the|an?|is|are|was|were|has|have|does|not|no|and|or|of|to|for|in|on|at|by|as|from|with|it|its)\b",
    re.IGNORECASE,
)
_SCRIPT = re.compile(r"\(\?|\\[bsdw]|[^:]//|&&|</|\bfi\b|\$\(|;$|^\s*[{\[<]|^(?:import|from) |^\s+def ")


def is_prose(line: str) -> bool:
    """Is this line for people? Expressions, lists of names, templates and scripts are not."""
    return bool(_FUNCTION_WORD.search(line)) and not _SCRIPT.search(line)


def of_script(content: str) -> Iterator[Text]:
    """The comments of a shell script, a Makefile or a configuration file."""
    lines = content.split("\n")
    yield from comments([(n, line.strip()) for n, line in enumerate(lines, 1) if line.lstrip()[:1] == "#"])
    for number, line in enumerate(lines, 1):
        if help_text := re.search(r"^[\w%-]+:.*? ## (.*)", line):
            yield Text(number, help_text[1])


_COMMENT = r"/\*(?P<block>.*?)\*/|<!--(?P<html>.*?)-->"


def of_page(content: str, expression: str = _COMMENT + r"|>(?P<text>[^<>{}]+)<") -> Iterator[Text]:
    """Comments and text of HTML and CSS."""
    for match in re.finditer(expression, content, re.DOTALL):
        words = next(group for group in match.groups() if group is not None)
        yield Text(1 + content.count("\n", 0, match.start()), re.sub(r"^\s*\*", "", words, flags=re.MULTILINE))


def of_javascript(content: str) -> Iterator[Text]:
    """Comments and strings."""
    return of_page(content, _COMMENT + r"|(?<![:\"])//(?P<line>[^\n]*)|\"(?P<string>[^\"\n]*)\"")


Reader = Callable[[str], Iterator[Text]]
#: Kind → for each ending of a file's name its reader; "" is for files without one that begin with `#`
KINDS: dict[str, dict[str, Reader]] = {
    "markdown": {".md": of_markdown},
    "yaml": {".yml": of_yaml, ".yaml": of_yaml},
    "docs": {
        ".py": of_python,
        **dict.fromkeys((".sh", ".cfg", ".toml", ".in", ".mk", ".hcl", ""), of_script),
    },
    "messages": {".py": messages_of_python, ".js": of_javascript, **dict.fromkeys((".css", ".html"), of_page)},
}


class Result(NamedTuple):
    path: str
    sentences: list[Sentence]

    @property
    def flagged(self) -> list[Sentence]:
        return [sentence for sentence in self.sentences if sentence.patterns]

    def above(self, most: float) -> bool:
        """Is the share of flagged sentences above the limit, in percent?"""
        return len(self.flagged) * 100 > most * len(self.sentences)

    def row(self) -> str:
        share = 100 * len(self.flagged) / max(1, len(self.sentences))
        return f"{len(self.flagged):5}/{len(self.sentences):<5} {share:5.1f} %  {self.path}"


def read(root: pathlib.Path, path: str, kinds: Sequence[str]) -> Result:
    """All sentences of one file."""
    content = (root / path).read_text(encoding="utf-8")
    ending = pathlib.PurePath(path).suffix
    if not ending and content.startswith("#!") and "python" in content.partition("\n")[0]:
        ending = ".py"
    found: list[Sentence] = []
    for kind in kinds:
        reader = KINDS[kind].get(ending)
        texts = reader(content) if reader else ()
        found += itertools.chain.from_iterable(sentences(text) for text in texts)
    return Result(path, sorted(found, key=lambda sentence: sentence.line))


def tracked(root: pathlib.Path, paths: Sequence[str]) -> list[str]:
    """Text files that git tracks or would track below the paths, without links."""
    left_out = [f":(exclude){path}" for path in LEFT_OUT]
    command = ["git", "grep", "--untracked", "-zIl", "-e", "", "--", *(paths or ["."]), *left_out]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
    return [path for path in done.stdout.split("\0") if path and not (root / path).is_symlink()]


def report(results: Sequence[Result], *, every: bool) -> int:
    """Print the files above the limit and the total. Return the exit status."""
    total = Result("all files", [sentence for result in results for sentence in result.sentences])
    shown = every or total.above(MOST_OF_ALL)
    above = [result for result in results if result.above(MOST_OF_FILE)]
    for result in sorted(results if shown else above, key=lambda result: len(result.flagged)):
        for sentence in result.flagged:
            print(f"{result.path}:{sentence.line}: [{', '.join(sentence.patterns)}] {sentence.text}")
    for result in sorted(above, key=lambda result: -len(result.flagged)):
        print(result.row())
    print(total.row())
    if not results:
        print("english: no file to read")
    if above or total.above(MOST_OF_ALL):
        print(f"english: expected at most {MOST_OF_FILE} % for each file and {MOST_OF_ALL} % in total; rewrite the sentences")
    return 1 if above or not results or total.above(MOST_OF_ALL) else 0


def main(arguments: Sequence[str], root: pathlib.Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the flagged sentences of every file")
    parser.add_argument("--only", metavar="KIND", help=f"some of these kinds of text: {','.join(KINDS)}")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file or folder (default: the whole repository)")
    asked = parser.parse_args(arguments)
    kinds = asked.only.split(",") if asked.only else [*KINDS]
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"--only: expected {', '.join(KINDS)}, got {unknown[0]!r}")
    results = [read(root, path, kinds) for path in tracked(root, asked.paths)]
    return report([result for result in results if result.sentences], every=asked.list)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
