# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words of all formats: comments, quoted values and limits."""

from __future__ import annotations

import json
import shlex
from typing import Iterable

from ....model.errors import printable
from ...limits.parse import LIMITS, amount
from ..runtime import numbers_of
from .needs import Needs

#: Shared memory of processes
SHM = "/dev/shm"  # noqa: S108  # a word of the texts, no file is created

_NOTHING = "No declared setting is missing in a container: nothing to set."


def head(needs: Needs, place: str, unsaid: Iterable[str], notes: Iterable[str] = ()) -> list[str]:
    """The comment of a text. place: its reader, such as `a pod`. unsaid: settings that it cannot have, each
    with the reason. notes: its use."""
    lines = [f"Settings for {place}, as declared in {', '.join(needs.names)}."]
    missing = [*unsaid, *needs.left_out]
    if needs.none and not missing:
        lines.append(_NOTHING)
    if missing:
        lines += [f"Not possible in {place}:", *(f"  {line}" for line in missing)]
    used = [*notes]
    if used:
        lines += ["Use:", *(f"  {line}" for line in used)]
    return [printable(line) for line in lines]


def file_needed(needs: Needs) -> list[str]:
    """Note on the file of NCCL: a mount of it fails if it does not exist."""
    return [f"{needs.nccl} must exist on each node that starts it"] if needs.nccl else []


def hashed(lines: Iterable[str]) -> list[str]:
    return [f"# {line}" for line in lines]


def of_network(sysctls: Iterable[str]) -> bool:
    return any(key.startswith("net.") for key in sysctls)


def of_ipc(sysctls: Iterable[str]) -> bool:
    return any(not key.startswith("net.") for key in sysctls)


def scalar(text: str) -> str:
    """A text for YAML, spelled as in JSON."""
    return json.dumps(text)


def word(text: str) -> str:
    """One word for a POSIX shell."""
    return shlex.quote(text)


def csv_field(text: str) -> str:
    """podman splits the value of --sysctl at commas, and reads quotes as in RFC 4180 (spf13/pflag,
    string_slice.go)."""
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def limits(needs: Needs) -> str:
    """For people."""
    return ", ".join(f"{name} {text}" for name, text in needs.ulimits.items())


def ulimit(name: str, text: str) -> str:
    """As runtimes have it: name=SOFT:HARD, with -1 for no limit (go-units, ParseUlimit)."""
    soft, hard = numbers_of(text)
    return f"{name}={soft}:{hard}"


def of_unit(needs: Needs) -> str:
    """As lines of systemd.exec(5)."""
    return ", ".join(
        f"{LIMITS[name].key}={amount(LIMITS[name], text).in_systemd()}"
        for name, text in needs.ulimits.items()
    )
