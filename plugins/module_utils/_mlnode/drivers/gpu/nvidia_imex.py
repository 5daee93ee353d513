# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""IMEX, by which GPUs of several nodes share memory over NVLink."""

from __future__ import annotations

import json
import re
from typing import Collection, Sequence

from ...host.host import Host
from ...host.system import USUAL_SECONDS
from ...model.check import Check
from ...model.errors import HostError, listed
from ...model.record import NamedTuple, regex, replace
from . import topics

_IMEX = "nvidia-imex-ctl"
_DOMAIN = (_IMEX, "-N", "-j")
_CHANNELS = "/dev/nvidia-caps-imex-channels"
_NO_UUID = regex(r"[0-]*\Z", re.ASCII)
#: Twice the usual: it asks all nodes
_SECONDS = 2 * USUAL_SECONDS

IMEX = replace(
    topics.IMEX,
    reference="NVIDIA, IMEX Service for NVLink Networks",
    advice="look at nvidia-imex-ctl -N and journalctl -u nvidia-imex on the nodes that are not READY",
    source=" ".join(_DOMAIN),
)


def imex(host: Host, uuids: Collection[str], source: str) -> Check:
    """uuids: of the NVLink domains that GPUs here belong to. source: of these. Raises HostError."""
    if all(map(_NO_UUID.match, uuids)):
        return IMEX.skip("no GPU here shares an NVLink domain with other nodes", source=source)
    try:
        domain = _domain(host.must_run(_DOMAIN, "ask", _SECONDS))
        channels = host.names(_CHANNELS) if host.exists(_CHANNELS) else []
    except HostError as error:
        if not error.absent:
            raise
        where = "in the pods of jobs (NVIDIA's DRA driver) or nowhere"
        return IMEX.skip(f"{_IMEX} is not installed: the service runs {where}", source=_IMEX)
    waiting = [f"{name} {state}" for name, state in domain.nodes if state != "READY"]
    waiting += [f"{link} {state}" for link, state in domain.links if state != "CONNECTED"]
    ready = sum(state == "READY" for _name, state in domain.nodes)
    evidence = f"{domain.state}, {ready} of {len(domain.nodes)} nodes READY"
    evidence += f", and not {listed(waiting, topics.NAMED)}" if waiting else ""
    evidence += "" if channels else f"; no channel is in {_CHANNELS}"
    is_up = domain.state == "UP" and not waiting
    no_channel = "create channel 0: NVreg_CreateImexChannel0=1 of the module nvidia"
    advice = no_channel if is_up else IMEX.advice
    good = is_up and bool(channels)
    return IMEX.judged(good, evidence, expected="UP, all nodes READY, and a channel", advice=advice)


class _Domain(NamedTuple):
    """state: UP, DEGRADED or DOWN. nodes: addresses and states of daemons; several may have one address.
    links: addresses and states of connections."""

    state: str
    nodes: Sequence[tuple[str, str]]
    links: Sequence[tuple[str, str]]


def _domain(answer: str) -> _Domain:
    """The domain in the output. Raises HostError."""
    try:
        given = json.loads(answer)
        nodes = [(str(node["host"]), str(node["status"])) for node in given["nodes"].values()]
        links = [
            (f"{node['host']} to {link['host']}", str(link["status"]))
            for node in given["nodes"].values()
            if node["status"] == "READY"
            for link in node.get("connections", {}).values()
        ]
        if nodes:
            return _Domain(str(given["status"]), nodes, links)
        problem = "it lists no node"
    except ValueError as error:
        problem = str(error)
    except (AttributeError, KeyError, TypeError) as error:
        problem = f"it lacks status or nodes ({error})"
    raise HostError("understand", _IMEX, None, f"{problem}: {answer[:60]!r}")
