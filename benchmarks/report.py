# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures as a table for people, and how they stand to the goals."""

from __future__ import annotations

import os
import pathlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import jobs, page
from .commands import EVENT
from .fleet import BARE

Results = Mapping[str, Any]

#: Up to which number of nodes the start of Ansible is much of a play
_FEW = 4


@dataclass(frozen=True)
class Goal:
    """found, most: the measured value and its upper limit. what: its description."""

    what: str
    found: float
    most: float

    @property
    def met(self) -> bool:
        return self.found <= self.most


def machine() -> dict[str, Any]:
    """The machine on which the figures were taken."""
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def goals(results: Results) -> list[Goal]:
    """All of them, met or not."""
    found = []
    per_node = {}
    for count, figures in results.get("plays", {}).items():
        found += _of_plays(int(count), figures)
        per_node[int(count)] = (figures["drift"]["cpu"] + figures["drift"]["node_cpu"]) / int(count)
    if len(per_node) > 1:
        # Ansible itself starts once, so the smallest fleet pays most for it per node.
        grows = per_node[max(per_node)] / per_node[min(per_node)]
        found.append(Goal("CPU of drift.yml per node, most nodes to fewest", grows, 1.0))
    commands = results.get("commands", {})
    if commands:
        check, verify = commands["mlnode check"]["wall"], commands["tuned-adm verify"]["wall"]
        found.append(Goal("mlnode check to tuned-adm verify", check / verify, 1.0))
        metrics = commands["mlnode metrics --print"]
        found += [
            Goal("mlnode metrics, ms", metrics["wall"] * 1000, 150),
            # Every 15 minutes; 0.02 % of one CPU
            Goal("mlnode metrics, CPU s a day", metrics["cpu"] * 96, 86400 * 0.0002),
        ]
        # Job daemons wait for it. In starts of Python, as a node may be emulated, or have slow CPUs.
        python, boot = commands["python3 -c pass"]["cpu"], commands["mlnode-apply.service"]["cpu"]
        by_hand = commands["mlnode apply"]["cpu"]
        found += [
            Goal("CPU of the boot service to python3 -c pass, nothing to change", boot / python, 15),
            Goal("CPU of the boot service to mlnode apply by hand", boot / by_hand, 1.5),
            Goal(f"{EVENT}, s", commands[EVENT]["wall"], 5),
        ]
    if "jobs" in results:
        found += _of_jobs(results["jobs"])
    growth = results.get("growth", {})
    if growth:
        small, large = (growth[scale] for scale in (min(growth, key=int), max(growth, key=int)))
        times = int(max(growth, key=int)) / int(min(growth, key=int))
        # A tenth more than linear is noise.
        found += [
            Goal(f"{name}, {times:g} times the machine", large[name] / small[name], 1.1 * times)
            for name in small
        ]
    if "page" in results:
        what = f"page of {page.HOSTS} hosts until it is drawn, s"
        found.append(Goal(what, results["page"]["opened"], 0.7))
    if "campaigns" in results:
        found += _of_campaigns(results["campaigns"])
    if "shaped" in results:
        wrong = sum(not one["exact"] for one in results["shaped"])
        found.append(Goal("shaped campaigns that name another node or path, or miss one", wrong, 0))
    return [*found, *_of_fleet(results.get("fleet", {}))]


def _of_jobs(figures: Mapping[str, Any]) -> list[Goal]:
    """A look at all jobs is a part of monitoring, so it must cost no job a core for a second."""
    fewest, most = (figures[scale] for scale in (min(figures, key=int), max(figures, key=int)))
    beside = 1000 * (fewest[jobs.JOB]["wall"] - fewest[jobs.CHECK]["wall"])
    return [
        Goal("mlnode job on one job, ms more than mlnode check", beside, 20),
        Goal(f"mlnode job on {jobs.MANY}, s", most[jobs.JOB]["wall"], 0.6),
        Goal(f"mlnode job on {jobs.MANY}, MiB", most[jobs.JOB]["peak"], 40),
    ]


