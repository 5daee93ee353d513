# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences between the nodes of a fleet: results of rdma_check against what most of them have.

Nodes of one kind have the same devices under the same names. A port is compared with the port of that name on
all other nodes, and a firmware with the firmware of the same board.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..module_utils._mlnode.checks.model import BAD, FAIL_ON, Check, Verdict, summary
from ..module_utils._mlnode.checks.subnet import shape
from ..module_utils._mlnode.model.errors import several, shortened
from .campaign import model

NAME = "fleet"

#: Checks of rdma_check whose values are compared; `rate` has the width with it
COMPARED = (
    "hca_type",
    "board_id",
    "firmware",
    "link_layer",
    "rate",
    "mtu",
    "netdev_mtu",
    "gid",
    "gpus",
    "gpu_versions",
)

#: Names in a sentence that differ from the field's name
_WORDS = {
    "gid": "GID index",
    "mtu": "RDMA MTU",
    "netdev_mtu": "interface's MTU",
    "gpus": "number of GPUs",
    "gpu_versions": "GPU versions",
}

_ADVICE = {
    "": "verify that the card is present and has its driver (lspci, rdma link)",
    "hca_type": "replace the card, or compare these nodes in a separate group",
    "board_id": "replace the card, or compare these nodes in a separate group",
    "firmware": "bring all to one firmware",
    "link_layer": "set the card to the other protocol: mlxconfig LINK_TYPE_P1, then a reset of the card",
    "rate": "look at cable, transceiver and the switch port's speed",
    "mtu": "set one MTU on all nodes and switches",
    "netdev_mtu": "set one MTU on all nodes and switches (nic_ethtool)",
    "gpus": "look for the GPU with lspci and in dmesg (Xid 79), and reboot or drain the node",
    "gpu_versions": "bring all to one driver, firmware and partition",
    "gid": "leave the index to the library (no NCCL_IB_GID_INDEX), or give all interfaces the same addresses",
}

#: Check of rdma_check with the port of the switch at the other end
_SWITCH_PORT = "switch_port"

#: Nodes and values that a line names
_NAMED = 4

_WELL = (Verdict.PASS, Verdict.SKIP)


class Place(NamedTuple):
    """Place of a compared value: a check of a device or port, and of one kind of board if given."""

    target: str
    name: str
    board: str = ""


class Value(NamedTuple):
    """text: "" if unknown, and why. strange: more than a plain absence."""

    text: str
    why: str = ""
    strange: bool = False


class Difference(NamedTuple):
    node: str
    target: str
    words: str
    name: str


Values = dict[Place, Value]


