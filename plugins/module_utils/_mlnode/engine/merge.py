# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removal of our part from a file, while later edits by others stay.

A merge of three texts, word by word: `saved` is the original, `wrote` is our version, `now` is the present
text. Each edit from `wrote` back to `saved` is made unless an edit from `wrote` to `now` conflicts with it.
Pure functions that know no file format: words, quotes and lines are common to all formats.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Container, Iterator, Sequence

from ..model.record import NamedTuple, regex

#: Blanks belong to the token after them; the last token of a text is an empty one
_TOKEN = regex(r"([^\S\n]*)(\n|[\"']|[^\s\"']+|\Z)", re.ASCII)
_QUOTES = ("'", '"')
_LINE_END = "\n"


class BrokenError(ValueError):
    """The result of the merge would have an unclosed quote."""


class Merged(NamedTuple):
    """text: without our part. left: our remaining words, and original words that did not return, because
    others edited the same place; for people."""

    text: str
    left: tuple[str, ...]


class _Token(NamedTuple):
    blanks: str
    text: str


class _Edit(NamedTuple):
    """base[start:end] becomes other[first:last]."""

    start: int
    end: int
    first: int
    last: int

    @property
    def adds(self) -> bool:
        return self.first < self.last


class _Placed(NamedTuple):
    """A token of the result, with its index in each of the three texts."""

    text: str
    base: int = -1
    saved: int = -1
    now: int = -1


def undone(saved: str, wrote: str, now: str, after: str | None = None) -> Merged:
    """`now` without our part. Raises BrokenError.

    after: the text that another write is about to make of `now`. An edit that this write undoes is not kept.
    """
    merge = _Merge(*map(_tokens, (saved, wrote, now)))
    if after is not None:
        merge.drop_edits_lost_in({token.text for token in _tokens(after)})
    merged = merge.result()
    if _open_lines(merged.text) > max(map(_open_lines, (saved, wrote, now))):
        raise BrokenError("without mlnode's part, a quote would not be closed")
    return merged


def _tokens(text: str) -> list[_Token]:
    tokens = [_Token(*match.groups()) for match in _TOKEN.finditer(text)]
    # After blanks at the very end the pattern matches the empty end once more.
    return tokens[:-1] if len(tokens) > 1 and tokens[-2].text == "" else tokens


def _open_lines(text: str) -> int:
    """Number of lines with an unclosed quote, without comments."""
    return sum(_is_open(line) for line in text.split("\n") if not line.lstrip().startswith("#"))


def _is_open(line: str) -> bool:
    quote = ""
    for sign in re.sub(r"\\.", "", line):
        if sign == quote:
            quote = ""
        elif not quote and sign in _QUOTES:
            quote = sign
    return bool(quote)


# -- differences ---------------------------------------------------------------------------


def _edits(base: Sequence[_Token], other: Sequence[_Token]) -> list[_Edit]:
    """Edits by equal lines first, then by lines with the same first word, and only then by words: equal words
    of different lines do not match."""
    edits: list[_Edit] = []
    old, new = _lines(base), _lines(other)
    whole = [_text(base, line) for line in old], [_text(other, line) for line in new]
    for tag, i1, i2, j1, j2 in _opcodes(*whole):
        if tag == "equal":
            continue
        names = [_name(base, line) for line in old[i1:i2]], [_name(other, line) for line in new[j1:j2]]
        for alike, a1, a2, b1, b2 in _opcodes(*names):
            spans = [(i1 + a1, i1 + a2, j1 + b1, j1 + b2)]
            if alike == "equal":
                pairs = zip(range(i1 + a1, i1 + a2), range(j1 + b1, j1 + b2))
                spans = [(first, first + 1, line, line + 1) for first, line in pairs]
            for first, end, line, last in spans:
                edits += _word_edits(base, other, _span(old, first, end, base), _span(new, line, last, other))
    return edits


def _name(tokens: Sequence[_Token], line: tuple[int, int]) -> str:
    """The first word of a line: usually the name of its setting."""
    return tokens[line[0]].text


def _lines(tokens: Sequence[_Token]) -> list[tuple[int, int]]:
    ends = [number + 1 for number, token in enumerate(tokens) if token.text == _LINE_END]
    ends.append(len(tokens))
    return list(zip([0, *ends], ends))


