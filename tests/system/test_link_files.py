# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The .link file that mlnode names for an interface is the one that udev takes, in a namespace of its own."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest
from ansible_collections.mlnode.tuning.tests.system import link_files, namespaces, packages

pytestmark = [pytest.mark.system, namespaces.needs_root]

MAC = "02:00:00:00:00:07"
#: An own /run and /etc/systemd/network, and the interfaces of a new network namespace
SETUP = f"""
set -e
mount -t tmpfs none /run
mkdir -p /run/systemd/network /run/udev /etc/systemd/network
mount -t tmpfs none /etc/systemd/network
mount -t sysfs none /sys
ip link add nic0 address {MAC} type veth peer name other0
exec "$@"
"""


@pytest.fixture
def udevadm(tmp_path: pathlib.Path) -> str:
    installed = shutil.which("udevadm")
    if not installed and not packages.unpacked(str(tmp_path), "udev"):
        pytest.skip("no udevadm here, and none could be unpacked (apt-get download udev)")
    return installed or str(tmp_path / "bin/udevadm")


def test_the_link_file_that_is_named_is_the_one_that_udev_takes(udevadm: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "mlnode").symlink_to(namespaces.ROOT / "plugins/module_utils/_mlnode")
    files = link_files.sets("nic0", "other0", MAC)
    done = subprocess.run(
        [
            *("unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", SETUP, "sh"),
            *(sys.executable, str(link_files.SCRIPT), str(tmp_path), udevadm, "nic0", "other0"),
        ],
        input=json.dumps(files), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert link_files.mistakes(files, done.stdout) == []
    # A virtual interface has no driver and no path, and matches of the host are never resolved.
    assert link_files.resolved(done.stdout) > 30
