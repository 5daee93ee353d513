# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A preflight of network namespaces, which are made for a test and go with it. No packet leaves them.

Three nodes at 10.9.0.1 to 10.9.0.3 behind one switch, all with an MTU of 9000.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.tests.system import packages

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **os.environ,
    "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections"),
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
}

pytestmark = [pytest.mark.system, pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")]

#: More than node_preflight takes for many
WAITING = 1100

#: Leaves as many sockets in TIME_WAIT, to one port of the loopback interface
CLOSES = f"""
import socket
with socket.create_server(("127.0.0.1", 4711)) as server:
    for _ in range({WAITING}):
        with socket.create_connection(("127.0.0.1", 4711)) as connection:
            accepted, _address = server.accept()
            connection.shutdown(socket.SHUT_RDWR)
            accepted.close()
"""


def run(*words: str) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


class Net:
    def __init__(self) -> None:
        self.prefix = f"mlnode-preflight-{os.getpid()}-"
        self.names: list[str] = []
        self.nodes = [f"node0{number}" for number in (1, 2, 3)]

    def make(self) -> None:
        self.add("switch")
        self.ip("switch", "link add br0 mtu 9000 type bridge")
        self.ip("switch", "link set br0 up")
        for number, name in enumerate(self.nodes, 1):
            self.add(name)
            peer = f"peer name eth0 mtu 9000 netns {self.prefix}{name}"
            self.ip("switch", f"link add {name} mtu 9000 type veth {peer}")
            self.ip("switch", f"link set {name} master br0 up")
            self.ip(name, "link set eth0 up")
            self.ip(name, f"addr add 10.9.0.{number}/24 dev eth0")

    def add(self, name: str) -> None:
        run("ip", "netns", "add", self.prefix + name)
        self.names.append(name)
        self.ip(name, "link set lo up")

    def ip(self, name: str, words: str) -> None:
        run("ip", "-n", self.prefix + name, *words.split())

    def inside(self, name: str, *words: str) -> str:
        return run("ip", "netns", "exec", self.prefix + name, *words)

    def kept(self, name: str) -> pathlib.Path:
        """The file with the counters of a look."""
        number = re.sub(r"\D", "", self.inside(name, "readlink", "/proc/self/ns/net"))
        return pathlib.Path(f"/run/mlnode/preflight-{number}.json")

    def remove(self) -> None:
        for name in self.names:
            if name in self.nodes:
                self.kept(name).unlink(missing_ok=True)
            subprocess.run(["ip", "netns", "delete", self.prefix + name], check=False)

    def play(self, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
        """The playbook, with each namespace as a node."""
        hosts = {name: self.host(folder, name) for name in self.nodes}
        inventory = folder / "inventory.json"
        inventory.write_text(json.dumps({"all": {"children": {"nodes": {"hosts": hosts}}}}))
        program = str(pathlib.Path(sys.executable).with_name("ansible-playbook"))
        playbook = str(ROOT / "playbooks/preflight.yml")
        return subprocess.run(
            [program, "-i", str(inventory), "-e", "preflight_group=nodes", playbook],
            env={**ENVIRONMENT, "MLNODE_REPORT_JSON": str(folder / "report.json")},
            capture_output=True, text=True, check=False, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def host(self, folder: pathlib.Path, name: str) -> dict[str, Any]:
        python = folder / f"python-{name}"
        python.write_text(f'#!/bin/sh\nexec ip netns exec {self.prefix}{name} {sys.executable} "$@"\n')
        python.chmod(0o755)
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(python),
            "ansible_become": False,
            "ansible_host": f"10.9.0.{self.nodes.index(name) + 1}",
        }


@pytest.fixture
def net() -> Iterator[Net]:
    if not shutil.which("ping") and not (packages.install("iputils-ping") and shutil.which("ping")):
        pytest.skip("no ping here, and none could be installed (apt-get install iputils-ping)")
    made = Net()
    try:
        made.make()
        yield made
    finally:
        made.remove()


def rows(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
    """Check → its verdict and its nodes, as the table has them."""
    pattern = r"^ +(fail|unknown|warn|skip) +(\S+) +(\d of 3: \S+(?:, \S+)*)  "
    return {name: (verdict, nodes) for verdict, name, nodes in re.findall(pattern, done.stdout, re.MULTILINE)}


def reported(folder: pathlib.Path) -> set[str]:
    """What the report has of node01 that is not as expected: names of checks."""
    content = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    schema = json.loads((ROOT / "docs/schema/fleet.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(content, schema)
    found = [one for one in content["findings"] if one["kind"] == "node_preflight"]
    return {one["key"].split()[0] for one in found if "node01" in one["hosts"] and one["status"] == "fail"}


def test_a_switch_port_that_drops_large_packets_and_a_node_with_many_sockets(
    net: Net, tmp_path: pathlib.Path
) -> None:
    net.ip("switch", "link set node03 mtu 1500")
    net.inside("node02", sys.executable, "-c", CLOSES)

    done = net.play(tmp_path)

    assert done.returncode == 2, done.stdout + done.stderr
    found = rows(done)
    assert found["path_mtu_9000"] == ("fail", "3 of 3: node[01:03]")
    assert found["time_wait"] == ("warn", "1 of 3: node02")
    assert "packets of 9000 bytes do not arrive, 1500 do" in done.stdout
    assert "changed=0" in done.stdout
    assert reported(tmp_path) == {"path_mtu_9000"}
    assert found["nic_drops"] == found["tcp_retransmits"] == ("skip", "3 of 3: node[01:03]")
    # The nodes have found each other. On a busy machine one connection of fifty may be late.
    assert found.get("tcp_connect", ("warn", ""))[0] == "warn"
    assert "path_mtu_1500" not in found
    # The listener is gone, and no connection is left.
    for name in ("node01", "node03"):
        assert " tw 0 " in net.inside(name, "cat", "/proc/net/sockstat")

    # A second look, at two of them: what was counted then is compared with what is counted now.
    net.ip("switch", "link set node03 mtu 9000")
    net.nodes.remove("node03")
    done = net.play(tmp_path)
    net.nodes.append("node03")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "nic_drops" not in done.stdout
    assert "path_mtu_9000" not in done.stdout
