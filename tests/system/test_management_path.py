# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks over ssh to network namespaces, of which one has a hole in the MTU of its management path: its
connection opens, and hangs with the first large packet. No packet leaves them."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.namespaces import ENVIRONMENT, ROOT, run

pytestmark = [pytest.mark.system, namespaces.needs_root, pytest.mark.long]

NODES = ("node01", "node02")
PORT = 2222


class Net(namespaces.Net):
    """A controller at 10.9.0.1, and nodes with sshd."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__("ssh")
        self.folder = folder
        self.servers: list[subprocess.Popen[bytes]] = []

    def make(self) -> None:
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        self.switch(9000, ["controller", *NODES])
        for name in ("host", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
        options = {"AuthorizedKeysFile": self.folder / "user.pub", "StrictModes": "no", "PidFile": "none"}
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        server = [
            "/usr/sbin/sshd",
            "-D",
            "-f",
            "/dev/null",
            "-h",
            str(self.folder / "host"),
            "-p",
            str(PORT),
            *words,
        ]
        for name in NODES:
            self.servers.append(subprocess.Popen(["ip", "netns", "exec", self.prefix + name, *server]))

    def remove(self) -> None:
        # The controller's connections as well, which hang.
        for pid in self.pids():
            subprocess.run(["kill", "-9", pid], check=False)
        for server in self.servers:
            server.wait()
        super().remove()

    def over_ssh(self, playbook: str, **more: object) -> subprocess.CompletedProcess[str]:
        of_all = {
            "ansible_user": "root", "ansible_port": PORT, "ansible_become": False,
            "ansible_ssh_private_key_file": str(self.folder / "user"),
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
            "ansible_python_interpreter": sys.executable,
        }  # fmt: skip
        hosts = {name: {**of_all, "ansible_host": f"10.9.0.{at}"} for at, name in enumerate(NODES, 2)}
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps({"all": {"children": {"training": {"hosts": hosts}}}}))
        program = str(pathlib.Path(sys.executable).with_name("ansible-playbook"))
        words = [program, "-i", str(inventory), "-e", json.dumps(more), str(ROOT / "playbooks" / playbook)]
        return subprocess.run(
            ["ip", "netns", "exec", f"{self.prefix}controller", *words],
            env={**ENVIRONMENT, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "paths")},
            capture_output=True, text=True, check=False, timeout=280, stdin=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture
def net() -> Iterator[Net]:
    namespaces.need("ping", "iputils-ping")
    namespaces.need("ssh", "openssh-client")
    namespaces.need("sshd", "openssh-server")
    # The path of a control socket is short (unix(7)).
    folder = pathlib.Path(run("mktemp", "-d", "/tmp/mlnode-ssh-XXXXXX").strip())
    made = Net(folder)
    try:
        made.make()
        time.sleep(1)
        made.ip("switch", "link set node02 mtu 1500")
        yield made
    finally:
        made.remove()
        run("rm", "-r", str(folder))


@pytest.mark.parametrize("playbook", ["preflight.yml", "path_mtu.yml"])
def test_the_table_comes_with_the_other_nodes(net: Net, playbook: str) -> None:
    group = {"preflight_group": "training", "path_mtu_group": "training"}

    done = net.over_ssh(playbook, **group, preflight_timeout=25, path_mtu_timeout=25)

    assert done.returncode == 2, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "Timed out after 25 second(s). The node or its connection hangs: look at its load" in said
    # The others have proven the same hole.
    assert "packets of 9000 bytes do not arrive, 1500 do and 2044 do not" in said


def test_all_nodes_that_cannot_be_reached_are_in_the_table(net: Net) -> None:
    for name in NODES:
        net.ip("switch", f"link set {name} down")

    done = net.over_ssh("preflight.yml", preflight_group="training")

    assert done.returncode == 2, done.stdout + done.stderr
    assert "unknown: 2 nodes: 2 unknown" in done.stdout
    assert "not checked" in done.stdout
