# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole runs: what is written, what beats it, what waits for a restart, what is refused, what is put back."""

from __future__ import annotations

import errno
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from mlnode.agent import node
from mlnode.engine import boot_run, engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.host.host import Host
from mlnode.knobs.limits.kind import kind as limits
from mlnode.model.errors import RefusedError
from mlnode.model.setting import BOTH_LAYERS, Layer, Severity, Status, Value

FILE = "zz-mlnode-default.conf"
PAM, MANAGER = f"/etc/security/limits.d/{FILE}", f"/etc/systemd/system.conf.d/{FILE}"
UNITS = "/etc/systemd/system"
BOOT, RUNTIME = (Layer.BOOT,), (Layer.RUNTIME,)
SPEC: dict[str, Any] = {"nofile": 1048576}


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> LimitsMachine:
    """A node of Slurm and containers, on which nothing runs but sshd."""
    found = LimitsMachine.node(str(tmp_path / "node"))
    found.unit("slurmd")
    found.unit("containerd", "[Service]\nLimitNOFILE=1024\n")
    found.unit("ssh")
    found.link(f"{UNITS}/sshd.service", "/usr/lib/systemd/system/ssh.service")
    return found


def drop_in(service: str) -> str:
    return f"{UNITS}/{service}.service.d/{FILE}"


def rows(
    machine: Host, spec: dict[str, Any] | None = None, layers: tuple[Layer, ...] = BOTH_LAYERS
) -> dict[str, Row]:
    plan = engine.evaluate(machine, Request("default", limits, spec or SPEC, layers))
    return {row.setting.key: row for row in plan.rows}


def row(machine: Host, key: str, spec: dict[str, Any] | None = None) -> tuple[str, str]:
    found = rows(machine, spec)[f"limits.{key}"]
    return str(found.status), found.reason


def apply(
    machine: LimitsMachine, spec: dict[str, Any] | None = None, layers: tuple[Layer, ...] = BOTH_LAYERS
) -> dict[str, tuple[str, str]]:
    outcome = door.apply(machine, Request("default", limits, SPEC if spec is None else spec, layers))
    return {one.setting.key[len("limits.") :]: (str(one.status), one.reason) for one in outcome.rows}


def lines(machine: LimitsMachine, path: str) -> list[str]:
    return [line for line in machine.text(path).splitlines() if not line.startswith("#")]


# -- files ---------------------------------------------------------------------------------


def test_each_who_hands_limits_on_gets_a_file(machine: LimitsMachine) -> None:
    found = apply(machine, {"nofile": "65536:1048576", "memlock": "unlimited", "stack": 67108864})
    assert {status for status, _reason in found.values()} == {"changed"}
    assert lines(machine, PAM) == [
        "* soft nofile 65536", "* hard nofile 1048576",
        "root soft nofile 65536", "root hard nofile 1048576",
        "* - memlock unlimited", "root - memlock unlimited",
        # The hard limit was more, and a login inherits it.
        "* soft stack 65536", "root soft stack 65536",
    ]  # fmt: skip
    units = ["LimitNOFILE=65536:1048576", "LimitMEMLOCK=infinity", "LimitSTACK=67108864:infinity"]
    defaults = [f"Default{line}" for line in units]
    assert machine.read(MANAGER).split("\n")[2:-1] == [
        "[Manager]", *defaults[:2], "# before: stack 8388608:infinity", defaults[2],
    ]  # fmt: skip
    for service in ("slurmd", "containerd", "ssh"):
        assert lines(machine, drop_in(service)) == ["[Service]", *units]
    assert not machine.exists(f"{UNITS}/sshd.service.d")
    assert machine.reloads == 1