def report(
    nodes: Mapping[str, Any] | None, fail_on: str = "unknown", subnet: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Checks of a play over a fleet, as one result. nodes: name → result of rdma_check, or what came
    instead of one; None if nodes were not asked. subnet: the same of ib_subnet by the node it ran on, if it
    ran.

    failures: the lines that make the play fail. warnings: other deviations. notes: facts about the nodes
    together and the subnet that are as expected.
    """
    fleet = [] if nodes is None else compare(nodes)
    own = [check for name, result in (nodes or {}).items() for check in _not_as_expected(name, result)]
    asked = [check for name, result in (subnet or {}).items() for check in _subnet(name, result)]
    checks = [*fleet, *asked, *own]
    return {
        "failures": [str(check) for check in checks if check.verdict in FAIL_ON[fail_on]],
        "warnings": [str(check) for check in checks if check.verdict in {*BAD} - {*FAIL_ON[fail_on]}],
        "notes": [f"{check.target}: {check.found}" for check in (*fleet, *asked) if check.verdict in _WELL],
        "summary": summary(checks),
        "fleet": [check.document() for check in fleet],
    }


#: Fields of a check that are texts, which every check has
_TEXTS = ("name", "target", "expected", "found", "source", "advice")
_NEEDED = frozenset({"name", "target", "verdict", "found"})

# -- what single results say ---------------------------------------------------------------


def _checks(result: Any) -> Sequence[Mapping[str, Any]] | None:
    """Checks of a result. None if the module failed before its checks, or answered something else."""
    checks = result.get("checks") if isinstance(result, Mapping) else None
    if not isinstance(checks, Sequence) or isinstance(checks, str):
        return None
    return checks if all(isinstance(check, Mapping) and _NEEDED.issubset(check) for check in checks) else None


def _missing(name: str, result: Any, look: str = NAME) -> Check:
    answer = result if isinstance(result, Mapping) else {}
    state = "unreachable" if answer.get("unreachable") else "not checked"
    state += f": {answer['msg']}" if answer.get("msg") else ""
    return Check(look, name, Verdict.FAIL, "", state, "", "its state is unknown until it is checked")


def _not_as_expected(name: str, result: Any) -> list[Check]:
    """Checks of rdma_check on one node that did not pass."""
    checks = [_again(name, check) for check in _checks(result) or ()]
    return [check for check in checks if check.verdict in BAD]


def _subnet(name: str, result: Any) -> list[Check]:
    checks = _checks(result)
    if checks is None:
        return [_missing(name, result, "ib_subnet")]
    # A finding about a cable already contains its place.
    whole = f"subnet of {name}"
    return [
        _again("", {**check, "target": whole} if check.get("target") == "subnet" else check)
        for check in checks
    ]


def _again(where: str, check: Mapping[str, Any]) -> Check:
    texts: dict[str, Any] = {key: str(check.get(key, "")) for key in _TEXTS}
    texts["target"] = f"{where} {texts['target']}".strip()
    return Check(verdict=model.verdict(check.get("verdict")), **texts)


# -- comparing -----------------------------------------------------------------------------


def compare(nodes: Mapping[str, Any]) -> list[Check]:
    """Every difference, and every node that was not checked, fails."""
    checked = {name: _checks(result) for name, result in nodes.items()}
    compared = [_missing(name, nodes[name]) for name, checks in checked.items() if checks is None]
    known = {name: _values(checks) for name, checks in checked.items() if checks is not None}
    if len(known) < 2:
        summary = f"{len(known)} checked: there is nothing to compare"
        return [*compared, Check(NAME, "nodes", Verdict.SKIP, "", summary, "rdma_check")]
    having: dict[str, dict[str, None]] = {}
    places: dict[Place, dict[str, Value]] = {}
    for name, values in known.items():
        for place, value in values.items():
            having.setdefault(place.target, {})[name] = None
            places.setdefault(place, {})[name] = value
    differences = [
        difference
        for target, names in having.items()
        for difference in _devices(target, names, having, known)
    ]
    differences += [
        difference for place, values in places.items() for difference in _different(place, values)
    ]
    compared += _merged(differences)
    compared += _leaves(checked)
    if all(place.name.startswith("gpu") for place in places):
        summary = f"none of {len(known)} nodes has an RDMA device that is judged"
        return [*compared, Check(NAME, "nodes", Verdict.SKIP, "", summary, "rdma_check")]
    summary = f"{len(known)} alike in {', '.join(_WORDS.get(name, name) for name in COMPARED)}"
    return compared or [Check(NAME, "nodes", Verdict.PASS, "", summary, "rdma_check")]


def _values(checks: Iterable[Mapping[str, Any]]) -> Values:
    here = [check for check in checks if check.get("name") in COMPARED]
    boards = {str(check["target"]): _value(check).text for check in here if check["name"] == "board_id"}
    values = {}
    for check in here:
        target, name = str(check["target"]), str(check["name"])
        values[Place(target, name, boards.get(target, "") if name == "firmware" else "")] = _value(check)
    return values


def _value(check: Mapping[str, Any]) -> Value:
    verdict, text = check["verdict"], str(check["found"])
    if check.get("value"):
        return Value(str(check["value"]))
    if verdict in (Verdict.UNKNOWN, Verdict.SKIP):
        return Value("", text, verdict == Verdict.UNKNOWN)
    return Value("", f"none is usable: {text}", True) if check["name"] == "gid" else Value(text)


def _leaves(checked: Mapping[str, Sequence[Mapping[str, Any]] | None]) -> list[Check]:
    """Ports that are cabled to the leaf of another rail, by what LLDP reports of the other ends."""
    ends = []
    for node, checks in checked.items():
        for check in checks or ():
            device, port, _number = str(check["target"]).partition("/")
            if port and check["name"] == _SWITCH_PORT and check.get("value"):
                ends.append(shape.End(str(check["value"]), node, device))
    results = shape.rails(ends, "nodes", _SWITCH_PORT) if ends else []
    return [check for check in results if check.verdict is Verdict.WARN]


def _devices(
    target: str,
    having: Mapping[str, None],
    all_of: Mapping[str, Mapping[str, None]],
    known: Mapping[str, Values],
) -> list[Difference]:
    """Differences of one port. Only nodes that have its device count."""
    device = target.partition("/")[0]
    population = known if device == target or device not in all_of else all_of[device]
    lacking = [name for name in population if name not in having]
    if not lacking:
        return []
    total = len(population)
    if len(having) > len(lacking):
        difference = f"not there, where {len(having)} of {total} have it"
        return [Difference(name, target, difference, "") for name in lacking]
    if len(having) < len(lacking):
        difference = f"there, where {len(lacking)} of {total} have no such device"
        return [Difference(name, target, difference, "") for name in having]
    difference = f"on {len(having)} of {total} nodes, which is not a majority: {_some(having)}"
    return [Difference("", target, difference, "")]


def _different(place: Place, values: Mapping[str, Value]) -> list[Difference]:
    word = _WORDS.get(place.name, place.name)
    known = {name: value.text for name, value in values.items() if value.text}
    counts = Counter(known.values()).most_common()
    unknown = {name: value for name, value in values.items() if not value.text and (known or value.strange)}
    if not counts:
        why = next((value.why for value in unknown.values()), "")
        problem = f"{word} is unknown on all {len(values)}: {_some(unknown)}: {why}"
        return [Difference("", place.target, problem, place.name)] if unknown else []
    most, number = counts[0]
    if number * 2 <= len(known):
        return [Difference("", place.target, f"{word} has no majority: {_votes(known)}", place.name)] + [
            Difference(name, place.target, f"{word} is unknown: {value.why}", place.name)
            for name, value in unknown.items()
        ]
    rest = f"where {number} of {len(values)} have {most}"
    return [
        *(
            Difference(name, place.target, f"{word} {text}, {rest}", place.name)
            for name, text in known.items()
            if text != most
        ),
        *(
            Difference(name, place.target, f"{word} is unknown ({value.why}), {rest}", place.name)
            for name, value in unknown.items()
        ),
    ]


def _votes(known: Mapping[str, str]) -> str:
    """Each value with its nodes, the most frequent first."""
    holders: dict[str, list[str]] = {}
    for name, text in known.items():
        holders.setdefault(text, []).append(name)
    ranked = sorted(holders.items(), key=lambda item: -len(item[1]))
    votes = [f"{text} on {len(names)} ({_some(names)})" for text, names in ranked]
    return ", ".join(shortened(votes, _NAMED))


def _some(names: Iterable[str]) -> str:
    return several([*names], _NAMED)


def _merged(differences: Iterable[Difference]) -> list[Check]:
    """One line where several devices of a node differ in the same way."""
    targets: dict[tuple[str, str, str], list[str]] = {}
    for difference in differences:
        targets.setdefault((difference.node, difference.words, difference.name), []).append(difference.target)
    return [
        Check(NAME, f"{node} {', '.join(some)}".strip(), Verdict.FAIL, "", text, "rdma_check", _ADVICE[name])
        for (node, text, name), some in targets.items()
    ]
