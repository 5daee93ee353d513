# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the profile training would set on each machine of the fixtures, as tests/fixtures/golden keeps it.

By hand, and then to be read line by line: PYTHONPATH=.ansible/collections python -m
ansible_collections.mlnode.tuning.tests.unit.plans
"""

from __future__ import annotations

import math
import pathlib
import re
import tempfile
from collections.abc import Iterator

from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic, NicMachine
from ansible_collections.mlnode.tuning.tests.unit.roles import declaration, name_of
from mlnode.agent.registry import KINDS
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.model.setting import BOTH_LAYERS, Layer
from mlnode.topology import read

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures" / "golden"
PROFILE = "training"

#: Those that depend on the machine; boot and nccl have goldens with declarations for their own traps
AREAS = ("thp", "sysctl", "limits", "storage", "nic", "cpu")

THP = "/sys/kernel/mm/transparent_hugepage"
#: What the trees of hardware do not have: a distribution with Linux 6.12 as it is installed, with what
#: systemd raises. Values are those of Debian 13 in the kernel lab; of the three that the kernel computes from
#: memory (max_user_watches, tcp_max_syn_backlog, tcp_max_tw_buckets) those of a large machine.
STOCK = {
    f"{THP}/enabled": "[always] madvise never",
    f"{THP}/defrag": "always defer defer+madvise [madvise] never",
    "/proc/sys/vm/swappiness": "60",
    "/proc/sys/vm/dirty_ratio": "20",
    "/proc/sys/vm/dirty_bytes": "0",
    "/proc/sys/vm/dirty_background_ratio": "10",
    "/proc/sys/vm/dirty_background_bytes": "0",
    "/proc/sys/vm/zone_reclaim_mode": "0",
    "/proc/sys/vm/max_map_count": "65530",
    "/proc/sys/kernel/sched_autogroup_enabled": "1",
    "/proc/sys/kernel/pid_max": "4194304",
    "/proc/sys/fs/aio-max-nr": "65536",
    "/proc/sys/fs/nr_open": "1073741816",
    "/proc/sys/fs/file-max": "9223372036854775807",
    "/proc/sys/fs/inotify/max_user_watches": "65536",
    "/proc/sys/fs/inotify/max_user_instances": "128",
    "/proc/sys/net/core/rmem_max": "212992",
    "/proc/sys/net/core/wmem_max": "212992",
    "/proc/sys/net/core/netdev_max_backlog": "1000",
    "/proc/sys/net/core/somaxconn": "4096",
    "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456",
    "/proc/sys/net/ipv4/tcp_wmem": "4096\t16384\t4194304",
    "/proc/sys/net/ipv4/tcp_window_scaling": "1",
    "/proc/sys/net/ipv4/tcp_max_syn_backlog": "4096",
    "/proc/sys/net/ipv4/tcp_tw_reuse": "2",
    "/proc/sys/net/ipv4/tcp_fin_timeout": "60",
    "/proc/sys/net/ipv4/tcp_max_tw_buckets": "262144",
    "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999",
    "/proc/sys/net/ipv4/ip_local_reserved_ports": "",
    "/proc/sys/net/ipv4/tcp_keepalive_time": "7200",
    "/proc/sys/net/ipv4/tcp_keepalive_intvl": "75",
    "/proc/sys/net/ipv4/tcp_keepalive_probes": "9",
    "/proc/sys/net/ipv4/tcp_slow_start_after_idle": "1",
    "/proc/sys/net/ipv4/tcp_notsent_lowat": "4294967295",
    "/etc/pam.d/common-session": "session required pam_limits.so\nsession required pam_unix.so\n",
    "/etc/security/limits.conf": "# <domain> <type> <item> <value>\n",
    "/etc/systemd/system.conf": "[Manager]\n",
    "/run/systemd/system/.keep": "",
    "/usr/lib/systemd/system/slurmd.service": "[Service]\nExecStart=/usr/sbin/slurmd\n",
    "/usr/lib/systemd/system/containerd.service": "[Service]\nExecStart=/usr/bin/containerd\n",
    "/usr/lib/systemd/system/ssh.service": "[Service]\nExecStart=/usr/sbin/sshd\n",
}
READ_AHEAD = "/queue/read_ahead_kb"
_INSTALLED = ("/proc/sys/", "/etc", "/run", "/usr", "/var", THP)


class Installed(NicMachine):
    """Hardware of a fixture under a distribution that nothing has tuned. Its NICs have short rings, and one
    queue for each CPU, up to 63, as drivers start them."""

    def __init__(self, name: str, system: pathlib.Path) -> None:
        super().__init__(tree(name))
        self._system = system
        for path, text in {**STOCK, READ_AHEAD: "128"}.items():
            self._lay(path, text)
        # mm/page_alloc.c: calculate_min_free_kbytes
        memory = re.search(r"^MemTotal: +(\d+) kB", self.text("/proc/meminfo"), re.MULTILINE)
        assert memory
        self._lay("/proc/sys/vm/min_free_kbytes", str(min(262144, math.isqrt(int(memory.group(1)) * 16))))
        topology = read.read(self)
        # init/Kconfig: NUMA_BALANCING_DEFAULT_ENABLED, where there is more than one node
        self._lay("/proc/sys/kernel/numa_balancing", str(int(len(topology.nodes) > 1)))
        queues = {"combined": min(63, len(topology.cpus.online))}
        self.nics = {
            nic.name: Nic(nic.driver, channels=queues, channels_max=queues)
            for nic in topology.nics
            if nic.address
        }

    def _lay(self, path: str, text: str) -> None:
        file = self._system / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n" if text and not text.endswith("\n") else text)

    def real(self, path: str, follow: bool = True) -> str:
        if path.endswith(READ_AHEAD):
            return f"{self._system}{READ_AHEAD}"
        laid = path.startswith(_INSTALLED) and path != "/proc/sys/kernel/osrelease"
        return f"{self._system}{path}" if laid else super().real(path, follow)


def text(name: str, system: pathlib.Path) -> str:
    """One line for each setting of the profile: what it would be, and why where it is not as declared."""
    host = Installed(name, system)
    return "\n".join(line for area in AREAS for line in _area(host, area)) + "\n"


def _area(host: Installed, area: str) -> Iterator[str]:
    layers = BOTH_LAYERS if area == "limits" else (Layer.RUNTIME,)
    request = Request(name_of(PROFILE), KINDS[area], declaration(PROFILE)[area], layers)
    for row in engine.evaluate(host, request).rows:
        yield _line(row)


def _line(row: Row) -> str:
    claim, want = str(row.setting.claim), row.reading.want or "as it is"
    declared = "" if claim == want else f"  ({claim})"
    reason = row.reason or row.reading.note
    return f"{row.setting.key} = {want}{declared}: {row.status}{f', {reason}' if reason else ''}"


if __name__ == "__main__":
    for machine in MACHINES:
        with tempfile.TemporaryDirectory() as folder:
            (FOLDER / f"{machine}.plan.txt").write_text(text(machine, pathlib.Path(folder)), encoding="utf-8")