@pytest.mark.parametrize("hard", ["infinity", "1073741816"])
def test_a_hard_limit_that_systemd_caps_is_no_line_of_pam(machine: LimitsMachine, hard: str) -> None:
    """pam_limits does not cap it, and denies every login."""
    machine.put("/etc/systemd/system.conf.d/10-site.conf", f"[Manager]\nDefaultLimitNOFILE=1024:{hard}\n")
    spec = {"nofile": {"login": "65536:1048576"}}

    found = apply(machine, spec)

    assert lines(machine, PAM) == ["* soft nofile 65536", "root soft nofile 65536"]
    assert {status for status, _reason in found.values()} == {"changed"}
    assert {str(one.status) for one in rows(machine, spec).values()} == {"ok"}


def test_what_is_more_by_itself_is_not_repeated_for_logins(machine: LimitsMachine) -> None:
    machine.put("/etc/systemd/system.conf.d/10-site.conf", "[Manager]\nDefaultLimitNPROC=257000\n")
    spec = {"nproc": {"login": "65536:400000"}}

    apply(machine, spec)

    assert lines(machine, PAM) == ["* hard nproc 400000", "root hard nproc 400000"]
    assert {str(one.status) for one in rows(machine, spec).values()} == {"ok"}


def test_parts_can_be_left_out(machine: LimitsMachine) -> None:
    found = apply(machine, {**SPEC, "domains": ["@slurm"], "services": ["slurmd"], "defaults": False})
    assert [*found] == ["login.@slurm.nofile", "services.nofile"]
    assert lines(machine, PAM) == ["@slurm - nofile 1048576"]
    assert [path for path in machine.tree() if path.endswith(FILE)] == [PAM, drop_in("slurmd")]
    apply(machine, {**SPEC, "domains": [], "services": [], "defaults": True})
    assert [path for path in machine.tree() if path.endswith(FILE)] == [MANAGER]


SCOPED: dict[str, Any] = {
    "nofile": {"login": "65536:1048576", "systemd": "1024:1048576", "services": "1024:1048576",
               "slurmd": "65536:1048576"},
}  # fmt: skip


def test_logins_services_and_slurmd_may_differ(machine: LimitsMachine) -> None:
    found = apply(machine, SCOPED)
    assert {status for status, _reason in found.values()} == {"changed"}
    assert lines(machine, PAM)[:2] == ["* soft nofile 65536", "* hard nofile 1048576"]
    assert lines(machine, MANAGER) == ["[Manager]", "DefaultLimitNOFILE=1024:1048576"]
    for service in ("containerd", "ssh"):
        assert lines(machine, drop_in(service)) == ["[Service]", "LimitNOFILE=1024:1048576"]
    assert lines(machine, drop_in("slurmd")) == ["[Service]", "LimitNOFILE=65536:1048576"]
    assert row(machine, "services.nofile", SCOPED) == ("ok", "")

    machine.process(50, "slurmd", nofile="1024:524288")
    machine.process(51, "containerd", nofile="1048576")  # Go has raised its own
    assert row(machine, "services.nofile", SCOPED) == (
        "pending_reboot",
        (
            "runtime is 1024:524288 (slurmd, until restarted); 1024:1048576 (containerd, ssh); the next boot "
            "brings 1024:1048576; 65536:1048576 (slurmd)"
        ),
    )


def test_one_service_alone(machine: LimitsMachine) -> None:
    spec: dict[str, Any] = {"nofile": {"slurmd": "65536:1048576"}}
    apply(machine, spec)
    assert [path for path in machine.tree() if path.endswith(FILE)] == [drop_in("slurmd")]
    assert row(machine, "services.nofile", spec) == ("ok", "")
    machine.link(f"{UNITS}/slurmd.service", "/dev/null")
    assert row(machine, "services.nofile", spec) == ("unsupported", "none of slurmd is installed")


def test_another_file_of_one_service_is_told(machine: LimitsMachine) -> None:
    apply(machine, SCOPED)
    machine.put(f"{UNITS}/slurmd.service.d/zzz.conf", "[Service]\nLimitNOFILE=1024:1048576\n")
    status, reason = row(machine, "services.nofile", SCOPED)
    assert (status, "zzz.conf:2 sets 1024:1048576" in reason) == ("overridden", True)


