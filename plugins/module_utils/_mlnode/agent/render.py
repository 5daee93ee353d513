# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode render`: declared settings in the formats of systems that mlnode does not write to."""

from __future__ import annotations

import argparse
from typing import Callable, Mapping

from ..host.host import Host
from ..knobs.containers.render import engines, kubernetes, slurm
from ..knobs.containers.render.needs import Needs, needs
from ..model.record import NamedTuple
from . import output, switch_side
from .arguments import ERROR, OK, SWITCH, USAGE


class Format(NamedTuple):
    """make: the lines of a text. service: the service that starts such containers, if limits can be
    declared for it alone."""

    make: Callable[[Needs], list[str]]
    service: str = ""


#: In the order of arguments.CONTAINERS
FORMATS: Mapping[str, Format] = {
    "kubelet": Format(kubernetes.kubelet),
    "pod": Format(kubernetes.pod),
    "cni-tuning": Format(kubernetes.cni_tuning),
    "docker-run": Format(engines.docker, "docker"),
    "podman-run": Format(engines.podman),
    "enroot": Format(slurm.enroot, "slurmd"),
    "slurm-prolog": Format(slurm.prolog, "slurmd"),
}


def command(host: Host, options: argparse.Namespace) -> int:
    """The exit status of `mlnode render`."""
    if options.what == SWITCH:
        return switch_side.command(host, options)
    if options.nos:
        output.complain(f"--nos: expected render {SWITCH}, got render {options.what}; leave it out")
        return USAGE
    problems: list[str] = []
    text = FORMATS[options.what]
    needed = needs(host, text.service, problems)
    if needed is not None:
        output.say("\n".join(text.make(needed)))
    for problem in problems:
        output.complain(problem)
    return ERROR if problems else OK
