# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind nccl: groups of nodes run all_reduce_perf of nccl-tests, and smaller ones if one is slow."""

from __future__ import annotations

import datetime as dt
import json
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.common.text.formatters import human_to_bytes

from .. import agent_answer
from ..fleet_report import files
from ..nccl_tests import document, facts, judge, presets, read, scripts
from ..nccl_tests.judge import Judged
from . import balance, launcher
from .launcher import Place
from .nodes import Call, Fleet, MeasureError, say
from .run import Report

#: Variables of a node; facts.py validates the raw ones
_NODE: Mapping[str, Mapping[str, Any]] = {
    "ansible_host": {"type": "str"},
    **{f"nccl_{name}": {"type": "raw"} for name in ("gpus", "rails_gbits", "nvlink_gbits")},
    **{f"nccl_{name}": {"type": "str"} for name in ("address", "hostname", "program", "source")},
    "nccl_environment": {"type": "dict", "default": {}},
    "nccl_make": {"type": "list", "elements": "str", "default": []},
}

#: For a call that runs no measurement, in seconds: awk reads a log of 1 GB in 10 s
_PATIENCE = 60

#: Earlier results that are compared with: as many as a median needs many times over
_EARLIER = 50

#: Numbers of nodes with which a tree sends each message less than twice over their rails
_SMALL = (2, 3)


