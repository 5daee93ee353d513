# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences of a run, shortened for readers: values first, files of the agent in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

#: From which verbosity on (-vv) each file is shown
WHOLE = 2

_PROGRAM = "/usr/local/bin/mlnode"
#: The agent, its units and its records (docs/guide/operations.md: files on the node)
_AGENT = re.compile(
    r"/usr/local/bin/mlnode\Z|/etc/mlnode/|/etc/(?:systemd/system(?:-preset)?|udev/rules\.d)/"
    r"(?:.*/)?(?:[0-9a-z]+-)?mlnode[^/]*\Z"
)
#: A new one has the values that are shown for the running kernel
_SYSCTL = re.compile(r"/etc/sysctl\.d/zz-mlnode-[^/]*\Z")
_RUNTIME = "runtime"

Pair = Mapping[str, str]


def folded(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs as Ansible shows them: first the values of the running kernel, then other packages' files and
    drop-ins. New files of the agent are counted; each changed file of the agent has a line."""
    values = [pair for pair in pairs if _name(pair).endswith(_RUNTIME)]
    of_sysctl = any(_name(pair) in (_RUNTIME, f"sysctl {_RUNTIME}") for pair in values)
    carried = [pair for pair in pairs if pair not in values and _is_carried(pair, of_sysctl)]
    rest = [pair for pair in pairs if pair not in values and pair not in carried]
    return [*values, *rest, *([_one(carried)] if carried else [])]


def _name(pair: Pair) -> str:
    return str(pair.get("after_header") or pair.get("before_header") or "")


def _is_carried(pair: Pair, of_sysctl: bool) -> bool:
    name = _name(pair)
    return bool(_AGENT.match(name) or (of_sysctl and not pair.get("before") and _SYSCTL.match(name)))


def _one(pairs: Sequence[Pair]) -> Pair:
    """A first installation is one line, and later each file has one."""
    first = any(_name(pair) == _PROGRAM and not pair.get("before") for pair in pairs)
    new = [pair for pair in pairs if first and not pair.get("before")]
    lines = [f"{_name(pair)}: {_what(pair)}; -vv shows how\n" for pair in pairs if pair not in new]
    if new:
        what = "the agent, its units, the declaration, and its drop-in for these values"
        lines.append(f"{len(new)} files are installed: {what}; -vv shows each\n")
    return {
        "before_header": "files of the agent",
        "after_header": "files of the agent",
        "before": "",
        "after": "".join(lines),
    }


def _what(pair: Pair) -> str:
    if not pair.get("before"):
        return "new"
    return "changed" if pair.get("after") else "removed"
