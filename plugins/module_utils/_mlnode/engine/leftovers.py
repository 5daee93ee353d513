# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declarations that declare nothing, and files that the library wrote for a declaration that is gone.

Both look like a node on which all is well: nothing is compared, so nothing differs.
"""

from __future__ import annotations

import re
from typing import Callable, Iterator, Mapping, Sequence

from ..host.host import Host
from ..model.errors import HostError, MlnodeError
from ..model.record import NamedTuple, regex
from . import declared
from .declared import Declaration
from .steps import FileWrite, Step

#: Stands for the name of a declaration, which has neither a dot nor a slash
_NAME = "NAME"

#: Files of a kind in the name of a declaration; * is any folder. Written down here as well as in knobs/, so
#: that the agent need not import every kind to look for them; a test compares both.
FILES: Mapping[str, Sequence[str]] = {
    "sysctl": ("/etc/sysctl.d/zz-mlnode-NAME.conf", "/etc/modules-load.d/mlnode-NAME.conf"),
    "modules": ("/etc/modules-load.d/mlnode-modules.NAME.conf",),
    "limits": (
        "/etc/security/limits.d/zz-mlnode-NAME.conf",
        "/etc/systemd/system.conf.d/zz-mlnode-NAME.conf",
        "/etc/systemd/system/*.d/zz-mlnode-NAME.conf",
    ),
    "services": ("/etc/systemd/system/*.d/zz-mlnode-stopped.NAME.conf",),
    "boot": ("/etc/default/grub.d/zz-mlnode-NAME.cfg",),
    "irq": ("/etc/mlnode/irqbalance.d/NAME",),
}

#: Files that all declarations of these kinds share
SHARED: Mapping[str, Sequence[str]] = {
    "/etc/mlnode/irqbalance-policy": ("irq",),
    "/etc/mlnode/management.json": ("nic", "rail", "qos"),
}

#: File of the system → kind, and the first line of a block of it there, with or without a name
BLOCKS: Mapping[str, tuple[str, str]] = {
    "/etc/nccl.conf": ("nccl", r"# BEGIN mlnode\.tuning ([a-z0-9_-]+)\b"),
    "/etc/default/irqbalance": ("irq", r"# BEGIN mlnode\.tuning:"),
    "/etc/sysconfig/irqbalance": ("irq", r"# BEGIN mlnode\.tuning:"),
}

_ADVICE = "run the playbook that declares it, or `mlnode revert` to undo all that mlnode has changed"


class _Found(NamedTuple):
    """A file, or a block in one, that is there. name: of its declaration; "" where all share it."""

    what: str
    kinds: Sequence[str]
    name: str = ""


def report(host: Host) -> list[str]:
    """All of both, in words. A declaration that cannot be used is reported elsewhere."""
    try:
        declarations = declared.load_all(host, [])
    except MlnodeError:
        return []
    return [*emptied(declarations), *orphans(host, declarations)]


def emptied(declarations: Sequence[Declaration]) -> list[str]:
    """In words, what is kept on the node and declares nothing, as no run of a playbook would leave it."""
    found = []
    for item in declarations:
        if not item.kinds:
            found.append(
                f"{item.path} declares nothing: run the playbook that declares it, or remove the file if "
                "nothing is to be declared under this name"
            )
        found += [
            f"{item.path}: {kind} declares nothing: run the playbook that declares it"
            for kind, spec in item.kinds.items()
            if not declared.declares(spec)
        ]
    return found


def orphans(host: Host, declarations: Sequence[Declaration]) -> list[str]:
    """In words, each file that no declaration on this node would write."""
    wanted = {
        (item.name, kind)
        for item in declarations
        for kind in item.kinds
        if declared.declares(item.kinds[kind])
    }
    words = []
    try:
        unread = _unread(host, declarations)
        for found in _present(host):
            names = [found.name] if found.name else {name for name, _kind in wanted} | unread
            if not any(name in unread or (name, kind) in wanted for name in names for kind in found.kinds):
                words.append(_words(found))
    except HostError as error:
        words.append(f"whether files are left over from other declarations is not known: {error}")
    return words


def outlived(steps: Sequence[Step], in_image: Callable[[], Sequence[Step]], name: str) -> list[str]:
    """In words, each file in the name of a declaration that would be removed, as it declares less by now.

    in_image: the steps for an image of the node, asked only where a file would be removed. What they keep is
    declared, and of no use on this machine: it came with the image, and is not drift.
    """
    removed = _removed(steps, name)
    if removed:
        stale = _removed(in_image(), name)
        removed = [path for path in removed if path in stale]
    return [
        f"{path} is left over from what {name} declared before: `mlnode apply` removes it" for path in removed
    ]


def _removed(steps: Sequence[Step], name: str) -> list[str]:
    return [
        step.path
        for step in steps
        if isinstance(step, FileWrite) and step.content is None and _is_named(step.path, name)
    ]


def _is_named(path: str, name: str) -> bool:
    patterns = (pattern for patterns in FILES.values() for pattern in patterns)
    return any(
        match and match.group(1) == name for match in (_exact(one).fullmatch(path) for one in patterns)
    )


def _exact(pattern: str) -> re.Pattern[str]:
    return regex(re.escape(pattern).replace(r"\*", "[^/]*").replace(_NAME, r"([^./]+)"))


def _words(found: _Found) -> str:
    if not found.name:
        kinds = " or ".join(found.kinds)
        return f"{found.what} was written by mlnode, and no declaration here has the kind {kinds}: {_ADVICE}"
    return (
        f"{found.what} was written by mlnode for the declaration {found.name}, which does not declare "
        f"{' or '.join(found.kinds)}: {_ADVICE}"
    )


def _unread(host: Host, declarations: Sequence[Declaration]) -> set[str]:
    """The names whose file cannot be used: what it declares is not known."""
    files = {file[: -len(".json")] for file in host.names(declared.FOLDER) if file.endswith(".json")}
    return files - {item.name for item in declarations}


def _present(host: Host) -> Iterator[_Found]:
    """Raises HostError."""
    for kind, patterns in FILES.items():
        for pattern in patterns:
            for path in host.matching(pattern.replace(_NAME, "*")):
                match = _exact(pattern).fullmatch(path)
                if match:
                    yield _Found(path, (kind,), match.group(1))
    for path, kinds in SHARED.items():
        if host.exists(path):
            yield _Found(path, kinds)
    for path, (kind, begin) in BLOCKS.items():
        for match in re.finditer(f"^{begin}", host.text(path), re.MULTILINE | re.ASCII):
            yield _Found(f"the block of mlnode in {path}", (kind,), match.group(1) if match.groups() else "")
