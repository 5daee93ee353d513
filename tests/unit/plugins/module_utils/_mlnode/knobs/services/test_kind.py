# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door, service_machine
from ansible_collections.mlnode.tuning.tests.unit.service_machine import GROUPS, UNITS, WANTS, ServiceMachine
from mlnode.drivers import services as service_files
from mlnode.engine import declared, engine, revert
from mlnode.engine.engine import Request
from mlnode.engine.kind import Kind, Row
from mlnode.host.host import Host
from mlnode.knobs.cpu.kind import kind as cpu
from mlnode.knobs.services.kind import acts
from mlnode.knobs.services.kind import kind as services
from mlnode.knobs.services.known import SERVICES
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import HostError
from mlnode.model.setting import Layer, Status, Value

TUNED = "tuned.service"
DROP_IN = "/etc/systemd/system/tuned.service.d/zz-mlnode-stopped.training.conf"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> ServiceMachine:
    return service_machine.made(str(tmp_path / "node"))


def request(name: str = "training", layers: tuple[Layer, ...] = tuple(Layer), **choices: Any) -> Request:
    spec = {key.replace("_", "-"): choice for key, choice in choices.items()}
    return Request(name, services, {"services": spec} if spec else {}, layers)


def _changes(node: ServiceMachine) -> list[tuple[str, str]]:
    """Calls of systemctl that change something."""
    return [call for call in node.told if call[0] != "is-active"]


def row(host: Host, **choices: Any) -> Row:
    host.forget()
    [found] = engine.evaluate(host, request(**choices)).rows
    return found


def apply(host: Host, **choices: Any) -> engine.Outcome:
    host.forget()
    return door.apply(host, request(**choices))


# -- the declaration -----------------------------------------------------------------------


def test_every_service_has_a_reason_and_a_key_of_its_own() -> None:
    found = door.parse("services", {"services": dict.fromkeys(SERVICES, "leave")})
    assert len({setting.path for setting in found}) == len(SERVICES)
    for setting in found:
        about = services.info(setting.key, Value())
        assert about.reason
        assert about.source


# -- stopped -------------------------------------------------------------------------------


def test_it_is_stopped_now_and_at_every_boot_and_put_back_exactly(node: ServiceMachine) -> None:
    node.tuned()
    before = node.tree()
    found = row(node, tuned="stop")
    assert found.status is Status.DRIFTED
    assert found.reason == f"runtime is running; boot: {WANTS}/tuned.service starts it"

    done = apply(node, tuned="stop")

    [now] = done.rows
    assert (now.status, now.reading.boot.source) == (Status.CHANGED, DROP_IN)
    assert done.changed
    assert not node.runs(TUNED)
    assert _changes(node)[:2] == [("stop", TUNED), ("daemon-reload", "daemon-reload")]
    node.boot()
    assert not node.runs(TUNED)
    assert row(node, tuned="stop").status is Status.OK
    assert not apply(node, tuned="stop").changed

    revert.revert(node)

    assert node.runs(TUNED)
    node.put(f"{GROUPS}/{TUNED}/cgroup.procs", "77\n")
    assert node.tree() == before
    node.boot()
    assert node.runs(TUNED)


def test_one_that_did_not_run_stays_stopped_after_a_revert(node: ServiceMachine) -> None:
    node.install("numad.service", runs=False)
    assert "boot: " in row(node, numad="stop").reason
    apply(node, numad="stop")
    revert.revert(node)
    assert not node.runs("numad.service")
    assert ("start", "numad.service") not in node.told


def test_one_that_nothing_starts_may_still_be_started_by_others(node: ServiceMachine) -> None:
    node.install("power-profiles-daemon.service", enabled=False, runs=False)
    found = row(node, power_profiles_daemon="stop")
    assert found.reason == "boot: nothing keeps others from starting it, as by D-Bus"
    apply(node, power_profiles_daemon="stop")
    assert row(node, power_profiles_daemon="stop").status is Status.OK


def test_what_is_not_installed_is_as_declared_and_leaves_no_file(node: ServiceMachine) -> None:
    found = row(node, tuned="stop")
    assert (found.status, found.reason) == (Status.OK, "tuned.service is not installed")
    apply(node, tuned="stop")
    assert not node.exists(DROP_IN)
    node.tuned()
    assert row(node, tuned="stop").status is Status.DRIFTED


