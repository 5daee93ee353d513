# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes by their own description: GPUs and rails from the topology, and the output of a probe."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.model import strict_json
from ...module_utils._mlnode.model.errors import printable
from .. import agent_answer
from ..campaign import limits
from ..campaign.model import Link

#: Port's own words, such as 400 Gb/sec (4X NDR), and a link's, such as 32.0 GT/s PCIe
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")

#: Vendors of GPUs that NCCL or RCCL uses
_VENDORS = ("NVIDIA", "AMD")


class Rail(NamedTuple):
    """gbits: rate of the port, or of the narrowest PCIe link above it; None if unknown."""

    device: str
    gbits: float | None
    active: bool = True


class Node(NamedTuple):
    """hostname: as in the output of nccl-tests, NCCL and Slurm. gpus: None if unknown. problem: why the node
    cannot take part; empty if it can. nvlink: Gb/s of a GPU in one direction, if given."""

    name: str
    hostname: str = ""
    gpus: int | None = None
    rails: tuple[Rail, ...] = ()
    program: str = ""
    options: tuple[str, ...] = ()
    kernel: str = ""
    driver: str = ""
    declarations: Mapping[str, str] = {}
    problem: str = ""
    nvlink: float | None = None


def fleet(raw: Mapping[str, Mapping[str, Any]]) -> dict[str, Node]:
    """All nodes. A node has a problem if its program, options or number of GPUs differ from the first node
    without a problem: the runs of a group have one command. Raises ValueError."""
    nodes = {name: node(name, own) for name, own in raw.items()}
    first = next((candidate for candidate in nodes.values() if not candidate.problem), Node(""))
    owners: dict[str, str] = {}
    for name, own in nodes.items():
        same = owners.setdefault(own.hostname, name)
        for value, known, what in (
            (own.program, first.program, "all_reduce_perf is at"),
            (own.gpus, first.gpus, "its GPUs are"),
            (own.options, first.options, "its options of nccl-tests are"),
        ):
            if not nodes[name].problem and value != known:
                nodes[name] = own._replace(
                    problem=f"{what} {_text(value)}, and {_text(known)} on {first.name}"
                )
        if not nodes[name].problem and same != name:
            nodes[name] = own._replace(
                problem=f"{same} has the same hostname, {own.hostname}: is it one machine?"
            )
    return nodes


def _text(value: Any) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


def node(name: str, raw: Mapping[str, Any]) -> Node:
    """raw: `probe` and `topology`, results of tasks; `rails_gbits`, `gpus` and `hostname` are given for the
    node and take precedence. Raises ValueError if one of these is wrong."""
    probe = agent_answer.of_task("command", raw.get("probe"))
    topology = agent_answer.of_task("look", raw.get("topology"))
    said = _probe(str(probe.get("stdout") or ""))
    given = [Rail("given", _rate(name, "nccl_rails_gbits", gbits)) for gbits in raw.get("rails_gbits") or ()]
    nvlink = raw.get("nvlink_gbits")
    known = topology.get("topology") or {}
    candidate = Node(
        name=name,
        hostname=str(raw.get("hostname") or said.get("hostname", "").partition(".")[0]),
        gpus=_count(name, raw["gpus"]) if raw.get("gpus") else _gpus(known),
        rails=tuple(given) or _rails(known),
        program=said.get("program", ""),
        options=tuple(said.get("options", "").split()),
        kernel=said.get("kernel", ""),
        driver=said.get("driver", ""),
        declarations=_declarations(said.get("declared", "")),
        nvlink=_rate(name, "nccl_nvlink_gbits", nvlink) if nvlink is not None else None,
    )
    return candidate._replace(problem=_problem(candidate, probe, said, bool(raw.get("busy"))))


def _problem(candidate: Node, probe: Mapping[str, Any], said: Mapping[str, str], busy: bool) -> str:
    if not said:
        return printable(" ".join(str(probe.get("msg") or probe.get("stderr") or "it was not asked").split()))
    if not candidate.program:
        return (
            "all_reduce_perf of nccl-tests or rccl-tests was not found: give nccl_program, or have it "
            "built (nccl_source, nccl-tests only)"
        )
    if not candidate.hostname:
        return "it has no hostname: give nccl_hostname"
    if not candidate.gpus:
        return "it is not known how many GPUs it has: give nccl_gpus"
    # A GPU that cannot be queried may be busy.
    if said.get("processes") != "0" and not busy:
        asked = said.get("processes") or "neither nvidia-smi nor amdgpu says whether any do"
        return f'processes use its GPUs ({asked}); -e \'{{"nccl_allow": ["busy"]}}\' measures all the same'
    return ""


def _probe(stdout: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in stdout.splitlines())
    return {key: printable(value.strip()) for key, _sign, value in pairs if key.isalpha()}


def _declarations(text: str) -> dict[str, str]:
    """Name and first digits of the SHA-256 of each file, as sha256sum prints them, all in one line."""
    words = text.split()
    paths = {
        path.rpartition("/")[2].removesuffix(".json"): digest for digest, path in zip(words[::2], words[1::2])
    }
    return {name: digest[:16] for name, digest in paths.items()}


def _rate(name: str, option: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise ValueError(f"{name}: {strict_json.shown(value)} of {option} is not a rate in Gb/s")
    return float(value)


def _count(name: str, value: Any) -> int:
    if not str(value).isdigit() or int(value) < 1:
        raise ValueError(f"{name}: nccl_gpus is {strict_json.shown(value)}, and not a number from 1 on")
    return int(value)


def _gpus(topology: Mapping[str, Any]) -> int | None:
    return sum(gpu["vendor"] in _VENDORS for gpu in topology.get("gpus") or ()) or None


def _rails(topology: Mapping[str, Any]) -> tuple[Rail, ...]:
    devices = {device["address"]: device for device in topology.get("pci") or ()}
    rails = [rdma for rdma in topology.get("rdma") or () if rdma["rail"] is not None]
    return tuple(_rail(rdma, devices) for rdma in sorted(rails, key=lambda rdma: int(rdma["rail"])))


def _rail(rdma: Mapping[str, Any], devices: Mapping[str, Mapping[str, Any]]) -> Rail:
    own = devices.get(rdma["address"] or "") or {"path": ()}
    links = [(devices.get(address) or {}).get("link") for address in own["path"]]
    carried = [
        limits.carries(Link("", _number(link["speed"]) or 0.0, link["width"])) for link in links if link
    ]
    rates = [_number(port.get("rate")) for port in rdma["ports"]]
    known = [rate for rate in rates if rate]
    active = bool(rdma["ports"]) and all(port.get("state") == "ACTIVE" for port in rdma["ports"])
    gbits = (
        min([sum(known), *(link_rate for link_rate in carried if link_rate)])
        if known and len(known) == len(rates)
        else None
    )
    return Rail(str(rdma["name"]), gbits, active)


def _number(text: Any) -> float | None:
    match = _NUMBER.match(str(text or ""))
    return float(match[0]) if match else None


def carried(rails: Sequence[Rail], gpus: int) -> float | None:
    """Gb/s of a node's rails together. With fewer GPUs than rails, only the slowest rails count, one per GPU.
    None if a rate is unknown."""
    rates = [rail.gbits for rail in rails]
    known = sorted(rate for rate in rates if rate is not None)
    return sum(known[:gpus]) if known and len(known) == len(rates) else None
