# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode call`: the answer to an action of a controller, which asks with JSON on the standard input."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any, Callable, Mapping, Sequence

from ..engine import boot_service, confirm, confirm_store, lock
from ..engine.engine import NOTHING, First, Outcome
from ..engine.lock import UNHEARD, Note, locked
from ..engine.steps import Step
from ..host.host import Host
from ..model import strict_json
from ..model.errors import MlnodeError, StoreError, printable
from ..model.record import asdict
from ..model.schema import refuse_unknown
from ..model.setting import Layer, Status
from ..topology import hardware
from . import (
    counted_drift,
    declare,
    drift,
    inspections,
    install,
    lease,
    mounts,
    own_archive,
    registry,
    rows,
    waivers,
)
from .registry import KINDS
from .waivers import Waiver

#: Before each line for a controller, which may see a greeting as well
MARK = "mlnode: "

#: Before anything is done: a controller that sees it and no answer knows that this run ended in the middle
BEGUN = f"{MARK}begun"

#: More fills the packets of no interface better: the largest MTU is 65520 (IPoIB in connected mode)
_MOST_PADDING = 1 << 20

#: Longer than any first line that a kernel takes, in bytes (BINPRM_BUF_SIZE, include/uapi/linux/binfmts.h)
_FIRST_LINE = 256


def _quiet() -> None:
    """Do nothing before the work."""


def answer(host: Host, question: bytes | str, begin: Callable[[], None] = _quiet) -> dict[str, Any]:
    """The answer of this node. begin: called before any work for it.

    question: JSON with `call` (a name in CALLS), its `options`, and the `size` and `sha256` of the expected
    sources of the agent. If the agent has other sources, the answer is `other`, and nothing is done. Raises
    MlnodeError if the text is not a question.
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
        begin()
        return {"answer": lease.under(host, options, lambda: CALLS[call](host, options))}
    except (StoreError, ValueError) as error:
        raise MlnodeError(f"not a question of a controller: {error}") from error


def unheard(host: Host, question: bytes, reply: Mapping[str, Any]) -> None:
    """The connection was lost: keep the reply for the next run to report. Raises MlnodeError."""
    asked = strict_json.loads(question, "the text")
    options, answer = asked["options"], reply.get("answer", {})
    error = str(answer.get("msg", "")) if answer.get("failed") else ""
    if asked["call"] == "declare" and (answer.get("changed") or error) and not options["check"]:
        with locked(host):
            lock.add_note(host, Note.of_this_process(options["name"], UNHEARD, error))


def _digest(size: int) -> str:
    """Digest of the first `size` bytes of this agent's sources; empty if this process is not the agent."""
    content = own_archive.content()
    begin = content.find(b"\n", 0, _FIRST_LINE) + 1
    return hashlib.sha256(content[begin : begin + size]).hexdigest() if content else ""


