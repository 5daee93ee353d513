# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A preflight of network namespaces, which are made for a test and go with it. No packet leaves them.

Three nodes at 10.9.0.1 to 10.9.0.3 behind one switch, all with an MTU of 9000.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces

pytestmark = [pytest.mark.system, namespaces.needs_root]

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


class Net(namespaces.Net):
    def __init__(self) -> None:
        super().__init__("preflight")
        self.nodes = [f"node0{number}" for number in (1, 2, 3)]

    def kept(self, name: str) -> pathlib.Path:
        """The file with the counters of a look."""
        number = re.sub(r"\D", "", self.inside(name, "readlink", "/proc/self/ns/net"))
        return pathlib.Path(f"/run/mlnode/preflight-{number}.json")

    def remove(self) -> None:
        for name in {*self.names} & {*self.nodes}:
            self.kept(name).unlink(missing_ok=True)
        super().remove()

    def preflight(self, folder: pathlib.Path, *names: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """The playbook, with each namespace as a node. more: extra variables."""
        hosts = {name: {"ansible_host": f"10.9.0.{self.nodes.index(name) + 1}"} for name in names}
        given = {"preflight_group": "nodes", "mlnode_report_json": str(folder / "report.json"), **more}
        return self.play(folder, "preflight.yml", "nodes", hosts, "-e", json.dumps(given))


@pytest.fixture
def net() -> Iterator[Net]:
    namespaces.need("ping", "iputils-ping")
    made = Net()
    try:
        made.switch(9000, made.nodes)
        yield made
    finally:
        made.remove()


def rows(done: subprocess.CompletedProcess[str], of: int = 3) -> dict[str, tuple[str, str]]:
    """Check → its verdict and its nodes, as the table has them."""
    pattern = rf"^ +(fail|unknown|warn|skip) +(\S+) +(\d of {of}: \S+(?:, \S+)*)  "
    return {name: (verdict, nodes) for verdict, name, nodes in re.findall(pattern, done.stdout, re.MULTILINE)}


def reported(folder: pathlib.Path) -> set[str]:
    """What the report has of node01 that is not as expected: names of checks."""
    content = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    schema = json.loads((namespaces.ROOT / "docs/schema/fleet.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(content, schema)
    found = [one for one in content["findings"] if one["kind"] == "node_preflight"]
    return {one["key"].split()[0] for one in found if "node01" in one["hosts"] and one["status"] == "fail"}


def test_a_switch_port_that_drops_large_packets_and_a_node_with_many_sockets(
    net: Net, tmp_path: pathlib.Path
) -> None:
    net.ip("switch", "link set node03 mtu 1500")
    net.inside("node02", sys.executable, "-c", CLOSES)

    done = net.preflight(tmp_path, *net.nodes)

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
    done = net.preflight(tmp_path, "node01", "node02")

    # Where this machine is a container, not all of its processes can be looked into, which is unknown.
    unknown = {name for name, (verdict, _nodes) in rows(done, 2).items() if verdict == "unknown"}
    assert done.returncode == (2 if unknown else 0), done.stdout + done.stderr
    assert unknown <= {"jobs"}
    assert not any(verdict == "fail" for verdict, _nodes in rows(done, 2).values())
    assert "nic_drops" not in done.stdout
    assert "path_mtu_9000" not in done.stdout


def test_a_node_that_loses_packets_and_checks_that_may_be_unknown(net: Net, tmp_path: pathlib.Path) -> None:
    net.loses("node02", 10)

    done = net.preflight(tmp_path, *net.nodes, preflight_accept_unknown=["jobs", "tcp_connect"])

    assert done.returncode == 2, done.stdout + done.stderr
    found = rows(done)
    # All of them are neighbours of this node, and each sees it.
    assert {"path_mtu_1500", "path_mtu_9000"} & {
        name for name, (verdict, _n) in found.items() if verdict == "fail"
    }
    assert "packets of 9000 bytes were lost; the loss is on the way" in done.stdout

    net.inside("node02", "nft", "flush ruleset")
    done = net.preflight(tmp_path, "node01", "node02", preflight_accept_unknown=["jobs"])

    assert done.returncode == 0, done.stdout + done.stderr
    assert ("unknown  jobs" in done.stdout) == ("(accepted)" in done.stdout)
