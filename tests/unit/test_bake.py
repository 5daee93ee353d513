# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes into an image, and what an image build leaves alone."""

from __future__ import annotations

import pathlib
import re
import shutil
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit import door, questions
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import DEFAULTS, MENU, MKCONFIG, GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.roles import (
    PROFILES,
    ROLES,
    ROOT,
    declaration,
    load,
    name_of,
    options,
)
from ansible_collections.mlnode.tuning.tests.unit.test_playbooks import ansible
from mlnode.agent import call, node
from mlnode.agent import install as agent
from mlnode.agent.registry import KINDS
from mlnode.engine import engine
from mlnode.engine.origin import Origin
from mlnode.engine.plan import Row
from mlnode.engine.revert import revert
from mlnode.engine.units import NIC_PATH_UNIT
from mlnode.host.system import Finished
from mlnode.linux import grub
from mlnode.model.setting import Layer, Status

BAKE = "playbooks/bake.yml"
GRUB_DROP_IN = "/etc/default/grub.d/zz-mlnode-node.cfg"


class Image(GrubMachine):
    """An image in the making. To look at the kernel or the hardware of the build host, or to tell anybody
    there of a file, fails the test. built: the image is a machine now, and all of that is its own."""

    built = False

    def _guard(self, path: str) -> None:
        assert self.built or not path.startswith(("/proc/", "/sys/", "/ethtool", "/dcb")), path

    def read_bytes(self, path: str) -> bytes:
        self._guard(path)
        return super().read_bytes(path)

    def names(self, path: str) -> list[str]:
        self._guard(path)
        return super().names(path)

    def exists(self, path: str) -> bool:
        self._guard(path)
        return super().exists(path)

    def write_kernel(self, path: str, value: str) -> None:
        assert self.built, path
        super().write_kernel(path, value)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        assert self.built, command
        if command[:2] == ["systemctl", "try-restart"]:
            return Finished(0, "", "")
        return super().run(command, seconds)


@pytest.fixture
def image(tmp_path: pathlib.Path) -> Image:
    """With a systemd that runs, as on the machine that Packer starts, and an irqbalance."""
    Image.built = True
    made = Image.debian_with_grub(str(tmp_path / "image"))
    assert isinstance(made, Image)
    made.put("/run/systemd/system/.keep", "")
    made.put("/run/mlnode/failed/eth0", "{}")
    made.put(
        "/usr/lib/systemd/system/irqbalance.service",
        "[Service]\nEnvironmentFile=-/etc/default/irqbalance\n"
        "ExecStart=/usr/sbin/irqbalance $IRQBALANCE_ARGS\n",
    )
    made.built = False
    return made


@pytest.fixture(autouse=True)
def _a_class_is_as_it_was() -> Any:
    yield
    Image.built = False


def bake(image: Image, profile: str) -> bool:
    """What the role with that profile does there, and whether anything had to be done."""
    options = questions.declare(
        declaration(profile),
        name=name_of(profile),
        layers=["boot"],
        selected=[*KINDS],
        fabric_type="auto" if profile == "fabric" else "",
        risky=False,
        diff=False,
        confirm_seconds=60,
        interpreter=agent.INTERPRETER,
    )
    done = call.CALLS["declare"](image, options)
    assert not done["failed"], done["msg"]
    assert done["not_in_force"] == []
    changed: bool = done["changed"]
    return changed


def rows(image: Image, profile: str, area: str) -> Sequence[Row]:
    spec = declaration(profile)[area]
    return engine.evaluate(image, door.request(name_of(profile), area, spec, (Layer.BOOT,))).rows


@pytest.mark.parametrize("profile", PROFILES)
def test_no_role_looks_at_the_build_host_or_tells_anybody_there(image: Image, profile: str) -> None:
    before = image.tree()

    assert bake(image, profile)

    assert (image.writes, image.reloads, image.active) == ([], 0, set())
    assert image.updates == 0
    after = image.tree()
    new = {path: text for path, (text, _mode) in after.items() if path not in before}
    assert "/usr/local/bin/mlnode" in new
    assert f"/etc/mlnode/declared.d/{name_of(profile)}.json" in new
    assert not [path for path in new if path.startswith(("/run", "/proc", "/sys"))]
    assert {*before} <= {*after}, "what was tried there is still known"


