# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel arguments through the real ostree, on a sysroot that it has made and deployed."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces, packages
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine, as_grub_reads
from mlnode.engine.engine import Outcome, Request
from mlnode.engine.revert import revert
from mlnode.host.system import Finished
from mlnode.knobs.boot.kind import kind as boot
from mlnode.loader import bls, deployed
from mlnode.model.errors import TransactionError

pytestmark = [pytest.mark.system, namespaces.needs_root]

ACS = "config_acs=xx000x0@0000:17:00.0;xx000x0@0000:18:08.0"
SPEC = {"parameters": {"iommu": "pt", "pci": [ACS], "console": ["ttyS0"]}, "absent": ["quiet"]}
#: Without the attribute immutable, with which pytest could not remove the deployments (ostree-sysroot.c)
_REMOVABLE = {"OSTREE_SYSROOT_DEBUG": "mutable-deployments"}
WORDS = ("root=UUID=1", "rw", "quiet", "iommu=on", "console=tty0", "console=ttyS0")


class Sysroot(GrubMachine):
    """A node whose root is a sysroot of ostree. programs: the folder of the unpacked packages."""

    programs = ""

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] != "ostree":
            return super().run(command, seconds)
        libraries = next(pathlib.Path(self.programs, "usr/lib").glob("*-linux-gnu*"))
        done = subprocess.run(
            [f"{self.programs}/usr/bin/ostree", *command[1:4], *self._sysroot(command), *command[4:]],
            env={**os.environ, "LD_LIBRARY_PATH": str(libraries), **_REMOVABLE},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return Finished(done.returncode, done.stdout, done.stderr)

    def _sysroot(self, command: Sequence[str]) -> list[str]:
        return [f"--sysroot={self.root}"] if command[1] == "admin" else []

    def must(self, *command: str) -> None:
        done = self.run(command)
        assert done.rc == 0, (command, done.err)

    def entry(self) -> str:
        return self.read(bls.of_ostree(self))

    def words(self) -> list[str]:
        line = next(line for line in self.entry().splitlines() if line.startswith("options "))
        return [word for word in line.split()[1:] if not word.startswith("ostree=")]

    def boot(self) -> None:
        self.started(" ".join(as_grub_reads(f"x {' '.join(self.words())}")))
        self.forget()


@pytest.fixture(scope="module", name="unpacked")
def of_packages(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("packages"))
    if not packages.unpacked(folder, "ostree", "libostree-1-1", "libavahi-glib1"):
        pytest.skip("no ostree could be unpacked here (apt-get download ostree)")
    return folder


@pytest.fixture
def node(tmp_path: pathlib.Path, unpacked: str) -> Sysroot:
    machine = Sysroot.debian_with_grub(str(tmp_path / "node"))
    assert isinstance(machine, Sysroot)
    machine.programs = unpacked
    if machine.run(["ostree", "--version"]).rc:
        pytest.skip("ostree of this distribution needs further libraries")
    machine.remove("/boot/grub/grub.cfg")
    tree = tmp_path / "tree"
    for path in ("usr/lib/modules/6.1.0/vmlinuz", "usr/lib/modules/6.1.0/initramfs.img", "usr/etc/x"):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text("x", encoding="utf-8")
    (tree / "usr/lib/os-release").write_text("ID=mlos\n", encoding="utf-8")
    (tree / "usr/etc/os-release").symlink_to("../usr/lib/os-release")
    repository = f"--repo={machine.root}/ostree/repo"
    machine.must("ostree", "admin", "init-fs", "--modern", machine.root)
    machine.must("ostree", "admin", "os-init", "mlos")
    machine.must("ostree", "commit", repository, "-b", "main", f"--tree=dir={tree}")
    machine.must(
        "ostree", "admin", "deploy", "main", "--os=mlos", *(f"--karg-append={word}" for word in WORDS)
    )
    machine.put("/run/ostree-booted", "")
    machine.put("/usr/bin/ostree", "", 0o755)
    machine.boot()
    return machine


def applied(machine: Sysroot) -> Outcome:
    machine.forget()
    return door.apply(machine, Request("site", boot, SPEC))


def test_set_pending_in_force_and_undone(node: Sysroot) -> None:
    assert node.words() == [*WORDS]
    outcome = applied(node)
    assert {str(row.status) for row in outcome.rows} == {"pending_reboot"}
    assert {*node.words()} == {"root=UUID=1", "rw", "iommu=pt", f'pci="{ACS}"', "console=ttyS0"}
    entry = node.entry()
    assert not applied(node).changed
    assert node.entry() == entry
    node.boot()
    assert {str(row.status) for row in applied(node).rows} == {"ok"}
    revert(node)
    assert sorted(node.words()) == sorted(WORDS)
    consoles = [word for word in node.words() if word.startswith("console=")]
    assert consoles == ["console=tty0", "console=ttyS0"]
    assert not node.exists(deployed.RECORD)


def test_a_further_deployment_keeps_the_words(node: Sysroot) -> None:
    """Of the same commit, as an upgrade makes one of another."""
    applied(node)
    node.must("ostree", "admin", "deploy", "main", "--os=mlos")
    assert len(node.matching("/boot/loader/entries/*.conf")) == 2
    node.boot()
    assert {str(row.status) for row in applied(node).rows} == {"ok"}
    revert(node)
    assert sorted(node.words()) == sorted(WORDS)


def test_a_failure_of_ostree_is_rolled_back(node: Sysroot) -> None:
    os.rename(f"{node.root}/ostree/repo", f"{node.root}/ostree/away")
    with pytest.raises(TransactionError, match=r"cannot set kernel arguments with ostree: error: .*repo"):
        applied(node)
    assert node.words() == [*WORDS]
    assert not node.exists(deployed.path_of("site"))
    os.rename(f"{node.root}/ostree/away", f"{node.root}/ostree/repo")
    assert {str(row.status) for row in applied(node).rows} == {"pending_reboot"}