def test_from_one_amount_for_all_to_one_for_each(machine: LimitsMachine) -> None:
    apply(machine)
    apply(machine, SCOPED)
    assert {one.status for one in rows(machine, SCOPED).values()} == {Status.OK}
    assert "LimitNOFILE=1048576" not in machine.text(drop_in("containerd"))


def test_a_service_that_comes_later_gets_its_file(machine: LimitsMachine) -> None:
    apply(machine)
    machine.unit("kubelet")
    assert row(machine, "services.nofile") == (
        "drifted",
        (
            "runtime is 1048576 (slurmd, containerd, ssh); not set (kubelet); boot: nothing sets LimitNOFILE "
            "of kubelet.service"
        ),
    )
    apply(machine)
    assert lines(machine, drop_in("kubelet")) == ["[Service]", "LimitNOFILE=1048576"]


def test_a_masked_service_is_not_installed(machine: LimitsMachine) -> None:
    machine.link(f"{UNITS}/slurmd.service", "/dev/null")
    apply(machine)
    assert not machine.exists(drop_in("slurmd"))


def test_named_services_that_are_not_installed_are_told(machine: LimitsMachine) -> None:
    found = apply(machine, {**SPEC, "services": ["slurmd", "docker"]})
    assert found["services.nofile"][0] == "changed"
    assert row(machine, "services.nofile", {**SPEC, "services": ["slurmd", "docker"]}) == (
        "ok",
        "not installed: docker.service",
    )
    assert row(machine, "services.nofile", {**SPEC, "services": ["docker"]}) == (
        "unsupported",
        "not installed: docker.service",
    )


def test_no_service_at_all(tmp_path: pathlib.Path) -> None:
    machine = LimitsMachine.node(str(tmp_path / "bare"))
    status, reason = row(machine, "services.nofile")
    assert (status, reason.endswith("is installed")) == ("unsupported", True)


# -- what beats them -----------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["*", "root"])
def test_a_later_file_of_pam_overrides(machine: LimitsMachine, domain: str) -> None:
    apply(machine)
    machine.put("/etc/security/limits.d/zzz.conf", f"# theirs\n{domain} soft nofile 4096\n")
    words = "boot: /etc/security/limits.d/zzz.conf:2 sets 4096:1048576"
    assert row(machine, f"login.{domain}.nofile") == ("overridden", f"runtime is 4096:1048576; {words}")
    before = machine.tree()
    assert apply(machine)[f"login.{domain}.nofile"][0] == "overridden"
    assert machine.tree() == before


def test_a_later_file_of_the_vendor_overrides(machine: LimitsMachine) -> None:
    apply(machine)
    path = "/usr/etc/security/limits.d/zzz.conf"
    machine.put(path, "* hard nofile 8192\n")
    assert row(machine, "login.*.nofile") == (
        "overridden", f"runtime is 1048576:8192; boot: {path}:1 sets 1048576:8192",
    )  # fmt: skip
    machine.put("/etc/security/limits.d/zzz.conf", "")
    assert row(machine, "login.*.nofile") == ("ok", "")


@cases.table
def test_an_earlier_file_of_pam_gives_way(machine: LimitsMachine, path: str) -> None:
    """As on RHEL, which has a soft limit of processes there."""
    machine.put(path, "*          soft    nproc     4096\nroot       soft    nproc     unlimited\n")
    spec = {"nproc": "unlimited"}
    assert row(machine, "login.*.nproc", spec) == (
        "drifted",
        f"runtime is 4096:inherited; boot: {path}:1 sets 4096:inherited",
    )
    apply(machine, spec)
    assert row(machine, "login.*.nproc", spec) == ("ok", "")


def test_a_line_that_frees_root_of_all_limits(machine: LimitsMachine) -> None:
    machine.put("/etc/security/limits.conf", "root -\n")
    apply(machine)
    words = "runtime is none at all; boot: /etc/security/limits.conf:1 takes all limits from root"
    assert row(machine, "login.root.nofile") == ("overridden", words)
    assert row(machine, "login.*.nofile") == ("ok", "")