class Nccl:
    """See Kind."""

    def __init__(self, fleet: Fleet, given: Mapping[str, Any], name: str) -> None:
        self._fleet, self._given = fleet, given
        self.name = name
        self.folder = given["nccl_results"]
        self._own = fleet.variables(_NODE)
        self._begin = time.time()
        self._nodes: dict[str, facts.Node] = {}
        self._ran: list[dict[str, Any]] = []
        self._unbalanced: Sequence[str] = ()

    @property
    def _taking(self) -> list[str]:
        return [name for name, node in self._nodes.items() if not node.problem]

    @property
    def _first(self) -> facts.Node:
        return self._nodes[self._taking[0]]

    @property
    def _launcher(self) -> str:
        return str(self._given["nccl_launcher"])

    @property
    def _times(self) -> bool:
        """Stragglers are asked for. One process has no others to wait for."""
        return bool(self._given["nccl_stragglers"]) and self._launcher != "ssh"

    # -- before ----------------------------------------------------------------------------------------

    def plan(self) -> str:
        self._build()
        try:
            self._nodes = facts.fleet(self._asked())
            presets.declared(self._given["nccl_limits"])
            problems = [f"{node.name}: {node.problem}" for node in self._nodes.values() if node.problem]
            if len(self._taking) < (1 if self._launcher == "ssh" else 2):
                raise MeasureError("; ".join(["too few nodes can take part", *problems]))
            self._about = judge.about({
                "launcher": self._launcher,
                "gpus": self._first.gpus,
                "least": human_to_bytes(self._given["nccl_least_size"]),
                "most": human_to_bytes(self._given["nccl_most_size"]),
                "network": self._given["nccl_network"],
                "runs": self._given["nccl_runs"],
                "stragglers": self._times,
                "sharp": self._given["nccl_sharp"],
                "limits": self._given["nccl_limits"],
                "timeout": self._given["nccl_timeout"],
            })  # fmt: skip
            self._past = judge.past(self._earlier())
        except ValueError as error:
            raise MeasureError(str(error)) from error
        seconds = self._given["nccl_timeout"]
        return (
            f"nccl {self.name}: {len(self._taking)} nodes of {self._first.gpus} GPUs, by {self._launcher}. "
            f"GPUs and links are busy for up to {seconds} s, and if a group is slow for up to "
            f"{self._given['nccl_runs']} runs of as long. Left out: {'; '.join(problems) or 'none'}."
        )

    def _build(self) -> None:
        calls = {
            name: Call(
                "ansible.builtin.command",
                {
                    "argv": ["make", "-C", own["nccl_source"], "MPI=1", *own["nccl_make"]],
                    "creates": f"{own['nccl_source']}/build/all_reduce_perf",
                },
                0,
            )
            for name, own in self._own.items()
            if own["nccl_source"]
        }
        for name, answer in self._fleet.ask(calls).items():
            if answer.get("failed") or answer.get("unreachable"):
                made = agent_answer.of_task("command", answer)
                say(f"{name}: nccl-tests was not built: {made.get('stderr') or made.get('msg')}")

    def _asked(self) -> dict[str, dict[str, Any]]:
        looks = {
            name: Call("mlnode.tuning.node_topology", {}, _PATIENCE)
            for name, own in self._own.items()
            if own["nccl_gpus"] is None or own["nccl_rails_gbits"] is None
        }
        topology = self._fleet.ask(looks, "topology")
        probes = {name: self._shell(scripts.PROBE, GIVEN=_program(own)) for name, own in self._own.items()}
        probed = self._fleet.ask(probes, "stdout")
        return {
            name: {
                "probe": probed[name],
                "topology": topology.get(name),
                "gpus": own["nccl_gpus"],
                "rails_gbits": own["nccl_rails_gbits"],
                "nvlink_gbits": own["nccl_nvlink_gbits"],
                "hostname": own["nccl_hostname"],
                "busy": "busy" in self._given["nccl_allow"],
            }
            for name, own in self._own.items()
        }

    def _earlier(self) -> dict[str, str]:
        """Earlier documents of the folder. Raises ValueError."""
        paths = sorted(pathlib.Path(self.folder).glob("*.json"), reverse=True)
        recent = [path for path in paths if path.is_file()][:_EARLIER]
        try:
            return {str(path): files.read(path, read.MOST, follow=True).decode() for path in recent}
        except OSError as error:
            raise ValueError(f"cannot read {error.filename}: {error.strerror}") from error

    @staticmethod
    def _shell(script: str, **environment: str) -> Call:
        keywords = {"environment": environment, "check_mode": False}
        return Call("ansible.builtin.command", {"argv": ["/bin/sh", "-c", script]}, _PATIENCE, keywords)

    def rehearse(self) -> None:
        """The plan has asked all nodes."""

    def _balance(self) -> balance.Asked | None:
        names = [self._nodes[name].hostname for name in self._taking]
        asked = balance.Asked(self._given["nccl_balance_node"] or self._taking[0], names, self._fail_on)
        return asked if self._given["nccl_balance"] else None

    @property
    def _fail_on(self) -> str:
        return str(self._given["nccl_fail_on"])

    # -- runs ------------------------------------------------------------------------------------------

    def measure(self) -> None:
        taking = self._taking
        batches = [[[name] for name in taking]] if self._launcher == "ssh" else [[taking]]
        with balance.shared(self._fleet, self._balance()) as self._unbalanced:
            while batches:
                for batch in batches:
                    self._run(batch)
                batches = [[[*group]] for group in self._judged().wanted]

    def _run(self, batch: Sequence[Sequence[str]]) -> None:
        """Groups of nodes at the same time, each started by its first node."""
        say(f"run {len(self._ran) + 1}: {' | '.join(', '.join(group) for group in batch)}")
        folder = f"{scripts.FOLDER}-{self.name}-{len(self._ran) + 1}"
        mark = f"-- JSON of {folder} --"
        paths = {group[0]: f"{folder}/{group[0]}.json" for group in batch}
        nodes = [name for group in batch for name in group]
        self._fleet.ask({name: self._shell(scripts.MAKE_FOLDER, FOLDER=folder) for name in nodes})
        ran = self._fleet.ask({group[0]: self._command(group, folder, paths[group[0]]) for group in batch})
        collect = {
            name: self._shell(
                scripts.COLLECT,
                FOLDER=folder,
                JSON=paths[group[0]],
                MARK=mark,
                NODE=self._nodes[name].hostname,
            )
            for group in batch
            for name in group
        }
        written = {
            name: str(agent_answer.of_task("command", answer).get("stdout", "")).split(mark)
            for name, answer in self._fleet.ask(collect).items()
        }
        for group in batch:
            answer = agent_answer.of_task("command", ran[group[0]])
            parts = {name: written[name] for name in group if len(written[name]) > 1}
            self._ran.append({
                "number": len(self._ran) + 1,
                "nodes": [*group],
                "path": paths[group[0]],
                **{name: answer.get(name, "") for name in ("stdout", "stderr", "msg")},
                "rc": answer.get("rc"),
                "cmd": answer.get("cmd", []),
                "json": next((text.strip() for _log, text, *_ in parts.values() if text.strip()), None),
                "logs": {name: log for name, (log, *_) in parts.items()},
            })  # fmt: skip

    def _command(self, group: Sequence[str], folder: str, path: str) -> Call:
        given, first = self._given, self._first
        log = f"{folder}/nccl.%h.%p.log"
        # The bus bandwidth of a tree of a small group exceeds the rates of its rails, and 60 % of it would
        # look good. In a ring the rails are the limit. A first run that has to show SHARP is left its choice.
        rings = len(group) in _SMALL and not (given["nccl_sharp"] and not self._ran)
        environment = {
            **({"NCCL_ALGO": "RING"} if rings else {}),
            **{str(name): str(value) for name, value in self._own[group[0]]["nccl_environment"].items()},
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,TUNING",
            "NCCL_DEBUG_FILE": log,
            "NCCL_IGNORE_NET_MISMATCH": "0",
        }
        seconds = given["nccl_timeout"]
        argv = [
            *("env", f"NCCL_DEBUG_FILE={log}", "timeout", "--kill-after=10", str(seconds)),
            *launcher.words(self._launcher, self._places(group), self._first.gpus or 0, environment),
            *given["nccl_launcher_arguments"],
            *(first.program, "-b", str(self._about.sizes[0]), "-e", str(self._most), "-f", "2"),
            # One process for each GPU, and without MPI one for all of a node.
            *("-g", str(first.gpus) if self._launcher == "ssh" else "1", "-w", "5", "-n", "20", "-c", "1"),
            *(("-J", path) if "--output_file" in first.options else ()),
            *(("-I", "1") if self._times and "--per_iter_timing" in first.options and not self._ran else ()),
        ]
        keywords = {"environment": environment}
        return Call("ansible.builtin.command", {"argv": argv}, seconds + _PATIENCE, keywords)

    @property
    def _most(self) -> int:
        most: int = human_to_bytes(self._given["nccl_most_size"])
        return most

    def _places(self, group: Sequence[str]) -> list[Place]:
        own = self._own
        return [
            Place(own[name]["nccl_address"] or own[name]["ansible_host"] or name, self._nodes[name].hostname)
            for name in group
        ]

    # -- after -----------------------------------------------------------------------------------------

    def _judged(self) -> Judged:
        try:
            return judge.judge(self._nodes, self._ran, self._about, self._past)
        except (KeyError, TypeError, ValueError) as error:
            raise MeasureError(f"nccl: {error}") from error

    def report(self) -> Report:
        whole = document.result(self._judged(), {
            "id": self.name,
            "started": dt.datetime.fromtimestamp(self._begin, dt.timezone.utc).isoformat(),
            "ended": dt.datetime.now(dt.timezone.utc).isoformat(),
            "program": self._first.program,
        })  # fmt: skip
        failed = document.fails(whole, self._fail_on)
        lines = document.lines(whole)
        return Report(json.dumps(whole, indent=1), lines, not failed, unbalanced=self._unbalanced)


def _program(own: Mapping[str, Any]) -> str:
    built = f"{own['nccl_source']}/build/all_reduce_perf" if own["nccl_source"] else ""
    return own["nccl_program"] or built