def _text(tokens: Sequence[_Token], line: tuple[int, int]) -> str:
    return "".join(token.blanks + token.text for token in tokens[line[0] : line[1]])


def _span(
    lines: Sequence[tuple[int, int]], first: int, last: int, tokens: Sequence[_Token]
) -> tuple[int, int]:
    start = lines[first][0] if first < len(lines) else len(tokens)
    return start, lines[last - 1][1] if last > first else start


def _opcodes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    # Imported here: most looks merge nothing.
    from difflib import SequenceMatcher

    yield from SequenceMatcher(None, old, new).get_opcodes()


def _word_edits(
    base: Sequence[_Token], other: Sequence[_Token], span: tuple[int, int], other_span: tuple[int, int]
) -> Iterator[_Edit]:
    texts = [token.text for token in base[slice(*span)]], [token.text for token in other[slice(*other_span)]]
    for tag, i1, i2, j1, j2 in _opcodes(*texts):
        if tag != "equal":
            yield _Edit(span[0] + i1, span[0] + i2, other_span[0] + j1, other_span[0] + j2)


# -- the merge -----------------------------------------------------------------------------


def _is_word(text: str) -> bool:
    return bool(text) and text != _LINE_END and text not in _QUOTES


class _Merge:
    def __init__(self, saved: Sequence[_Token], base: Sequence[_Token], now: Sequence[_Token]) -> None:
        self._saved, self._base, self._now = saved, base, now
        self._way_back = _edits(base, saved)
        self._all_theirs = _edits(base, now)
        self._theirs = self._all_theirs

    def _ours(self) -> list[_Edit]:
        """The edits back to `saved`, in independent parts."""
        return [part for edit in self._way_back for part in self._parts(edit)]

    def _parts(self, edit: _Edit) -> Iterator[_Edit]:
        """Split an edit into whole lines and words: a conflict in one line or word does not stop the others.
        A replacement for a word edited by others stays in one part with it, or both words would remain."""
        if edit.adds:
            if any(theirs.start < theirs.end and _meet(edit, theirs) for theirs in self._theirs):
                yield edit
                return
            yield _Edit(edit.end, edit.end, edit.first, edit.last)
        start = edit.start
        for line in _lines(self._base):
            first, last = max(line[0], edit.start), min(line[1], edit.end)
            if first >= last:
                continue
            whole = (first, last) == line
            if whole or any(token.text in _QUOTES for token in self._base[first:last]):
                yield _Edit(first, last, 0, 0)
            else:
                yield from (_Edit(at, at + 1, 0, 0) for at in range(first, last))
            start = last
        if start < edit.end:
            yield _Edit(start, edit.end, 0, 0)

    def drop_edits_lost_in(self, after: Container[str]) -> None:
        def is_lost(edit: _Edit) -> bool:
            texts = [token.text for token in self._now[edit.first : edit.last] if _is_word(token.text)]
            return bool(texts) and not any(word in after for word in texts)

        own = self._ours()
        self._theirs = [
            edit for edit in self._theirs if not (is_lost(edit) and any(_meet(ours, edit) for ours in own))
        ]

    def result(self) -> Merged:
        left: list[str] = []
        accepted: list[_Edit] = []
        for ours in self._ours():
            against = [edit for edit in self._theirs if _meet(ours, edit)]
            if against:
                left += self._remains(ours, against)
            elif not self._is_there(ours):
                accepted.append(ours)
        return Merged(self._render(self._placed(accepted)), tuple(dict.fromkeys(left)))

    def _is_there(self, ours: _Edit) -> bool:
        """True if the same insertion was made at the same place, such as by an interrupted revert."""
        return ours.adds and any(
            edit.start <= ours.start <= edit.end
            and _holds(self._now[edit.first : edit.last], self._added(ours))
            for edit in self._theirs
        )

    def _added(self, ours: _Edit) -> Sequence[_Token]:
        return self._saved[ours.first : ours.last]

    def _remains(self, ours: _Edit, against: Sequence[_Edit]) -> Iterator[str]:
        """Words that an edit has kept from going, or from coming back."""
        chunks = [token.text for edit in against for token in self._now[edit.first : edit.last]]
        gone = {at for edit in against for at in range(edit.start, edit.end)}
        back = [token.text for token in self._added(ours) if _is_word(token.text)]
        own = [(at, token.text) for at, token in enumerate(self._base[ours.start : ours.end], ours.start)]
        remaining = [
            text for at, text in own if _is_word(self._base[at].text) and (at not in gone or text in chunks)
        ]
        # An original name that stays was not written by us.
        stays = Counter(back)
        remaining = [text for text in remaining if not stays[text]]
        lacking = [text for text in back if text not in chunks and text not in {text for _at, text in own}]
        if remaining:
            number = sum(token.text == _LINE_END for token in self._now[: against[0].first]) + 1
            yield f"line {number} still has {' '.join(remaining)}"
        if lacking:
            yield f"{' '.join(lacking)} did not come back"

    def _placed(self, accepted: Sequence[_Edit]) -> list[_Placed]:
        gone = {at for edit in (*accepted, *self._theirs) for at in range(edit.start, edit.end)}
        saved = dict(_matched(self._way_back, len(self._base)))
        now = dict(_matched(self._all_theirs, len(self._base)))
        added: dict[int, list[_Placed]] = {}
        for edit in accepted:
            tokens = enumerate(self._added(edit), edit.first)
            added.setdefault(edit.start, []).extend(_Placed(token.text, saved=at) for at, token in tokens)
        for edit in self._theirs:
            tokens = enumerate(self._now[edit.first : edit.last], edit.first)
            added.setdefault(edit.start, []).extend(_Placed(token.text, now=at) for at, token in tokens)
        placed: list[_Placed] = []
        for at, token in enumerate(self._base):
            placed += added.get(at, ())
            if at not in gone:
                placed.append(_Placed(token.text, at, saved.get(at, -1), now.get(at, -1)))
        return placed + added.get(len(self._base), [])

    def _render(self, placed: Sequence[_Placed]) -> str:
        before: _Placed | None = None
        parts = []
        for token in placed:
            parts.append(self._blanks(before, token) + token.text)
            before = token
        return "".join(parts)

    def _blanks(self, before: _Placed | None, token: _Placed) -> str:
        """Blanks before a token, from the text in which it follows the same token."""
        last = before or _Placed("", -1, -1, -1)
        texts = {
            "now": (self._now, token.now, last.now),
            "saved": (self._saved, token.saved, last.saved),
            "base": (self._base, token.base, last.base),
        }
        own = {name: tokens[at].blanks for name, (tokens, at, _last) in texts.items() if at >= 0}
        known = [
            name
            for name, (_tokens, at, end) in texts.items()
            if at >= 0 and at == end + 1 and (end >= 0 or before is None)
        ]
        if "now" in known and "saved" in known and own.get("base") == own["now"]:
            return own["saved"]
        if known:
            return own[known[0]]
        first = next(iter(own.values()))
        if before is None or before.text == _LINE_END:
            return first
        if _is_word(before.text) and _is_word(token.text):
            return next(filter(None, own.values()), " ")
        if 0 <= before.now < len(self._now) - 1:  # a removed token has taken its own blanks along
            own["between"] = self._now[before.now + 1].blanks
        return min(own.values(), key=len)


def _meet(ours: _Edit, theirs: _Edit) -> bool:
    """True if the edits conflict. Two removals do not, nor do two edits side by side."""
    if ours.start == ours.end:  # an insertion
        return theirs.start < ours.start < theirs.end
    if theirs.start == theirs.end:
        return ours.start < theirs.start < ours.end
    if not theirs.adds and not ours.adds:
        return False
    return max(ours.start, theirs.start) < min(ours.end, theirs.end)


def _holds(tokens: Sequence[_Token], part: Sequence[_Token]) -> bool:
    texts, wanted = [token.text for token in tokens], [token.text for token in part]
    return any(texts[at : at + len(wanted)] == wanted for at in range(len(texts)))


def _matched(edits: Sequence[_Edit], length: int) -> Iterator[tuple[int, int]]:
    """Index in the base → index in the other text, for all tokens without an edit."""
    at, other = 0, 0
    for edit in (*edits, _Edit(length, length, 0, 0)):
        yield from zip(range(at, edit.start), range(other, other + edit.start - at))
        at, other = edit.end, edit.last