def test_closer_lines_are_told(machine: LimitsMachine) -> None:
    machine.put("/etc/security/limits.d/a.conf", "@students - nofile 4000000\n@staff - nofile 1048576\n")
    apply(machine)
    assert row(machine, "login.*.nofile") == (
        "ok",
        "/etc/security/limits.d/a.conf:1 says @students - nofile 4000000",
    )


def test_another_declaration_is_no_foreigner(machine: LimitsMachine) -> None:
    door.apply(machine, Request("zother", limits, SPEC))
    apply(machine)
    assert {str(one.status) for one in rows(machine).values()} == {"ok"}


def test_a_later_drop_in_of_a_service_overrides(machine: LimitsMachine) -> None:
    apply(machine)
    path = f"{UNITS}/slurmd.service.d/zzz.conf"
    machine.put(path, "[Service]\nLimitNOFILE=4096\nLimitNOFILE=64K\n")
    assert row(machine, "services.nofile") == (
        "overridden",
        f"runtime is 4096 (slurmd); 1048576 (containerd, ssh); boot: {path}:2 sets 4096",
    )
    assert row(machine, "login.*.nofile") == ("ok", "")


def test_an_earlier_drop_in_of_a_service_gives_way(machine: LimitsMachine) -> None:
    machine.put(f"{UNITS}/slurmd.service.d/override.conf", "[Service]\nLimitNOFILE=131072\n")
    words = row(machine, "services.nofile")[1]
    assert words.endswith(f"boot: {UNITS}/slurmd.service.d/override.conf:2 sets 131072")
    assert apply(machine)["services.nofile"][0] == "changed"


def test_a_later_file_of_the_manager_overrides(machine: LimitsMachine) -> None:
    machine.put("/usr/lib/systemd/system.conf.d/zzz.conf", "[Manager]\nDefaultLimitNOFILE=4096\n")
    apply(machine)
    machine.defaults["NOFILE"] = ("4096", "4096")
    machine.forget()
    assert row(machine, "systemd.nofile") == (
        "overridden",
        "runtime is 4096; boot: /usr/lib/systemd/system.conf.d/zzz.conf:2 sets 4096",
    )


def test_a_file_that_systemd_has_not_read_is_read_once_more(machine: LimitsMachine) -> None:
    apply(machine)
    machine.defaults["NOFILE"] = ("1024", "524288")
    machine.forget()
    reloads = machine.reloads
    assert row(machine, "systemd.nofile") == ("drifted", "runtime is 1024:524288")
    assert apply(machine)["systemd.nofile"] == ("changed", "runtime is 1024:524288")
    assert machine.reloads == reloads + 1


@pytest.mark.parametrize("sees_new", [True, False])
def test_drop_ins_that_systemd_has_not_read_are_told_to_it(machine: LimitsMachine, sees_new: bool) -> None:
    """As those of a run for the next boot only, or of one that was killed."""
    machine.sees_new = sees_new
    spec = {**SPEC, "defaults": False}
    apply(machine, spec, BOOT)
    assert machine.reloads == 0
    apply(machine, spec)
    assert machine.reloads == 1
    apply(machine, spec)
    assert machine.reloads == 1


def test_a_drop_in_that_was_put_back_from_elsewhere_is_read_again(machine: LimitsMachine) -> None:
    apply(machine)
    machine.read_units[drop_in("slurmd")] = b"[Service]\n"
    machine.forget()
    outcome = door.apply(machine, Request("default", limits, SPEC))
    assert (outcome.changed, machine.reloads) == (True, 2)


# -- what runs -----------------------------------------------------------------------------


def test_a_service_that_runs_keeps_its_limits_until_it_is_restarted(machine: LimitsMachine) -> None:
    machine.process(50, "slurmd")
    machine.process(70, "sshd", nofile="1048576")
    machine.process(71, "sshd", parent=70, nofile="64")
    found = apply(machine)["services.nofile"]
    assert found == (
        "pending_reboot",
        (
            "runtime is 1024:524288 (slurmd, until restarted); 1048576 (containerd, ssh); the next boot "
            "brings 1048576"
        ),
    )
    assert apply(machine)["services.nofile"] == found
    machine.process(50, "slurmd", nofile="1048576")
    assert row(machine, "services.nofile") == ("ok", "")