def test_a_masked_one_is_as_declared(node: ServiceMachine) -> None:
    node.install("tlp.service", runs=False)
    node.link("/etc/systemd/system/tlp.service", "/dev/null")
    found = row(node, tlp="stop")
    assert (found.status, found.reading.boot.source) == (Status.OK, "/etc/systemd/system/tlp.service")


def test_a_script_of_system_v(node: ServiceMachine) -> None:
    node.put("/etc/init.d/cpufrequtils", "#!/bin/sh\n", 0o755)
    node.link("/etc/rc3.d/S01cpufrequtils", "../init.d/cpufrequtils")
    assert "/etc/rc3.d/S01cpufrequtils starts it" in row(node, cpufrequtils="stop").reason
    apply(node, cpufrequtils="stop")
    assert row(node, cpufrequtils="stop").status is Status.OK


def test_a_declaration_that_is_gone_takes_its_drop_in_along(node: ServiceMachine) -> None:
    node.tuned()
    apply(node, tuned="stop")
    apply(node)
    assert not node.exists(DROP_IN)
    assert node.runs(TUNED), "it goes back to what it was"
    node.boot()
    assert node.runs(TUNED)


def test_from_stop_to_leave(node: ServiceMachine) -> None:
    node.tuned()
    apply(node, tuned="stop")
    apply(node, tuned="leave")
    assert not node.exists(DROP_IN)


def test_one_that_is_started_again_by_hand_is_drift(node: ServiceMachine) -> None:
    node.tuned()
    apply(node, tuned="stop")
    node.put(f"{GROUPS}/{TUNED}/cgroup.procs", "99\n")
    assert row(node, tuned="stop").reason == "runtime is running"
    node.put(f"{GROUPS}/{TUNED}/cgroup.procs", "")
    node.put(DROP_IN, "[Unit]\n")
    assert row(node, tuned="stop").status is Status.DRIFTED


@pytest.mark.parametrize("sees_new", [True, False])
def test_a_drop_in_that_systemd_has_not_read_is_told_to_it(node: ServiceMachine, sees_new: bool) -> None:
    node.sees_new = sees_new
    node.install("power-profiles-daemon.service", enabled=False, runs=False)
    door.apply(node, request(layers=(Layer.BOOT,), power_profiles_daemon="stop"))
    assert node.told == []
    assert apply(node, power_profiles_daemon="stop").changed
    assert _changes(node)[0] == ("daemon-reload", "daemon-reload")
    assert not apply(node, power_profiles_daemon="stop").changed


def test_a_masked_one_wants_a_reload_for_ever_and_gets_none(node: ServiceMachine) -> None:
    node.install("tlp.service", runs=False)
    node.link("/etc/systemd/system/tlp.service", "/dev/null")
    node.masked.add("tlp.service")
    apply(node, tlp="stop")
    assert not apply(node, tlp="stop").changed


def test_after_a_run_for_the_next_boot_a_revert_tells_systemd(node: ServiceMachine) -> None:
    node.install("numad.service", runs=False)
    door.apply(node, request(layers=(Layer.BOOT,), numad="stop"))
    revert.revert(node)
    assert ("daemon-reload", "daemon-reload") in node.told


def test_a_package_that_is_gone_is_no_obstacle_to_a_revert(node: ServiceMachine) -> None:
    node.tuned()
    apply(node, tuned="stop")
    node.remove(f"{UNITS}/{TUNED}")
    revert.revert(node)
    assert not node.exists(DROP_IN)


def test_control_groups_that_nobody_may_read(node: ServiceMachine) -> None:
    node.tuned()
    node.unreadable[f"{GROUPS}/{TUNED}/cgroup.procs"] = errno.EACCES
    found = row(node, tuned="stop")
    assert found.status is Status.UNKNOWN
    assert "EACCES" in found.reason
    assert row(node, tuned="leave").status is Status.UNKNOWN


