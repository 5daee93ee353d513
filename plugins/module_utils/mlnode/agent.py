# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent on the node: this very library as one executable zip, and the service that runs it at boot."""

from __future__ import annotations

import io
import sys
import zipfile
from typing import Any

from . import cli, transaction
from .agent_files import LINKS, TEXTS, UNIT
from .checks import audit
from .errors import HostError, MlnodeError
from .host import Host
from .kind import AGENT_COMMAND, AGENT_FILE
from .lock import WAIT_SECONDS, locked
from .origin import Origin
from .render import audit as audit_report
from .transaction import FileWrite, LinkWrite, Step

__all__ = ["COMMAND", "INTERPRETER", "UNIT", "UNIT_FILE", "build", "install", "plan"]

COMMAND, UNIT_FILE = AGENT_COMMAND, AGENT_FILE

#: Any Python 3.8 or newer that the node has; env, as distributions keep it in different places.
INTERPRETER = "/usr/bin/env python3"

#: Imported for real, so that Ansible sends everything the agent can run along with a module that builds it
_ENTRY = cli.main
_MAIN = (
    f"import sys\n\nfrom mlnode.{_ENTRY.__module__.rpartition('.')[2]} import {_ENTRY.__name__}\n\n"
    f"sys.exit({_ENTRY.__name__}())\n"
).encode("ascii")

#: What only modules use, and no command of the agent. A process that has them for another reason, such as a
#: test, builds the same zip without them.
ELSEWHERE = (
    *("checks", "digests", "icmp", "path_mtu", "path_search", "pci_config", "perftest", "waivers"),
    *("fleet", "subnet", "subnet_book", "subnet_check", "subnet_moves", "subnet_rises"),
)
#: What `mlnode audit` imports when it is asked for
_LATER = (audit.findings, audit_report.report)
#: What of the former it needs all the same
AUDIT = (
    "checks",
    *(f"checks.audit{part}" for part in ("", "_cpu", "_devices", "_kernel", "_model", "_services")),
    *(f"checks.{name}" for name in ("expect", "model", "rdma_limits", "rdma_values")),
    *(f"checks.pcie_{part}" for part in ("link", "subjects", "values")),
)

#: The oldest time a zip can hold: equal sources give equal bytes, whenever and wherever it is built.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(interpreter: str = INTERPRETER) -> bytes:
    """The executable zip, made of the sources this process itself runs. Raises MlnodeError."""
    stream = io.BytesIO()
    stream.write(f"#!{interpreter}\n".encode())
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted({**_sources(), "__main__.py": _MAIN}.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return stream.getvalue()


def is_elsewhere(name: str) -> bool:
    """Whether a module of this package is none of the agent's."""
    return name not in AUDIT and name.partition(".")[0] in ELSEWHERE


def _sources() -> dict[str, bytes]:
    """File name in the zip → source of every module of this package.

    Asked of the import system, not of the file system: inside a running Ansible module the sources lie in
    a zip themselves.
    """
    package = __name__.rpartition(".")[0]
    found: dict[str, bytes] = {}
    for name, module in sorted(sys.modules.items()):
        if name != package and not name.startswith(f"{package}."):
            continue
        if is_elsewhere(name[len(package) + 1 :]):
            continue
        loader: Any = getattr(module.__spec__, "loader", None)
        source = loader.get_source(name) if hasattr(loader, "get_source") else None
        if source is None:
            raise MlnodeError(f"the source of {name} cannot be read, so the agent cannot be built from it")
        inner = "mlnode" + name[len(package) :]
        is_package = hasattr(module, "__path__")
        # Python's loaders give text, the one of Ansible's controller gives bytes.
        content = source.encode("utf-8") if isinstance(source, str) else bytes(source)
        found[inner.replace(".", "/") + ("/__init__.py" if is_package else ".py")] = content
    return found


def plan(host: Host, interpreter: str = INTERPRETER) -> list[Step]:
    """The steps that install or renew command, units, rule and links; empty where all is as it should be."""
    steps: list[Step] = []
    for path, content, mode in _files(interpreter):
        saved = host.snapshot(path)
        right = saved is not None and saved.get("mode") == mode and host.content(path) == content
        if not right:
            told = "" if path == COMMAND else "units"
            steps.append(FileWrite(path, path, content, host.content(path), mode, told))
    for link, target in LINKS.items():
        before = host.link_target(link) if host.is_link(link) else ""
        if before != target:
            steps.append(LinkWrite(link, link, target, before, "units"))
    return steps


def install(
    host: Host, interpreter: str = INTERPRETER, wait_seconds: float = WAIT_SECONDS, tell: bool = True
) -> list[Step]:
    """Install or renew the agent and return what was done. Raises MlnodeError; all or nothing.

    tell: have a running systemd read the units now, and wait for NICs; False in an image build.
    """
    with locked(host, wait_seconds):
        steps = plan(host, interpreter)
        if steps and not host.is_superuser():
            raise HostError("install", COMMAND, None, "root is needed")
        transaction.run(host, Origin.load(host), steps, tell=tell)
    if steps and host.live:
        _try(host)
    return steps


def _try(host: Host) -> None:
    """Raises MlnodeError where the command does not start, as it would not at boot either."""
    done = host.run([COMMAND, "--version"])
    if done.rc != 0:
        words = done.err.strip().splitlines() or [f"exit status {done.rc}"]
        raise MlnodeError(
            f"{COMMAND} is installed but does not start: {words[-1]}. It needs Python 3.8 or newer: name one "
            "with the option interpreter"
        )


def _files(interpreter: str) -> list[tuple[str, bytes, int]]:
    texts = [(path, text.encode("utf-8"), 0o644) for path, text in TEXTS.items()]
    return [(COMMAND, build(interpreter), 0o755), *texts]
