# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts for people in files of any format: paragraphs, names, descriptions, comments and messages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import yaml
from markdown_it import MarkdownIt


class Text(NamedTuple):
    """A paragraph without markup, and the number of its first line."""

    line: int
    text: str


# -- Markdown ----------------------------------------------------------------------------------


def of_markdown(content: str) -> Iterator[Text]:
    """Paragraphs, list items, headings and table cells, with `X` for code."""
    line = 0
    for token in MarkdownIt("commonmark").enable("table").parse(content):
        line = token.map[0] if token.map else line
        if token.type == "inline":
            words = (
                "X" if part.type == "code_inline" else "\n" if part.type == "softbreak" else part.content
                for part in token.children or []
                if part.type not in ("image", "html_inline")
            )
            yield Text(line + 1, "".join(words))


# -- comments, in any format -------------------------------------------------------------------

#: Comments for tools, and the interpreter of a script
_DIRECTIVES = ("SPDX-", "noqa", "type:", "pragma", "shellcheck", "-*-", "/")


def comments(lines: Sequence[tuple[int, str]]) -> Iterator[Text]:
    """Comments on consecutive lines as one text. An empty line or a list item begins a new text."""
    block: list[tuple[int, str]] = []
    for number, line in lines:
        words = line.lstrip("#:!").strip()
        if block and (number != block[-1][0] + 1 or not words or words[0] in "-*|@"):
            yield Text(block[0][0], "\n".join(text for _, text in block))
            block = []
        if words and not words.startswith(_DIRECTIVES):
            block.append((number, words))
    if block:
        yield Text(block[0][0], "\n".join(text for _, text in block))


def of_script(content: str) -> Iterator[Text]:
    """Comments of a shell script, a Makefile or a configuration file, and the help of targets."""
    lines = content.split("\n")
    yield from comments([(n, line.strip()) for n, line in enumerate(lines, 1) if line.lstrip()[:1] == "#"])
    for number, line in enumerate(lines, 1):
        if help_text := re.search(r"^[\w%-]+:.*? ## (.*)", line):
            yield Text(number, help_text[1])


# -- YAML --------------------------------------------------------------------------------------

#: Keys of Ansible, Molecule, Prometheus and the workflows of a forge with values for people
PROSE_KEYS = frozenset(
    {
        *("name", "short_description", "description", "notes", "msg", "fail_msg", "success_msg"),
        *("summary", "title", "reason", "about", "label", "placeholder"),
    }
)


def of_yaml(content: str, first: int = 1) -> Iterator[Text]:
    """Names, messages, descriptions and comments. first: number of the first line in its file."""
    for document in yaml.compose_all(content, Loader=yaml.SafeLoader):
        yield from _of_node(document, first, prose=False)
    scalars = [
        (token.start_mark.index, token.end_mark.index)
        for token in yaml.scan(content, Loader=yaml.SafeLoader)
        if isinstance(token, yaml.ScalarToken)
    ]
    comment_lines = [
        (first + content.count("\n", 0, match.start()), match[0])
        for match in re.finditer(r"(?:^|(?<=\s))#.*", content)
        if not any(start <= match.start() < end for start, end in scalars)
    ]
    yield from comments(comment_lines)


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


# -- Python ------------------------------------------------------------------------------------

_DOCUMENTATION = ("DOCUMENTATION", "EXAMPLES", "RETURN")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def of_python(content: str) -> Iterator[Text]:
    """Docstrings, comments, and the documentation of plugins."""
    tokens = tokenize.generate_tokens(io.StringIO(content).readline)
    yield from comments(
        [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    )
    for node in ast.walk(ast.parse(content)):
        if text := _docstring(node):
            yield Text(text.lineno, str(text.value))
        elif text := _plugin_documentation(node):
            yield from of_yaml(str(text.value).lstrip("\n"), text.lineno + 1)


def _docstring(node: ast.AST) -> ast.Constant | None:
    body = node.body if isinstance(node, _DOCUMENTED) else []
    if body and isinstance(body[0], ast.Expr) and isinstance(value := body[0].value, ast.Constant):
        return value if isinstance(value.value, str) else None
    return None


def _plugin_documentation(node: ast.AST) -> ast.Constant | None:
    """The text that is assigned to `DOCUMENTATION`, `EXAMPLES` or `RETURN`."""
    if isinstance(node, ast.Assign) and isinstance(value := node.value, ast.Constant):
        target = node.targets[0]
        return value if isinstance(target, ast.Name) and target.id in _DOCUMENTATION else None
    return None


def messages_of_python(content: str) -> Iterator[Text]:
    """Strings of code, with `X` for the fields of an f-string. Each line is a text."""
    nodes = [*ast.walk(ast.parse(content))]
    other = {id(text) for node in nodes if (text := _docstring(node) or _plugin_documentation(node))}
    other |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        words = ""
        if isinstance(node, ast.JoinedStr):
            words = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in other:
            words = node.value
        for number, line in enumerate(words.split("\n"), getattr(node, "lineno", 1)):
            if is_prose(line):
                yield Text(number, line)


#: Words of sentences, which lists of names do not have
_FUNCTION_WORD = re.compile(
    r"\b(?:the|an?|is|are|was|were|has|have|does|not|no|and|or|of|to|for|in|on|at|by|as|from|with|it|its)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"\(\?|\\[bsdw]|[^:]//|&&|</|\bfi\b|\$\(|;$|^\s*[{\[<]|^(?:import|from) |^\s+def ")


def is_prose(line: str) -> bool:
    """Is this line for people? Expressions, lists of names, templates and scripts are not."""
    return bool(_FUNCTION_WORD.search(line)) and not _CODE.search(line)


# -- pages -------------------------------------------------------------------------------------

_COMMENT = r"/\*(?P<block>.*?)\*/|<!--(?P<html>.*?)-->"


def of_page(content: str, expression: str = _COMMENT + r"|>(?P<text>[^<>{}]+)<") -> Iterator[Text]:
    """Comments and text of HTML and CSS."""
    for match in re.finditer(expression, content, re.DOTALL):
        words = next(group for group in match.groups() if group is not None)
        yield Text(1 + content.count("\n", 0, match.start()), re.sub(r"(?m)^\s*\*", "", words))


def of_javascript(content: str) -> Iterator[Text]:
    """Comments and strings of JavaScript."""
    return of_page(content, _COMMENT + r"|(?<![:\"])//(?P<line>[^\n]*)|\"(?P<string>[^\"\n]*)\"")


Reader = Callable[[str], Iterator[Text]]
_PAGES = dict.fromkeys((".css", ".html"), of_page)
_SCRIPTS = dict.fromkeys((".sh", ".cfg", ".toml", ".in", ".mk", ".hcl", ""), of_script)

#: Kind of text → suffix of a file → its reader; "" is for files without a suffix
KINDS: dict[str, dict[str, Reader]] = {
    "markdown": {".md": of_markdown},
    "yaml": {".yml": of_yaml, ".yaml": of_yaml},
    "docs": {".py": of_python, **_SCRIPTS},
    "messages": {".py": messages_of_python, ".js": of_javascript, **_PAGES},
}
