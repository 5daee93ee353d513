# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent on the node: this very library as one executable zip, and the service that runs it at boot."""

from __future__ import annotations

import io
import sys
import zipfile
from typing import Any

from . import cli, transaction
from .errors import HostError, MlnodeError
from .host import Host
from .kind import AGENT_COMMAND, AGENT_FILE, AGENT_LINK
from .lock import WAIT_SECONDS, locked
from .origin import Origin
from .transaction import FileWrite, LinkWrite, Step

COMMAND, UNIT_FILE = AGENT_COMMAND, AGENT_FILE

#: Any Python 3.8 or newer that the node has; env, as distributions keep it in different places.
INTERPRETER = "/usr/bin/env python3"

#: Imported for real, so that Ansible sends everything the agent can run along with a module that builds it
_ENTRY = cli.main
_MAIN = (
    f"import sys\n\nfrom mlnode.{_ENTRY.__module__.rpartition('.')[2]} import {_ENTRY.__name__}\n\n"
    f"sys.exit({_ENTRY.__name__}())\n"
).encode("ascii")

#: The oldest time a zip can hold: equal sources give equal bytes, whenever and wherever it is built.
_EPOCH = (1980, 1, 1, 0, 0, 0)

# No ProtectKernelTunables, ProtectKernelModules or PrivateNetwork: setting them is the service's work.
# It runs once systemd's own sysctl and module services and tuned are done, so that it has the last word, and
# before anything that starts jobs. Exit status 3 is drift that it cannot mend, which `mlnode check` shows.
UNIT = f"""\
[Unit]
Description=Apply what this node is declared to be (mlnode.tuning)
After=local-fs.target systemd-modules-load.service systemd-sysctl.service tuned.service
Before=slurmd.service kubelet.service containerd.service docker.service crio.service
ConditionDirectoryNotEmpty=/etc/mlnode/declared.d

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={COMMAND} apply
SuccessExitStatus=3
TimeoutStartSec=120
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_NET_ADMIN CAP_SYS_MODULE CAP_SYS_RESOURCE
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_FOWNER CAP_CHOWN
ProtectSystem=strict
ReadWritePaths=/etc /run
StateDirectory=mlnode
StateDirectoryMode=0755
ProtectHome=yes
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service @module
SystemCallErrorNumber=EPERM
UMask=0022

[Install]
WantedBy=multi-user.target
"""


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
    """The steps that install or renew command, unit and boot link; empty where all is as it should be."""
    steps: list[Step] = []
    for path, content, mode in _files(interpreter):
        saved = host.snapshot(path)
        right = saved is not None and saved.get("mode") == mode and host.content(path) == content
        if not right:
            steps.append(FileWrite(path, path, content, host.content(path), mode))
    before = host.link_target(AGENT_LINK) if host.is_link(AGENT_LINK) else ""
    if before != UNIT_FILE:
        steps.append(LinkWrite(AGENT_LINK, AGENT_LINK, UNIT_FILE, before))
    return steps


def install(host: Host, interpreter: str = INTERPRETER, wait_seconds: float = WAIT_SECONDS) -> list[Step]:
    """Install or renew the agent and return what was done. Raises MlnodeError; all or nothing."""
    with locked(host, wait_seconds):
        steps = plan(host, interpreter)
        if steps and not host.is_superuser():
            raise HostError("install", COMMAND, None, "root is needed")
        transaction.run(host, Origin.load(host), steps)
    if any(step.key != COMMAND for step in steps):
        host.reload_units()
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
    return [(COMMAND, build(interpreter), 0o755), (UNIT_FILE, UNIT.encode("utf-8"), 0o644)]
