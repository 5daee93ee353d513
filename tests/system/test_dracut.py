# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of the distribution's dracut, made in a namespace: what the library says of their copies of
modprobe.d and sysctl.d, beside what lsinitrd prints of them. The module in them has no code."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.system import module_file, namespaces, packages

pytestmark = [
    namespaces.needs_root,
    pytest.mark.long,
    pytest.mark.skipif(not shutil.which("apt-get"), reason="takes dracut from Debian's or Ubuntu's archive"),
]

RELEASE = "6.12.0-mlnode"
IMAGE = f"/boot/initrd.img-{RELEASE}"
NAME = "zz-mlnode-default.conf"
OPTIONS = f"/etc/modprobe.d/{NAME}"
COPIES = (f"etc/modprobe.d/{NAME}", f"etc/sysctl.d/{NAME}")
MAKE = f"dracut -f --kver {RELEASE}"
STALE = f"{IMAGE} loads ib_core, and has an older copy: run {MAKE}"

#: The smallest image with both folders. dracut looks for firmware of the processors in this folder.
_CONF = """\
dracutmodules="base kernel-modules systemd-sysctl"
force_drivers+=" ib_core "
fw_dir="/etc/firmware"
"""

_PROBE = f"""\
import json
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.linux import initramfs
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.errors import HostError

host = Host("/")
maker = initramfs.maker(host)
try:
    words = initramfs.older_copy(host, {RELEASE!r}, "ib_core", {OPTIONS!r})
except HostError as error:
    words = f"unknown: {{error}}"
print(json.dumps([maker.name if maker else "", words]))
"""


class Node:
    """A machine with dracut: its folders /usr and /etc are over those of this one, and /boot is its own."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        for name in ("modprobe.d", "sysctl.d", "dracut.conf.d", "firmware/intel-ucode"):
            (root / "etc" / name).mkdir(parents=True, exist_ok=True)
        (root / "boot").mkdir()
        (root / f"etc/modprobe.d/{NAME}").write_text("options ib_core netns_mode=0\n")
        (root / f"etc/sysctl.d/{NAME}").write_text("vm.swappiness = 1\n")
        (root / "etc/firmware/intel-ucode/06-55-04").write_bytes(bytes(2048))
        script = f"""
            mount -t overlay overlay -o lowerdir={root}/usr:/usr /usr
            mount -t overlay overlay -o lowerdir={root}/etc:/etc /etc
            mount --bind {root}/boot /boot
            echo ready; exec sleep infinity
        """
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-e", "-c", script]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def inside(self, *words: str) -> str:
        return namespaces.run("nsenter", f"--target={self.process.pid}", "--mount", *words)

    def make(self, conf: str) -> None:
        (self.root / "etc/dracut.conf.d/x.conf").write_text(f"{_CONF}{conf}\n")
        self.inside(*MAKE.split())

    def copies(self) -> list[str]:
        """The contents of both files in the image, each empty if it is not there."""
        return [self.inside("lsinitrd", "-f", path, IMAGE) for path in COPIES]

    def said(self) -> tuple[str, str]:
        """The tool that copies sysctl.d, and the words about the copy of modprobe.d."""
        tool, words = json.loads(self.inside(sys.executable, "-c", _PROBE))
        return tool, words


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    root = packages.with_needed(tmp_path_factory.mktemp("dracut"), "dracut-core", "cpio", "zstd")
    module_file.install(root, RELEASE, "ib_core")
    for name in ("bin", "lib", "sbin"):  # links to /usr here
        if (root / name).is_dir():
            shutil.copytree(root / name, root / "usr" / name, symlinks=True, dirs_exist_ok=True)
    made = Node(root)
    yield made
    made.process.kill()
    made.process.communicate()


@pytest.mark.parametrize("compress", ["zstd -1", "gzip -1"])
def test_an_image_of_this_host_has_both_copies(node: Node, compress: str) -> None:
    node.make(f"hostonly=yes\ncompress='{compress}'")
    assert node.copies() == ["options ib_core netns_mode=0\n", "vm.swappiness = 1\n"]
    assert node.said() == ("dracut", "")

    (node.root / f"etc/modprobe.d/{NAME}").write_text("options ib_core netns_mode=0\n")
    assert node.said() == ("dracut", STALE)

    image = node.root / IMAGE[1:]
    image.write_bytes(image.read_bytes()[: image.stat().st_size * 2 // 3])
    assert node.said()[1].startswith(f"unknown: cannot list {IMAGE}: /usr/bin/lsinitrd: ")


def test_a_generic_image_with_microcode_has_none_until_its_remedy(node: Node) -> None:
    """Its copy of sysctl.d, which has the same name, is not one of modprobe.d."""
    conf = f'hostonly=no\ncompress=cat\nearly_microcode=yes\ninstall_items+=" /etc/sysctl.d/{NAME} "'
    node.make(conf)
    assert "kernel/x86/microcode/GenuineIntel.bin" in node.inside("lsinitrd", IMAGE)
    assert node.copies() == ["", "vm.swappiness = 1\n"]
    line = f'install_items+=" {OPTIONS} "'
    says = f"{IMAGE} loads ib_core, and has no copy: add {line} to dracut.conf.d and run {MAKE}"
    assert node.said() == ("", says)

    node.make(f"{conf}\n{line}")
    assert node.copies()[0] == "options ib_core netns_mode=0\n"
    assert node.said() == ("", "")