def test_a_daemon_in_a_container_is_not_the_service_of_the_node(machine: LimitsMachine) -> None:
    machine.unit("docker")
    apply(machine)
    machine.process(50, "dockerd", nofile="1048576")
    machine.put("/proc/50/cgroup", "0::/system.slice/docker.service\n")
    machine.process(900, "sh", parent=50)
    machine.process(901, "dockerd", parent=900, nofile="1024:524288")
    machine.put("/proc/901/cgroup", "0::/system.slice/docker-abc.scope/docker.service\n")
    assert row(machine, "services.nofile") == ("ok", "")
    machine.put("/proc/901/cgroup", "0::/system.slice/docker.service\n")
    assert row(machine, "services.nofile")[0] == "pending_reboot"


@pytest.mark.parametrize(("domains", "status"), [(["*"], "ok"), ([], "pending_reboot")])
def test_limits_of_sshd_itself_count_only_where_logins_get_none_of_their_own(
    machine: LimitsMachine, domains: list[str], status: str
) -> None:
    machine.process(70, "sshd", nofile="1024")
    spec = {"nofile": "1048576", "domains": domains}
    apply(machine, spec)
    assert apply(machine, spec)["services.nofile"][0] == status


@cases.table
def test_programs_in_go_raise_their_soft_limit_of_files(
    machine: LimitsMachine, process: str, now: str, status: str
) -> None:
    spec = {"nofile": "65536:1048576"}
    apply(machine, spec)
    machine.process(50, process, nofile=now)
    assert row(machine, "services.nofile", spec)[0] == status


def test_no_other_limit_is_raised_by_go(machine: LimitsMachine) -> None:
    spec = {"memlock": {"exactly": "65536:unlimited"}}
    apply(machine, spec)
    machine.process(50, "containerd", memlock="unlimited")
    assert row(machine, "services.memlock", spec)[0] == "pending_reboot"


def test_of_two_processes_the_worse_is_shown(machine: LimitsMachine) -> None:
    apply(machine)
    machine.process(50, "slurmd", nofile="1048576")
    machine.process(51, "slurmd", nofile="4096")
    assert row(machine, "services.nofile")[1].startswith("runtime is 4096 (slurmd, until restarted)")


def test_what_cannot_be_seen_is_unknown(machine: LimitsMachine) -> None:
    apply(machine)
    machine.process(50, "slurmd", nofile="1048576")
    machine.unreadable["/proc/50/limits"] = errno.EACCES
    assert row(machine, "services.nofile")[0] == "unknown"
    machine.unreadable["/proc/50/status"] = errno.EACCES
    status, reason = row(machine, "services.nofile")
    assert status == "unknown"
    assert "hidden" in reason
    before = machine.tree()
    apply(machine)
    assert machine.tree() == before


@pytest.mark.parametrize("text", ["", "Max open files  x  y  files\n", "Max open files  1  files\n"])
def test_limits_that_say_nothing(machine: LimitsMachine, text: str) -> None:
    machine.process(50, "slurmd")
    machine.put("/proc/50/limits", text)
    assert row(machine, "services.nofile")[0] == "unknown"


# -- what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize("both", [True, False])
def test_more_files_than_the_kernel_allows_would_lock_everybody_out(
    machine: LimitsMachine, both: bool
) -> None:
    spec = {"nofile": 1048577 if both else "1024:1048577"}
    with pytest.raises(
        RefusedError, match=r"fs\.nr_open is 1048576 .*declare fs.nr_open of at least 1048577 first"
    ):
        apply(machine, spec)
    assert not machine.exists(PAM)
    machine.put("/proc/sys/fs/nr_open", "2097152\n")
    assert apply(machine, spec)["login.*.nofile"][0] == "changed"


