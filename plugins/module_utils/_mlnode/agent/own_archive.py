# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that this process was started from, if it is the agent."""

from __future__ import annotations

import sys
from types import CodeType
from typing import Mapping

from ..host import system

#: As archive.py names it
_PACKAGE = "mlnode.agent"


def path() -> str:
    """Path of it; empty in a test or a module of Ansible, which may lie in a zip as well."""
    archive: str = getattr(globals().get("__loader__"), "archive", None) or ""
    return archive if __package__ == _PACKAGE else ""


def content() -> bytes:
    """The whole file; empty if this process is not the agent. Raises HostError."""
    archive = path()
    return system.contents(archive, archive) if archive else b""


def sources() -> dict[str, bytes]:
    """File name in it → source of every module, without what Python has compiled of it. Raises HostError."""
    import io
    import zipfile  # only here: every command asks for the rest

    with zipfile.ZipFile(io.BytesIO(content())) as archive:
        names = [name for name in archive.namelist() if name.startswith("mlnode/") and name.endswith(".py")]
        return {name: archive.read(name) for name in names}


def is_in_memory() -> bool:
    """True if this process has all of the agent in memory or in a file that it holds open. A late import is
    then its own code, even if the file at its path was replaced."""
    return bool(path()) and bool(vars(sys.modules["__main__"]).get("whole"))


def compiled() -> Mapping[str, tuple[bool, CodeType]]:
    """Code of itself that this process has compiled, as archive.Modules."""
    made: Mapping[str, tuple[bool, CodeType]] = (
        vars(sys.modules["__main__"]).get("modules", {}) if path() else {}
    )
    return made
