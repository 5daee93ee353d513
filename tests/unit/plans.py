# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the profiles would set on each machine of the fixtures, as tests/fixtures/golden keeps it: training,
inference and, where there are rails, fabric beside training, with a preset for priorities as well.

By hand, and then to be read line by line: PYTHONPATH=.ansible/collections python -m
ansible_collections.mlnode.tuning.tests.unit.plans
"""

from __future__ import annotations

import math
import pathlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES
from ansible_collections.mlnode.tuning.tests.unit.dcb_machine import Bridge, DcbMachine
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import VERSION
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import (
    DEFAULTS,
    MENU,
    MKCONFIG,
    READS_DROP_INS,
    menu,
)
from ansible_collections.mlnode.tuning.tests.unit.machine import OFFERED
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic
from ansible_collections.mlnode.tuning.tests.unit.nicctl import Nicctl
from ansible_collections.mlnode.tuning.tests.unit.roles import name_of
from mlnode.agent.registry import KINDS
from mlnode.drivers.gpu import nvidia_smi as nvidia
from mlnode.engine import declared, engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.engine.plan import Kept
from mlnode.host.system import Finished
from mlnode.model.setting import BOTH_LAYERS, Layer
from mlnode.topology import hardware, management

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures" / "golden"
#: What is the same of most machines, and what stands for a line of it that a machine does not have
MOST, NONE = "most.plan.txt", "none"

#: What an operator names beside the profile fabric
PRESETS = {
    "hgx": "roce_nvidia", "epyc256": "roce_nvidia", "oci-gpu": "roce_oci", "mi300x": "roce_nvidia",
    "mi355x": "roce_nvidia",
}  # fmt: skip

#: Areas whose boot layer is a part of the plan; of the others a drop-in or the agent brings the same
_AT_BOOT = ("limits", "irq", "nccl", "boot")

_DEBIAN = {
    "/usr/sbin/update-grub": "",
    "/usr/sbin/grub-mkconfig": MKCONFIG + READS_DROP_INS,
    DEFAULTS: 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n',
}
_RED_HAT = {"/usr/sbin/grub2-mkconfig": MKCONFIG, "/boot/grub2/grub.cfg": "blscfg\n"}


def _entry(kernel: str, options: str) -> dict[str, str]:
    return {f"/boot/loader/entries/0123-{kernel}.conf": f"linux /vmlinuz-{kernel}\noptions {options}\n"}


#: What the trees of hardware do not have: the loader of the distribution that each machine runs
LOADERS: dict[str, dict[str, str]] = {
    "hgx": {**_DEBIAN, MENU: menu("iommu=pt", "quiet")},
    "cloud-gpu": {**_RED_HAT, **_entry("6.1.141", "root=UUID=0 ro console=ttyS0,115200n8 quiet")},
    "small-vm": {**_DEBIAN, MENU: menu("console=ttyS0")},
    "container": {},
    "grace": {**_DEBIAN, MENU: menu("init_on_alloc=0 iommu.passthrough=1")},
    "epyc256": {
        **_RED_HAT,
        **_entry(
            "6.12.0",
            "root=UUID=0 ro isolcpus=managed_irq,domain,8-15,136-143 nohz_full=8-15,136-143 "
            "rcu_nocbs=8-15,136-143",
        ),
        "/etc/kernel/cmdline": "root=UUID=0 ro isolcpus=managed_irq,domain,8-15,136-143\n",
    },
    "tiny-vm": {**_RED_HAT, **_entry("5.14.0", "root=/dev/mapper/rhel-root ro quiet")},
    "oci-gpu": {**_DEBIAN, MENU: menu("console=ttyS0 iommu=pt")},
    "gcp-gpu": {**_DEBIAN, MENU: menu("console=ttyS0,115200")},
    "gb200": {**_DEBIAN, MENU: menu("console=ttyS0 nvme_core.io_timeout=0")},
    "mi300x": {**_DEBIAN, MENU: menu("amd_iommu=on iommu=pt pci=realloc=off", "quiet")},
    "mi355x": {**_DEBIAN, MENU: menu("quiet")},
    "trn1": {**_RED_HAT, **_entry("6.1.141", "root=UUID=0 ro console=ttyS0,115200n8 quiet")},
}

THP = "/sys/kernel/mm/transparent_hugepage"
#: What the trees of hardware do not have: a distribution with Linux 6.12 as it is installed, with what
#: systemd raises.
STOCK = {
    f"{THP}/enabled": "[always] madvise never",
    f"{THP}/defrag": "always defer defer+madvise [madvise] never",
    "/etc/pam.d/common-session": "session required pam_limits.so\nsession required pam_unix.so\n",
    "/etc/security/limits.conf": "# <domain> <type> <item> <value>\n",
    "/etc/systemd/system.conf": "[Manager]\n",
    "/run/systemd/system/.keep": "",
    "/usr/lib/systemd/system/slurmd.service": "[Service]\nExecStart=/usr/sbin/slurmd\n",
    "/usr/lib/systemd/system/containerd.service": "[Service]\nExecStart=/usr/bin/containerd\n",
    "/etc/default/irqbalance": "",
    "/usr/sbin/dcb": "",
    # systemd mounts debugfs.
    "/sys/kernel/debug/wakeup_sources": "",
    "/usr/lib/systemd/system/irqbalance.service": (
        "[Service]\nEnvironmentFile=-/etc/default/irqbalance\n"
        "ExecStart=/usr/sbin/irqbalance $IRQBALANCE_ARGS\n"
    ),
    "/usr/lib/systemd/system/ssh.service": "[Service]\nExecStart=/usr/sbin/sshd\n",
}
#: Modules that a distribution has beside its kernel, of which drivers of RDMA devices load the first
_MODULES = ("ib_uverbs", "rdma_ucm", "ib_umad")
READ_AHEAD = "/queue/read_ahead_kb"
_INSTALLED = (
    "/gpu/", "/proc/driver/", "/proc/sys/", "/sys/kernel/debug", "/sys/module/", THP,
    "/boot", "/etc", "/lib", "/run", "/usr", "/var",
)  # fmt: skip


class Installed(DcbMachine):
    """Hardware of a fixture under a distribution that nothing has tuned, with its boot loader and drivers.
    NICs have short rings, and all their queues, as drivers start them."""

    def __init__(self, name: str, system: pathlib.Path) -> None:
        super().__init__(tree(name))
        self._system = system
        self.topology = hardware.read(self)
        self.nics = {}
        for path, text in {**OFFERED, **STOCK, **LOADERS[name], READ_AHEAD: "128"}.items():
            self._lay(path, text)
        # mm/page_alloc.c: calculate_min_free_kbytes
        memory = re.search(r"^MemTotal: +(\d+) kB", self.text("/proc/meminfo"), re.MULTILINE)
        assert memory
        self._lay("/proc/sys/vm/min_free_kbytes", str(min(262144, math.isqrt(int(memory.group(1)) * 16))))
        # init/Kconfig: NUMA_BALANCING_DEFAULT_ENABLED, where there is more than one node
        self._lay("/proc/sys/kernel/numa_balancing", str(int(len(self.topology.nodes) > 1)))
        self._install_drivers()

    def _install_drivers(self) -> None:
        known = self.topology
        hardware = [nic for nic in known.nics if nic.address]
        queues = {nic.name: {"combined": nic.rx_queues} for nic in hardware}
        self.nics = {
            nic.name: Nic(nic.driver, channels=queues[nic.name], channels_max=queues[nic.name])
            for nic in hardware
        }
        self.bridges = {
            nic.name: Bridge.bare() if nic.driver == "ionic" else Bridge(single=nic.driver == "ice")
            for nic in hardware
            if nic.rdma
        }
        own = {nic.rdma[0]: nic.address or "" for nic in hardware if nic.driver == "ionic" and nic.rdma}
        self.nicctl = Nicctl(own)
        if own:
            self._lay("/usr/sbin/nicctl", "")
            for nic in hardware:
                if nic.driver == "ionic":
                    self.nics[nic.name].pause = {"autoneg": 0, "rx": 1, "tx": 1}
        for name in ("all", *(nic.name for nic in known.nics)):
            # systemd's 50-default.conf leaves `all` out.
            loose = "0" if name == "all" else "2"
            for knob, value in (("arp_ignore", "0"), ("arp_announce", "0"), ("rp_filter", loose)):
                self._lay(f"/proc/sys/net/ipv4/conf/{name}/{knob}", value)
        release = self.text("/proc/sys/kernel/osrelease").strip()
        self._lay(f"/lib/modules/{release}/modules.dep", "".join(f"{module}.ko:\n" for module in _MODULES))
        if known.rdma:
            self._lay(f"/sys/module/{_MODULES[0]}/initstate", "live")
        for module in {gpu.driver for gpu in known.gpus if gpu.driver in ("amdgpu", "nvidia")}:
            self._lay(f"/sys/module/{module}/initstate", "live")
            self._lay(f"/boot/config-{release}", "CONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_MOVE_NOTIFY=y")
        gpus = [gpu.address for gpu in known.gpus if gpu.driver == "nvidia"]
        if gpus:
            self._lay(nvidia.DRIVER, VERSION)
            rows = [f"{number}, 0000{address}, Disabled" for number, address in enumerate(gpus)]
            self._lay(nvidia.CAPTURED, "\n".join(rows))

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        return self.nicctl.run(command[1:]) if command[0] == "nicctl" else super().run(command, seconds)

    def blocked(self, path: str) -> str:
        """By the mounts of a container, which mountinfo.blocked() cannot follow into another folder."""
        points = re.findall(r"^\S+ (/\S+) \S+ ro,", self.text("/proc/1/mounts"), re.MULTILINE)
        return "read-only in this container" if path.startswith(tuple(points)) else super().blocked(path)

    def declare(self, name: str, areas: dict[str, Any]) -> Kept:
        """As an earlier run has left it on the node, which has the agent."""
        declaration = declared.Declaration(name, areas)
        self._lay(declaration.path, declared.render(declaration).decode())
        self.forget()
        return Kept(tuple(declared.load_all(self)), {}, "", "", True)

    def _lay(self, path: str, text: str) -> None:
        file = self._system / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n" if text and not text.endswith("\n") else text)

    def real(self, path: str, follow: bool = True) -> str:
        if path.endswith(READ_AHEAD):
            return f"{self._system}{READ_AHEAD}"
        laid = path.startswith(_INSTALLED) and path != "/proc/sys/kernel/osrelease"
        return f"{self._system}{path}" if laid else super().real(path, follow)


#: Title of a section → key of a setting → words about it
Sections = Mapping[str, Mapping[str, str]]


def sections(host: Installed, name: str) -> dict[str, dict[str, str]]:
    """One for each profile, and one for what training and inference share: with what each setting would be,
    and why where it is not as declared."""
    inference, training = _lines(host, "inference"), _lines(host, "training")
    found = {
        "training and inference": _without(training, _without(training, inference)),
        "training": _without(training, inference),
        "inference": _without(inference, training),
    }
    if any(device.rail is not None for device in host.topology.rdma):
        fabric = _lines(host, "fabric")
        found["fabric, beside training"] = _without(fabric, training)
        if name in PRESETS:
            found[PRESETS[name]] = _without(_lines(host, "fabric", PRESETS[name]), fabric)
    return found


def shared(plans: Sequence[Sections]) -> dict[str, dict[str, str]]:
    """What most machines with a section have in it."""
    found: dict[str, dict[str, str]] = {}
    for title in dict.fromkeys(title for plan in plans for title in plan):
        those = [plan[title] for plan in plans if title in plan]
        for key in dict.fromkeys(key for one in those for key in one):
            words, count = Counter(one.get(key, NONE) for one in those).most_common(1)[0]
            if words != NONE and count * 2 > len(those) > 1:
                found.setdefault(title, {})[key] = words
    return found


def text(name: str, system: pathlib.Path, of_most: Sections) -> str:
    """A line for each setting of a machine that is not as of most, and for each that it alone lacks."""
    host = Installed(name, system)
    found = {}
    for title, lines in sections(host, name).items():
        others = of_most.get(title, {})
        found[title] = {**_without(lines, others), **{key: NONE for key in others if key not in lines}}
    whole, head = rendered(found), ""
    for names, group in _groups(host).items():
        head += f"{group}: {names}\n" if names in whole else ""
        whole = whole.replace(names, group)
    return f"{head}{whole}"


def rendered(found: Sections) -> str:
    lines = [line for title, words in found.items() for line in (f"# {title}", *_folded(words))]
    return "".join(f"{line}\n" for line in lines)


def parsed(kept: str) -> Sections:
    """What rendered() has written."""
    found: dict[str, dict[str, str]] = {}
    for section in kept.split("# ")[1:]:
        title, *lines = section.splitlines()
        rows = [line.partition(" = ") for line in lines]
        found[title] = {key: words for keys, _equals, words in rows for key in keys.split(", ")}
    return found


def _groups(host: Installed) -> dict[str, str]:
    """Long lists of devices, and what stands for each, the longest first."""
    known, here = host.topology, management.interfaces(host)
    ports = [nic for nic in known.nics if nic.kind == "physical"]
    groups = {
        "NICs": [nic.name for nic in ports],
        "others than management": [nic.name for nic in ports if nic.name not in here],
        "rails": [nic.name for nic in ports if nic.rail is not None],
        "RDMA devices": [device.name for device in known.rdma if device.rail is not None],
    }
    return {", ".join(names): f"{len(names)} {group}" for group, names in groups.items() if len(names) > 2}


def _lines(host: Installed, *profiles: str) -> dict[str, str]:
    """Key of each setting and words about it."""
    name, areas = name_of(profiles[0]), profile.combined(profiles, {}).areas
    known = host.declare(name, areas)
    lines: dict[str, str] = {}
    for area, kind in KINDS.items():
        if area in areas:
            layers = BOTH_LAYERS if area in _AT_BOOT else (Layer.RUNTIME,)
            plan = engine.evaluate(host, Request(name, kind, kind.checked(areas[area]), layers), known)
            lines.update((row.setting.key, _words(row)) for row in plan.rows)
    return lines


def _words(row: Row) -> str:
    claim, want = str(row.setting.claim), row.reading.want or "as it is"
    declared_as = "" if claim == want else f"  ({claim})"
    reason = row.reason or row.reading.note
    service = row.setting.key.partition("service.")[2]
    reason = reason.replace(f"{service}.service", "it") if service else reason
    if reason.startswith("runtime is ") and ": " in want:
        reason = ""  # of each device, what Installed says
    return f"{want}{declared_as}: {row.status}{f', {reason}' if reason else ''}"


def _without(lines: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    return {key: words for key, words in lines.items() if others.get(key) != words}


def _folded(lines: Mapping[str, str]) -> Iterator[str]:
    """Settings of which the same is said, together."""
    keys: dict[str, list[str]] = {}
    for key, words in lines.items():
        keys.setdefault(words, []).append(key)
    for words, alike in keys.items():
        yield f"{', '.join(alike)} = {words}"


def write() -> None:
    """All files anew."""
    with tempfile.TemporaryDirectory() as folder:
        systems = {name: pathlib.Path(folder) / name for name in MACHINES}
        of_most = shared([sections(Installed(name, system), name) for name, system in systems.items()])
        (FOLDER / MOST).write_text(rendered(of_most), encoding="utf-8")
        for name, system in systems.items():
            plan = text(name, system, parsed(rendered(of_most)))
            (FOLDER / f"{name}.plan.txt").write_text(plan, encoding="utf-8")


if __name__ == "__main__":
    write()