@pytest.mark.parametrize("profile", ["training", "inference"])
def test_a_bake_reaches_its_goal_where_no_service_is_installed(image: Image, profile: str) -> None:
    """An image for containers, for one, has no sshd."""
    bake(image, profile)
    limits = {row.setting.key: row.status for row in rows(image, profile, "limits")}
    assert limits["limits.services.nofile"] is Status.UNSUPPORTED


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("device", ["/sys/class/infiniband/mlx5_0/node_type", ""])
def test_locked_memory_waits_for_the_hardware_that_boots_the_image(
    image: Image, profile: str, device: str
) -> None:
    image.put("/etc/pam.d/login", "session required pam_limits.so\n")
    image.put("/sys/class/infiniband/of-the-build-host/node_type", "1: CA\n")
    bake(image, profile)
    file = f"/etc/security/limits.d/zz-mlnode-{name_of(profile)}.conf"
    assert "memlock" not in image.text(file)
    assert {row.status for row in rows(image, profile, "limits") if row.setting.key.endswith("memlock")} == {
        Status.OK
    }

    image.built = True
    image.remove("/sys/class/infiniband/of-the-build-host/node_type")
    shutil.rmtree(image.real("/sys/class/infiniband"))
    if device:
        image.put(device, "1: CA\n")
    node.apply_all(image)

    assert ("* - memlock unlimited" in image.text(file)) is bool(device)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_second_bake_has_nothing_to_do(image: Image, profile: str) -> None:
    bake(image, profile)
    before = image.tree()

    assert not bake(image, profile)
    assert image.tree() == before


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_kept_for_a_revert_are_files_alone(image: Image, profile: str) -> None:
    bake(image, profile)

    entries = Origin.load(image).entries()
    assert entries
    assert [entry["key"] for entry in entries if "file" not in entry] == []


def test_a_machine_from_the_image_tells_everybody_when_it_is_reverted(image: Image) -> None:
    before = {path: found for path, found in image.tree().items() if not path.startswith("/run")}
    bake(image, "training")
    image.built = True
    image.active.add(NIC_PATH_UNIT)

    revert(image)

    assert image.reloads == 2, "for the agent's units, and for the drop-in of irqbalance"
    assert image.active == set()
    assert image.updates == 1, "its menu may be made of our file"
    after = {path: found for path, found in image.tree().items() if not path.startswith("/run")}
    assert after == before


def test_the_first_boot_does_the_rest(image: Image) -> None:
    bake(image, "training")
    buffer = "/proc/sys/net/core/rmem_max"
    image.built = True
    born = image.now(buffer)

    found = node.apply_all(image)

    assert found.errors == ()
    assert image.now(buffer) != born
    assert Origin.load(image).value_of(buffer) == born
    assert "transparent_hugepage=madvise" in image.line(), "for the boot after this one"


def test_the_menu_of_the_boot_loader_is_made_by_somebody_else(image: Image) -> None:
    bake(image, "training")
    found = rows(image, "training", "boot")

    assert {(str(row.status), row.reading.boot.source) for row in found} == {("ok", GRUB_DROP_IN)}
    assert {"the boot loader's menu does not include it yet" in row.reason for row in found} == {True}

    image.built = True
    grub.regenerate(image)
    image.built = False
    image.forget()
    found = rows(image, "training", "boot")
    assert {(str(row.status), row.reason) for row in found} == {("ok", "")}


def test_an_image_whose_menu_is_written_last_of_all_has_the_drop_in(image: Image) -> None:
    image.remove(MENU)

    bake(image, "training")

    assert "transparent_hugepage=madvise" in image.read(GRUB_DROP_IN)


