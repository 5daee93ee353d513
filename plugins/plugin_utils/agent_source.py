# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent that this collection installs, as a controller knows it: from the files, nothing of it is run."""

from __future__ import annotations

import fcntl
import functools
import io
import itertools
import os
import pathlib
import re
import zipfile
from collections import Counter
from types import ModuleType
from typing import Any

from ..module_utils._mlnode.agent import archive as agent_zip
from ..module_utils._mlnode.agent import source_code

#: Text that repeats: a word, a line break with the indentation after it, or a sign between blanks
_WORD = re.compile(r"[A-Za-z]{2,}|\n *|, | = ")
#: Characters of one byte in UTF-8 that sources do not have, all characters of two, and the first 3,000 of
#: three: with more, the list of words grows as fast as the text shrinks
SIGNS = (range(0x01, 0x09), range(0x0B, 0x20), range(0x7F, 0x800 + 3000))
#: The character that stands for 0 letters
NO_LETTERS = ord("0")

LIBRARY = pathlib.Path(__file__).parents[1] / "module_utils/_mlnode"


def warm() -> None:
    """Cache everything that all hosts share."""
    _built()


def said() -> dict[str, Any]:
    """Data with which a node finds out whether its agent is the same."""
    return _built()[1]._asdict()


def archive() -> bytes:
    """The agent itself, for a node with a missing or different agent. The node compiles it."""
    return _built()[0]


def unzipped() -> bytes:
    """The archive in a form that compresses by 51 KiB more: a zip has the numbers of each file twice, and
    bz2 finds repeated words, but not which word a letter begins.

    It has the first line, the words for which the characters in SIGNS stand, and each file: its name, a line
    break and its content. Zeros separate them. A word is written as the number of letters that it shares with
    the start of the previous word, counted from NO_LETTERS, and the rest. All characters are in reverse
    order: bz2 predicts a character from the next ones, and Python is easier to predict from the previous.
    """
    first, _break, content = archive().partition(b"\n")
    with zipfile.ZipFile(io.BytesIO(content)) as archived:
        files = [f"{name}\n{archived.read(name).decode()}" for name in archived.namelist()]
    text = "\0".join(files)
    signs = [*map(chr, itertools.chain(*SIGNS))]
    word_of = _words(text, signs)
    sign_of = {word: sign for sign, word in word_of.items()}
    short = _WORD.sub(lambda match: sign_of.get(match[0], match[0]), text)
    # A character of the sources stands for itself.
    words = [word_of.get(sign, sign) for sign in signs]
    ends = []
    for before, word in zip(["", *words], words):
        same = len(os.path.commonprefix([before, word]))  # noqa: RUF071  # of any text
        ends.append(chr(NO_LETTERS + same) + word[same:])
    listed = "\t".join(ends)
    return f"{first.decode()}\0{listed}\0{short}"[::-1].encode()


def _words(text: str, signs: list[str]) -> dict[str, str]:
    """Sign → word that it stands for. The words that save most get the shortest signs. Signs of two and of
    three bytes stand in the order of their words, which compresses best."""
    used = {*text}
    free = [sign for sign in signs if sign not in used]
    counts = Counter(_WORD.findall(text))
    short, middle = (sum(sign < end for sign in free) for end in ("\x80", "\u0800"))
    frequent = [word for word, _count in counts.most_common(short)]
    for word in frequent:
        del counts[word]
    ranked = sorted(counts, key=lambda word: (-(counts[word] - 1) * (len(word) - 2), word))
    others = [*sorted(ranked[: middle - short]), *sorted(ranked[middle - short : len(free) - short])]
    return dict(zip(free, [*frequent, *others]))


def packed(packer: ModuleType, folder: str) -> bytes:
    """unzipped(), compressed with bz2 or zlib by the first host that needs it. This takes as long as a ping.

    The processes of all hosts share it as a file in the folder that Ansible makes and removes for each run,
    and that only its user can enter.
    """
    path = os.path.join(folder, f"mlnode-{said()['sha256']}.{packer.__name__}")
    try:
        with open(f"{path}.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(path):
                pathlib.Path(f"{path}.new").write_bytes(packer.compress(unzipped(), 9))
                os.replace(f"{path}.new", path)
        return pathlib.Path(path).read_bytes()
    except OSError:  # a full disk, or a network file system without locks: each host packs its own
        packed_here: bytes = packer.compress(unzipped(), 9)
        return packed_here


@functools.lru_cache(maxsize=None)
def _built() -> tuple[bytes, agent_zip.Sources]:
    return agent_zip.uncompiled(_files())


def _files() -> dict[str, bytes]:
    """File name in the zip → its content there."""
    files = {}
    for path in LIBRARY.rglob("[!.]*.py"):
        inner = path.relative_to(LIBRARY)
        parts = inner.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not agent_zip.is_elsewhere(name):
            files[f"mlnode/{inner.as_posix()}"] = source_code.shortened(path.read_bytes())
    return files