@pytest.mark.parametrize("group", service_files._GROUPS)
def test_every_layout_of_control_groups(node: ServiceMachine, group: str) -> None:
    node.install(TUNED, runs=False)
    node.put(f"{group}/{TUNED}/cgroup.procs", "5\n")
    assert node.now(service_files.file_of(TUNED)) == "running"


# -- the files -----------------------------------------------------------------------------


@cases.table
def test_what_is_no_such_file(node: ServiceMachine, path: str) -> None:
    node.tuned()
    value = node.value(path)
    assert value.absent == f"{path} does not exist"
    with pytest.raises(HostError, match="does not exist"):
        service_files.write(node, path, "stopped")


def test_what_a_file_does_not_take(node: ServiceMachine) -> None:
    node.tuned()
    with pytest.raises(HostError, match="EINVAL"):
        node.write_kernel(service_files.file_of(TUNED), "sleeping")
    with pytest.raises(HostError, match=r"numad\.service is not installed"):
        node.write_kernel(service_files.file_of("numad.service"), "stopped")


def test_folders_of_services(node: ServiceMachine) -> None:
    node.tuned()
    assert node.exists("/service")
    assert node.exists("/service/tuned.service/running")
    assert not node.exists("/service/numad.service/running")
    assert not node.exists("/service/tuned.service/state")
    assert node.names("/service/tuned.service") == ["running"]
    assert node.names("/service") == []


# -- left ----------------------------------------------------------------------------------


def declare(node: ServiceMachine, **kinds: Any) -> None:
    modules: dict[str, Kind] = {"thp": thp, "sysctl": sysctl, "cpu": cpu}
    for kind, spec in kinds.items():
        door.apply(node, Request("training", modules[kind], modules[kind].checked(spec)))


@pytest.mark.parametrize("kinds", [{}, {"thp": {"enabled": "madvise"}}])
def test_an_active_profile_is_named(node: ServiceMachine, kinds: dict[str, Any]) -> None:
    node.tuned("network-latency \x1b[2J")
    declare(node, **kinds)
    found = row(node, tuned="leave")
    assert found.status is Status.OK
    assert found.reason.startswith("tuned.service with the profile network-latency \\x1b[2J: ")


def test_what_tuned_did_shows_in_the_kernel(node: ServiceMachine) -> None:
    node.tuned()
    spec = {"enabled": "madvise"}
    declare(node, thp=spec)
    node.write_kernel("/sys/kernel/mm/transparent_hugepage/enabled", "always")
    node.forget()
    [found] = engine.evaluate(node, Request("training", thp, spec)).rows
    assert (found.status, found.reason) == (Status.DRIFTED, "runtime is always")


def test_a_profile_that_cannot_be_read_is_unknown(node: ServiceMachine) -> None:
    node.tuned()
    node.unreadable["/etc/tuned/active_profile"] = errno.EACCES
    found = row(node, tuned="leave")
    assert found.status is Status.UNKNOWN
    assert "EACCES" in found.reason


def test_tuned_adm_off_leaves_no_profile(node: ServiceMachine) -> None:
    node.tuned("")
    node.put("/etc/tuned/profile_mode", "manual\n")
    declare(node, thp={"enabled": "madvise"})
    found = row(node, tuned="leave")
    assert (found.status, found.reason) == (Status.OK, "no profile is active")
    assert services.boot_sources("service.tuned", node) == [f"{WANTS}/tuned.service starts it"]


@pytest.mark.parametrize("mode", ["", "auto\n"])
def test_without_a_profile_tuned_starts_with_the_one_that_it_recommends(
    node: ServiceMachine, mode: str
) -> None:
    node.tuned("")
    declare(node, thp={"enabled": "madvise"})
    node.put("/etc/tuned/profile_mode", mode)
    found = row(node, tuned="leave")
    assert found.status is Status.OK
    assert "with the profile that it recommends at its start" in found.reason


# -- a condition that others take back -----------------------------------------------------


@cases.table
def test_a_later_drop_in_that_lifts_the_stop_is_seen(node: ServiceMachine, path: str, text: str) -> None:
    node.tuned()
    apply(node, tuned="stop")
    node.put(path, text)
    found = row(node, tuned="stop")
    assert found.status is Status.OVERRIDDEN
    assert found.reason == f"boot: {path}:2 takes the condition of {DROP_IN} back: take that line out"
    assert acts(node, SERVICES["tuned"]) == f"{WANTS}/{TUNED}", "so that other kinds know of it, too"


