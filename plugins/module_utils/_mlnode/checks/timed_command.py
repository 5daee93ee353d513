# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a command of the user, each timed, with its output. The controller reads the metrics from it."""

from __future__ import annotations

from typing import Any, Mapping

from ..host import timed
from ..host.host import Host, Mounts
from ..linux import jobs
from ..model import schema
from ..model.errors import MissingError, RefusedError, listed, printable
from ..model.schema import Option, Table

MOUNTS: Mounts = {}

#: Guards that `allow` may switch off
GUARDS = ("busy",)

#: Bytes of the output of all runs together. A hundred thousand samples of eight digits have as many, and an
#: answer may have sixteen times as many (answer_forms.MOST).
OUTPUT = 1 << 20

OPTIONS: Table = {
    "command": Option("list", elements="str", required=True),
    "warmups": Option("int", default=0, least=0, most=1000),
    "runs": Option("int", default=1, least=1, most=1000),
    # A day, as of a long training job
    "seconds": Option("int", default=600, least=1, most=86400),
    "any_status": Option("bool", default=False),
    "allow": Option("list", elements="str", choices=GUARDS, default=[]),
}


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module timed_command. Raises RefusedError, HostError, DeclarationError."""
    schema.value("timed_command", Option("dict", suboptions=OPTIONS), given)
    command, allow = given["command"], given["allow"]
    running = [] if "busy" in allow else jobs.running(host)
    if running:
        reason = f"this would compete with running jobs: {listed(running, 4)}"
        raise RefusedError(schema.unless_allowed("busy", reason, allow))
    if not command or not timed.is_installed(command[0]):
        name = printable(command[0]) if command else "command"
        raise MissingError("run", name, "expected an executable program; give its path or install it")
    if dry:
        return {"changed": False, "runs": []}
    runs = []
    for number in range(-given["warmups"], given["runs"]):
        ran = timed.run(command, given["seconds"], OUTPUT // given["runs"])
        runs += [{"rc": ran.rc, "seconds": ran.seconds, "stdout": ran.out}] if number >= 0 else []
        if ran.problem and (ran.early or not given["any_status"] or ran.rc < 0):
            kind = "warm-up" if number < 0 else "run"
            place = number + 1 + (given["warmups"] if number < 0 else 0)
            return {"changed": True, "failed": True, "msg": f"{kind} {place}: {ran.problem}", "runs": runs}
    return {"changed": True, "runs": runs}
