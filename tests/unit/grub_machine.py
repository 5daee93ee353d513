# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that GRUB starts. Its update-grub has a real shell read the files, as grub-mkconfig does."""

from __future__ import annotations

import itertools
import pathlib
import shlex
import subprocess
from collections.abc import Sequence

from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from mlnode.host.system import Finished
from mlnode.model import cpulist

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
MENU = "/boot/grub/grub.cfg"
DEFAULTS = "/etc/default/grub"
DROP_INS = "/etc/default/grub.d"
KERNEL = "/boot/vmlinuz-6.12.0"

#: Both parts of the real script that matter here
MKCONFIG = """\
#! /bin/sh
if test -f ${sysconfdir}/default/grub ; then
  . ${sysconfdir}/default/grub
fi
"""
READS_DROP_INS = """\
for x in ${sysconfdir}/default/grub.d/*.cfg ; do
  if [ -e "${x}" ]; then
    . "${x}"
  fi
done
"""

_READ = """\
set -e
for file in "$1$2" "$1$3"/*.cfg; do
    if [ -e "$file" ]; then . "$file"; fi
done
printf '%s\\n%s\\n' "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"
"""

#: As Debian's GRUB 2.12 writes it, shortened. Line 16 is the entry that boots, 22 and 26 are the submenu's.
_MENU: str = cases.load(pathlib.Path(__file__).with_suffix(".yml"))["menu"]


def menu(everywhere: str, normal: str = "") -> str:
    return _MENU.format(kernel=KERNEL, all=everywhere, normal=normal)


def sourced(root: str, shell: str = "sh") -> tuple[str, str]:
    """The two variables as the shell sees them after all files."""
    done = subprocess.run(
        [shell, "-c", _READ, "sh", root, DEFAULTS, DROP_INS],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    everywhere, normal, _end = done.stdout.split("\n")
    return everywhere, normal


def as_grub_reads(line: str) -> list[str]:
    """The words of a command: quotes are taken off, and a semicolon outside of them ends it."""
    words = shlex.shlex(line, posix=True, punctuation_chars=";")
    words.whitespace_split = True
    words.commenters = ""
    return [*itertools.takewhile(lambda word: word != ";", words)]


class GrubMachine(Machine):
    """A two-socket node: CPUs 0-7, of which 4-7 are the second threads, on NUMA nodes 0 (even) and 1 (odd).

    broken: how often update-grub fails from now on; forgetful: how often it finds no kernel, as where /boot
    is not mounted.
    """

    broken = 0
    forgetful = 0
    updates = 0

    @classmethod
    def debian_with_grub(
        cls, root: str, defaults: str = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'
    ) -> GrubMachine:
        machine = cls.debian(root, _cpus())
        assert isinstance(machine, GrubMachine)
        machine.put(DEFAULTS, defaults)
        machine.put(f"{DROP_INS}/.keep", "")
        machine.put("/usr/sbin/update-grub", "", 0o755)
        machine.put("/usr/sbin/grub-mkconfig", MKCONFIG + READS_DROP_INS, 0o755)
        machine.put(MENU, "")
        machine.write_menu()
        machine.reboot()
        machine.updates = 0
        return machine

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if list(command) not in (["/usr/sbin/update-grub"], ["/usr/sbin/grub-mkconfig", "-o", MENU]):
            return super().run(command, seconds)
        if self.broken:
            self.broken -= 1
            return Finished(1, "", "Syntax errors are detected in generated GRUB config file.\n")
        self.write_menu()
        return Finished(0, "", "done\n")

    def write_menu(self) -> None:
        self.updates += 1
        self.put(MENU, "# no kernel\n" if self.forgetful else menu(*sourced(self.root)))
        self.forgetful = max(0, self.forgetful - 1)

    def reboot(self) -> None:
        """The first entry of the menu, as GRUB hands it over."""
        line = next(line for line in self.read(MENU).splitlines() if "vmlinuz" in line)
        self.started(" ".join(as_grub_reads(line)[1:]))

    def started(self, line: str) -> None:
        """A kernel with this command line: it takes the CPUs of isolcpus= out (drivers/base/cpu.c)."""
        self.put("/proc/cmdline", f"BOOT_IMAGE={line}\n")
        given = [word.partition("=")[2] for word in line.split() if word.startswith("isolcpus=")]
        parts = [one.split(",") for one in given]
        cpus = [cpu for words in parts for cpu in words if cpu[:1].isdigit() or "-" in cpu]
        takes = any("domain" in words or words[0][:1].isdigit() for words in parts)
        self.put(f"{CPU}/isolated", f"{','.join(cpus) if takes else ''}\n")

    def line(self) -> str:
        """The command line that the next boot would bring."""
        line = next(line for line in self.read(MENU).splitlines() if "vmlinuz" in line)
        return " ".join(line.split()[2:])


def _cpus() -> dict[str, str]:
    files = {f"{CPU}/{name}": "0-7" for name in ("possible", "present", "online")}
    files.update({f"{CPU}/{name}": "" for name in ("offline", "isolated", "nohz_full")})
    for cpu in range(8):
        node, core = cpu % 2, cpu % 4
        folder = f"{CPU}/cpu{cpu}/topology"
        files[f"{folder}/physical_package_id"] = str(node)
        files[f"{folder}/core_id"] = str(core)
        files[f"{folder}/thread_siblings_list"] = f"{core},{core + 4}"
        files[f"{folder}/core_cpus_list"] = f"{core},{core + 4}"
    for node in (0, 1):
        mine = cpulist.render(range(node, 8, 2))
        files[f"{NODE}/node{node}/cpulist"] = mine
        files[f"{NODE}/node{node}/distance"] = "10 21" if node == 0 else "21 10"
        files[f"{NODE}/node{node}/meminfo"] = f"Node {node} MemTotal:  32768000 kB"
    files[f"{NODE}/online"] = files[f"{NODE}/possible"] = "0-1"
    files["/proc/cpuinfo"] = "processor\t: 0\nflags\t\t: fpu vme de"
    files[f"/boot/config-{RELEASE}"] = (
        "CONFIG_SMP=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y"
    )
    return files