def _of_campaigns(found: Mapping[str, Any]) -> list[Goal]:
    plays = found["plays"]
    campaign = plays["campaign"]
    nodes = f"{found['nodes']} nodes"
    # Beside its rounds: Ansible reaches all nodes before, and collects and judges after.
    most = campaign["planned"] + 2 * campaign["rounds"] + 10
    goals = [
        Goal(f"preflight to a ping play, {nodes}", plays["preflight"]["wall"] / plays["ping"]["wall"], 2),
        Goal(f"jobs to a ping play, {nodes}", plays["jobs"]["wall"] / plays["ping"]["wall"], 1.3),
        Goal(f"campaign of {campaign['rounds']} rounds, {nodes}, s", campaign["wall"], most),
    ]
    for rails, figures in found.get("results", {}).items():
        what = f"results of {found['many']} nodes, {rails} rails, MiB"
        # The worst of the values
        goals.append(Goal(what, max(one["peak"] for one in figures.values()), 300))
    return goals


def _of_fleet(fleet: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[Goal]:
    """A node costs the same in every fleet, within ten percent, the difference between two runs of one play.
    A ping measures Ansible itself, and has no goal."""
    if len(fleet) < 2:
        return []
    few, many = (sorted(fleet, key=int)[place] for place in (0, -1))
    costs = {name: [fleet[count][name]["cpu"] / int(count) for count in (few, many)] for name in fleet[few]}
    costs.pop("ping", None)
    memory = max(figures["memory"] for figures in fleet[many].values())
    return [
        *(
            Goal(f"{name}, controller CPU per node, {many} nodes to {few}", large / small, 1.1)
            for name, (small, large) in costs.items()
        ),
        Goal(f"memory of the controller, {many} nodes, MiB", memory, 1536),
    ]


def _of_plays(count: int, figures: Mapping[str, Mapping[str, float]]) -> list[Goal]:
    """Goals of plays. A play without changes may cost a call or two, like a ping, and little more."""
    if count == 1:
        return [Goal("site.yml without a change, one node, s", figures["site"]["wall"], 3.0)]
    floor = figures["ping"]["wall"]
    nodes = f"{count} nodes"
    found = [Goal(f"drift.yml to a ping play, {nodes}", figures["drift"]["wall"] / floor, 1.3)]
    most = 2.0 if count <= _FEW else 2.5
    check = figures["site --check"]
    return [
        *found,
        Goal(f"site --check to a ping play, {nodes}", check["wall"] / floor, most),
        Goal(f"site to a ping play, {nodes}", figures["site"]["wall"] / floor, most),
        Goal(f"site --check, controller CPU s/node, {nodes}", check["cpu"] / count, 0.3),
        Goal(f"site --check, node CPU s, {nodes}", check["node_cpu"] / count, 0.5),
        Goal(f"site --check, sent KiB/node, {nodes}", check["received"] / 1024 / count, 32),
        Goal(f"{BARE} to a ping play, {nodes}", figures[BARE]["wall"] / floor, 2.2),
        Goal(f"{BARE}, sent KiB/node, {nodes}", figures[BARE]["received"] / 1024 / count, 450),
    ]


def markdown(results: Results) -> str:
    """All of it, as docs/guide/benchmarks.md and a terminal show it."""
    on = results["machine"]
    taken = (
        f"{results['date']}, {on['cpus']} × {on['cpu']}, {on['memory_gib']} GiB, Linux {on['kernel']}, "
        f"ansible-core {results['ansible_core']}, Python {on['python']}; "
        f"medians of {results['rounds']} rounds.\n"
    )
    parts = [taken]
    for count, figures in results.get("plays", {}).items():
        parts.append(f"**{count} nodes**\n\n{_plays(int(count), figures)}")
    if "others" in results:
        rows = [
            (name, one if isinstance(one, str) else f"{one['wall']:.2f} s")
            for name, one in results["others"].items()
        ]
        parts.append(
            f"**drift.yml run otherwise, {results['others_nodes']} nodes**\n\n{_table(('how', 'wall'), rows)}"
        )
    if "commands" in results:
        python = results["commands"]["python3 -c pass"]
        rows = [
            (
                name,
                f"{one['wall'] * 1000:.0f}",
                f"{one['wall'] / python['wall']:.1f}",
                f"{one['cpu'] * 1000:.0f}",
                f"{one['cpu'] / python['cpu']:.1f}",
                f"{one['peak']:.0f}" if one["peak"] else "-",
            )
            for name, one in results["commands"].items()
        ]
        head = ("command", "wall ms", "to python3", "CPU ms", "to python3", "peak MiB")
        parts.append(f"**On a node**\n\n{_table(head, rows)}")
    if "jobs" in results:
        rows = [
            (name, namespaces, f"{one['wall']:.2f}", f"{one['cpu']:.2f}", f"{one['peak']:.0f}")
            for namespaces, figures in results["jobs"].items()
            for name, one in figures.items()
        ]
        head = ("command", "namespaces", "wall s", "CPU s", "peak MiB")
        parts.append(f"**Jobs; the greater number is {jobs.MANY}**\n\n{_table(head, rows)}")
    if "growth" in results:
        scales = sorted(results["growth"], key=int)
        rows = [
            (name, *(f"{results['growth'][scale][name]:.3f}" for scale in scales))
            for name in results["growth"][scales[0]]
        ]
        head = ("CPU s", *(f"{256 * int(scale)} CPUs" for scale in scales))
        parts.append(f"**A large node**\n\n{_table(head, rows)}")
    if "page" in results:
        one = results["page"]
        times = (f"{one[name]:.2f}" for name in ("made", "opened", "searched"))
        row = (str(page.HOSTS), f"{one['bytes'] / 2**20:.2f}", *times)
        head = ("hosts", "MiB", "s until it is made", "drawn", "searched")
        parts.append(f"**The page of the fleet report**\n\n{_table(head, [row])}")
    if "effects" in results:
        rows = [_effect(one) for one in results["effects"]]
        head = ("figure", "A", "mean", "B", "mean", "effect of B", "load")
        parts.append(f"**Effects, {results['rounds']} blocks of A B B A or B A A B**\n\n{_table(head, rows)}")
    if "campaigns" in results:
        parts += _campaigns(results["campaigns"])
    if "fleet" in results:
        rows = [
            (
                name,
                count,
                f"{one['wall']:.0f}",
                f"{one['cpu']:.1f}",
                f"{one['cpu'] / int(count) * 1000:.0f}",
                f"{one['peak']:.0f}",
                f"{one['memory']:.0f}",
            )
            for count, figures in results["fleet"].items()
            for name, one in figures.items()
        ]
        head = ("play", "nodes", "wall s", "CPU s", "CPU ms/node", "largest process MiB", "all processes MiB")
        parts.append(f"**A simulated fleet**\n\n{_table(head, rows)}")
    rows = [
        (one.what, f"{one.found:.2f}", f"{one.most:g}", "yes" if one.met else "**no**")
        for one in goals(results)
    ]
    if rows:
        parts.append(f"**Goals**\n\n{_table(('goal', 'found', 'at most', 'met'), rows)}")
    return "\n".join(parts)


def _effect(one: Mapping[str, Any]) -> tuple[str, ...]:
    less = ", less is better" if one["better"] == "less" else ""
    return (
        f"{one['what']} ({one['unit']}{less})",
        one["before"],
        f"{one['mean_before']:.4g}",
        one["after"],
        f"{one['mean_after']:.4g}",
        one["words"],
        f"{one['load']:.1f}",
    )


def _campaigns(found: Mapping[str, Any]) -> list[str]:
    campaign = found["plays"]["campaign"]
    pairs = f"{campaign['pairs_measured']} of {campaign['pairs']} pairs have a result"
    table = _plays(found["nodes"], found["plays"])
    said = f"{pairs}; the rounds take {campaign['planned']:g} s."
    parts = [f"**Measuring {found['nodes']} nodes**\n\n{table}\n{said}\n"]
    rows = [
        (name, rails, f"{one['wall']:.0f}", f"{one['cpu']:.1f}", f"{one['peak']:.0f}", _mib(one))
        for rails, figures in found.get("results", {}).items()
        for name, one in figures.items()
    ]
    if rows:
        head = ("results", "rails", "wall s", "CPU s", "largest process MiB", "all processes MiB")
        parts.append(f"**Results of {found['many']} nodes**\n\n{_table(head, rows)}")
    return parts


def _mib(one: Mapping[str, float]) -> str:
    return f"{one['memory']:.0f}" if "memory" in one else "-"


def _plays(count: int, figures: Mapping[str, Mapping[str, float]]) -> str:
    head = ("play", "wall s", "to ping", "controller CPU s/node", "node CPU s", "sent KiB/node", "peak MiB")
    rows = [_play(name, one, count, figures["ping"]["wall"]) for name, one in figures.items()]
    return _table(head, rows)


def _play(name: str, one: Mapping[str, float], count: int, floor: float) -> tuple[str, ...]:
    return (
        name,
        f"{one['wall']:.2f}",
        f"{one['wall'] / floor:.2f}",
        f"{one['cpu'] / count:.2f}",
        f"{one['node_cpu'] / count:.2f}",
        f"{one['received'] / 1024 / count:.0f}",
        f"{one['peak']:.0f}",
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
