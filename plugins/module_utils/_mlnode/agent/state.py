# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""/agent: the agent's answers about itself, and about changes that wait or were undone, as files.

A module of one area asks the installed agent for them (tuning_module.py), and has none of this sent along.
"""

from __future__ import annotations

import errno
from functools import partial
from typing import Callable, Mapping

from ..engine import boot_service, confirm_store
from ..engine.kind import AGENT_FAULT, AGENT_IMAGE_FAULT, AGENT_PENDING, AGENT_UNDONE
from ..host.host import Host
from ..model.errors import HostError, MlnodeError


def _pending(host: Host) -> str:
    waiting = confirm_store.load_pending(host)
    if waiting is None:
        return ""
    late = f"; its time is over, and `mlnode undo {waiting.id}` undoes it now"
    return waiting.text + (late if waiting.lapsed(host) else "")


_FILES: Mapping[str, Callable[[Host], str]] = {
    AGENT_FAULT: boot_service.stopped,
    AGENT_IMAGE_FAULT: partial(boot_service.stopped, running=False),
    AGENT_PENDING: _pending,
    AGENT_UNDONE: confirm_store.report,
}


def answers(host: Host) -> dict[str, dict[str, str]]:
    """File → its `text`, or the `error` of reading it. Never raises."""
    answers_by_path: dict[str, dict[str, str]] = {}
    for path, look in _FILES.items():
        try:
            answers_by_path[path] = {"text": look(host)}
        except MlnodeError as error:
            answers_by_path[path] = {"error": str(error)}
    return answers_by_path


# -- as a driver, see host.Driver ----------------------------------------------------------


def read(host: Host, path: str) -> bytes:
    """Raises MlnodeError."""
    if path not in _FILES:
        raise HostError("read", path, errno.ENOENT)
    return _FILES[path](host).encode("utf-8", "surrogateescape")


def write(_host: Host, path: str, value: str) -> None:
    raise HostError(f"write {value!r} to", path, errno.EROFS)


def names(_host: Host, path: str) -> list[str]:
    return sorted(file.rpartition("/")[2] for file in _FILES if file.startswith(f"{path}/"))


def exists(host: Host, _path: str) -> bool:
    """True if anything of the agent is installed."""
    return boot_service.installed(host)


def blocked(_host: Host, _path: str) -> str:
    return ""