def test_what_would_lock_everybody_out_is_refused_where_it_stands_already(machine: LimitsMachine) -> None:
    machine.put("/proc/sys/fs/nr_open", "2097152\n")
    spec = {"nofile": 2097152, "memlock": "unlimited"}
    apply(machine, spec)
    machine.put("/proc/sys/fs/nr_open", "1048576\n")
    found = rows(machine, spec)
    assert {key: str(one.status) for key, one in found.items() if key.endswith("nofile")} == {
        f"limits.{who}.nofile": "refused" for who in ("login.*", "login.root", "systemd", "services")
    }
    assert {str(one.status) for key, one in found.items() if key.endswith("memlock")} == {"ok"}
    one = found["limits.login.*.nofile"]
    assert str(one.reading.runtime) == "2097152, no longer given"
    assert one.reason.endswith("mlnode apply, as at boot, leaves it out of our files")
    assert not node.survey(machine).compliant
    with pytest.raises(RefusedError, match=r"fs\.nr_open is 1048576"):
        apply(machine, spec)
    assert lines(machine, PAM) == ["* - memlock unlimited", "root - memlock unlimited"]
    assert {str(one.status) for one in rows(machine, spec, RUNTIME).values()} == {"refused", "ok"}
    outcome, _errors = boot_run.apply_each(machine, Request("default", limits, spec))
    assert lines(machine, PAM) == ["* - memlock unlimited", "root - memlock unlimited"]
    assert {str(one.status) for one in outcome.rows if one.setting.key.endswith("nofile")} == {"refused"}


@pytest.mark.parametrize("path", ["/etc/security/limits.conf", "/proc/50/limits"])
def test_what_would_lock_everybody_out_is_refused_though_something_cannot_be_read(
    machine: LimitsMachine, path: str
) -> None:
    apply(machine)
    machine.process(50, "slurmd", nofile="1048576")
    machine.put("/proc/sys/fs/nr_open", "65536\n")
    machine.unreadable[path] = errno.EIO
    found = rows(machine)
    assert {str(one.status) for one in found.values()} == {"refused"}
    assert any("; cannot " in one.reason and "EIO" in one.reason for one in found.values())
    with pytest.raises(RefusedError):
        apply(machine)
    assert not machine.exists(PAM)


def test_a_file_that_was_fine_goes_when_it_would_lock_everybody_out(machine: LimitsMachine) -> None:
    apply(machine)
    machine.put("/proc/sys/fs/nr_open", "65536\n")
    boot_run.apply_each(machine, Request("default", limits, SPEC))
    assert not machine.exists(PAM)


@cases.table
def test_less_at_the_next_boot_counts(machine: LimitsMachine, value: str) -> None:
    machine.put("/proc/sys/fs/nr_open", "2097152\n")
    machine.put("/etc/sysctl.d/90-x.conf", f"fs.nr_open = {value}\n")
    with pytest.raises(RefusedError, match=r"fs.nr_open is 1048576 \(/etc/sysctl.d/90-x.conf:1\)"):
        apply(machine, {"nofile": 2000000})


@pytest.mark.parametrize("key", ["fs.nr_open", "fs.nr_*", "fs/nr_ope[n]"])
def test_a_line_that_the_kernel_refuses_leaves_what_an_earlier_glob_sets(
    machine: LimitsMachine, key: str
) -> None:
    machine.put("/proc/sys/fs/nr_open", "2097152\n")
    machine.put("/etc/sysctl.d/10-x.conf", "fs.nr_o* = 1048576\n")
    machine.put("/etc/sysctl.d/90-x.conf", f"{key} = 5\n")  # less than the kernel takes
    if key == "fs.nr_open":  # the glob yields to it
        apply(machine, {"nofile": 2000000})
        return
    with pytest.raises(RefusedError, match=r"fs.nr_open is 1048576 \(/etc/sysctl.d/10-x.conf:1\)"):
        apply(machine, {"nofile": 2000000})


