# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent on the node: the command, and the service that runs it at boot."""

from __future__ import annotations

import sys
from typing import Any, Sequence

from ..engine import boot_service, transaction
from ..engine.kind import AGENT_FILE
from ..engine.lock import WAIT_SECONDS, locked
from ..engine.origin import Origin, complete
from ..engine.steps import FileWrite, LinkWrite, Notify, Step
from ..engine.units import LINKS, NIC_PATH_UNIT, TEXTS, UNIT
from ..host import trust
from ..host.host import Host
from ..host.places import AGENT_COMMAND
from ..model.errors import HostError, MlnodeError
from . import archive as agent_zip
from . import own_archive, source_code
from .archive import INTERPRETER

__all__ = ["COMMAND", "INTERPRETER", "UNIT", "UNIT_FILE", "build", "install", "plan"]

COMMAND, UNIT_FILE = AGENT_COMMAND, AGENT_FILE


def build(interpreter: str = INTERPRETER) -> bytes:
    """The command, made of the sources this process itself runs. Raises MlnodeError."""
    return agent_zip.build(_files(), interpreter)


def plan(host: Host, interpreter: str = INTERPRETER, notify: bool = True, used: bool = True) -> list[Step]:
    """The steps that install or renew command, units, rule and links; empty if all are right. notify: as in
    install(). used: False if no content is written or shown, so it need not be compiled."""
    steps: list[Step] = []
    command = host.content(COMMAND)
    compiled = (used or command is not None) and _compiles(host, interpreter, command)
    if not _is_right(command, interpreter, compiled) or not _has_mode(host, COMMAND, 0o755):
        built = agent_zip.build(_files(), interpreter, used and compiled, own_archive.compiled())
        steps.append(FileWrite(COMMAND, COMMAND, built, command, 0o755))
    for path, text in TEXTS.items():
        content, old = text.encode("utf-8"), host.content(path)
        if content != old or not _has_mode(host, path, 0o644):
            steps.append(FileWrite(path, path, content, old, 0o644, "units"))
    for link, target in LINKS.items():
        before = host.link_target(link)
        if before != target:
            steps.append(LinkWrite(link, link, target, before, "units"))
    if not steps and notify and boot_service.is_idle(host):
        steps.append(Notify(NIC_PATH_UNIT, "units"))
    return steps


def install(
    host: Host, interpreter: str = INTERPRETER, wait_seconds: float = WAIT_SECONDS, notify: bool = True
) -> list[Step]:
    """Install or renew the agent and return the steps done. Raises MlnodeError; all or nothing.

    notify: a running systemd reads the units now, and waits for NICs; False in an image build.
    """
    with locked(host, wait_seconds):
        complete(host)
        steps = plan(host, interpreter, notify)
        if steps and not host.is_superuser():
            raise HostError("install", COMMAND, None, "root is needed")
        require_folders(host)
        transaction.run(host, Origin.load(host), steps, notify=notify, check=lambda: try_out(host, steps))
    return steps


def require_folders(host: Host) -> None:
    """Raises UntrustedError if others can write there: they could replace the command."""
    for folder in dict.fromkeys(path.rpartition("/")[0] for path in (COMMAND, *TEXTS, *LINKS)):
        trust.require(host, folder)


def try_out(host: Host, steps: Sequence[Step]) -> None:
    """Raises MlnodeError if the command does not start; it would not at boot either."""
    if not steps or not host.live:
        return
    done = host.run([COMMAND, "--version"])
    if done.rc != 0:
        output = done.err.strip().splitlines() or [f"exit status {done.rc}"]
        raise MlnodeError(
            f"{COMMAND} does not start: {output[-1]}. It needs Python 3.8 or newer, and with env in the "
            "option interpreter also env -S (coreutils 8.30): name the path of a Python there"
        )


def _compiles(host: Host, interpreter: str, command: bytes | None = None) -> bool:
    """True if the agent's Python runs the code that this one compiles. Ansible may have found another Python
    on the node, whose code would be useless."""
    first = f"#!{agent_zip.isolated(interpreter)}\n".encode()
    if not host.live or (own_archive.path() == COMMAND and command is not None and command.startswith(first)):
        return True
    try:
        command_line = [*agent_zip.started(interpreter), "-I", "-c", agent_zip.WHICH]
        return agent_zip.is_mine(host.run(command_line).out)
    except HostError:  # reported by the call that tries it
        return False


def _is_right(command: bytes | None, interpreter: str, compiled: bool) -> bool:
    if command is None:
        return False
    if compiled and own_archive.path() == COMMAND:  # built from its own sources
        return agent_zip.is_whole(command, interpreter)
    return agent_zip.is_right(command, _files(), interpreter, compiled)


def _has_mode(host: Host, path: str, mode: int) -> bool:
    """True if the file itself has it and is root's: a link may lead elsewhere tomorrow."""
    return not host.is_link(path) and host.mode(path) == mode and trust.is_right(host, path)


def _files() -> dict[str, bytes]:
    """File name in the zip → shortened source of every module of this package.

    Read through the import system, not the file system: inside a running Ansible module, the sources are in a
    zip themselves. A process without an archive has to import agent/agent_modules.py first.
    """
    if own_archive.path():
        return own_archive.sources()
    package = __name__.rpartition(".agent.")[0]
    if f"{package}.agent.agent_modules" not in sys.modules:
        raise MlnodeError("the agent cannot be built from a part of it")
    files: dict[str, bytes] = {}
    for name, module in sorted(sys.modules.items()):
        if name != package and not name.startswith(f"{package}."):
            continue
        if agent_zip.is_elsewhere(name[len(package) + 1 :]):
            continue
        loader: Any = getattr(module.__spec__, "loader", None)
        source = loader.get_source(name) if hasattr(loader, "get_source") else None
        if source is None:
            raise MlnodeError(f"the source of {name} cannot be read, so the agent cannot be built from it")
        inner = "mlnode" + name[len(package) :]
        is_package = hasattr(module, "__path__")
        # Python's loaders give text, the one of Ansible's controller gives bytes.
        content = source.encode("utf-8") if isinstance(source, str) else bytes(source)
        file = inner.replace(".", "/") + ("/__init__.py" if is_package else ".py")
        files[file] = source_code.shortened(content)
    return files
