# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Costs of measuring a fleet: a preflight and a look at jobs compared with a ping, a campaign compared with
its planned time, and the memory of a controller with the results of many nodes."""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..plugins.module_utils._mlnode.checks.campaign import tcp
from ..plugins.module_utils._mlnode.checks.campaign.kind import End, Part, Rail
from ..plugins.module_utils._mlnode.linux.iperf3 import Measured
from ..plugins.plugin_utils.campaign import schedule
from . import measure, simulated
from .fleet import PLAYS, ROOT, Fleet, podman
from .measure import BenchError

CAMPAIGN = str(ROOT / "playbooks/campaign.yml")
JOBS = str(ROOT / "playbooks/jobs.yml")
PREFLIGHT = str(ROOT / "playbooks/preflight.yml")

_ROUNDS = 8

#: Mb/s that leave a container: so little that two cores carry it for all of them at once
_MBIT = 40

#: Nodes whose results a controller has, and their rails: one, and eight for eight GPUs
MANY = 1024
RAILS = (1, 8)


def of_nodes(made: Fleet, folder: pathlib.Path, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Play → figures: alternating pings, preflights and looks at a job of all nodes, and one campaign."""
    count = len(made.names)
    found = podman("inspect", "--format={{.NetworkSettings.IPAddress}}", *made.names).split()
    addresses = {name: [one] for name, one in zip(made.names, found)}
    made.variables = {name: {"campaign_addresses": own} for name, own in addresses.items()}
    measured = {
        "ping": functools.partial(made.sample, count, PLAYS["ping"]),
        # A container lacks some settings; their result is unknown, which ends no benchmark.
        "preflight": functools.partial(made.sample, count, (PREFLIGHT, "-e", "preflight_fail_on=fail")),
        "jobs": functools.partial(made.sample, count, (JOBS, "-e", "jobs_fail_on=never")),
    }
    made.sample(count, PLAYS["ping"])  # the first one opens the connections
    # A campaign does not begin while a job runs.
    with _job(made.names):
        figures = measure.document(measure.interleaved(rounds, measured, say))
    plan = schedule.plan(addresses, rounds=_ROUNDS)
    return {**figures, "campaign": {**_campaign(made, folder / "campaigns"), "planned": planned(plan)}}


@contextmanager
def _job(names: Sequence[str]) -> Iterator[None]:
    """A job with a rank on each node, which has a copy of /dev/null (admin-guide/devices.txt) as its GPU."""
    rank = "mknod /dev/nvidia0 c 1 3; exec 9<>/dev/nvidia0; echo $$ >/run/rank.pid; exec sleep 3600"
    for number, name in enumerate(names):
        variables = (f"RANK={number}", f"WORLD_SIZE={len(names)}", "LOCAL_RANK=0")
        given = [f"--env={variable}" for variable in variables]
        podman("exec", "--detach", *given, name, "sh", "-c", rank)
    try:
        yield
    finally:
        for name in names:
            podman("exec", name, "sh", "-c", "kill $(cat /run/rank.pid); rm /dev/nvidia0 /run/rank.pid")


def _campaign(made: Fleet, results: pathlib.Path) -> dict[str, float]:
    for name in made.names:
        shape = f"dev eth0 root tbf rate {_MBIT}mbit burst 32k latency 50ms"
        podman("exec", name, "tc", "qdisc", "replace", *shape.split())
    options = {"campaign_rounds": _ROUNDS, "campaign_second_look": False, "campaign_results": str(results)}
    # On a busy machine a pair may be slow, or have no result; the number of such pairs is part of the result.
    arguments = (CAMPAIGN, f"--extra-vars={json.dumps(options)}")
    sample = made.sample(len(made.names), arguments, fine=(0, 2))
    seen = _document(results)["coverage"]
    pairs = {"pairs": seen["pairs_planned"], "pairs_measured": seen["pairs_measured"]}
    return {**sample.document(), "rounds": _ROUNDS, **pairs}


def planned(plan: Mapping[str, Any]) -> float:
    """Seconds from the first round to the end of the last one."""
    return float(plan["rounds"] * plan["round_seconds"])


def _document(results: pathlib.Path) -> dict[str, Any]:
    [path] = results.glob("*.json")
    content: dict[str, Any] = json.loads(path.read_bytes())
    return {**content, "path": path}


# -- results of many nodes ------------------------------------------------------------------------------


