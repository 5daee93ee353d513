# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent that this collection installs, as a controller knows it: from the files, nothing of it is run."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

from ..module_utils._mlnode.agent import archive as agent_zip

LIBRARY = pathlib.Path(__file__).parents[1] / "module_utils/_mlnode"


def warm() -> None:
    """Read what is the same for all hosts."""
    _sources()


def said() -> dict[str, Any]:
    """Data with which a node finds out whether its agent is the same."""
    return _sources()._asdict()


def archive() -> bytes:
    """The agent itself, for a node that has another. What Python would compile of it, is compiled there."""
    return agent_zip.build(_files(), compiled=False)


@functools.lru_cache(maxsize=None)
def _sources() -> agent_zip.Sources:
    return agent_zip.sources(_files())


def _files() -> dict[str, bytes]:
    """File name in the zip → its content."""
    files = {}
    for path in LIBRARY.rglob("[!.]*.py"):
        inner = path.relative_to(LIBRARY)
        parts = inner.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not agent_zip.is_elsewhere(name):
            files[f"mlnode/{inner.as_posix()}"] = path.read_bytes()
    return files
