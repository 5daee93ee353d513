# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that any command reads is replaced, by a FIFO or by a file without an end: each command comes to its
end, with an error of its own or with what it could see. `make robustness` replaces every one of them."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.unit import machine as machines
from ansible_collections.mlnode.tuning.tests.unit.effort import some
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory, no_disk
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import drift, explain, node
from mlnode.agent import mounts as drivers
from mlnode.agent import node_report as rendered
from mlnode.checks.audit import run as audit
from mlnode.drivers.gpu import nvidia_smi as nvidia
from mlnode.engine import boot_run, confirm, confirm_store, declared, origin, revert
from mlnode.engine import failed_changes as held
from mlnode.engine import units as agent_files
from mlnode.host import host, system, trust
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.model.errors import MlnodeError
from mlnode.topology import hardware, management, sysfs

pytestmark = pytest.mark.robustness

#: More than any disk of a test has
HUGE = 1 << 40
#: What a run may take in KiB beside what it takes anyway, far under what any of the files would
MEMORY = 200 << 10
#: Readers of a node with each sort of file, of about 200
READERS = 12
#: There are more, or something keeps them from being seen
SEEN = 40
#: For all commands of one file, in seconds: they take a tenth of one, and a FIFO takes for ever
SECONDS = 60

KINDS: dict[str, Any] = {
    "services": {"services": {"tuned": "stop"}},
    "modules": {"modules": ["tcp_bbr"]},
    "thp": {"enabled": "madvise"},
    "sysctl": {
        "settings": {
            "vm.swappiness": 1,
            "vm.nr_hugepages": 8,
            "net.core.rmem_max": "auto",
            "net.ipv4.tcp_congestion_control": "bbr",
        }
    },
    "limits": {"nofile": 1048576, "memlock": "unlimited", "services": ["slurmd"], "defaults": True},
    "cpu": {"governor": "performance"},
    "irq": {"irqbalance": "agree", "rules": []},
    "nccl": {"variables": {"NCCL_DEBUG": "WARN"}},
    "boot": {"parameters": {"iommu": "pt", "nohz_full": "6-7"}},
}

#: What a node has beside: each is read by a command
FILES = {
    "/etc/modules-load.d/site.conf": "loop\n",
    "/etc/modprobe.d/site.conf": "options loop max_loop=8\n",
    "/etc/sysctl.d/20-site.conf": "vm.swappiness = 5\n",
    "/etc/security/limits.conf": "* soft nofile 1024\n",
    "/etc/security/limits.d/20-site.conf": "* hard nofile 4096\n",
    "/etc/pam.d/sshd": "session required pam_limits.so\n",
    "/etc/environment": "PATH=/bin\n",
    "/etc/nccl.conf": "NCCL_IB_HCA=mlx5\n",
    "/etc/tuned/active_profile": "site\n",
    "/etc/default/irqbalance": 'IRQBALANCE_ARGS=""\n',
    "/usr/lib/systemd/system/irqbalance.service": (
        "[Service]\nEnvironmentFile=-/etc/default/irqbalance\n"
        "ExecStart=/usr/sbin/irqbalance $IRQBALANCE_ARGS\n"
    ),
    "/usr/lib/systemd/system/tuned.service": "[Service]\nExecStart=/usr/sbin/tuned\n",
    "/usr/lib/systemd/system/slurmd.service": "[Service]\nExecStart=/usr/sbin/slurmd\n",
    "/etc/systemd/system.conf": "[Manager]\n",
    "/etc/systemd/system/slurmd.service.d/20-site.conf": "[Service]\nLimitNOFILE=1024\n",
    "/proc/interrupts": "           CPU0\n  1:  0  timer\n",
    "/proc/net/route": "Iface\tDestination\tGateway\n",
    "/proc/net/ipv6_route": "",
    "/proc/1/limits": "Max open files 1024 4096 files\n",
    "/proc/1/status": "CapBnd:\t000001ffffffffff\n",
    "/proc/sys/kernel/random/boot_id": "0\n",
    management.RECORD: '{"format": 1, "interfaces": []}',
    confirm_store.CONFIRMED: "abcdef01\n",
    f"{held.FOLDER}/eth0": "{}",
    confirm_store.UNDONE: json.dumps(
        {"format": 1, "id": "abcdef01", "name": "x", "time": "t", "why": "y", "words": "w", "stuck": []}
    ),
}

QUESTION: dict[str, Any] = {"fail_at": "high", "ignore": [], "declarations": {}}

LOOKS: dict[str, Callable[[Host], object]] = {
    "status": lambda machine: rendered.node(node.survey(machine)),
    "drift": lambda machine: drift.answer(machine, QUESTION),
    "explain": lambda machine: explain.explain(machine, "vm.swappiness"),
    "explain a parameter": lambda machine: explain.explain(machine, "boot.iommu"),
    "audit": audit.all_checks,
    "topology": hardware.topology,
    "notes": confirm_store.notes,
    "pending": revert.pending,
    "management": management.interfaces,
}
CHANGES: dict[str, Callable[[Host], object]] = {
    "confirm": lambda machine: confirm.confirm(machine, "abcdef01"),
    "undo": lambda machine: confirm.undo(machine, "abcdef01"),
    "undo --when-due": lambda machine: confirm.undo_when_due(machine, "abcdef01"),
    "apply": node.apply_all,
    "revert": revert.revert,
}

#: Through which everything is read: who asks them is the reader
_DOORS = tuple(str(module.__file__) for module in (host, system, trust, sysfs, machines))


