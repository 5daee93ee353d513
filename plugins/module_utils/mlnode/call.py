# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode call`: the answer to an action of a controller, which asks with JSON on the standard input."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import Any, Callable, Mapping, Sequence

from . import agent, boot_service, declare, drift, missed, own_archive, strict_json, waivers
from .engine import First
from .errors import MlnodeError, StoreError
from .host import Host
from .options import refuse_unknown
from .printable import printable
from .registry import KINDS
from .setting import Layer
from .status import Status
from .topology import read as topology
from .transaction import Step

#: Before the answer to a controller, which may see a greeting as well
MARK = "mlnode: "

#: Longer than any first line that a kernel takes, in bytes (BINPRM_BUF_SIZE, include/uapi/linux/binfmts.h)
_FIRST_LINE = 256


def answer(host: Host, question: bytes | str) -> dict[str, Any]:
    """The answer of this node.

    question: JSON, `call` (a name in CALLS), its `options`, and the `size` and `sha256` of the sources that
    the agent should be made of. Where it is made of others, the answer is `other`, and nothing has been done.
    Raises MlnodeError for what is no question.
    """
    kinds = {"size": int, "sha256": str, "call": str, "options": dict}
    try:
        size, sha256, call, options = strict_json.typed(strict_json.loads(question, "the text"), kinds)
        if size < 0:
            raise ValueError(f"size is {size}")
        if _digest(size) != sha256:  # a controller of another version may ask for more, in another form
            return {"other": True}
        if call not in CALLS:
            raise ValueError(f"call is {call!r}")
        return {"answer": CALLS[call](host, options)}
    except (StoreError, ValueError) as error:
        raise MlnodeError(f"not a question of a controller: {error}") from error


def _digest(size: int) -> str:
    """Of so many bytes of the sources that this agent is made of; empty where this is no agent."""
    content = own_archive.content()
    begin = content.find(b"\n", 0, _FIRST_LINE) + 1
    return hashlib.sha256(content[begin : begin + size]).hexdigest() if content else ""


def _declare(host: Host, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options: those of the module declare, and `check`. Raises ValueError for others."""
    kinds = {
        **dict.fromkeys(("name", "on_unsupported", "fabric_type", "fail_at", "interpreter"), str),
        **dict.fromkeys(("layers", "selected", "ignore"), list),
        **dict.fromkeys(("leave", "check", "risky"), bool),
        "areas": dict,
        "confirm_seconds": int,
    }
    told = dict(zip(kinds, strict_json.typed(options, kinds)))
    name, areas, selected = told["name"], told["areas"], told["selected"]
    layers = tuple(layer for layer in Layer if layer.value in told["layers"])
    live = Layer.RUNTIME in layers
    order = declare.Order(
        name,
        KINDS,
        {area: spec for area, spec in areas.items() if area in selected},
        tuple(area for area in KINDS if area in selected),
        layers=layers,
        on_unsupported=told["on_unsupported"],
        whole=True,
        leave=told["leave"],
        check=told["check"],
        confirm_seconds=told["confirm_seconds"],
        risky=told["risky"] or not told["confirm_seconds"],
        first=_agent(host, told["interpreter"], live),
    )
    try:
        exceptions = waivers.parse(told["ignore"])
        refuse_unknown("declaration", areas, tuple(KINDS))
        if live:
            _require_rdma(host, told["fabric_type"])
    except MlnodeError as error:
        return {"changed": False, "failed": True, "msg": f"{name}: {error}"}
    found = declare.run(host, order)
    settings = [
        item
        for area in found.areas.values()
        for item in area.get("settings", [])
        if item["status"] not in (Status.PENDING_REBOOT, Status.REFUSED)
    ]
    # What others have put beside our units was put there on purpose: it is reported, and left to them.
    found.warnings += [printable(words) for words in _beside_agent(host, live)]
    judged = missed.judge(settings, exceptions, told["fail_at"])
    return {**asdict(found), "not_in_force": [] if order.check else [*judged.failures]}


def _agent(host: Host, interpreter: str, live: bool) -> First:
    def check(steps: Sequence[Step]) -> None:
        agent.require_folders(host)
        agent.try_out(host, steps)

    return First(lambda: agent.plan(host, interpreter, live), check)


def _beside_agent(host: Host, live: bool) -> Sequence[str]:
    try:
        return boot_service.left(host, live)
    except MlnodeError as error:
        return [str(error)]


#: fabric_type → the link layers of RDMA ports of which this node needs one
_LINK_LAYERS = {"auto": ("Ethernet", "InfiniBand"), "roce": ("Ethernet",), "infiniband": ("InfiniBand",)}


def _require_rdma(host: Host, wanted: str) -> None:
    """Raises MlnodeError where the node has no such RDMA port, before anything is changed."""
    if not wanted:
        return
    if wanted not in _LINK_LAYERS:
        raise MlnodeError(f"fabric_type: {wanted!r} is none of {', '.join(_LINK_LAYERS)}")
    devices = topology.of(host).rdma
    if not devices:
        raise MlnodeError(
            "this node has no RDMA device, and nothing was changed. A NIC without one may lack its driver "
            "(lspci -k, dmesg), or its RDMA driver (mlx5_ib, bnxt_re, irdma, efa). Load the driver, or take "
            "the node out of the group fabric"
        )
    # Software devices are no rails, and count where there are no others.
    rails = [device for device in devices if device.rail is not None] or [*devices]
    found = sorted({port.link_layer for device in rails for port in device.ports if port.link_layer})
    if not {*found} & {*_LINK_LAYERS[wanted]}:
        has = " and ".join(found) or "no link layer that has a name"
        raise MlnodeError(
            f"fabric_type is {wanted}, and this node has RDMA ports of {has} only; nothing was changed. Take "
            "the node out of the group fabric, or give it another fabric_type"
        )


#: What a controller may ask for \N{RIGHTWARDS ARROW} its answer
CALLS: Mapping[str, Callable[[Host, Mapping[str, Any]], dict[str, Any]]] = {
    "declare": _declare,
    "drift": drift.answer,
}