def test_a_number_at_boot_that_is_not_known_is_no_permission(machine: LimitsMachine) -> None:
    """Kernels before 5.1 cut what is greater than 64 bits, and an image does not know its kernel."""
    machine.put("/etc/sysctl.d/90-x.conf", f"fs.nr_open = {(1 << 64) + 1024}\n")
    with pytest.raises(RefusedError, match=r"fs.nr_open is unknown at boot \(/etc/sysctl.d/90-x.conf:1 sets"):
        apply(machine, {"nofile": 65536}, BOOT)


def test_an_image_takes_what_its_own_files_allow(machine: LimitsMachine) -> None:
    machine.put("/proc/sys/fs/nr_open", "1073741816\n")  # of the build host
    with pytest.raises(RefusedError, match="the kernel's own default"):
        apply(machine, {"nofile": 2097152}, BOOT)
    machine.put("/etc/sysctl.d/90-x.conf", "fs.nr_open = 2097152\n")
    assert apply(machine, {"nofile": 2097152}, BOOT)["login.*.nofile"][0] == "changed"


@pytest.mark.parametrize("how", ["capability", "users"])
def test_a_container_that_may_not_raise_limits(machine: LimitsMachine, how: str) -> None:
    if how == "capability":
        machine.process(1, "systemd", parent=0, caps="00000000a80425fb", nofile="20000")
    else:
        machine.process(1, "systemd", parent=0, nofile="20000")
        machine.put("/proc/1/uid_map", "         0     100000      65536\n")
    found = apply(machine)
    words = "this container may not raise its limits, and has nofile 20000: raise it when you start the"
    assert {*found.values()} == {("unsupported", f"{words} container (--ulimit)")}
    assert not any(path.endswith(FILE) for path in machine.tree())
    assert apply(machine, {"nofile": 20000})["login.*.nofile"][0] == "changed"


def test_a_container_that_got_more_before_is_not_ok(machine: LimitsMachine) -> None:
    apply(machine)
    machine.process(1, "systemd", parent=0, caps="00000000a80425fb", nofile="20000")
    assert {str(one.status) for one in rows(machine).values()} == {"unsupported"}


def test_all_users_are_no_container(machine: LimitsMachine) -> None:
    machine.put("/proc/1/uid_map", "         0          0 4294967295\n")
    assert apply(machine)["login.*.nofile"][0] == "changed"


# -- elsewhere -----------------------------------------------------------------------------


def test_without_systemd_only_logins(machine: LimitsMachine) -> None:
    machine.remove("/run/systemd/system/.keep")
    (pathlib.Path(machine.root) / "run/systemd/system").rmdir()
    found = apply(machine)
    assert found["systemd.nofile"] == ("unsupported", "systemd does not run here")
    assert found["services.nofile"] == ("unsupported", "systemd does not run here")
    assert [path for path in machine.tree() if path.endswith(FILE)] == [PAM]


def test_without_pam_only_services(machine: LimitsMachine) -> None:
    machine.remove("/etc/pam.d/login")
    found = apply(machine)
    assert found["login.*.nofile"][0] == "unsupported"
    assert not machine.exists(PAM)
    assert machine.exists(MANAGER)


def test_an_image_build_looks_at_no_process_and_no_manager(machine: LimitsMachine) -> None:
    (pathlib.Path(machine.root) / "run/systemd/system/.keep").unlink()
    (pathlib.Path(machine.root) / "run/systemd/system").rmdir()
    machine.remove("/etc/pam.d/login")
    machine.process(1, "sh", parent=0, caps="0", nofile="64")
    machine.process(50, "slurmd")
    found = apply(machine, layers=BOOT)
    assert {status for status, _reason in found.values()} == {"changed"}
    assert {one.reading.runtime for one in rows(machine, layers=BOOT).values()} == {Value()}
    assert machine.reloads == 0


