# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One image, baked in a folder through the connection chroot, and two kinds of machines that boot from it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator

import pytest

from . import guest_facts as facts
from . import host, parts, profiles
from .born import Born
from .build import HERE, Job, LabError, Part, build
from .collection import Collection, Hosts
from .conftest import Lab, why_not
from .machine import Machine
from .tools import Tools

#: The package in which community.general is, beside all others; as a user would have it from Galaxy
_PACKAGE = ("ansible==12.3.0", "cd156f82fa87f7a899212b0efa9f7ca3a24d609212de9f78428a572eb01e5414")
_CONNECTION = "ansible_collections/community/general"

MIN_FREE = "/proc/sys/vm/min_free_kbytes"
DROP_IN = "/etc/sysctl.d/zz-mlnode-node.conf"

#: A way out, as every machine of a fleet has one: it tells the agent which NIC must not be interrupted.
_ROUTE = "etc/systemd/network/10-lab.network.d/route.conf"

#: What is of this image alone, and when systemd has last looked at it
_OWN = (f"/{_ROUTE}", f"/{os.path.dirname(_ROUTE)}", "/etc/.updated")

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="a chroot needs root")]


def make_connections(job: Job) -> None:
    """The collection with the connection chroot, which ansible-core no longer has."""
    package, digest = job.part.parameters
    wheels = job.out / "wheels"
    job.run(sys.executable, "-m", "pip", "download", "--no-deps", "--dest", wheels, package)
    (wheel,) = wheels.iterdir()
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != digest:
        raise LabError(f"{wheel.name} is not the file that it was")
    job.run(sys.executable, "-m", "zipfile", "--extract", wheel, job.out / "all")
    shutil.move(job.out / "all" / _CONNECTION, job.out / _CONNECTION)
    shutil.rmtree(job.out / "all")
    shutil.rmtree(wheels)


CONNECTIONS = Part("connections", (make_connections,), _PACKAGE)


@dataclasses.dataclass(frozen=True)
class Image(Part):
    """A disk of this test alone, which is baked and not kept."""

    folder: pathlib.Path = HERE

    @property
    def path(self) -> pathlib.Path:
        return self.folder


class Bakery(Collection):
    """The checkout, with the other collection beside it."""

    def _environment(self, folder: pathlib.Path) -> dict[str, str]:
        found = super()._environment(folder)
        return {**found, "ANSIBLE_COLLECTIONS_PATH": f"{self.collections}:{CONNECTIONS.path}"}


