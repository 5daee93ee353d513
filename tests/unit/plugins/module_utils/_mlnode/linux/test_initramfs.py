# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of sysctl.d in an initramfs, and what is said of them until it is made again."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import node, whole_node
from mlnode.engine import declared, engine
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.linux import initramfs
from mlnode.model.setting import Status

MODULE = "/usr/lib/dracut/modules.d/01systemd-sysctl/module-setup.sh"
#: As dracut 059 and older versions have it: this host's folder only where the image is for this host
GUARDED = """\
install() {
    inst_multiple -o "$sysctld/*.conf" "$systemdutil"/systemd-sysctl
    # of /etc/sysctl.d
    if [[ $hostonly ]]; then
        inst_multiple -H -o /etc/sysctl.conf "$sysctlconfdir/*.conf"
    fi
}
"""
ALWAYS = 'install() { inst_multiple -H -o "/etc/sysctl.d/*.conf"; }\n'
IMAGE = "/boot/initramfs-6.12.0-test.img"
LEFT = "/etc/mlnode/initramfs.d/site"
SETTINGS = {"vm.min_free_kbytes": 262144, "vm.swappiness": 1}


@pytest.fixture
def fedora(machine: Machine) -> Machine:
    machine.enable_agent()
    machine.put(MODULE, ALWAYS)
    machine.put(IMAGE, b"\x1f\x8b")
    return machine


def run(machine: Machine, settings: Mapping[str, Any]) -> bool:
    machine.forget()
    changed = door.apply(machine, engine.Request("site", sysctl, {"settings": {**settings}})).changed
    machine.forget()
    return changed


def said(machine: Machine) -> str:
    """The row of the node about it; empty for none."""
    rows = [item.row for item in node.survey(machine).rows if item.row.setting.key == "agent.initramfs"]
    assert all(row.status is Status.UNKNOWN for row in rows)
    return "".join(row.reason for row in rows)


def make_again(machine: Machine) -> None:
    later = time.time() + 5
    os.utime(machine.root + IMAGE, (later, later))
    machine.forget()


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({MODULE: ALWAYS}, "dracut"),
        ({MODULE: GUARDED}, "dracut"),  # the version decides what hostonly is without a line
        ({MODULE: GUARDED, "/usr/lib/dracut/dracut.conf.d/01-dist.conf": 'hostonly="yes"\n'}, "dracut"),
        ({MODULE: GUARDED, "/etc/dracut.conf": "hostonly=no\n"}, ""),
        (
            {
                MODULE: GUARDED,
                "/etc/dracut.conf": "hostonly=no\n",
                "/etc/dracut.conf.d/x.conf": 'hostonly="yes" # host\n',
            },
            "dracut",
        ),
        ({MODULE: ALWAYS, "/etc/dracut.conf.d/x.conf": 'omit_dracutmodules+=" systemd-sysctl "\n'}, ""),
        (
            {MODULE: ALWAYS, "/etc/dracut.conf.d/x.conf": '#omit_dracutmodules+=" systemd-sysctl "\n'},
            "dracut",
        ),
        ({MODULE: "# copies no /etc/sysctl.d\ninstall() { :; }\n"}, ""),
        ({"/etc/initramfs-tools/hooks/site": "cp -a /etc/sysctl.d $DESTDIR/etc\n"}, "initramfs-tools"),
        ({"/usr/share/initramfs-tools/hooks/kdump-tools": "copy_file x /etc/kdump/sysctl.conf\n"}, ""),
        ({}, ""),
    ],
)
def test_the_tool_and_its_configuration_decide(machine: Machine, files: dict[str, str], name: str) -> None:
    for path, text in files.items():
        machine.put(path, text)
    found = initramfs.maker(machine)
    assert (found.name if found else "") == name


def test_images_of_another_purpose_are_none(fedora: Machine) -> None:
    for name in ("initramfs-6.12.0-test.img.bak", "initramfs-6.12.0kdump.img", "initramfs-0-rescue-1.img"):
        fedora.put(f"/boot/{name}", "")
    assert initramfs.images(fedora) == [IMAGE]


def test_a_key_that_left_the_files_is_said_until_the_image_is_made_again(fedora: Machine) -> None:
    run(fedora, SETTINGS)
    assert (said(fedora), fedora.exists(LEFT)) == ("", False)
    assert run(fedora, {"vm.min_free_kbytes": 262144})
    words = said(fedora)
    assert IMAGE in words
    assert "vm.swappiness = 1 left it" in words
    assert "run dracut -f" in words
    assert not run(fedora, {"vm.min_free_kbytes": 262144})
    make_again(fedora)
    assert said(fedora) == ""
    assert run(fedora, {"vm.min_free_kbytes": 262144})
    assert not fedora.exists(LEFT)


def test_a_key_that_leaves_after_the_image_was_made_again(fedora: Machine) -> None:
    """The image has the key that was there meanwhile, and not the first one that left."""
    run(fedora, SETTINGS)
    run(fedora, {"vm.min_free_kbytes": 262144})
    past = time.time() - 60
    os.utime(fedora.root + LEFT, (past, past))
    fedora.put(IMAGE, b"\x1f\x8b again")

    run(fedora, {"vm.max_map_count": 262144})

    assert "vm.min_free_kbytes = 262144 left it" in said(fedora)
    assert "vm.swappiness" not in said(fedora)


@pytest.mark.parametrize("value", [10, {"at_least": 5}, "auto"])
def test_another_value_of_a_key_is_set_again_by_the_root_file_system(fedora: Machine, value: Any) -> None:
    run(fedora, SETTINGS)
    key = "vm.min_free_kbytes" if value == "auto" else "vm.swappiness"
    run(fedora, {**SETTINGS, key: value})
    assert said(fedora) == ""


def test_a_key_that_is_declared_again_is_not_left(fedora: Machine) -> None:
    run(fedora, SETTINGS)
    run(fedora, {"vm.min_free_kbytes": 262144})
    run(fedora, SETTINGS)
    assert (said(fedora), fedora.exists(LEFT)) == ("", False)


def test_nothing_is_kept_where_no_image_has_a_copy(machine: Machine) -> None:
    machine.enable_agent()
    machine.put(IMAGE, "")
    run(machine, SETTINGS)
    run(machine, {"vm.min_free_kbytes": 262144})
    assert (said(machine), machine.exists(LEFT)) == ("", False)


@pytest.mark.parametrize("check", [True, False])
def test_a_revert_says_it_and_is_whole(fedora: Machine, check: bool) -> None:
    before = fedora.tuned()
    run(fedora, SETTINGS)
    run(fedora, {"vm.min_free_kbytes": 262144})
    result = whole_node.put_back(fedora, False, check, False)
    (note,) = (item["value"] for item in result["reverted"] if item["key"] == "initramfs")
    assert "vm.min_free_kbytes = 262144, vm.swappiness = 1 left it" in note
    assert "run dracut -f" in note
    if not check:
        assert fedora.tuned() == before


def test_a_folder_that_cannot_be_read_leaves_it_unknown(fedora: Machine) -> None:
    run(fedora, SETTINGS)
    run(fedora, {"vm.min_free_kbytes": 262144})
    fedora.unreadable[LEFT] = 5
    assert "EIO" in said(fedora)


def test_the_declaration_itself_has_nothing_of_it(fedora: Machine) -> None:
    run(fedora, SETTINGS)
    run(fedora, {"vm.min_free_kbytes": 262144})
    (declaration,) = declared.load_all(fedora)
    assert declaration.kinds == {"sysctl": {"settings": {"vm.min_free_kbytes": 262144}}}