class Node(GrubMachine):
    """One that generates no boot menu, as the shell which does that would block on a FIFO itself."""

    mute = False

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        return Machine.run(self, command, seconds) if self.mute else super().run(command, seconds)


class Reads:
    """Where which file is read: reader → path, and reader → the first look and the first change that do."""

    def __init__(self, root: str, patch: pytest.MonkeyPatch) -> None:
        self.paths: dict[str, str] = {}
        self.commands: dict[str, dict[bool, str]] = {}
        self.command = ""
        true = system.contents

        def contents(real: str, path: str) -> bytes:
            if real.startswith(f"{root}/") and os.path.isfile(real):
                at = self.asked_at()
                self.paths.setdefault(at, real[len(root) :])
                self.commands.setdefault(at, {}).setdefault(self.command in LOOKS, self.command)
            return true(real, path)

        patch.setattr(system, "contents", contents)

    @staticmethod
    def asked_at() -> str:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename in _DOORS:
            frame = frame.f_back
        assert frame is not None
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def note(self, name: str, command: Callable[[Host], object], machine: Host) -> None:
        self.command = name
        run(command, machine)


def run(command: Callable[[Host], object], machine: Host) -> None:
    """To its end, or to words for an operator; anything else is for the test to fail with."""
    with contextlib.suppress(MlnodeError):
        command(machine)


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    def end(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, end)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


_no_disk = pytest.fixture(autouse=True)(no_disk)
memory = pytest.fixture(in_memory)


def node_in(root: str) -> Node:
    machine = Node.debian_with_grub(root)
    assert isinstance(machine, Node)
    for path, text in FILES.items():
        machine.put(path, text)
    machine.enable_agent()
    for path, text in agent_files.TEXTS.items():
        machine.put(path, text)
    document = {"format": 1, "name": "training", "kinds": KINDS}
    machine.put(declared.path_of("training"), json.dumps(document))
    node.apply_all(machine)
    assert machine.exists(origin.PATH)
    machine.mute = True
    return machine


def bad(real: str, sort: str) -> None:
    os.unlink(real)
    if sort == "FIFO":
        os.mkfifo(real)
        return
    with open(real, "wb") as stream:
        stream.truncate(HUGE)


@pytest.mark.parametrize("sort", ["FIFO", "endless"])
def test_every_reader_of_a_node_comes_to_an_end(
    memory: pathlib.Path, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    monkeypatch.setattr(boot_run, "_LOOK_SECONDS", 0)
    pristine = node_in(str(memory / "node")).root

    def copied() -> Node:
        shutil.rmtree(memory / "copy", ignore_errors=True)
        shutil.copytree(pristine, memory / "copy", symlinks=True)
        machine = Node(str(memory / "copy"))
        machine.mute = True
        return machine

    with monkeypatch.context() as patch:
        reads = Reads(str(memory / "copy"), patch)
        for name, command in {**LOOKS, **CHANGES}.items():
            reads.note(name, command, copied())
    assert len(reads.paths) > SEEN
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # With each sort others, so that one run tries twice as many.
    for at, path in some([*reads.paths.items()], READERS, seed=len(sort)):
        for name in reads.commands[at].values():
            machine = copied()
            bad(machine.root + path, sort)
            signal.alarm(SECONDS)
            run({**LOOKS, **CHANGES}[name], machine)
            signal.alarm(0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY


@pytest.mark.parametrize("sort", ["FIFO", "endless"])
def test_every_reader_of_a_captured_tree_comes_to_an_end(
    memory: pathlib.Path, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    """With the NICs, the RDMA devices and the GPUs that the small node does not have."""
    root = shutil.copytree(build.tree("cloud-gpu"), memory / "tree", symlinks=True)
    nics = sorted(set(os.listdir(root / "sys/class/net")) - {"lo"})
    everywhere = {"name": "all", "nics": {"names": nics}}
    kinds = {
        "nic": {"rules": [{**everywhere, "mtu": 9000}]},
        "qos": {"rules": [{**everywhere, "trust": "dscp"}]},
        "irq": {"rules": [{**everywhere, "strategy": "spread"}]},
        "gpu": {"persistence": True},
        "nccl": {"variables": {"NCCL_IB_HCA": "auto"}},
    }
    document = {"format": 1, "name": "nics", "kinds": kinds}
    asked = [f"{folder}/{nic}.json" for folder in ("ethtool", "dcb") for nic in nics]
    for path in [*asked, nvidia.CAPTURED[1:]]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text('{"format": 1, "answers": {}}' if path.endswith(".json") else "")
    real = root / declared.path_of("nics")[1:]
    real.parent.mkdir(parents=True)
    real.write_text(json.dumps(document))
    (root / origin.COPY[1:]).write_text(json.dumps({"format": origin.FORMAT, "entries": []}))
    with monkeypatch.context() as patch:
        reads = Reads(str(root), patch)
        for name, command in LOOKS.items():
            reads.note(name, command, Host(str(root), drivers.ALL))
    assert node.survey(Host(str(root), drivers.ALL)).errors == ()
    assert len(reads.paths) > SEEN
    for at, path in some([*reads.paths.items()], READERS, seed=len(sort)):
        shutil.move(f"{root}{path}", memory / "kept")
        (root / path[1:]).touch()
        bad(f"{root}{path}", sort)
        for name in reads.commands[at].values():
            signal.alarm(SECONDS)
            run(LOOKS[name], Host(str(root), drivers.ALL))
            signal.alarm(0)
        os.unlink(f"{root}{path}")
        shutil.move(str(memory / "kept"), f"{root}{path}")