def test_an_earlier_or_another_drop_in_lifts_nothing(node: ServiceMachine) -> None:
    node.tuned()
    apply(node, tuned="stop")
    node.put("/etc/systemd/system/tuned.service.d/a.conf", "[Unit]\nConditionPathExists=\n")
    node.put("/etc/systemd/system/tuned.service.d/zzz.conf", "[Unit]\nAssertPathExists=\n[Service]\nNice=5\n")
    assert row(node, tuned="stop").status is Status.OK


def test_one_that_does_nothing_is_left_in_peace(node: ServiceMachine) -> None:
    node.install(TUNED, enabled=False, runs=False)
    assert row(node, tuned="leave").reason == "nothing starts it"


def test_another_service_may_set_what_is_declared(node: ServiceMachine) -> None:
    node.install("power-profiles-daemon.service")
    found = row(node, power_profiles_daemon="leave")
    assert found.status is Status.OK
    assert found.reason == "it lets any program on D-Bus change governor and energy preference of all CPUs"
    for number in range(2):
        node.put(f"/sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor", "powersave\n")
    declare(node, cpu={"governor": "performance"})
    found = row(node, power_profiles_daemon="leave")
    assert found.status is Status.OVERRIDDEN
    assert found.reason == (
        "boot: power-profiles-daemon.service may set cpu.governor (declared by training): declare stop"
    )


def stored(node: ServiceMachine, **kinds: Any) -> None:
    """Declared for devices that this machine does not have."""
    declaration = declared.Declaration("training", kinds)
    node.put(declaration.path, declared.render(declaration))


CONFIG = "/etc/default/instance_configs.cfg"


@cases.table
def test_the_guest_agent_of_google_tunes_unless_that_is_switched_off(
    node: ServiceMachine, files: dict[str, str], acts: bool
) -> None:
    node.install("google-guest-agent.service")
    for path, text in files.items():
        node.put(path, text)
    stored(node, irq={"rules": [{"name": "nics", "strategy": "spread"}]})
    found = row(node, google_guest_agent="leave")
    todo = f"set set_multiqueue = false in section InstanceSetup of {CONFIG}"
    assert (found.status, found.reason) == (
        (Status.OVERRIDDEN, f"boot: google-guest-agent.service may set irq (declared by training): {todo}")
        if acts
        else (Status.OK, "its tuning part is switched off")
    )


def test_units_of_googles_scripts_may_be_stopped(node: ServiceMachine) -> None:
    node.install("google-set-multiqueue.service", runs=False)
    assert row(node, google_set_multiqueue="leave").status is Status.OK
    stored(node, nic={"rules": [{"name": "nics", "mtu": 9000}]})
    found = row(node, google_set_multiqueue="leave")
    assert found.reason.endswith("may set nic (declared by training): declare stop")
    assert row(node, google_set_multiqueue="stop").status is Status.DRIFTED


def test_a_switch_that_cannot_be_read_is_unknown(node: ServiceMachine) -> None:
    node.install("google-guest-agent.service")
    node.unreadable[CONFIG] = errno.EIO
    assert row(node, google_guest_agent="leave").status is Status.UNKNOWN


def test_a_damaged_declaration_is_unknown(node: ServiceMachine) -> None:
    node.tuned()
    node.put("/etc/mlnode/declared.d/other.json", "{")
    [found] = engine.evaluate(
        node, Request("training", services, {"services": {"tuned": "leave"}}, alone=True)
    ).rows
    assert found.status is Status.OK  # it is reported by its own request


def test_an_explanation_names_links_drop_ins_and_the_profile(node: ServiceMachine) -> None:
    node.tuned()
    apply(node, tuned="stop")
    found = services.boot_sources("service.tuned", node)
    assert found[:2] == [f"{WANTS}/tuned.service starts it", f"{DROP_IN} keeps it stopped"]
    assert found[2:] == ["/etc/tuned/active_profile: tuned.service with the profile throughput-performance"]
    assert services.boot_sources("service.numad", node) == []
