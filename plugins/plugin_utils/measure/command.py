# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command of the user as a measurement: on each node, on the first one, or by a launcher on all."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils._mlnode.model.errors import printable
from .. import agent_answer
from ..effect import metrics, readings
from ..effect.readings import Commanded
from . import launcher
from .launcher import Place
from .nodes import Call, Fleet, MeasureError

MODULE = "mlnode.tuning.timed_command"

#: Variables of a node, the same as of nccl.py
_NODE: Mapping[str, Mapping[str, Any]] = {
    name: {"type": "str"} for name in ("ansible_host", "nccl_address", "nccl_hostname")
}

#: Seconds of a call in addition to its runs: to reach the node, and to end a run that hangs
_PATIENCE = 60
_ENDING = 20


class Command:
    """Raises MeasureError for a command or a metric that is declared wrongly. words: of the command."""

    def __init__(self, fleet: Fleet, given: Mapping[str, Any]) -> None:
        self._fleet, self._given = fleet, given
        self._launcher = str(given["effect_launcher"])
        self.words = _words(given["effect_command"])
        limits = {"effect_runs": 1, "effect_warmups": 0, "effect_timeout": 1, "effect_processes": 1}
        wrong = [name for name, least in limits.items() if given[name] < least]
        if wrong:
            raise MeasureError(f"{wrong[0]}: expected {limits[wrong[0]]} or more, got {given[wrong[0]]}")
        try:
            self._sources = metrics.sources(given["effect_metrics"])
        except metrics.MetricError as error:
            raise MeasureError(str(error)) from error
        self._started: list[str] = []
        self._units: readings.Units = {}

    @property
    def _runs(self) -> int:
        runs: int = self._given["effect_warmups"] + self._given["effect_runs"]
        return runs

    @property
    def seconds(self) -> int:
        """A phase takes no longer."""
        return self._runs * int(self._given["effect_timeout"])

    @property
    def _names(self) -> dict[str, str]:
        """Node that is asked → name of its measurement."""
        names = self._fleet.names
        if self._launcher == "ssh":
            return {name: name for name in names}
        if self._launcher == "first":
            return {names[0]: names[0]}
        return {names[0]: f"{len(names)} nodes by {self._launcher}"}

    def verify(self) -> dict[str, dict[str, Any]]:
        """Answers of the nodes in check mode."""
        places = [Place(*ends) for ends in zip(self._addresses(), self._hostnames())]
        self._started = [
            *launcher.words(self._launcher, places, self._given["effect_processes"]),
            *(self._given["effect_launcher_arguments"] if self._launcher in ("mpirun", "srun") else ()),
        ]
        return self._fleet.ask(dict.fromkeys(self._names, self._call(check=True)))

    def _addresses(self) -> list[str]:
        own = self._fleet.variables(_NODE)
        return [known["nccl_address"] or known["ansible_host"] or name for name, known in own.items()]

    def _hostnames(self) -> Sequence[str]:
        """As Slurm knows the nodes, which are asked only if it is the launcher. Raises MeasureError."""
        own = self._fleet.variables(_NODE)
        if self._launcher != "srun":
            return self._fleet.names
        ask = Call("ansible.builtin.command", {"argv": ["uname", "-n"]}, _PATIENCE, {"check_mode": False})
        unknown = [name for name, known in own.items() if not known["nccl_hostname"]]
        answers = self._fleet.ask(dict.fromkeys(unknown, ask), "stdout")
        said = {
            name: str(agent_answer.of_task("command", answer).get("stdout", "")).strip()
            for name, answer in answers.items()
        }
        silent = [name for name, hostname in said.items() if not hostname]
        if silent:
            raise MeasureError(f"{', '.join(silent)}: expected a hostname for srun; set nccl_hostname")
        return [known["nccl_hostname"] or said[name] for name, known in own.items()]

    def _call(self, check: bool = False) -> Call:
        given = self._given
        options = {
            "command": [*self._started, *self.words],
            "warmups": given["effect_warmups"],
            "runs": given["effect_runs"],
            "seconds": given["effect_timeout"],
            "any_status": any(source.measure == "exit" for source in self._sources),
            "allow": given["campaign_allow"],
        }
        patience = _PATIENCE if check else self.seconds + _ENDING * self._runs + _PATIENCE
        return Call(MODULE, options, patience, {"check_mode": check})

    def measure(self) -> Commanded:
        names = self._names
        answers = self._fleet.ask(dict.fromkeys(names, self._call()), together=True)
        return readings.commanded(answers, names, self._sources, self._units)


def _words(given: Any) -> list[str]:
    """Raises MeasureError."""
    problem = ""
    words: list[str] = []
    if isinstance(given, str):
        try:
            words = shlex.split(given)
        except ValueError as error:
            problem = f", got {printable(given)}: {error}"
    elif isinstance(given, list) and all(isinstance(word, (str, int, float)) for word in given):
        # YAML makes a number of a word such as 200.
        words = [str(word) for word in given if not isinstance(word, bool)]
        words = words if len(words) == len(given) else []
    if not words or "\0" in "".join(words):
        example = "such as 'python3 job.py'"
        raise MeasureError(f"effect_command: expected a command or a list of its words, {example}{problem}")
    return words
