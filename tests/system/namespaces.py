# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network namespaces as nodes, which are made for a test and go with it. No packet leaves them."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.system import packages

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **os.environ,
    "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections"),
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "PYTHONPATH": str(ROOT / ".ansible/collections"),
}

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")


def need(program: str, package: str) -> None:
    """Installed where it is missing; without it the test is skipped."""
    if not shutil.which(program) and not (packages.install(package) and shutil.which(program)):
        pytest.skip(f"no {program} here, and none could be installed (apt-get install {package})")


@pytest.fixture(name="tmp_path")
def on_disk() -> Iterator[pathlib.Path]:
    """For tests that mount over /dev and /dev/shm, where temporary folders may be."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield pathlib.Path(folder)


def run(*words: str) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def command_of(pid: str) -> str:
    """Empty where it has ended."""
    try:
        return pathlib.Path("/proc", pid, "comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


class Net:
    """prefix: of the names of the namespaces, as others may be there."""

    def __init__(self, name: str) -> None:
        self.prefix = f"mlnode-{name}-{os.getpid()}-"
        self.names: list[str] = []
        #: Of the nodes
        self.shell = "/bin/sh"

    def add(self, name: str) -> None:
        run("ip", "netns", "add", self.prefix + name)
        self.names.append(name)
        self.ip(name, "link set lo up")

    def ip(self, name: str, words: str) -> None:
        run("ip", "-n", self.prefix + name, *words.split())

    def inside(self, name: str, *words: str) -> str:
        return run("ip", "netns", "exec", self.prefix + name, *words)

    def running(self, program: str) -> list[str]:
        """Numbers of the processes of a program in these namespaces: another one may run it elsewhere."""
        return [pid for pid in self.pids() if command_of(pid) == program]

    def files(self, pattern: str) -> list[pathlib.Path]:
        """Those in /run/mlnode of these namespaces, which have the number of one of them in place of a
        star."""
        numbers = [pathlib.Path("/run/netns", self.prefix + name).stat().st_ino for name in self.names]
        paths = [pathlib.Path("/run/mlnode", pattern.replace("*", str(number))) for number in numbers]
        return [path for path in paths if path.exists()]

    def pids(self) -> list[str]:
        """All processes in these namespaces."""
        return [pid for name in self.names for pid in run("ip", "netns", "pids", self.prefix + name).split()]

    def drops(self, name: str, rule: str) -> None:
        """A node does not receive these packets: words of nft(8)."""
        need("nft", "nftables")
        for words in (
            "table inet mlnode",
            "chain inet mlnode dropped { type filter hook input priority 0; }",
            f"rule inet mlnode dropped {rule} drop",
        ):
            self.inside(name, "nft", f"add {words}")

    def loses(self, name: str, percent: int) -> None:
        """Of what a node receives, at random."""
        self.drops(name, f"numgen random mod 100 < {percent}")

    def switch(self, mtu: int, names: list[str]) -> None:
        """Nodes with the addresses 10.9.0.1, 10.9.0.2 ... behind one switch."""
        self.add("switch")
        self.ip("switch", f"link add br0 mtu {mtu} type bridge")
        self.ip("switch", "link set br0 up")
        for number, name in enumerate(names, 1):
            self.add(name)
            peer = f"peer name eth0 mtu {mtu} netns {self.prefix}{name}"
            self.ip("switch", f"link add {name} mtu {mtu} type veth {peer}")
            self.ip("switch", f"link set {name} master br0 up")
            self.ip(name, "link set eth0 up")
            self.ip(name, f"addr add 10.9.0.{number}/24 dev eth0")

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", self.prefix + name], check=False)

    def play(
        self,
        folder: pathlib.Path,
        playbook: str,
        group: str,
        hosts: Mapping[str, Mapping[str, Any]],
        *words: str,
        seconds: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """A playbook, with namespaces as nodes. hosts: name → its variables."""
        known = {name: {**self._host(name), **own} for name, own in hosts.items()}
        inventory = folder / "inventory.json"
        inventory.write_text(json.dumps({"all": {"children": {group: {"hosts": known}}}}))
        program = str(pathlib.Path(sys.executable).with_name("ansible-playbook"))
        return subprocess.run(
            [program, "-i", str(inventory), *words, str(ROOT / "playbooks" / playbook)],
            env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=seconds,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def tools(self, folder: pathlib.Path, scripts: Mapping[str, str]) -> None:
        """Programs in /usr/sbin of the nodes, beside those of this machine. scripts: name → of sh."""
        real, shown = folder / "real", folder / "shown"
        for path in (real, shown):
            path.mkdir()
        for name in {*os.listdir("/usr/sbin")} - {*scripts}:
            (shown / name).symlink_to(real / name)
        shell = f'mount --bind /usr/sbin {real} && mount --bind {shown} /usr/sbin && exec /bin/sh "$@"'
        for path, text in [(folder / "shell", shell), *((shown / name, scripts[name]) for name in scripts)]:
            path.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
            path.chmod(0o755)
        self.shell = str(folder / "shell")

    def _host(self, name: str) -> dict[str, Any]:
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            # Of all that is run there, the installed agent as well
            "ansible_shell_executable": f"ip netns exec {self.prefix}{name} {self.shell}",
            "ansible_become": False,
        }
