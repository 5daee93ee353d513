# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences between a whole node and its declarations, for a controller."""

from __future__ import annotations

from typing import Any, Mapping, Sequence, TypeVar

from ..engine import declared, digests
from ..engine.declared import Declaration
from ..engine.kind import Spec
from ..host.host import Host
from ..model import schema, strict_json
from ..model.errors import DeclarationError, MlnodeError, paragraphs, shortened
from ..model.schema import Checked
from . import counted_drift, declare, node_report, registry, waivers
from .node import survey
from .registry import KINDS

S = TypeVar("S", bound=Spec)

#: As many lines as fit on a screen; the result has all of them
NAMED = 12
#: Settings of one area that the inventory has changed, as many as fit on a line
_KEYS = 4


def _check_options(params: Mapping[str, Any]) -> None:
    """Raises ValueError for options that the module drift would not accept."""
    kinds = {"fail_at": str, "ignore": list, "declarations": dict, "selected": list}
    _fail_at, ignored, declarations, _selected = strict_json.typed({"selected": [], **params}, kinds)
    for item in ignored:
        strict_json.typed(item, waivers.FIELDS)
    for areas in declarations.values():
        if not isinstance(areas, dict):
            raise ValueError("declarations: each must be a dictionary of areas")


def answer(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the module drift; with `failed` and `msg` if it fails.

    params: the module's options `fail_at`, `ignore`, and `declarations`, name → areas; a name without areas
    must not be declared on the node. Optional: `selected` (the areas to check, all if empty), `host` (its
    inventory name) and `instead` (the problem with the installed agent). Raises ValueError for others.
    """
    _check_options(params)
    try:
        result = report(host, params)
    except MlnodeError as error:
        return {"changed": False, "failed": True, "msg": f"drift: {error}"}
    failures = result["failures"]
    if failures:
        lines = [result["verdict"], *shortened(failures, NAMED)]
        result.update(failed=True, msg=paragraphs("\n".join(lines)))
    return result


def report(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """Result of answer() for a node. Raises MlnodeError for wrong options."""
    exceptions = waivers.parse(params["ignore"])
    only = tuple(params.get("selected", ()))
    schema.refuse_others("selected", only, "area", tuple(KINDS))
    inventory = {
        declared.check_name(name): _only(only, _checked(name, areas))
        for name, areas in params["declarations"].items()
    }
    expected = {name: digests.digests(areas) for name, areas in inventory.items()}
    # If the inventory declares nothing, a node without declarations is as expected.
    node = survey(host, may_be_bare=bool(expected) and not any(expected.values()), only=only)
    state = node_report.node(node)
    errors = [*filter(None, [str(params.get("instead", ""))]), *state["errors"]]
    try:
        # A damaged file is in the errors already.
        declarations = declared.load_all(host, [])
    except MlnodeError:
        declarations = []
    there = {item.name: _only(only, _meant(item)) for item in declarations}
    present = {name: digests.digests(kinds) for name, kinds in there.items()}
    errors += digests.differences(
        expected,
        present,
        str(params.get("host", "")),
        lambda name, area: _changed(area, inventory[name][area], there[name][area]),
    )

    judged = counted_drift.judge(state["settings"], exceptions, params["fail_at"])
    ignored = judged.exceptions
    compliant = not errors and not judged.drift
    counts = ", ".join(f"{number} {status}" for status, number in state["summary"].items())
    if ignored:
        counts += f" ({len(ignored)} ignored)"
    if only:
        counts = f"{counts or 'nothing'} in {', '.join(only)}"
    verdict = [f"as declared: {counts}"] if compliant else ["not as declared", counts, *errors]
    return {
        "changed": False,
        "compliant": compliant,
        "verdict": "; ".join(word for word in verdict if word),
        "drift": [*judged.drift],
        "failures": [*judged.failures, *(errors if counted_drift.severe(params["fail_at"]) else ())],
        "ignored": [f"{line}; ignored {ignored[key]}" for key, line in judged.ignored.items()],
        "exceptions": [
            {"key": waiver.key, "reason": waiver.reason, "until": str(waiver.until), "state": became}
            for waiver, became in zip(exceptions, judged.states)
        ],
        "errors": errors,
        "digests": present,
        "summary": state["summary"],
        "unsupported_overrides": declare.overrides(item.row for item in node.rows),
        "settings": [
            {**setting, "ignored": ignored[setting["key"]]} if setting["key"] in ignored else setting
            for setting in state["settings"]
        ],
    }


def _only(areas: Sequence[str], kinds: Mapping[str, S]) -> dict[str, S]:
    """The kinds in these areas; all if no area is given."""
    return {kind: spec for kind, spec in kinds.items() if not areas or kind in areas}


def _changed(area: str, inventory: Checked, there: Spec) -> str:
    """The settings of an area that differ between inventory and node. Empty if only guards or sizes differ,
    or if one of them is from another version."""
    if not isinstance(there, Checked):
        return ""
    try:
        wanted, kept = (
            {setting.key: setting.claim for setting in KINDS[area].parse(given, None)}
            for given in (inventory, there)
        )
    except MlnodeError:
        return ""
    keys = [key for key in {**wanted, **kept} if wanted.get(key) != kept.get(key)]
    lines = [f"{key} {kept.get(key, 'not')} there, {wanted.get(key, 'not')} in the inventory" for key in keys]
    return f" ({', '.join(shortened(lines, _KEYS))})" if lines else ""


def _checked(name: str, areas: Mapping[str, Mapping[str, Any]]) -> dict[str, Checked]:
    """Raises DeclarationError."""
    schema.refuse_unknown(f"declarations.{name}", areas, tuple(KINDS))
    return {area: schema.checked(area, areas[area], registry.options(area)) for area in areas}


def _meant(declaration: Declaration) -> dict[str, Spec]:
    """The declared kinds in the canonical spelling of this version; people or another version may have
    written the file. A refused kind stays as written, and survey() reports it."""
    spelled = dict(declaration.kinds)
    for kind in (kind for kind in spelled if kind in KINDS):
        try:
            spelled[kind] = declaration.checked_spec(kind, registry.options(kind))
        except DeclarationError:
            continue
    return spelled
