# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that set sysctls by files of their own: what their files say, who comes last at boot, the rows."""

from __future__ import annotations

import errno
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import AGENT_LINK, AGENT_UNIT, Row
from mlnode.host.system import LIMIT
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.linux import networkd, setters, sysctl_d, sysctl_owners
from mlnode.model.cause import MAY_SET, SET
from mlnode.model.setting import Status

FORWARD = "net.ipv4.ip_forward"
MARTIANS = "net.ipv4.conf.all.log_martians"
UNITS = "/usr/lib/systemd/system"
SERVICE = "[Unit]\nAfter=network-online.target\n[Service]\nExecStart=/usr/bin/x --flag\n"


def enable(machine: Machine, unit: str, text: str = SERVICE) -> None:
    machine.put(f"{UNITS}/{unit}", text)
    machine.link(f"/etc/systemd/system/multi-user.target.wants/{unit}", f"{UNITS}/{unit}")


def put(machine: Machine, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        machine.put(path, text)


#: Name → unit, its text, files, key, what it sets, where, and whether that is sure
FILES: dict[str, dict[str, Any]] = cases.load(pathlib.Path(__file__).with_name("sysctl_owner_files.yml"))
UFW, UFW_UNIT, PROFILE = FILES["ufw"]["files"], FILES["ufw"]["text"], FILES["tuned"]["files"]


def as_written(_key: str, text: str, _before: str | None) -> sysctl_d.Effect:
    return sysctl_d.Effect(text)


@pytest.mark.parametrize("case", FILES)
def test_what_their_files_say(machine: Machine, case: str) -> None:
    unit, text, files, key, value, where, sure = FILES[case].values()
    enable(machine, unit, text)
    put(machine, files)
    name = sysctl_d.slashed(key)
    found = [
        (one.effect.text or "?", one.line.where, owner.sure)
        for owner in sysctl_owners.load(machine)
        for one in [sysctl_d.decided(owner.lines, name, as_written)]
        if one is not None
    ]
    assert found == ([] if value is None else [(value, where, sure)])


@pytest.mark.parametrize("case", [name for name, entry in FILES.items() if entry["value"] not in (None, "?")])
def test_a_present_value_is_explained_by_its_line(machine: Machine, case: str) -> None:
    unit, text, files, key, value, where, sure = FILES[case].values()
    enable(machine, unit, text)
    put(machine, files)
    path = f"/proc/sys/{sysctl_d.slashed(key)}"
    cause = setters.cause(machine, path, value or "")
    assert cause is not None
    assert (f"{cause.file}:{cause.line}", cause.code) == (where, SET if sure else MAY_SET)
    assert f"or declare {value}" in cause.text
    assert setters.cause(machine, path, "77") is None


# -- who comes last ------------------------------------------------------------------------


def row(machine: Machine, key: str = MARTIANS, value: Any = 1) -> Row:
    machine.forget()
    return engine.evaluate(machine, Request("one", sysctl, {"settings": {key: value}})).rows[0]


@pytest.fixture
def node(machine: Machine) -> Machine:
    for key in (MARTIANS, FORWARD, "kernel.panic_on_oops", "kernel.panic"):
        machine.put(f"/proc/sys/{key.replace('.', '/')}", "0\n")
    machine.enable_agent()
    return machine


def declare(machine: Machine, key: str, value: Any) -> None:
    door.apply(machine, Request("one", sysctl, {"settings": {key: value}}))


@pytest.mark.parametrize("path", ["/etc/ufw/ufw.conf", f"{UNITS}/ufw.service"])
def test_what_cannot_be_read_leaves_the_next_boot_unknown(node: Machine, path: str) -> None:
    put(node, UFW)
    enable(node, "ufw.service", UFW_UNIT)
    declare(node, MARTIANS, 1)
    node.unreadable[path] = errno.EACCES
    found = row(node)
    assert (found.status, found.reading.boot.value.text) == (Status.UNKNOWN, None)
    assert path in found.reason
    assert "EACCES" in found.reason


def test_the_agent_comes_after_ufw_and_a_reload_is_foretold(node: Machine) -> None:
    enable(node, "ufw.service", UFW_UNIT)
    put(node, UFW)
    declare(node, MARTIANS, 1)
    found = row(node)
    assert (found.status, found.reading.boot.value.text, found.reading.boot.source) == (
        Status.OK,
        "1",
        AGENT_UNIT,
    )
    assert "later /etc/ufw/sysctl.conf:2 sets" in found.reason
    assert "when ufw starts or is reloaded" in found.reason
    assert any("/etc/ufw/sysctl.conf:2" in line for line in sysctl.boot_sources(MARTIANS, node))
    node.put("/proc/sys/net/ipv4/conf/all/log_martians", "0\n")
    assert row(node).reason.startswith("runtime is 0, as /etc/ufw/sysctl.conf:2 sets ")


def test_a_unit_that_no_order_ties_to_the_agent_makes_the_boot_unknown(node: Machine) -> None:
    enable(node, "ufw.service", UFW_UNIT)
    put(node, UFW)
    declare(node, MARTIANS, 1)
    unit = "/etc/systemd/system/mlnode-apply.service"
    node.put(unit, node.read(unit).replace(" ufw.service", ""))
    found = row(node)
    assert found.status is Status.UNKNOWN
    assert f"neither ufw.service nor {AGENT_UNIT} waits for the other" in found.reason
    # The service for NICs waits for the network, and sets all keys again.
    for target, text in (("network-pre", ""), ("network", "After=network-pre.target\n")):
        node.put(f"{UNITS}/{target}.target", f"[Unit]\n{text}")
        node.link(f"/etc/systemd/system/multi-user.target.wants/{target}.target", f"{UNITS}/{target}.target")
    found = row(node)
    assert (found.status, found.reading.boot.value.text) == (Status.OK, "1")
    assert "mlnode-nic.service comes after ufw.service at boot; later /etc/ufw/sysctl.conf:2" in found.reason


def test_without_the_agent_the_owner_is_not_overlooked(node: Machine) -> None:
    enable(node, "docker.service")
    declare(node, FORWARD, 0)
    node.remove(AGENT_LINK)
    found = row(node, FORWARD, 0)
    assert (found.status, found.reading.boot.value.text) == (Status.OVERRIDDEN, "1")
    node.remove("/etc/systemd/system/multi-user.target.wants/docker.service")
    assert row(node, FORWARD, 0).status is Status.OK


@cases.table
def test_the_boot_layer_is_what_comes_last(
    node: Machine, case: str, key: str, value: Any, status: str, boot: str | None
) -> None:
    unit, text, files, *_rest = FILES[case].values()
    node.put("/proc/sys/net/ipv4/conf/all/forwarding", "0\n")
    declare(node, key, value)
    enable(node, unit, text)
    put(node, files)
    found = row(node, key, value)
    assert (found.status, found.reading.boot.value.text) == (Status(status), boot), found.reason
    if status == "overridden":
        assert unit in found.reason


@cases.table
def test_a_value_of_tuned_that_depends_on_the_node(
    node: Machine, line: str, want: int, status: str, boot: str | None
) -> None:
    declare(node, "vm.swappiness", want)
    node.remove(AGENT_LINK)
    enable(node, "tuned.service", SERVICE.replace("network-online.target", "systemd-sysctl.service"))
    put(node, {**PROFILE, "/etc/tuned/x/tuned.conf": f"[sysctl]\nvm.swappiness={line}\n"})
    node.put("/etc/tuned/tuned-main.conf", "reapply_sysctl=0\n")
    found = row(node, "vm.swappiness", want)
    assert (found.status, found.reading.boot.value.text) == (Status(status), boot), found.reason


def test_tuned_reads_sysctl_conf_after_the_drop_in(node: Machine) -> None:
    enable(node, "tuned.service", SERVICE.replace("network-online.target", "systemd-sysctl.service"))
    put(node, {**PROFILE, "/etc/sysctl.conf": "vm.swappiness = 30\n"})
    declare(node, "vm.swappiness", 1)
    found = row(node, "vm.swappiness", 1)
    assert found.status is Status.OK, found.reason
    assert "later /etc/sysctl.conf:1 sets vm.swappiness = 30 when tuned starts" in found.reason
    node.remove(AGENT_LINK)
    found = row(node, "vm.swappiness", 1)
    assert (found.status, found.reading.boot.value.text) == (Status.OVERRIDDEN, "30"), found.reason


# -- commands of the administrator ---------------------------------------------------------

TUNE, RC = "/etc/systemd/system/tune.service", "/etc/rc.local"
SWAPPINESS = "vm.swappiness"


def tune(machine: Machine, text: str) -> None:
    machine.put(TUNE, text)
    machine.link("/etc/systemd/system/multi-user.target.wants/tune.service", TUNE)


@cases.table
def test_commands_of_a_unit(
    machine: Machine, command: str, files: Mapping[str, str], value: str | None, where: str, sure: bool
) -> None:
    tune(machine, f"[Service]\n{command}\n")
    put(machine, files)
    found = [
        (one.effect.text or "?", one.line.where, owner.sure)
        for owner in sysctl_owners.load(machine)
        for one in [sysctl_d.decided(owner.lines, "vm/swappiness", as_written)]
        if one is not None
    ]
    assert found == ([] if value is None else [(value, where, sure)])


def test_a_program_that_is_too_large_to_be_read_is_no_script(machine: Machine) -> None:
    tune(machine, "[Service]\nExecStart=/opt/large\nExecStart=/sbin/sysctl -w vm.swappiness=30\n")
    machine.put("/opt/large", "")
    os.truncate(machine.real("/opt/large"), LIMIT + 1)
    (owner,) = sysctl_owners.load(machine)
    assert [line.where for line in owner.lines] == [f"{TUNE}:3"]


def test_a_script_that_cannot_be_read_leaves_it_unknown(machine: Machine) -> None:
    tune(machine, "[Service]\nExecStart=/opt/tune\n")
    machine.put("/opt/tune", "#!/bin/sh\n")
    machine.unreadable["/opt/tune"] = errno.EIO
    (owner,) = sysctl_owners.load(machine)
    assert "/opt/tune" in owner.unread


@cases.table
def test_a_command_with_blanks_in_its_value(machine: Machine, command: str) -> None:
    tune(machine, f"[Service]\nExecStart={command}\n")
    (owner,) = sysctl_owners.load(machine)
    assert [line.value for line in owner.lines] == ["4096 87380 16777216"]


@pytest.mark.parametrize("order", ["", "After=mlnode-apply.service\n", "Before=mlnode-apply.service\n"])
def test_a_unit_with_a_command_and_the_agent(node: Machine, order: str) -> None:
    declare(node, SWAPPINESS, 1)
    tune(node, f"[Unit]\n{order}[Service]\nExecStart=/sbin/sysctl -w vm.swappiness=30\n")
    found = row(node, SWAPPINESS, 1)
    if "Before" in order:
        assert (found.status, found.reading.boot.value.text) == (Status.OK, "1"), found.reason
    elif order:
        assert (found.status, found.reading.boot.value.text) == (Status.OVERRIDDEN, "30"), found.reason
    else:
        assert found.status is Status.UNKNOWN, found.reason
    assert f"{TUNE}:" in found.reason
    node.remove("/etc/systemd/system/multi-user.target.wants/tune.service")
    assert row(node, SWAPPINESS, 1).reason == ""


def test_a_command_of_rc_local(node: Machine) -> None:
    declare(node, SWAPPINESS, 1)
    node.put(RC, "#!/bin/sh -e\nsysctl -w vm.swappiness=30\nexit 0\n", 0o644)
    assert row(node, SWAPPINESS, 1).status is Status.OK  # nothing starts it
    node.put(RC, "#!/bin/sh -e\nsysctl -w vm.swappiness=30\nexit 0\n", 0o755)
    found = row(node, SWAPPINESS, 1)
    assert found.status is Status.UNKNOWN
    assert f"neither /etc/rc.local nor {AGENT_UNIT}" in found.reason
    node.remove(AGENT_LINK)
    found = row(node, SWAPPINESS, 1)
    assert (found.status, found.reading.boot.value.text) == (Status.OVERRIDDEN, "30"), found.reason


def test_the_configuration_of_network_manager_is_read_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf, read = "/etc/NetworkManager/NetworkManager.conf", Machine.read_bytes
    looks: list[str] = []
    monkeypatch.setattr(Machine, "read_bytes", lambda host, path: looks.append(path) or read(host, path))
    machine.put(conf, "[connection]\nipv6.ip6-privacy=2\n")
    for name in ("eth0", "eth1"):
        machine.put(
            f"/etc/NetworkManager/system-connections/{name}", f"[connection]\ninterface-name={name}\n"
        )
    owners = [one for one in sysctl_owners.load(machine) if one.unit == "NetworkManager.service"]
    assert [line.value for one in owners for line in one.lines if "use_tempaddr" in line.key] == ["2", "2"]
    assert looks.count(conf) == 1


# -- networkd ------------------------------------------------------------------------------


@cases.table
def test_what_networkd_makes_of_other_options(
    machine: Machine, option: str, path: str, value: str | None, sure: bool
) -> None:
    machine.put("/run/systemd/netif/state", "OPER_STATE=routable\n")
    machine.put("/etc/systemd/network/a.network", f"[Match]\nName=eth0\n[Network]\n{option}\n")
    found = networkd.sets(machine, f"/proc/sys/net/{path}")
    assert (found.value if found else None) == value
    assert found is None or found.sure is sure
