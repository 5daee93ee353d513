# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a whole node differs in from what it has been declared to be, for somebody who asks from elsewhere."""

from __future__ import annotations

import hashlib
from typing import Any, Mapping

from . import declared, digests, missed, reading, strict_json, waivers
from .errors import MlnodeError, StoreError
from .host import Host
from .node import survey
from .printable import paragraphs
from .render import node

#: As many lines as fit on a screen; the result has all of them
NAMED = 12

#: Before the answer to a controller, which may see a greeting as well
MARK = "mlnode drift: "

#: Longer than any first line that a kernel takes, in bytes (BINPRM_BUF_SIZE, include/uapi/linux/binfmts.h)
_FIRST_LINE = 256


def asked(host: Host, question: bytes | str) -> dict[str, Any]:
    """The answer of `mlnode drift` to a controller.

    question: JSON, `options` for answer(), and the `size` and `sha256` of the sources that the agent should
    be made of. Where it is made of others, the answer is `other`, and nothing has been looked at. Raises
    MlnodeError for what is no question.
    """
    try:
        told = strict_json.loads(question, "the text")
        size, sha256, options = _typed(told, {"size": int, "sha256": str, "options": dict})
        if size < 0:
            raise ValueError(f"size is {size}")
        if _digest(size) != sha256:  # a controller of another version may ask for more, in another form
            return {"other": True}
        _check_options(options)
    except (StoreError, ValueError) as error:
        raise MlnodeError(f"not a question of a controller: {error}") from error
    return {"answer": answer(host, options)}


def _check_options(options: Mapping[str, Any]) -> None:
    """Raises ValueError for what the module node_drift would not have accepted."""
    kinds = {"fail_at": str, "ignore": list, "expected": dict, "errors": list}
    _fail_at, ignored, _expected, errors = _typed(options, kinds)
    for item in ignored:
        _typed(item, {"key": str, "reason": str, "until": str})
    if not all(isinstance(words, str) for words in errors):
        raise ValueError("errors holds what is not a text")


def _typed(found: Any, kinds: Mapping[str, type]) -> list[Any]:
    """The values of these names. Raises ValueError where one is missing or of another type."""
    if not isinstance(found, dict):
        raise ValueError(f"{strict_json.shown(found)} is not a dictionary of {', '.join(kinds)}")
    for name, kind in kinds.items():
        if not strict_json.is_of(found.get(name), kind):
            raise ValueError(f"{name} is {strict_json.shown(found.get(name))}, which is not {kind.__name__}")
    return [found[name] for name in kinds]


def _digest(size: int) -> str:
    """Of so many bytes of the sources that this agent is made of; empty where this is no agent."""
    archive = getattr(globals().get("__loader__"), "archive", None)
    if archive is None:
        return ""
    content = reading.contents(archive, archive)
    begin = content.find(b"\n", 0, _FIRST_LINE) + 1
    return hashlib.sha256(content[begin : begin + size]).hexdigest()


def answer(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the module node_drift, whose options params are; with `failed` and `msg` where it fails.

    params: `fail_at`, `ignore`, `expected`, and `errors` that are known already.
    """
    try:
        result = report(host, params)
    except MlnodeError as error:
        return {"changed": False, "failed": True, "msg": f"node_drift: {error}"}
    failures = result["failures"]
    if failures:
        more = [f"and {len(failures) - NAMED} more"] if len(failures) > NAMED else []
        result.update(failed=True, msg=paragraphs("\n".join([result["verdict"], *failures[:NAMED], *more])))
    return result


def report(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """What answer() tells of a node. Raises MlnodeError for wrong options."""
    exceptions = waivers.parse(params["ignore"])
    expected = checked_digests(params["expected"])
    found = survey(host)
    state = node.node(found)
    errors = [*params["errors"], *state["errors"]]
    try:
        # A damaged file is in the errors already.
        declarations = declared.load_all(host, [])
    except MlnodeError:
        declarations = []
    errors += digests.differences(expected, declarations)

    judged = missed.judge(state["settings"], exceptions, params["fail_at"])
    ignored = judged.exceptions
    compliant = not errors and not judged.drift
    counts = ", ".join(f"{number} {status}" for status, number in state["summary"].items())
    if ignored:
        counts += f" ({len(ignored)} ignored)"
    words = [f"as declared: {counts}"] if compliant else ["not as declared", counts, *errors]
    return {
        "changed": False,
        "compliant": compliant,
        "verdict": "; ".join(word for word in words if word),
        "drift": [*judged.drift],
        "failures": [*judged.failures, *(errors if missed.severe(params["fail_at"]) else ())],
        "ignored": [f"{line}; ignored {ignored[key]}" for key, line in judged.ignored.items()],
        "exceptions": [
            {"key": waiver.key, "reason": waiver.reason, "until": str(waiver.until), "state": became}
            for waiver, became in zip(exceptions, judged.states)
        ],
        "errors": errors,
        "not_compared": {
            name: unknown
            for name, kinds in expected.items()
            if (unknown := [kind for kind, digest in kinds.items() if digest is None])
        },
        "digests": {item.name: digests.digests(item.kinds) for item in declarations},
        "summary": state["summary"],
        "settings": [
            {**setting, "ignored": ignored[setting["key"]]} if setting["key"] in ignored else setting
            for setting in state["settings"]
        ],
    }


def checked_digests(given: Mapping[str, Any]) -> digests.Expected:
    """What the controller has computed, before it is relied on. Raises MlnodeError."""
    for name, kinds in given.items():
        declared.check_name(name)
        if not isinstance(kinds, dict):
            raise MlnodeError(f"expected: {name}: {kinds!r} is no dictionary of kinds and digests")
    return given
