# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Podman's own reading of its files, and the reading of the library. No container is started: podman creates
one, in a folder and over its own files in a mount namespace, and says what it would have."""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import tarfile
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.namespaces import on_disk  # noqa: F401  a fixture
from mlnode.host.host import Host
from mlnode.knobs.containers.parse import SHM_SIZE, SIZE, SYSCTLS, ULIMITS
from mlnode.knobs.containers.podman import Podman
from mlnode.model.errors import HostError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts over /etc/containers in a namespace")

VENDOR, NODE = "usr/share/containers/containers.conf", "etc/containers/containers.conf"
DROP_INS = "etc/containers/containers.conf.d"

#: Files below the root
CASES: list[dict[str, str]] = [
    {VENDOR: 'default_ulimits = ["nofile=100:200", "core=0"]\nshm_size = "1g"'},
    {VENDOR: 'shm_size = "1g"', NODE: 'shm_size = "1.5 MiB"'},
    {NODE: 'default_ulimits = ["nofile=1:2"]', f"{DROP_INS}/a.conf": 'default_ulimits = ["nofile=3:4"]'},
    {f"{DROP_INS}/zz-mlnode-site.conf": 'Shm_Size = "4096"', f"{DROP_INS}/10.conf": 'shm_size = "65536k"'},
    {f"{DROP_INS}/zz-mlnode-site.conf": 'shm_size = "4096"', f"{DROP_INS}/zzz.conf": 'shm_size = "8192b"'},
    {f"{DROP_INS}/a.conf": 'default_ulimits = ["nofile=1:2", \'nofile=5:6\',\n"stack=-1:-1" # c\n]'},
    {f"{DROP_INS}/a.conf": "# nothing", f"{DROP_INS}/b.txt": 'shm_size = "8192b"'},
    {f"{DROP_INS}/a.conf": 'shm_size = "8192b"', f"{DROP_INS}/.b.conf": 'shm_size = "4096b"'},
    {NODE: 'shm_size = "lots"', f"{DROP_INS}/zz-mlnode-site.conf": 'shm_size = "4096"'},
]

#: Files that podman does not start with, or with which it creates no container
REFUSED: list[dict[str, str]] = [
    {NODE: 'shm_size = "1g"\nshm_size = "2g"'},
    {NODE: 'shm_size = "1g"\n[engine]\n[containers]'},
    {NODE: "default_ulimits = [1]"},
    {NODE: 'default_ulimits = ["nofile = 1:2"]'},
    {NODE: 'default_ulimits = ["memlock=unlimited"]'},
    {NODE: 'default_ulimits = ["nofile=3:2"]'},
    {NODE: 'default_ulimits = ["memlock=-1:5"]'},
    {NODE: 'default_ulimits = ["NOFILE=1"]'},
    {NODE: 'default_sysctls = ["net.core.somaxconn = 1"]'},
    {NODE: 'default_sysctls = ["net/core/somaxconn=1"]'},
    {NODE: 'default_sysctls = ["vm.swappiness=1"]'},
    {NODE: 'default_sysctls = ["net.core.somaxconn"]'},
    {NODE: "env = {a = 1,\n b = 2}"},
    {NODE: "x = yes"},
    {NODE: 'shm_size = "lots"'},
    {NODE: 'shm_size = ""'},
    {NODE: 'default_ulimits = ["nofile=9223372036854775808"]'},
    {NODE: "pids_limit = 010"},
]

#: Arguments: the root and an image. A path of podman's is short. All that it stores, and its locks in
#: /dev/shm, go with the namespace. Its defaults would need systemd.
SCRIPT = """
set -e
mount --bind "$1/etc/containers" /etc/containers
mount --bind "$1/usr/share/containers" /usr/share/containers
mount -t tmpfs none /mnt
mount -t tmpfs none /dev/shm
podman() { command podman --root /mnt/a --runroot /mnt/b --tmpdir /mnt/c --storage-driver vfs \
    --cgroup-manager cgroupfs --events-backend file "$@"; }
podman import -q "$2" probe:1 >&2
podman create --name probe probe:1 /x >&2
podman inspect probe
"""


def image(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "image.tar"
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo("x")
        entry.mode = 0o755
        archive.addfile(entry, io.BytesIO())
    return path


def created(files: dict[str, str], folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """A run of the script with these files."""
    namespaces.need("podman", "podman")
    root = folder / "root"
    for name in ("etc/containers", "usr/share/containers"):
        (root / name).mkdir(parents=True)
    (root / "etc/containers/policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"[containers]\n{text}\n")
    words = ["unshare", "--mount", "--propagation", "private", "bash", "-c", SCRIPT, "-"]
    words += [str(root), str(image(folder))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONTAINERS_")}
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.mark.parametrize("files", REFUSED, ids=range(len(REFUSED)))
def test_both_refuse_the_same(files: dict[str, str], tmp_path: pathlib.Path) -> None:
    done = created(files, tmp_path)
    assert done.returncode != 0
    host, topics = Host(str(tmp_path / "root")), (SYSCTLS, ULIMITS, SHM_SIZE)
    with pytest.raises(HostError, match=NODE):
        [Podman().given(host, topic, "site", {}) for topic in topics]


@pytest.mark.parametrize("files", CASES, ids=range(len(CASES)))
def test_both_read_the_same(files: dict[str, str], tmp_path: pathlib.Path) -> None:
    done = created(files, tmp_path)
    assert done.returncode == 0, done.stderr

    [container] = json.loads(done.stdout)
    host, podman = Host(str(tmp_path / "root")), Podman()
    size = podman.given(host, SHM_SIZE, "site", {SIZE: "1"}).now
    limits = podman.given(host, ULIMITS, "site", {}).now
    # Podman's own default, which the manual page has in the same units
    assert int(size.get(SIZE, "65536000")) == container["HostConfig"]["ShmSize"]
    assert limits.items() <= _limits(container).items()
    assert {*_limits(container)} - {*limits} <= {*podman.usual}


def _limits(container: Any) -> dict[str, str]:
    pairs = [(limit["Name"], limit["Soft"], limit["Hard"]) for limit in container["HostConfig"]["Ulimits"]]
    return {
        name.replace("RLIMIT_", "").lower(): _word(soft) if soft == hard else f"{_word(soft)}:{_word(hard)}"
        for name, soft, hard in pairs
    }


def _word(number: int) -> str:
    return "unlimited" if number in (-1, (1 << 64) - 1) else str(number)
