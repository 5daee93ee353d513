# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of `mlnode render`, read by podman and by CNI's plugin `tuning`. No container is started: podman
creates one in a mount namespace, and the plugin sets the values of a network namespace that ends with it."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.namespaces import on_disk  # noqa: F401  a fixture
from ansible_collections.mlnode.tuning.tests.system.test_podman import image
from ansible_collections.mlnode.tuning.tests.unit import rendered
from mlnode.knobs.containers.runtime import numbers_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces")

TUNING = "/usr/lib/cni/tuning"

#: Argument: a folder with the script, a file for /etc/nccl.conf, and an image; see test_podman.py. A runtime
#: may refuse to start here, but podman writes the configuration for it before.
PODMAN = r"""
set -e
mount -t tmpfs none /mnt
mkdir /mnt/etc /mnt/work
mount -t overlay none -o lowerdir=/etc,upperdir=/mnt/etc,workdir=/mnt/work /etc
cp "$1/nccl.conf" /etc/nccl.conf
mount -t tmpfs none /dev/shm
podman() {
    command podman --root /mnt/a --runroot /mnt/b --tmpdir /mnt/c --storage-driver vfs \
        --cgroup-manager cgroupfs --events-backend file "$@"
}
podman import -q "$1/image.tar" probe:1 >&2
. "$1/script" >&2
podman init probe >&2 || true
podman inspect probe
cat /mnt/a/vfs-containers/*/userdata/config.json
"""

#: Arguments: the plugin, and a file with its configuration
CNI = """
set -e
ip link set lo up
export CNI_CONTAINERID=probe CNI_NETNS=/proc/self/ns/net CNI_IFNAME=lo CNI_PATH=/usr/lib/cni
CNI_COMMAND=ADD "$1" < "$2" >&2
CNI_COMMAND=CHECK "$1" < "$2" >&2
cat /proc/sys/net/core/somaxconn /proc/sys/net/ipv4/ip_local_port_range
"""


def run(*words: str) -> str:
    done = subprocess.run(["unshare", *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_podman_takes_all_values(tmp_path: pathlib.Path) -> None:
    namespaces.need("podman", "podman")
    node = rendered.node("training", str(tmp_path))
    text = rendered.text(node, "podman-run")
    (tmp_path / "script").write_text(
        text.replace("exec podman run", "podman create --name probe").replace('"$@"', "probe:1 /x")
    )
    (tmp_path / "nccl.conf").write_text("NCCL_DEBUG=WARN\n")
    image(tmp_path)
    shown = run("--mount", "--propagation", "private", "bash", "-c", PODMAN, "-", str(tmp_path))
    decoder = json.JSONDecoder()
    [container], end = decoder.raw_decode(shown)
    made: dict[str, Any] = json.loads(shown[end:])

    asked = rendered.asked(node, "podman-run")
    assert asked.sysctls.items() <= made["linux"]["sysctl"].items()
    limits = {item["Name"]: (item["Soft"], item["Hard"]) for item in container["HostConfig"]["Ulimits"]}
    assert limits["RLIMIT_MEMLOCK"] == numbers_of(asked.ulimits["memlock"])
    assert container["HostConfig"]["ShmSize"] == asked.shm_size
    [mounted] = [item for item in container["Mounts"] if item["Destination"] == "/etc/nccl.conf"]
    assert (mounted["Source"], mounted["RW"]) == ("/etc/nccl.conf", False)


def test_the_plugin_sets_and_finds_all_values(tmp_path: pathlib.Path) -> None:
    if not os.path.exists(TUNING):
        namespaces.packages.install("containernetworking-plugins")
    if not os.path.exists(TUNING):
        pytest.skip(f"no {TUNING} here, and none could be installed")
    document = json.loads(rendered.text(rendered.node("training", str(tmp_path)), "cni-tuning"))
    network = {"cniVersion": "0.4.0", "name": "probe"}
    before = {"cniVersion": "0.4.0", "interfaces": [{"name": "lo"}], "ips": []}
    path = tmp_path / "conf.json"
    path.write_text(json.dumps({**document, **network, "prevResult": before}))
    shown = run("--net", "--mount-proc", "--pid", "--fork", "bash", "-c", CNI, "-", TUNING, str(path))
    assert shown.splitlines() == [
        document["sysctl"][key] for key in ("net.core.somaxconn", "net.ipv4.ip_local_port_range")
    ]
