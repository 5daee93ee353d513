# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""jobs.yml over three nodes, which are namespaces with their own processes: a real job of six ranks. One rank
and one node differ. A GPU is /dev/null under its name. No value of this machine changes."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.jobs.test_report import SCHEMA

pytestmark = [pytest.mark.system, namespaces.needs_root]

NODES, RANKS = 3, 2

#: Process 1 of node $1: shared memory of gpu002 is small, and the locked memory of rank 4
NODE = r"""
set -e
mount --make-rprivate /
size=$([ "$1" = 1 ] && echo 64m || echo 2g)
mount -t tmpfs none /dev
mkdir /dev/shm && mount -t tmpfs -o size=$size none /dev/shm
for number in null:3 zero:5 random:8 urandom:9; do mknod -m 666 /dev/${number%:*} c 1 ${number#*:}; done
ln -s /proc/self/fd /dev/fd
for local in 0 1; do
  rank=$(($1 * 2 + local))
  mknod /dev/nvidia$local c 1 3
  (
    [ $rank != 4 ] || ulimit -l 64
    export RANK=$rank WORLD_SIZE=6 LOCAL_RANK=$local MASTER_ADDR=gpu001 MASTER_PORT=29500
    export UCX_NET_DEVICES=mlx5_$local:1 NCCL_IB_HCA=mlx5
    exec sleep 300 9</dev/nvidia$local
  ) &
done
echo ready
exec sleep 300
"""

#: Stands for the Python of a node
PYTHON = '#!/bin/sh\nexec nsenter --target={pid} --mount --pid {python} "$@"\n'


@pytest.fixture
def hosts(tmp_path: pathlib.Path) -> Iterator[dict[str, dict[str, Any]]]:
    """Variables of each node."""
    nodes: list[subprocess.Popen[str]] = []
    made: dict[str, dict[str, Any]] = {}
    try:
        for number in range(NODES):
            words = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
            command = [*words, "sh", "-c", NODE, "node", str(number)]
            # pylint: disable-next=consider-using-with
            node = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
            nodes.append(node)
            assert node.stdout
            assert node.stdout.readline() == "ready\n"
            [first] = pathlib.Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
            python = tmp_path / f"python{number}"
            python.write_text(PYTHON.format(pid=first, python=sys.executable), encoding="utf-8")
            python.chmod(0o755)
            made[f"gpu00{number + 1}"] = {
                "ansible_connection": "local",
                "ansible_become": False,
                "ansible_python_interpreter": str(python),
                "ansible_remote_tmp": str(tmp_path / f"tmp{number}"),
            }
        yield made
    finally:
        for node in nodes:
            os.killpg(node.pid, signal.SIGKILL)
            node.wait()
            assert node.stdout
            node.stdout.close()


def test_the_odd_rank_and_the_odd_node_are_named(
    tmp_path: pathlib.Path, hosts: dict[str, dict[str, Any]]
) -> None:
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"training": {"hosts": hosts}}), encoding="utf-8")
    program = str(pathlib.Path(sys.executable).parent / "ansible-playbook")
    command = [program, "-i", str(inventory), "playbooks/jobs.yml", "-e", f"jobs_json={tmp_path}/jobs.json"]

    done = subprocess.run(command, cwd=namespaces.ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 2, done.stdout + done.stderr
    document = json.loads((tmp_path / "jobs.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, SCHEMA)
    [job] = document["jobs"]
    assert (job["nodes"], job["ranks_seen"], job["world_size"]) == ([*hosts], NODES * RANKS, NODES * RANKS)
    found = {(item["kind"], item["value"], item["who"], item["found"]) for item in job["findings"]}
    assert found == {
        ("odd", "limit memlock hard", "rank 4 on gpu003", "65536"),
        ("odd", "limit memlock soft", "rank 4 on gpu003", "65536"),
        ("odd", "shm size", "ranks 2-3 on gpu002", "67108864"),
    }
    assert "ranks 2-3 on gpu002  shm size: 64 MiB; 4 others: 2 GiB" in done.stdout
