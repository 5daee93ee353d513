# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node for every kind of knob, with a declaration that changes values and files on it."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import door, service_machine
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import CpuMachine
from ansible_collections.mlnode.tuning.tests.unit.faults import Gated
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, ROOT_MOUNT, Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.irq.node import (
    IRQS,
    IrqNode,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nccl import (
    node as nccl_node,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nic.node import NicNode
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.qos.node import (
    ROCE,
    QosNode,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.rail.node import (
    RAILS,
    RailNode,
)
from ansible_collections.mlnode.tuning.tests.unit.service_machine import ServiceMachine
from mlnode.agent import agent_modules  # noqa: F401  # of which the agent is built
from mlnode.agent import install as agent
from mlnode.engine import origin
from mlnode.engine import units as agent_files
from mlnode.engine.engine import Request
from mlnode.engine.lock import LOCK_PATH
from mlnode.host import places
from mlnode.host.system import Finished
from mlnode.linux import node_exporter

#: Words of commands that only ask
_QUESTIONS = ("show", "is-active", "is-enabled", "list-units", "--version", "-L", "dmesg")

MODULES = ("ib_uverbs", "rdma_ucm")

SYSCTL = {
    "vm.swappiness": 10,
    "vm.dirty_bytes": 268435456,
    "net.core.default_qdisc": "fq",
    "net.ipv4.tcp_congestion_control": "bbr",
}


class Node(Gated):
    """Beside another class of machine: what it keeps in memory, and only what changes something passes."""

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        asks = any(word in _QUESTIONS or word.startswith("--query") for word in command)
        return super(Gated if asks else Node, self).run(command, seconds)

    def memory(self) -> dict[str, str]:
        """What no file below root shows: the kernels and daemons of some machines are objects."""
        found = {name: repr(vars(self)[name]) for name in ("modes", "cm") if name in vars(self)}
        for name, nic in getattr(self, "nics", {}).items():
            groups = [
                {k: v for k, v in (group or {}).items() if v}
                for group in (nic.ring, nic.channels, nic.coalesce)
            ]
            pause = nic.pause and (nic.pause["rx"], nic.pause["tx"])
            found[name] = repr((*groups, pause, nic.features, nic.flags, nic.fec))
        for name, bridge in getattr(self, "bridges", {}).items():
            found[f"{name} dcb"] = repr((bridge.pfc, bridge.ets, bridge.apps, bridge.buffer, bridge.order))
        return found

    def state(self) -> dict[str, object]:
        """All that a revert has to bring back. A lock that no process holds is for the next run; the kernel
        chooses one of the CPUs that an interrupt may go to."""
        found = {**self.tree(), **self.memory()}
        found.pop(LOCK_PATH, None)
        return {path: what for path, what in found.items() if not path.endswith("/effective_affinity_list")}

    def tuned(self) -> dict[str, object]:
        """The state without what runs keep for themselves, such as the order of what was remembered, or leave
        to the next one."""
        own = ("/var/lib/mlnode", "/run/mlnode", origin.COPY, places.PULLED_COPY)
        return {
            path: what
            for path, what in self.state().items()
            if not path.startswith(own) and not path.endswith(".mlnode-tmp")
        }

    def remove_empty(self, *folders: str) -> None:
        """Those of the folders that are there and hold nothing."""
        for path in folders:
            if self.exists(path) and not self.names(path):
                os.rmdir(self.root + path)

    def unload(self) -> None:
        """As a boot does: a revert leaves modules that were declared for themselves."""
        for name in MODULES:
            if self.exists(f"/sys/module/{name}"):
                os.rmdir(f"{self.root}/sys/module/{name}")
        self.forget()


def _as(kind: type[Machine]) -> Any:
    """That class of machine, as a Node."""
    return type(f"Gated{kind.__name__}", (Node, kind), {})


def _node(made: Machine) -> Node:
    """What a constructor of its parent has made, which is of the class that it was asked for."""
    assert isinstance(made, Node)
    return made


@dataclass(frozen=True)
class Case:
    """A node in a folder, and what is declared on it.

    other: another declaration of the same name. bad: one with a mistake, and what of it has to be named.
    """

    kind: str
    make: Callable[[pathlib.Path], Node]
    spec: dict[str, Any]
    other: dict[str, Any]
    bad: tuple[dict[str, Any], tuple[str, ...]]

    @property
    def request(self) -> Request:
        return door.request("default", self.kind, self.spec)

    @property
    def other_request(self) -> Request:
        return door.request("default", self.kind, self.other)


def _debian(folder: pathlib.Path) -> Node:
    return _node(Node.debian(str(folder)))


def _modules(folder: pathlib.Path) -> Node:
    node = _debian(folder)
    node.put(f"/lib/modules/{RELEASE}/modules.dep", "".join(f"kernel/{name}.ko.xz:\n" for name in MODULES))
    return node


def _limits(folder: pathlib.Path) -> Node:
    Machine.debian(str(folder))
    LimitsMachine.node(str(folder))
    node = _as(LimitsMachine)(str(folder))
    for name in ("slurmd", "containerd", "ssh"):
        node.unit(name)
    return _node(node)


def _cpu(folder: pathlib.Path) -> Node:
    return _node(_as(CpuMachine).acpi(str(folder)))


def _gpu(folder: pathlib.Path) -> Node:
    return _node(_as(GpuMachine).of(str(folder), 2))


def disk(machine: Machine, name: str, bus: str, **files: str) -> None:
    """A block device of a bus, or what the device mapper or md has made; files are those below queue."""
    base = f"/sys/block/{name}"
    if bus in ("dm", "md"):
        machine.put(f"{base}/{bus}/uuid", "1\n")
    elif bus:
        machine.link(f"{base}/device/subsystem", f"../../../bus/{bus}")
    machine.put(f"{base}/removable", "0\n")
    machine.put(f"{base}/holders/.keep", "")
    os.unlink(f"{machine.root}{base}/holders/.keep")
    queue = {"read_ahead_kb": "128", "rotational": "0", "scheduler": "[none] mq-deadline", **files}
    for file, text in queue.items():
        machine.put(f"{base}/queue/{file}", f"{text}\n")


def nfs(machine: Machine, number: str, point: str) -> None:
    """A mount, and the device that it reads through."""
    row = (
        f"{number.partition(':')[2]} 1 {number} / {point} rw,relatime shared:9 - nfs4 server:/x rw,vers=4.2\n"
    )
    table = "/proc/1/mountinfo"
    machine.put(table, (machine.text(table) or ROOT_MOUNT) + row)
    machine.put(f"/sys/class/bdi/{number}/read_ahead_kb", "128\n")


def _storage(folder: pathlib.Path) -> Node:
    node = _debian(folder)
    disk(node, "nvme0n1", "nvme", scheduler="none [mq-deadline] kyber")
    disk(node, "sda", "scsi", rotational="1", read_ahead_kb="8192", scheduler="none [mq-deadline]")
    nfs(node, "0:53", "/data")
    return node


def _sysfs(folder: pathlib.Path) -> Node:
    node = _debian(folder)
    node.put("/sys/kernel/mm/lru_gen/min_ttl_ms", "0\n")
    node.put("/sys/module/zswap/parameters/enabled", "Y\n")
    for package in ("00", "01"):
        folder_of = f"/sys/devices/system/cpu/intel_uncore_frequency/package_{package}_die_00"
        node.put(f"{folder_of}/min_freq_khz", "800000\n")
    return node


def _services(folder: pathlib.Path) -> Node:
    service_machine.made(str(folder)).tuned()
    node = _as(ServiceMachine)(str(folder))
    node.run(["systemctl", "start", "tuned.service"])  # as it is again once it was started again
    return _node(node)


def _nic(folder: pathlib.Path) -> Node:
    return _node(_as(NicNode).made(folder))


def _rail(folder: pathlib.Path) -> Node:
    return _node(_as(RailNode).made(folder))


def _qos(folder: pathlib.Path) -> Node:
    return _node(_as(QosNode).made(folder))


def _irq(folder: pathlib.Path) -> Node:
    node = _node(_as(IrqNode).made(str(folder)))
    for number in IRQS["eth2"]:
        node.put(f"/proc/irq/{number}/smp_affinity_list", "0-15\n")
    return node


def _nccl(folder: pathlib.Path) -> Node:
    nccl_node.roce(str(folder))
    node = Node(str(folder))
    node.put("/etc/nccl.conf", "# the administrator's\nNCCL_DEBUG=VERSION\n")
    return node


def _containers(folder: pathlib.Path) -> Node:
    """Podman, Docker and CRI-O, each with a file of the operator."""
    node = _node(_as(Machine).debian(str(folder)))
    for program in ("podman", "dockerd", "crio"):
        node.put(f"/usr/bin/{program}", "", 0o755)
    node.put(
        "/usr/share/containers/containers.conf",
        '[containers]\ndefault_sysctls = [\n "net.ipv4.ping_group_range=0 0",\n]\n',
    )
    node.put("/etc/docker/daemon.json", '{\n    "debug": true,\n    "default-shm-size": "1g"\n}\n')
    node.put("/etc/crio/crio.conf.d/10-site.conf", '[crio.runtime]\ndefault_ulimits = ["core=0:0"]\n')
    return node


def _boot(folder: pathlib.Path) -> Node:
    return _node(_as(GrubMachine).debian_with_grub(str(folder)))


class TimerMachine(Machine):
    """A machine with systemd, which shows whether a timer of the agent runs."""

    def _systemctl(self, verb: str, unit: str) -> Finished:
        if unit in places.TIMED_UNITS and unit.endswith(".timer") and verb in ("start", "stop"):
            link = f"{self.root}/run/systemd/units/invocation:{unit}"
            if verb == "start" and not os.path.lexists(link):
                self.link(link[len(self.root) :], "5" * 32)
            elif verb == "stop" and os.path.lexists(link):
                os.unlink(link)
        if unit in (places.CHECK_SERVICE, places.WATCH_SERVICE) and verb == "start":  # done at once
            return Finished(0, "", "")
        return super()._systemctl(verb, unit)


def _timer(folder: pathlib.Path) -> Node:
    node = _node(_as(TimerMachine).debian(str(folder)))
    node.put("/run/systemd/system/.keep", "")
    node.put("/run/systemd/units/.keep", "")
    return node


def _metrics(folder: pathlib.Path) -> Node:
    """With node_exporter as Debian has it."""
    node = _timer(folder)
    node.put("/srv/metrics/.keep", "")
    node.put(f"{node_exporter.DEBIAN}/.keep", "")
    unit = "/usr/lib/systemd/system/prometheus-node-exporter.service"
    node.put(unit, "[Service]\nExecStart=/usr/bin/prometheus-node-exporter $ARGS\n")
    return node


PULL = {
    "url": "https://config.example/mlnode",
    "node": "gpu001.example",
    "signers": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExampleExam"],
}

_ETH2: dict[str, Any] = {"name": "two", "nics": {"names": ["eth2"]}}

CASES = {
    case.kind: case
    for case in (
        Case(
            "services",
            _services,
            {"services": {"tuned": "stop"}},
            {"services": {"tuned": "leave"}},
            ({"services": {"tuned": "halt"}}, ("services.tuned", "'halt'")),
        ),
        Case(
            "modules",
            _modules,
            {"modules": [*MODULES]},
            {"modules": [MODULES[0]]},
            ({"modules": ["ib_uverbs", "../x"]}, ("modules", "'../x'")),
        ),
        Case(
            "thp",
            _debian,
            {"enabled": "madvise", "defrag": "never"},
            {"enabled": "never"},
            ({"khugepaged": {"defrag": "yes"}}, ("thp.khugepaged.defrag", "'yes'")),
        ),
        Case(
            "sysctl",
            _debian,
            {"settings": SYSCTL},
            {"settings": {"vm.swappiness": 1}},
            ({"settings": {"vm.swappiness": [1]}}, ("vm.swappiness", "[1]")),
        ),
        Case(
            "limits",
            _limits,
            {
                "nofile": {"login": "65536:1048576", "services": "1024:1048576", "slurmd": "65536:1048576"},
                "memlock": "unlimited",
            },
            {"nofile": 1048576},
            ({"nofile": "many"}, ("limits.nofile", "'many'")),
        ),
        Case(
            "cpu",
            _cpu,
            {"governor": "performance", "boost": False},
            {"governor": "powersave"},
            ({"governor": "a b"}, ("cpu.governor", "'a b'")),
        ),
        Case(
            "gpu",
            _gpu,
            {"persistence": True},
            {"persistence": False},
            ({"persistence": "always"}, ("gpu.persistence", "'always'")),
        ),
        Case(
            "sysfs",
            _sysfs,
            {
                "settings": {
                    "/sys/kernel/mm/lru_gen/min_ttl_ms": 1000,
                    "/sys/module/zswap/parameters/enabled": 0,
                    "/sys/devices/system/cpu/intel_uncore_frequency/*/min_freq_khz": 2400000,
                }
            },
            {"settings": {"/sys/kernel/mm/lru_gen/min_ttl_ms": 500}},
            ({"settings": {"/sys/power/state": "mem"}}, ("/sys/power/state", "power management")),
        ),
        Case(
            "storage",
            _storage,
            {
                "rules": [
                    {"name": "disks", "read_ahead_kb": {"at_least": 4096}},
                    {"name": "nvme", "devices": {"types": ["nvme"]}, "scheduler": "none"},
                    {"name": "nfs", "nfs": True, "read_ahead_kb": 15360},
                ]
            },
            {"rules": [{"name": "disks", "read_ahead_kb": 1024}]},
            ({"rules": [{"name": "a", "read_ahead_kb": "lots"}]}, ("storage.a.read_ahead_kb", "'lots'")),
        ),
        Case(
            "nic",
            _nic,
            {
                "rules": [
                    {
                        **_ETH2,
                        "rings": 4096,
                        "channels": 2,
                        "coalesce": {"rx-usecs": 50},
                        "pause": {"rx": False},
                    }
                ]
            },
            {"rules": [{**_ETH2, "rings": 2048}]},
            ({"rules": [{"name": "a", "mtu": "lots"}]}, ("nic.a.mtu", "'lots'")),
        ),
        Case(
            "rail",
            _rail,
            {"rules": [RAILS]},
            {"rules": [{**RAILS, "arp_announce": 1}]},
            ({"rules": [{"name": "a", "arp_ignore": 9}]}, ("rail.rules[0].arp_ignore", "9")),
        ),
        Case(
            "qos",
            _qos,
            {"rules": [ROCE]},
            {"rules": [{**ROCE, "traffic_class": 104}]},
            ({"rules": [{"name": "a", "pfc": [9]}]}, ("qos.rules[0].pfc", "9")),
        ),
        Case(
            "irq",
            _irq,
            {"rules": [{**_ETH2, "strategy": "spread"}]},
            {"rules": [{**_ETH2, "strategy": "list", "cpus": "1"}]},
            ({"rules": [{"name": "a", "rps": "on"}]}, ("irq.rules[0].rps", "'on'")),
        ),
        Case(
            "nccl",
            _nccl,
            {"variables": {"NCCL_IB_HCA": "auto", "NCCL_DEBUG": "WARN"}},
            {"variables": {"NCCL_NET": "IB"}},
            ({"variables": {"NCCL_IB_TC": 300}}, ("NCCL_IB_TC", "'300'")),
        ),
        Case(
            "containers",
            _containers,
            {
                "sysctls": {"net.core.somaxconn": 4096, "net.ipv4.ip_local_port_range": "20000 65535"},
                "ulimits": {"nofile": "1024:1048576", "memlock": "unlimited"},
                "shm_size": str(16 << 30),
                "runtimes": ["podman"],
            },
            {"ulimits": {"nofile": 65536}, "shm_size": "1536MiB", "runtimes": ["docker"]},
            ({"shm_size": "lots"}, ("containers.shm_size", "'lots'")),
        ),
        Case(
            "boot",
            _boot,
            {"parameters": {"iommu": "pt"}, "isolate": {"cpus": "6-7"}},
            {"parameters": {"iommu": None, "audit": "0"}},
            ({"parameters": {"iommu": True}}, ("boot.iommu", "true")),
        ),
        Case(
            "metrics",
            _metrics,
            {"textfile_directory": "auto"},
            {"textfile_directory": "/srv/metrics"},
            ({"textfile_directory": "srv"}, ("metrics.textfile_directory", "'srv'")),
        ),
        Case(
            "pull",
            _timer,
            PULL,
            {**PULL, "url": "https://config.example/other"},
            ({**PULL, "url": "ftp://config.example"}, ("pull.url", "'ftp://config.example'")),
        ),
    )
}


def made(case: Case, folder: pathlib.Path) -> Node:
    """The node before the first run, and the folders that every node has."""
    node = case.make(folder)
    for path in ("/run", "/var/lib", "/etc/systemd/system"):
        os.makedirs(node.root + path, exist_ok=True)
    for path in (*agent_files.TEXTS, *agent_files.LINKS, agent.COMMAND, origin.PATH, origin.COPY):
        if os.path.lexists(node.root + path):
            os.unlink(node.root + path)
    node.remove_empty("/etc/mlnode", "/var/lib/mlnode")
    return node


def install(node: Node) -> None:
    """The agent, without which nothing lasts until the next boot."""
    agent.install(node)
    node.forget()