def _declare(host: Host, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options: as in the module declare, `check`, and `install` of the agent. Raises ValueError
    for others."""
    kinds = {
        **dict.fromkeys(("name", "on_unsupported", "fabric_type", "fail_at", "interpreter"), str),
        **dict.fromkeys(("layers", "selected", "ignore"), list),
        **dict.fromkeys(("leave", "check", "risky", "diff", "install"), bool),
        **dict.fromkeys(("areas", "profile"), dict),
        "confirm_seconds": int,
    }
    given = dict(zip(kinds, strict_json.typed(options, kinds)))
    for item in given["ignore"]:
        strict_json.typed(item, waivers.FIELDS)
    name, areas, selected = given["name"], given["areas"], given["selected"]
    layers = tuple(layer for layer in Layer if layer.value in given["layers"])
    live = Layer.RUNTIME in layers
    order = declare.Order(
        name,
        KINDS,
        {area: spec for area, spec in areas.items() if area in selected},
        tuple(area for area in KINDS if area in selected),
        layers=layers,
        on_unsupported=given["on_unsupported"],
        whole=True,
        leave=given["leave"],
        check=given["check"],
        confirm_seconds=given["confirm_seconds"],
        risky=given["risky"] or not given["confirm_seconds"],
        diff=given["diff"],
        after=_keep,
        profile=given["profile"],
        first=(
            _agent(host, given["interpreter"], live, given["diff"] or not given["check"])
            if given["install"]
            else NOTHING
        ),
    )
    try:
        exceptions = waivers.parse(given["ignore"])
        refuse_unknown("declaration", areas, tuple(KINDS))
        if live:
            _require_rdma(host, given["fabric_type"])
    except MlnodeError as error:
        return {"changed": False, "failed": True, "msg": f"{name}: {error}"}
    if not order.check:
        # The run may have to wait for another that installs an agent; a late import would then load the new
        # code.
        registry.imported()
        mounts.imported()
        from . import node as _whole  # noqa: F401  # pylint: disable=unused-import
    result = declare.run(host, order)
    settings = [
        item
        for area in result.areas.values()
        for item in area.get("settings", [])
        if item["status"] not in (Status.PENDING_REBOOT, Status.REFUSED)
    ]
    # Drop-ins of others for our units are there on purpose: they are reported, but not removed.
    if given["install"]:
        result.warnings += [printable(problem) for problem in _beside_agent(host, live)]
    judged = counted_drift.judge(settings, exceptions, given["fail_at"])
    missing = [*judged.failures]
    if given["install"] and live:
        missing += _idle(host, exceptions, given["fail_at"])
    # An image build does not report drift that only the booted machine can have.
    runs = given["install"] and live and not (order.check or result.failed)
    answer = {**asdict(result), "settings": _agent_settings(host) if runs else []}
    return {**answer, "not_in_force": [] if order.check else missing}


def _agent_settings(host: Host) -> list[dict[str, Any]]:
    """Rows about the agent, in addition to the rows of areas: `mlnode status` and node_drift count them as
    well."""
    from ..engine import declared
    from . import node

    try:
        declarations = declared.load_all(host, [])
    except MlnodeError:  # the run could not have written; `mlnode status` reports it
        return []
    return [item.row.document() for item in node.agent_rows(host, declarations)]


def _keep(host: Host, outcomes: Sequence[Outcome]) -> str:
    # Imported here, because most runs change nothing.
    from . import history

    return history.record(host, outcomes)


def _agent(host: Host, interpreter: str, live: bool, used: bool) -> First:
    def check(steps: Sequence[Step]) -> None:
        install.require_folders(host)
        install.try_out(host, steps)

    return First(lambda: install.plan(host, interpreter, live, used), check, live)


def _idle(host: Host, exceptions: Sequence[Waiver], fail_at: str) -> Sequence[str]:
    """Lines about units that this run could not start: a failure at any severity, unless none is."""
    try:
        documents = [row.document() for row in rows.idle(host)]
    except MlnodeError as error:
        return [str(error)]
    return counted_drift.judge(
        documents, exceptions, "low" if counted_drift.severe(fail_at) else fail_at
    ).failures


def _beside_agent(host: Host, live: bool) -> Sequence[str]:
    try:
        return boot_service.left(host, live)
    except MlnodeError as error:
        return [str(error)]


#: fabric_type → accepted link layers of RDMA ports; this node needs one of them
_LINK_LAYERS = {"auto": ("Ethernet", "InfiniBand"), "roce": ("Ethernet",), "infiniband": ("InfiniBand",)}


def _require_rdma(host: Host, wanted: str) -> None:
    """Raises MlnodeError before any change if the node has no such RDMA port."""
    if not wanted:
        return
    if wanted not in _LINK_LAYERS:
        raise MlnodeError(f"fabric_type: expected {', '.join(_LINK_LAYERS)}, got {wanted!r}")
    devices = hardware.topology(host).rdma
    if not devices:
        raise MlnodeError(
            "this node has no RDMA device, and nothing was changed. A NIC without one may lack its driver "
            "(lspci -k, dmesg), or its RDMA driver (mlx5_ib, bnxt_re, irdma, efa). Load the driver, or take "
            "the node out of the group fabric"
        )
    # Software devices are not rails, and count only if no others exist.
    rails = [device for device in devices if device.rail is not None] or [*devices]
    link_layers = sorted({port.link_layer for device in rails for port in device.ports if port.link_layer})
    if not {*link_layers} & {*_LINK_LAYERS[wanted]}:
        has = " and ".join(link_layers) or "no link layer that has a name"
        raise MlnodeError(
            f"fabric_type is {wanted}, and this node has RDMA ports of {has} only; nothing was changed. Take "
            "the node out of the group fabric, or give it another fabric_type"
        )


def _confirm(host: Host, options: Mapping[str, Any]) -> dict[str, Any]:
    """The pending change, and an undone change that was not reported yet. Options: `id` of a change to keep,
    or an empty one, and `padding`, the number of bytes of random text in the answer. Raises ValueError for
    others."""
    change_id, padding = strict_json.typed(options, {"id": str, "padding": int})
    if not 0 <= padding <= _MOST_PADDING:
        raise ValueError(f"padding is {padding}, and not between 0 and {_MOST_PADDING}")
    try:
        if change_id:
            confirm.confirm(host, change_id)
        pending, undone = confirm_store.load_pending(host), confirm_store.load_undone(host)
    except MlnodeError as error:
        return {"failed": True, "msg": printable(f"confirm: {error}")}
    return {
        "pending": {"id": pending.id, "words": pending.words, "left": pending.left} if pending else {},
        "undone": {"id": undone.id, "text": undone.text, "stuck": [*undone.stuck]} if undone else {},
        # Random, as ssh compresses, and as text, as the answer is JSON.
        "padding": base64.b64encode(os.urandom(padding)).decode("ascii")[:padding],
    }


def _look(host: Host, options: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a module that looks at the node. Options: its name, its arguments as `given`, and `check`
    for a run in check mode. Raises ValueError for others."""
    module, given, check = strict_json.typed(options, {"module": str, "given": dict, "check": bool})
    return inspections.answer(host, module, given, check)


def _install(host: Host, options: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the module agent. Options: its own, `check` and `diff`. Raises ValueError for others."""
    from . import whole_node

    kinds = {"interpreter": str, "reload": bool, "check": bool, "diff": bool}
    interpreter, reload, check, diff = strict_json.typed(options, kinds)
    return whole_node.installed(host, interpreter, reload, check, diff)


def _revert(host: Host, options: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the module node_revert. Options: its own, `check` and `diff`. Raises ValueError for
    others."""
    from . import whole_node

    without, check, diff = strict_json.typed(options, {"without_origin": bool, "check": bool, "diff": bool})
    # The agent removes itself, so a late import would fail.
    registry.imported()
    mounts.imported()
    return whole_node.put_back(host, without, check, diff)


#: Call of a controller → function that answers it
CALLS: Mapping[str, Callable[[Host, Mapping[str, Any]], dict[str, Any]]] = {
    "confirm": _confirm,
    "declare": _declare,
    "drift": drift.answer,
    "install": _install,
    "look": _look,
    "revert": _revert,
}
