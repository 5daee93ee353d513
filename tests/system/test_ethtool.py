# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NIC settings against the kernel itself: a pair of veth in a network namespace that is made for a test and
goes with it. Nothing of the machine's own interfaces is touched."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = "ansible_collections.mlnode.tuning.plugins.module_utils._mlnode"

pytestmark = [pytest.mark.system, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

#: What every script begins with; host is this machine as it is seen in the namespace
BEGIN = f"""
import json, socket
from {LIBRARY}.model.errors import HostError
from {LIBRARY}.agent.mounts import ALL
from {LIBRARY}.drivers.ethtool import files
from ansible_collections.mlnode.tuning.tests.unit.captures import of_ethtool as capture
from {LIBRARY}.host.host import Host

host = Host("/", ALL)

def text(path):
    return host.value("/ethtool/v0/" + path).text

def refused(path, value):
    try:
        host.write_kernel("/ethtool/v0/" + path, value)
    except HostError as error:
        return str(error)
    return ""
"""


class Namespace:
    def __init__(self, name: str) -> None:
        self.name = name

    def ip(self, *words: str) -> None:
        subprocess.run(["ip", "-n", self.name, *words], check=True)

    def run(self, script: str, *before: str) -> Any:
        """What a script prints, as JSON. before: a command that runs it."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT / ".ansible/collections")}
        command = ["ip", "netns", "exec", self.name, *before, sys.executable, "-c", BEGIN + script]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    found = Namespace(f"mlnode-test-{os.getpid()}")
    subprocess.run(["ip", "netns", "add", found.name], check=True)
    try:
        queues = ["numrxqueues", "4", "numtxqueues", "4"]
        found.ip("link", "add", "v0", *queues, "type", "veth", "peer", "name", "v1", *queues)
        yield found
    finally:
        # The pair goes with its namespace.
        subprocess.run(["ip", "netns", "delete", found.name], check=True)


def test_what_a_veth_has_and_has_not(namespace: Namespace) -> None:
    found = namespace.run("""
print(json.dumps({
    "nics": host.names("/ethtool"),
    "groups": host.names("/ethtool/v0"),
    "driver": text("driver/driver"),
    "link": text("link/speed,duplex,autoneg,detected"),
    "rings": host.value("/ethtool/v0/ring/rx").absent,
    "coalescing": host.value("/ethtool/v0/coalesce/rx-usecs").absent,
    "combined": host.value("/ethtool/v0/channels/combined").absent,
    "pause": host.exists("/ethtool/v0/pause"),
    "gone": host.value("/ethtool/v9/ring/rx").absent,
    "fixed": host.blocked("/ethtool/v0/feature/rx-hashing"),
    "told": host.blocked("/ethtool/v0/channels/max/rx"),
}))""")
    assert found == {
        "nics": ["lo", "v0", "v1"],
        "groups": ["channels", "driver", "feature", "link", "statistic"],
        "driver": "veth",
        "link": "10000 full off no",
        "rings": "the driver veth has no rings",
        "coalescing": "the driver veth has no interrupt coalescing",
        "combined": "the driver veth has no kind of channel combined",
        "pause": False,
        "gone": "there is no interface v9",
        "fixed": "the driver veth keeps rx-hashing fixed",
        "told": "/ethtool/v0/channels/max/rx is read-only",
    }


def test_a_link_that_comes_up(namespace: Namespace) -> None:
    for name in ("v0", "v1"):
        namespace.ip("link", "set", name, "up")
    assert namespace.run('print(json.dumps(text("link/detected")))') == "yes"


def test_features_are_set_one_by_one_and_together(namespace: Namespace) -> None:
    found = namespace.run("""
tso = "tx-tcp-segmentation,tx-tcp6-segmentation"
before = capture(files.device(host, "v0"))
seen = [text("feature/" + tso)]
host.write_kernel("/ethtool/v0/feature/" + tso, "off off")
seen.append(text("feature/" + tso))
host.write_kernel("/ethtool/v0/feature/tx-tcp-segmentation", "on")
seen.append(text("feature/" + tso))
host.write_kernel("/ethtool/v0/feature/" + tso, "on on")
host.write_kernel("/ethtool/v0/feature/rx-gro", "on")
seen.append(text("feature/rx-gro"))
host.write_kernel("/ethtool/v0/feature/rx-gro", "off")
print(json.dumps([seen, capture(files.device(host, "v0")) == before]))""")
    assert found == [["on on", "off off", "on off", "on"], True]


def test_a_feature_that_needs_another_one_stays_requested(namespace: Namespace) -> None:
    found = namespace.run("""
both = "tx-scatter-gather,tx-tcp-segmentation"
host.write_kernel("/ethtool/v0/feature/tx-scatter-gather", "off")
seen = [text("feature/" + both), text("feature/requested/" + both)]
host.write_kernel("/ethtool/v0/feature/tx-scatter-gather", "on")
print(json.dumps([*seen, text("feature/" + both)]))""")
    assert found == ["off off", "off on", "on on"]


def test_what_a_fixed_feature_is_asked_for_is_refused(namespace: Namespace) -> None:
    found = namespace.run(
        'print(json.dumps([refused("feature/rx-hashing", "on"), text("feature/rx-hashing")]))'
    )
    assert "EOPNOTSUPP" in found[0]
    assert found[1] == "off"


def test_channels(namespace: Namespace) -> None:
    found = namespace.run("""
seen = [text("channels/max/rx,tx"), text("channels/rx,tx")]
host.write_kernel("/ethtool/v0/channels/rx,tx", "2 3")
seen.append(text("channels/rx,tx"))
host.write_kernel("/ethtool/v0/channels/tx", "1")
seen.append(text("channels/rx,tx"))
words = [refused("channels/rx", "5"), refused("channels/rx", "0")]
print(json.dumps([seen, *words, text("channels/rx,tx")]))""")
    assert found[0] == ["4 4", "4 4", "2 3", "2 1"]
    assert "EINVAL" in found[1]
    assert "EINVAL" in found[2]
    assert found[3] == "2 1"


def test_a_captured_veth_tells_the_same(namespace: Namespace, tmp_path: pathlib.Path) -> None:
    (tmp_path / "sys/class/net/v0").mkdir(parents=True)
    (tmp_path / "ethtool").mkdir()
    found = namespace.run(f"""
with open("{tmp_path}/ethtool/v0.json", "w") as stream:
    json.dump(capture(files.device(host, "v0")), stream)
tree = Host("{tmp_path}", ALL)
names = [name for name in host.names("/ethtool/v0/feature") if name not in ("fixed", "requested")]
paths = ["/ethtool/v0/feature/" + name for name in names] + ["/ethtool/v0/ring/rx", "/ethtool/v0/channels/rx"]
different = [path for path in paths if tree.value(path) != host.value(path)]
print(json.dumps([len(paths) > 40, different]))""")
    assert found == [True, []]


def test_without_the_capability_reading_works_and_writing_says_why(namespace: Namespace) -> None:
    script = """
why = host.blocked("/ethtool/v0/channels/rx")
print(json.dumps([text("channels/rx"), refused("channels/rx", "2"), why]))"""
    found = namespace.run(script, "setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin")
    assert found[0] == "4"
    assert "EPERM" in found[1]
    assert "needs CAP_NET_ADMIN" in found[2]


def test_no_other_socket_than_the_one_of_the_sandbox_is_needed(namespace: Namespace) -> None:
    found = namespace.run("""
real = socket.socket

def only_unix(family=-1, *rest, **more):
    assert family == socket.AF_UNIX, family
    return real(family, *rest, **more)

socket.socket = only_unix
host.write_kernel("/ethtool/v0/channels/rx", "2")
print(json.dumps(text("channels/rx")))""")
    assert found == "2"