def results(
    folder: pathlib.Path, count: int, programs: pathlib.Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """Number of rails → play or command → figures of one run over this many simulated nodes."""
    found: dict[str, Any] = {}
    for rails in RAILS:
        found[str(rails)] = _results(folder, count, rails, programs)
        peaks = {name: one["peak"] for name, one in found[str(rails)].items()}
        say(f"results of {count} nodes, {rails} rails: {peaks} MiB")
    return found


def _results(folder: pathlib.Path, count: int, rails: int, programs: pathlib.Path) -> dict[str, Any]:
    kept = folder / f"campaigns-{rails}"
    # These nodes answer at once. A round lasts at least a second, whatever its plan.
    options = {
        "campaign_rounds": _ROUNDS,
        "campaign_lead": 0,
        "campaign_duration": 2,
        "campaign_results": str(kept),
    }
    # One is slow, so every campaign needs a second look.
    nodes = inventory(folder, count, rails, slow="gpu00000")
    command = [str(programs / "ansible-playbook"), f"--inventory={nodes}", CAMPAIGN]
    played = simulated.play([*command, f"--extra-vars={json.dumps(options)}"])
    document = _document(kept)
    if document["campaign"]["second_look_rounds"] == 0:
        raise BenchError(f"a campaign with a slow node ends with {document['verdict']} after one look")
    path = document["path"]
    compared = measure.run([str(ROOT / "scripts/mlnode-results"), "compare", str(path), str(path)], {})
    return {
        "campaign.yml": {**played, "bytes": path.stat().st_size},
        "mlnode-results compare": compared.document(),
    }


def inventory(folder: pathlib.Path, count: int, rails: int, slow: str = "") -> pathlib.Path:
    """Path of an inventory with this many simulated nodes. Their answers are in the same folder. All pairs
    with the slow node measure less."""
    addresses = {
        f"gpu{number:05d}": [f"10.{rail}.{number // 250}.{number % 250 + 1}" for rail in range(rails)]
        for number in range(count)
    }
    plan = schedule.plan(addresses, rounds=_ROUNDS)
    for name, slots in plan["slots"].items():
        answer = {
            "kernel": "6.12.0", "declarations": {"node": "0123456789abcdef"}, "rails": [_RAIL] * rails,
            "slots": [
                one
                for slot in slots if not slot["serves"]
                for one in _measured(slot, _SLOW if slow in (name, slot["peer"]) else _STREAM)
            ],
            "served": [],
            "contained": f"mlnode-campaign-{name}.scope",
        }  # fmt: skip
        _write(folder / f"started-{name}.json", {"changed": False, "interfaces": ["eth0"] * rails})
        _write(folder / f"begun-{name}.json", {"changed": False, "ends": 1.0})
        _write(
            folder / f"collected-{name}.json",
            {"changed": False, "done": True, "problem": "", "answer": json.dumps(answer)},
        )
    reach = {
        "ansible_connection": "simulated",
        "simulated_answers": str(folder),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    hosts = {name: {"campaign_addresses": own} for name, own in addresses.items()}
    path = folder / f"measured-{count}-{rails}.json"
    _write(path, {"training": {"hosts": hosts, "vars": reach}})
    return path


_RAIL = {
    "interface": "eth0", "device": "", "speed_mbit": 100_000, "mtu": 9000, "driver": "mlx5_core",
    "firmware": "28.39.1002", "pcie": [{"address": "0000:17:00.0", "gigatransfers": 16.0, "lanes": 16}],
}  # fmt: skip

#: One of four streams that fill a port of 100 Gb/s for four seconds
_STREAM = Measured(bits=98e9, seconds=4.0, rates=(24.5e9,) * 4, cpu=41.3, peer_cpu=52.7, retransmits=12)
_SLOW = _STREAM._replace(bits=49e9, rates=(12.25e9,) * 4)


def _measured(slot: Mapping[str, Any], stream: Measured) -> list[dict[str, Any]]:
    """Its rails, as a node answers them that measures."""
    part = Part("bench", tcp, 0.0, _ROUNDS, 4, 4, 18600, (), ())
    found = []
    for number, (here, there) in enumerate(slot["rails"]):
        client = tcp.flows(part, Rail(here, there, number, End("eth0")), 1)[0].client
        answer = tcp.answer([[stream] * 4] * tcp.STEPS, 64)
        evidence = {"command": " ".join(client), "interface": "eth0", **answer["evidence"]}
        place = {"round": slot["round"], "rail": number, "reason": ""}
        found.append({**place, **answer, "evidence": evidence})
    return found


def _write(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