def test_without_the_layer_boot_nothing_can_be_done(machine: LimitsMachine) -> None:
    before = machine.tree()
    found = apply(machine, layers=RUNTIME)
    assert {status for status, _reason in found.values()} == {"unsupported"}
    assert "layer boot" in found["login.*.nofile"][1]
    new = {*machine.tree()} - {*before}
    assert not any(path.endswith(FILE) for path in new)


@cases.table
def test_what_cannot_be_read_is_unknown_and_nothing_is_taken_away(machine: LimitsMachine, path: str) -> None:
    apply(machine)
    before = machine.tree()
    machine.unreadable[path] = errno.EIO
    machine.forget()  # another run
    found = apply(machine)
    assert "unknown" in {status for status, _reason in found.values()}
    assert machine.tree() == before


# -- explanations --------------------------------------------------------------------------


def test_mentions(machine: LimitsMachine) -> None:
    machine.put("/etc/security/limits.conf", "@a - nofile 5\n* - core 0\nroot -\n")
    apply(machine, {**SPEC, "domains": ["*"]})
    assert limits.boot_sources("limits.login.*.nofile", machine) == [
        "/etc/security/limits.conf:1: @a - nofile 5",
        "/etc/security/limits.conf:3: root -",
        f"{PAM}:3: * - nofile 1048576",
    ]
    assert limits.boot_sources("limits.systemd.nofile", machine) == [
        f"{MANAGER}:4: DefaultLimitNOFILE=1048576"
    ]
    assert limits.boot_sources("limits.services.nofile", machine)[:2] == [
        f"{drop_in('slurmd')}:4: LimitNOFILE=1048576",
        "/usr/lib/systemd/system/containerd.service:2: LimitNOFILE=1024",
    ]


@cases.table
def test_info(key: str, now: str | None, severity: str) -> None:
    assert limits.info(key, Value(text=now)).severity is Severity(severity)
    assert not limits.conflicts(key, "limits.systemd.core")


def test_why_the_soft_limit_of_files_is_low_has_its_source() -> None:
    found = limits.info("limits.services.nofile", Value())
    assert "a soft one" in found.reason
    assert [word for word in ("systemd.exec(5)", "45534", "8924") if word not in found.source] == []


# -- never lowered -------------------------------------------------------------------------


INFINITE = "[Service]\nExecStart=/usr/bin/containerd\nLimitNOFILE=infinity\n"
LOWER = {"nofile": {"services": "1024:1048576"}}


def test_a_service_that_has_more_keeps_it(machine: LimitsMachine) -> None:
    machine.unit("containerd", INFINITE)
    apply(machine, LOWER)
    assert not machine.exists(drop_in("containerd"))
    status, reason = row(machine, "services.nofile", LOWER)
    assert (status, reason) == ("ok", "unlimited (containerd) is more than declared")


def test_exactly_lowers_and_says_so(machine: LimitsMachine) -> None:
    machine.unit("containerd", INFINITE)
    spec = {"nofile": {"services": {"exactly": "1024:1048576"}}}
    status, reason = row(machine, "services.nofile", spec)
    assert (status, "lowers unlimited (containerd), as it is declared exactly" in reason) == ("drifted", True)
    apply(machine, spec)
    assert lines(machine, drop_in("containerd")) == ["[Service]", "LimitNOFILE=1024:1048576"]


def test_each_limit_of_a_service_is_raised_by_itself(machine: LimitsMachine) -> None:
    machine.unit("containerd", INFINITE.replace("infinity", "65536"))
    apply(machine, LOWER)
    assert lines(machine, drop_in("containerd")) == ["[Service]", "LimitNOFILE=65536:1048576"]
    assert row(machine, "services.nofile", LOWER)[0] == "ok"


def test_a_login_that_has_more_by_another_file_keeps_it(machine: LimitsMachine) -> None:
    machine.put("/etc/security/limits.d/10-site.conf", "* - nofile 1000000\nroot - nofile 1000000\n")
    spec = {"nofile": {"login": "65536"}}
    assert apply(machine, spec)["login.*.nofile"][0] == "ok"
    assert not machine.exists(PAM)
