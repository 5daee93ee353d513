# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""effect.yml with effect_by on a node with its own network and files: two settings of a real agent, and a job
for which one of them matters. No packet leaves the namespace."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.namespaces import ROOT

pytestmark = [pytest.mark.system, namespaces.needs_root]

#: Files in memory would be lost with a boot, and not be in force.
tmp_path = namespaces.on_disk

#: Begins a node: its changes stay in the folder $1, and its link carries 200 Mb/s.
BEGIN = """
for place in etc var/lib usr/local run; do
  name=$(echo "$place" | tr / _)
  mkdir "$1/$name" "$1/$name.work"
  mount -t overlay none -o "lowerdir=/$place,upperdir=$1/$name,workdir=$1/$name.work" "/$place"
done
# The view of the system, too: files that it sees elsewhere would be unknown.
cat /proc/self/mountinfo >"$1/mounts.work"
mount --bind "$1/mounts.work" /proc/1/mountinfo
ip link set lo up mtu 1500
tc qdisc add dev lo root tbf rate 200mbit burst 64k limit 1m
echo ready
exec sleep infinity
"""

#: Streams records to itself, and prints how old they are when they arrive
JOB = """
import json, select, socket, struct, threading, time
SIZE, SECONDS = 8192, 0.3

def send(link):
    link.setblocking(False)
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        select.select([], [link], [])
        left = memoryview(struct.pack("d", time.perf_counter()) + bytes(SIZE - 8))
        while left:
            try:
                left = left[link.send(left):]
            except BlockingIOError:
                select.select([], [link], [])
    link.close()

listener = socket.create_server(("127.0.0.1", 0))
link = socket.create_connection(listener.getsockname())
peer, _address = listener.accept()
threading.Thread(target=send, args=(link,)).start()
ages = []
while record := peer.recv(SIZE, socket.MSG_WAITALL):
    ages.append(time.perf_counter() - struct.unpack("d", record[:8])[0])
print(json.dumps({"ages": ages[20:]}))
"""

#: Unsent data beyond the limit waits in the socket; without it, that is megabytes.
LOWAT, OTHER = "net.ipv4.tcp_notsent_lowat", "net.core.somaxconn"

DECLARED = {
    "sysctl": {"settings": {LOWAT: 131072, OTHER: 8192}},
    "boot": {"parameters": {"transparent_hugepage": "madvise"}},
}


class Node:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        own = folder / "node"
        own.mkdir()
        private = ["unshare", "--mount", "--net", "--ipc", "--propagation", "private"]
        self.process = subprocess.Popen([*private, "sh", "-ec", BEGIN, "-", str(own)], stdout=subprocess.PIPE)
        self.shell = folder / "shell"
        enter = f'exec nsenter -t {self.process.pid} -m -n -i /bin/sh "$@"'
        self.shell.write_text(f"#!/bin/sh\n{enter}\n", encoding="ascii")
        self.shell.chmod(0o755)

    def says(self, script: str) -> str:
        done = subprocess.run([self.shell, "-c", script], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def state(self) -> str:
        """The values, and all files that differ from this machine's."""
        values = " ".join(f"/proc/sys/{key.replace('.', '/')}" for key in (LOWAT, OTHER))
        files = f"cd {self.folder}/node && find . -path './*.work' -prune -o -type f -print"
        return self.says(f"cat {values}; {files} | grep -v 'run/mlnode.lock\\|/__pycache__/' | sort")

    def play(self, *words: str, **given: Any) -> tuple[int, str]:
        (self.folder / "own.yml").write_text(json.dumps(DECLARED), encoding="utf-8")
        host = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "ansible_shell_executable": str(self.shell),
            "node_profile": str(self.folder / "own.yml"),
        }
        inventory = self.folder / "hosts.json"
        inventory.write_text(json.dumps({"training": {"hosts": {"gpu01": host}}}), encoding="utf-8")
        program = str(pathlib.Path(sys.executable).with_name("ansible-playbook"))
        playbook = str(ROOT / "playbooks/effect.yml")
        done = subprocess.run(
            [program, "-i", str(inventory), playbook, "-e", json.dumps(given), *words],
            env=namespaces.ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    made = Node(tmp_path)
    with made.process:
        try:
            assert made.process.stdout
            assert made.process.stdout.readline() == b"ready\n"
            yield made
        finally:
            made.process.kill()


def test_the_setting_that_matters_is_found_and_the_node_left_as_it_was(
    node: Node, tmp_path: pathlib.Path
) -> None:
    before = node.state()
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    age = {"name": "age", "unit": "s", "better": "lower", "json": "ages[*]", "take": ["p50"]}
    given: dict[str, Any] = {
        "effect_by": [f"sysctl.{LOWAT}", f"sysctl.{OTHER}", "boot"], "effect_phases": 8, "effect_settle": 0,
        "effect_kinds": ["command"], "effect_command": [sys.executable, str(tmp_path / "job.py")],
        "effect_metrics": [age], "effect_warmups": 0, "effect_timeout": 60, "campaign_allow": ["busy"],
        "campaign_results": str(tmp_path / "out"),
    }  # fmt: skip

    status, said = node.play("--check", **given)
    assert status == 0, said
    assert f"compares sysctl.{LOWAT}, sysctl.{OTHER} on 1 node. 2 areas in 8 phases: " in said
    assert node.state() == before

    status, said = node.play(**given)

    assert status == 0, said
    assert "left out: boot: needs a boot" in said
    [path] = (tmp_path / "out").glob("effect-*.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(document, json.loads((ROOT / "docs/schema/screening.schema.json").read_text("utf-8")))
    [result] = document["results"]
    verdicts = {area["area"]: area["verdict"] for area in result["areas"]}
    assert verdicts[f"sysctl.{LOWAT}"] == "helps", said
    # The other setting has a false verdict in 5 of 100 runs.
    assert {*verdicts} == {*document["effect"]["areas"]} == {f"sysctl.{LOWAT}", f"sysctl.{OTHER}"}
    assert node.state() == before
