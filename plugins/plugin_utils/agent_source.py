# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent that this collection installs, as a controller knows it: from the files, nothing of it is run."""

from __future__ import annotations

import fcntl
import functools
import io
import json
import os
import pathlib
import re
import zipfile
from collections import Counter
from types import ModuleType
from typing import Any

from ..module_utils._mlnode.agent import archive as agent_zip
from ..module_utils._mlnode.agent import source_code

_WORD = re.compile(r"[A-Za-z]{3,}")
#: Characters of two bytes in UTF-8
TWO_BYTES = range(0x80, 0x800)

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
    """The archive in a form that compresses by 35 KiB more: a zip has the numbers of each file twice, and
    bz2 finds repeated words, but not which word a letter begins.

    Its first line; a line of JSON with the names and sizes of its files, and the words for which the
    characters in TWO_BYTES stand; and the contents of the files.
    """
    first, _break, content = archive().partition(b"\n")
    with zipfile.ZipFile(io.BytesIO(content)) as files:
        sizes = [(file.filename, file.file_size) for file in files.infolist()]
        text = b"".join(files.read(name) for name, _size in sizes).decode()
    counts = Counter(_WORD.findall(text))
    used = {*text}
    free = [sign for sign in map(chr, TWO_BYTES) if sign not in used]
    ranked = sorted(counts, key=lambda word: (-counts[word] * (len(word) - 1), word))
    sign_of = {word: free[at] for at, word in enumerate(sorted(ranked[: len(free)]))}
    short = _WORD.sub(lambda match: sign_of.get(match[0], match[0]), text)
    # A character of the sources stands for itself.
    words = {sign: sign for sign in map(chr, TWO_BYTES)}
    words.update((sign, word) for word, sign in sign_of.items())
    numbers = json.dumps([sizes, " ".join(words.values())], ensure_ascii=False)
    return f"{first.decode()}\n{numbers}\n{short}".encode()


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
