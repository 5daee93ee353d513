# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts that call `docker run` and `podman run`.

Sources: docker run (docker/cli, opts/opts.go, opts/ulimit.go); podman-run(1), pkg/util/utils.go:
ValidateSysctls; runc, libcontainer/configs/validate/validator.go.
"""

from __future__ import annotations

from typing import Sequence

from .. import node
from ..podman import Podman
from ..runtime import in_units
from .needs import Needs
from .text import csv_field, file_needed, hashed, head, of_ipc, of_network, ulimit, word

_USE = "sh THIS.sh [OPTIONS] IMAGE [COMMAND]"
_EXACT = "limits are set exactly, also those that are declared as a minimum"


def docker(needs: Needs) -> list[str]:
    """A script that calls docker with its own arguments."""
    return _script("docker", needs, (), [f"{key}={value}" for key, value in needs.sysctls.items()])


def podman(needs: Needs) -> list[str]:
    """A script that calls podman with its own arguments."""
    sysctls = {key: value for key, value in needs.sysctls.items() if "=" not in value}
    unsaid = [f"{key}: podman takes no = in a value" for key in needs.sysctls if key not in sysctls]
    raised = node.raised(node.Resolved(needs.ulimits, least=needs.least), {}, Podman.usual)
    words = [csv_field(f"{key}={value}") for key, value in sysctls.items()]
    enough = [
        f"{name} needs no line: podman gives at least {Podman.usual[name]}"
        for name in needs.ulimits
        if name not in raised.values
    ]
    return _script("podman", needs._replace(sysctls=sysctls, ulimits=raised.values), unsaid, words, enough)


def _script(
    engine: str, needs: Needs, unsaid: Sequence[str], pairs: Sequence[str], enough: Sequence[str] = ()
) -> list[str]:
    options = [f"--sysctl {word(pair)}" for pair in pairs]
    options += [f"--ulimit {word(ulimit(name, text))}" for name, text in needs.ulimits.items()]
    options += [f"--shm-size {in_units(needs.shm_size)}"] if needs.shm_size else []
    # Unlike --volume, it does not make a folder of that name on a node without the file.
    options += [f"--mount type=bind,source={needs.nccl},target={needs.nccl},readonly"] if needs.nccl else []
    notes = [_USE, *file_needed(needs), *([_EXACT] if needs.ulimits else []), *enough]
    text = head(needs, f"{engine} run", [*unsaid, *_shared(engine, needs)], notes)
    lines = [f"exec {engine} run", *options, '"$@"']
    return ["#!/bin/sh", *hashed(text), *(" \\\n  ".join(lines)).split("\n")]


def _shared(engine: str, needs: Needs) -> list[str]:
    """Options that are refused for a container in a namespace of the node."""
    lines = []
    if of_network(needs.sysctls):
        lines.append(
            "net.* with --network=host: it is refused; delete these lines, as the node's values count then"
        )
    if of_ipc(needs.sysctls):
        lines.append(
            "kernel.* and fs.mqueue.* with --ipc=host: they are refused; delete these lines, as the node's "
            "values count then"
        )
    if needs.shm_size and engine == "podman":
        lines.append("--shm-size with --ipc=host: it is refused; delete the line, as /dev/shm is the node's")
    return lines