def tree(root: pathlib.Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.fixture(scope="module")
def image(collection: Collection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """What parts.make_disk does, with a bake in between."""
    if reason := host.unusable() or why_not("cloud") or why_not("baremetal"):
        pytest.skip(reason)
    build([CONNECTIONS])
    tools, guest, *modules = parts.DISK.needs
    made = Image("image", (make_connections,), folder=tmp_path_factory.mktemp("image"))
    job, root, kernel = Job(made, made.folder), made.folder / "root", parts.kernel_of(guest)
    job.run("cp", "--archive", "--reflink=auto", guest.path / "root", root)
    for module in modules:
        folder = root / "lib/modules" / kernel / "updates"
        folder.mkdir()
        shutil.copy(module.path / "netdevsim.ko", folder)
    parts._furnish(job, root, kernel)
    (root / _ROUTE).parent.mkdir()
    (root / _ROUTE).write_text("[Network]\nGateway=10.0.2.2\n")
    bake(Bakery(collection.collections), made.folder, root)
    parts._write_disk(job, Tools(tools.path / "root"), root)
    for name in ("vmlinux", "initrd.img"):
        (made.folder / name).symlink_to(parts.DISK.path / name)
    yield made
    shutil.rmtree(made.folder)


def bake(bakery: Bakery, folder: pathlib.Path, root: pathlib.Path) -> None:
    """Twice, as the second time has nothing to do."""
    before = tree(root)
    chroot = {
        "ansible_connection": "community.general.chroot",
        "ansible_host": str(root),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    hosts = Hosts(folder, {"lab": chroot})
    first = bakery.play("bake", hosts)
    assert first.status == 0, first.output
    assert bakery.play("bake", hosts).changed == 0
    new = tree(root) - before
    ours = {path for path in new if "mlnode" in path}
    folders = {str(folder) for path in ours for folder in pathlib.Path(path).parents}
    assert sorted(new - ours - folders) == [], "left over in the image"
    entries = json.loads((root / "var/lib/mlnode/origin.json").read_text())["entries"]
    assert entries
    assert [entry["key"] for entry in entries if "file" not in entry] == [], "values of the build host"


def booted(name: str, image: Image, lab: Lab) -> Iterator[Machine]:
    for other in lab.running.values():
        other.pause()
    machine = Machine(dataclasses.replace(profiles.named(name), disk=image))
    try:
        yield machine.start()
    finally:
        machine.close()


@pytest.fixture(scope="module")
def bare(image: Image, lab: Lab) -> Iterator[Machine]:
    yield from booted("baremetal", image, lab)


@pytest.fixture(scope="module")
def virtual(bare: Machine, image: Image, lab: Lab) -> Iterator[Machine]:
    bare.pause()
    yield from booted("cloud", image, lab)


def is_right(machine: Machine) -> None:
    """The first boot has made it so, and nobody else: no Ansible, no command."""
    report = facts.check(machine)
    assert (report["exit"], report["compliant"]) == (0, True), facts.wrong_in(report)
    assert machine.out("systemctl show --property=Result --value mlnode-apply.service") == "success"
    assert machine.out("systemctl --failed --no-legend --plain") == ""


def test_the_first_boot_makes_bare_metal_right(bare: Machine) -> None:
    is_right(bare)
    assert set(facts.governors(bare)) == {"performance"}
    assert facts.sysctl(bare, "vm.swappiness") == "1"
    # The queues of a NIC go to CPUs of its own NUMA node, one for each.
    assert facts.astray(bare, "igb", {2, 3}) == {}


def test_the_first_boot_makes_the_virtual_machine_right(virtual: Machine) -> None:
    is_right(virtual)
    assert facts.sysctl(virtual, "vm.swappiness") == "1"
    (governor,) = (row for row in facts.check(virtual)["settings"] if row["key"] == "cpu.governor")
    assert (governor["status"], "cpufreq" in governor["reason"]) == ("unsupported", True)


def test_each_has_its_own_numbers(bare: Machine, virtual: Machine) -> None:
    found = {machine.profile.name: facts.sysctl(machine, "vm.dirty_bytes") for machine in (bare, virtual)}
    assert found["baremetal"] != found["cloud"], found
    reserves = {machine.profile.name: int(machine.read(MIN_FREE)) for machine in (bare, virtual)}
    assert reserves["baremetal"] != reserves["cloud"], reserves
    written = {machine.profile.name: machine.read(DROP_IN) for machine in (bare, virtual)}
    # Which belong to a machine, and so to no file
    assert not any(key in text for text in written.values() for key in ("dirty_bytes", "min_free_kbytes"))


def test_it_stays_so(virtual: Machine) -> None:
    virtual.reboot()
    is_right(virtual)


def test_presets_leave_the_agent_enabled(virtual: Machine) -> None:
    """A first boot without machine-id, where what is not named is disabled, as on Fedora."""
    virtual.write("/etc/systemd/system-preset/99-lab.preset", "disable *\n")
    virtual.run("systemctl preset mlnode-apply.service mlnode-nic.service mlnode-nic.path")
    assert virtual.out("systemctl is-enabled mlnode-apply.service mlnode-nic.path").split() == ["enabled"] * 2
    virtual.run("rm /etc/systemd/system-preset/99-lab.preset")


def test_reverted_and_booted_it_is_a_machine_of_the_plain_image(virtual: Machine, lab: Lab) -> None:
    virtual.run("mlnode revert")
    assert virtual.run("test -e /usr/local/bin/mlnode", check=False).returncode == 1
    virtual.reboot()
    now = Born.of(virtual)
    virtual.pause()
    plain = Born.of(lab.machine("cloud"))
    found = plain.differences(now, rebooted=True)
    assert [words for words in found if not words.startswith(_OWN)] == []