def test_where_grub_reads_no_drop_ins_its_defaults_are_what_counts(image: Image) -> None:
    image.put("/usr/sbin/grub-mkconfig", MKCONFIG, 0o755)

    bake(image, "training")

    assert "transparent_hugepage=madvise" in image.read(DEFAULTS)
    found = rows(image, "training", "boot")
    assert {(str(row.status), row.reading.boot.source) for row in found} == {("ok", DEFAULTS)}


def test_a_drop_in_that_undoes_ours_is_named_already_in_the_image(image: Image) -> None:
    image.put(
        "/etc/default/grub.d/zzz.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX numa_balancing=enable"\n'
    )
    bake(image, "training")
    found = rows(image, "training", "boot")

    wrong = {row.setting.key for row in found if "does not include it yet" not in row.reason}
    assert wrong == {"boot.numa_balancing"}


# -- the playbook --------------------------------------------------------------------------


def bake_play() -> dict[str, Any]:
    _look, play = load(BAKE)
    found: dict[str, Any] = play
    return found


def test_every_role_can_be_baked_and_declares_the_boot_alone() -> None:
    play = bake_play()

    assert play["vars"]["bake_known"] == PROFILES
    for role in ROLES:
        assert play["vars"][f"{role}_layers"] == ["boot"]
        if f"{role}_reboot" in options(role):
            assert play["vars"][f"{role}_reboot"] is False


#: Groups of a host, its bake_roles, and why it is refused
REFUSED = (
    ((), "", "bake_roles: expected one or more of"),
    (("other",), "", "one or more of training, inference, fabric, got no role;"),
    ((), "trainig", "got trainig;"),
    (("training", "inference"), "", "expected training or inference, got both"),
    (("training",), "inference,training", "expected training or inference, got both"),
)
BAKED = ((("training", "fabric"), ""), ((), "inference, fabric"), (("training",), "fabric"))


def test_what_cannot_be_baked_is_refused_before_anything_is_done(tmp_path: pathlib.Path) -> None:
    """None of the hosts can be reached: what passes the questions ends at the first look at it."""
    hosts: dict[str, Any] = {}
    children: dict[str, dict[str, Any]] = {}
    for groups, roles, *_why in (*REFUSED, *BAKED):
        name = f"image{len(hosts)}"
        hosts[name] = {"bake_roles": roles} if roles else {}
        for group in groups:
            children.setdefault(group, {"hosts": {}})["hosts"][name] = {}
    reached = {
        "ansible_connection": "ssh",
        "ansible_host": "127.0.0.1",
        "ansible_port": 1,
        "ansible_become": False,
    }
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": reached, "children": children}}))

    done = ansible("ansible-playbook", "-i", str(inventory), BAKE)

    assert done.returncode != 0
    ended = dict(re.findall(r"^fatal: \[(\w+)\]: (.*?)(?=^fatal|^TASK|^PLAY|\Z)", done.stdout, re.M | re.S))
    assert {*ended} == {*hosts}, done.stdout
    for name, (_groups, _roles, why) in zip(hosts, REFUSED):
        assert why in " ".join(ended[name].split()), name
    unreachable = {name for name, words in ended.items() if words.startswith("UNREACHABLE!")}
    assert unreachable == {*list(hosts)[len(REFUSED) :]}, "the roles of a group, or those that are named"


def test_an_empty_inventory_is_refused() -> None:
    done = ansible("ansible-playbook", "-i", "/dev/null", BAKE)

    assert done.returncode != 0
    assert "The inventory has no host." in " ".join((done.stdout + done.stderr).split())


def test_the_inventory_for_a_folder_names_what_has_to_be_installed() -> None:
    host = load("inventory/chroot.yml")["training"]["hosts"]["image"]
    needed = [item["name"] for item in load("requirements.yml")["collections"]]

    assert host["ansible_connection"] == "community.general.chroot"
    assert needed == [host["ansible_connection"].rpartition(".")[0]]
    assert (ROOT / "docs/guide/image.md").read_text(encoding="utf-8").count("requirements.yml")
