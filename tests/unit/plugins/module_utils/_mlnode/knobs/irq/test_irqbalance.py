# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from mlnode.engine import boot_run, handlers, revert
from mlnode.engine.kind import Row
from mlnode.host.system import Finished
from mlnode.knobs.irq import irqbalance as irq_balance
from mlnode.knobs.irq.kind import kind as irq
from mlnode.linux.irqbalance import IRQBALANCE_LINK, IRQBALANCE_POLICY
from mlnode.model.errors import HostError, TransactionError
from mlnode.model.setting import Layer, Status

from .node import ETH2, ETH3, IRQS, IrqNode, apply, plan, request, rows

UNIT = "/usr/lib/systemd/system/irqbalance.service"
DEFAULTS = "/etc/default/irqbalance"
LIST = "/etc/mlnode/irqbalance.d/default"
DROP_IN = "/etc/systemd/system/irqbalance.service.d/zz-mlnode-irq.default.conf"
OPTION = "--policyscript=/etc/mlnode/irqbalance-policy"
RESTART = [("daemon-reload",), ("try-restart", "irqbalance.service")]
RUNNING = "/sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs"

#: As Debian 12 and 13 have it
SERVICE = """\
[Unit]
Description=irqbalance daemon
[Service]
EnvironmentFile=-/usr/lib/irqbalance/defaults.env
EnvironmentFile=-/etc/default/irqbalance
ExecStart=/usr/sbin/irqbalance --foreground $IRQBALANCE_ARGS
ReadOnlyPaths=/
ReadWritePaths=/proc/irq
[Install]
WantedBy=multi-user.target
"""
OWN = '# comment\n#IRQBALANCE_ARGS=\nIRQBALANCE_BANNED_CPULIST=3\nIRQBALANCE_ARGS="--interval=5"\n'

SPREAD = {"name": "two", "nics": {"names": ["eth2"]}, "strategy": "spread"}
KEY = "irq.irqbalance"


@pytest.fixture
def node(bare: IrqNode) -> IrqNode:
    """With irqbalance as Debian installs and starts it."""
    bare.put("/usr/sbin/irqbalance", "", 0o755)
    bare.put(UNIT, SERVICE)
    bare.put(DEFAULTS, OWN)
    bare.put("/run/systemd/system/.keep", "")
    bare.put(RUNNING, "77\n")
    bare.link(IRQBALANCE_LINK, UNIT)
    return bare


def balance(host: IrqNode, mode: str, *rules: Any, **more: Any) -> Row:
    return rows(host, *(rules or (SPREAD,)), irqbalance=mode, **more)[KEY]


# -- agree ---------------------------------------------------------------------------------


def test_irqbalance_is_told_of_the_nics_that_are_declared(node: IrqNode) -> None:
    before = balance(node, "agree")
    assert before.status is Status.DRIFTED
    assert before.reading.boot.value.absent == f"{DROP_IN} does not name {IRQBALANCE_POLICY}"

    done = apply(node, SPREAD, irqbalance="agree")

    assert {row.setting.key: row.status for row in done.rows}[KEY] is Status.CHANGED
    assert node.read(DROP_IN).splitlines()[1:] == [
        "[Service]", "ExecStart=", f"ExecStart=/usr/sbin/irqbalance --foreground $IRQBALANCE_ARGS {OPTION}"
    ]  # fmt: skip
    assert node.read(DEFAULTS) == OWN
    assert node.read(LIST) == f"{ETH2}\n"
    assert node.read(IRQBALANCE_POLICY) == irq_balance.SCRIPT
    assert os.stat(node.root + IRQBALANCE_POLICY).st_mode & 0o777 == 0o755
    assert node.told == RESTART


def test_it_is_restarted_only_when_something_has_changed(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="agree")
    node.told.clear()
    again = apply(node, SPREAD, irqbalance="agree")
    assert not again.changed
    assert node.told == []
    assert balance(node, "agree").status is Status.OK
    apply(node, {**SPREAD, "strategy": "list", "cpus": "3"}, irqbalance="agree")
    assert node.told == []  # other CPUs, the same NIC


def test_another_nic_is_told_too(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="agree")
    node.told.clear()
    both = {**SPREAD, "nics": {"rails": True}}
    assert (
        balance(node, "agree", both).reading.boot.value.absent
        == f"{LIST} does not name the NICs that are declared"
    )
    apply(node, both, irqbalance="agree")
    assert node.read(LIST) == f"{ETH2}\n{ETH3}\n"
    assert node.told == RESTART


def test_a_rule_that_moves_no_interrupt_needs_no_agreement(node: IrqNode) -> None:
    apply(node, {"name": "two", "rps": "auto"}, irqbalance="agree")
    assert node.read(LIST) == ""


def test_a_nic_that_is_down_stays_on_the_list(node: IrqNode) -> None:
    """Its interrupts come back with it, and nobody is there then to tell irqbalance in time."""
    apply(node, SPREAD, irqbalance="agree")
    node.told.clear()
    for number in range(28, 32):
        os.rmdir(f"{node.root}/proc/irq/{number}/mlx5_comp{number - 28}@pci:{ETH2}")
    again = apply(node, SPREAD, irqbalance="agree")
    assert not again.changed
    assert node.read(LIST) == f"{ETH2}\n"
    assert node.told == []


def test_nics_that_go_and_come_back_cost_no_restart(node: IrqNode) -> None:
    """As a driver that is reloaded takes them away and brings them back, one by one."""
    both = {**SPREAD, "nics": {"rails": True}}
    apply(node, both, irqbalance="agree")
    node.told.clear()
    os.rename(f"{node.root}/sys/bus/pci/devices/{ETH3}", f"{node.root}/gone")
    os.rename(f"{node.root}/sys/class/net/eth3", f"{node.root}/gone-too")
    os.rename(f"{node.root}/sys/class/infiniband/mlx5_1", f"{node.root}/gone-as-well")
    node.forget()
    assert not apply(node, both, irqbalance="agree").changed
    assert node.read(LIST) == f"{ETH2}\n{ETH3}\n"
    assert node.told == []
    node.put(LIST, f"{ETH2}\n{ETH3}\n../../etc\n")
    apply(node, both, irqbalance="agree")
    assert node.read(LIST) == f"{ETH2}\n{ETH3}\n"


def test_a_machine_that_cannot_be_read_keeps_its_list(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="agree")
    node.told.clear()
    node.unreadable["/sys/devices/system/cpu/online"] = errno.EIO
    node.forget()
    assert not apply(node, SPREAD, irqbalance="agree").changed
    assert node.read(LIST) == f"{ETH2}\n"
    assert node.told == []


def test_another_declaration_agrees_for_its_own_nics_only(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="agree")
    rule = {"name": "three", "nics": {"names": ["eth3"]}, "strategy": "spread"}
    note = rows(node, rule, name="fabric")["irq.three"].reading.note
    assert note == "irqbalance.service moves interrupts: declare irqbalance: agree beside these rules, too"
    same = {**SPREAD, "name": "again"}
    assert rows(node, same, name="fabric")["irq.again"].reading.note == ""


def test_a_revert_takes_all_of_it_away_and_tells(node: IrqNode) -> None:
    node.told.clear()
    before = node.tree()
    apply(node, SPREAD, irqbalance="agree")
    node.told.clear()
    revert.revert(node)
    after = node.tree()
    for path in (DROP_IN, IRQBALANCE_POLICY, LIST, "/etc/mlnode/irqbalance.d"):
        assert after.get(path) == before.get(path), path
    assert ("try-restart", "irqbalance.service") in node.told


def test_a_declaration_that_wants_it_no_longer_takes_it_away(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="agree")
    node.told.clear()
    apply(node, SPREAD)
    assert not node.exists(DROP_IN)
    assert not node.exists(IRQBALANCE_POLICY)
    assert not node.exists(LIST)
    assert node.told == RESTART


def test_what_another_declaration_wants_of_it_stays(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="agree")
    rule = {"name": "three", "nics": {"names": ["eth3"]}, "strategy": "spread"}
    apply(node, rule, irqbalance="agree", name="fabric")
    assert node.read("/etc/mlnode/irqbalance.d/fabric") == f"{ETH3}\n"
    apply(node, SPREAD)
    assert node.exists(IRQBALANCE_POLICY)
    assert not node.exists(LIST)
    assert not node.exists(DROP_IN)
    assert OPTION in node.read(DROP_IN.replace("default", "fabric"))
    apply(node, rule, name="fabric")
    assert not node.exists(IRQBALANCE_POLICY)
    assert not node.exists(DROP_IN.replace("default", "fabric"))


def test_lists_that_cannot_be_read_stop_no_rule(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="agree")
    node.unreadable[irq_balance.LISTS] = errno.EIO
    rule = {"name": "three", "nics": {"names": ["eth3"]}, "strategy": "spread"}
    note = rows(node, rule, name="fabric")["irq.three"].reading.note
    assert note.startswith(
        "whether irqbalance.service moves interrupts is not known: cannot list /etc/mlnode"
    )


@cases.table
def test_the_command_of_others_is_kept(node: IrqNode, unit: str, drop_in: str, command: str) -> None:
    node.put(UNIT, unit)
    node.put("/run/systemd/system/irqbalance.service.d/20-more.conf", drop_in)
    apply(node, SPREAD, irqbalance="agree")
    assert f"\nExecStart={command} {OPTION}\n" in node.read(DROP_IN)
    assert not apply(node, SPREAD, irqbalance="agree").changed


def test_a_command_that_changes_later_is_followed(node: IrqNode) -> None:
    """As an update of the package may bring another one."""
    apply(node, SPREAD, irqbalance="agree")
    node.put(UNIT, SERVICE.replace("--foreground", "--foreground --journal"))
    node.forget()
    assert balance(node, "agree").status is Status.DRIFTED
    apply(node, SPREAD, irqbalance="agree")
    assert "--foreground --journal $IRQBALANCE_ARGS --policyscript" in node.read(DROP_IN)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        (
            DEFAULTS,
            "IRQBALANCE_ARGS=--policyscript=/opt/mine\n",
            f"already by {DEFAULTS}:1: IRQBALANCE_ARGS=",
        ),
        (DEFAULTS, "A=\nIRQBALANCE_ARGS=-j -l /opt/mine\n", f"already by {DEFAULTS}:2:"),
        (DEFAULTS, 'IRQBALANCE_ARGS ="-l /opt/mine"\n', f"already by {DEFAULTS}:1:"),
        (
            UNIT,
            SERVICE.replace(
                "ExecStart=", 'Environment="IRQBALANCE_ARGS=--policyscript=/opt/mine"\nExecStart='
            ),
            f"already by {UNIT}:6: Environment=",
        ),
        (UNIT, SERVICE.replace("--foreground", "-l /opt/x"), f"already by {UNIT}:6: ExecStart="),
        (UNIT, SERVICE.replace("ExecStart", "ExecStop"), "irqbalance.service has no command"),
        (
            "/run/systemd/system/irqbalance.service.d/zzz.conf",
            "[Service]\nExecStart=\nExecStart=/x\n",
            "zzz.conf:3 sets the command after all that mlnode could write",
        ),
    ],
)
def test_where_it_cannot_be_told_that_is_said_and_nothing_is_touched(
    node: IrqNode, path: str, text: str, words: str
) -> None:
    node.put(path, text)
    before = node.read(DEFAULTS)
    done = apply(node, SPREAD, irqbalance="agree")
    row = {item.setting.key: item for item in done.rows}[KEY]
    assert row.status is Status.UNSUPPORTED
    assert words in row.reason
    assert row.reason.endswith("by hand and declare leave, or declare disable")
    assert node.read(DEFAULTS) == before
    assert not node.exists(IRQBALANCE_POLICY)
    assert node.affinity("eth2") == ["0", "1", "2", "3"]


def test_where_selinux_refuses_the_script_that_is_said_and_the_option_is_withdrawn(
    node: IrqNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the files and without them the answer is the same, and no run writes them anew."""
    assert apply(node, SPREAD, irqbalance="agree").rows
    asked: list[tuple[Any, ...]] = []
    words = "SELinux does not let irqbalance_t run /bin/sh, a file of type shell_exec_t"

    def refusal(_host: IrqNode, programs: tuple[str, ...], *more: str) -> str:
        if programs[0] != "/usr/sbin/irqbalance":
            return ""
        asked.append((programs, *more))
        return words

    monkeypatch.setattr(irq_balance.selinux_access, "refusal", refusal)
    for _run in range(2):
        row = balance(node, "agree")
        assert row.status is Status.UNSUPPORTED
        assert row.reason == f"{words}: change the policy, see docs/knobs/irq.md, or declare disable"
        apply(node, SPREAD, irqbalance="agree")
        assert not any(node.exists(path) for path in (IRQBALANCE_POLICY, LIST, DROP_IN))
    assert {*asked} == {(("/usr/sbin/irqbalance", "/bin/sh", IRQBALANCE_POLICY), LIST)}


def test_where_selinux_does_not_answer_it_is_unknown(node: IrqNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(_host: IrqNode, *_what: Any) -> str:
        raise HostError("ask", "/sys/fs/selinux/access", errno.EACCES)

    monkeypatch.setattr(irq_balance.selinux_access, "refusal", refusal)
    row = balance(node, "agree")
    assert (row.status, "ask /sys/fs/selinux/access: EACCES" in row.reason) == (Status.UNKNOWN, True)


def test_a_policy_script_that_lost_its_mode_is_mended(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="agree")
    os.chmod(node.root + IRQBALANCE_POLICY, 0o644)
    node.told.clear()
    assert "not executable" in (balance(node, "agree").reading.boot.value.absent or "")
    apply(node, SPREAD, irqbalance="agree")
    assert os.stat(node.root + IRQBALANCE_POLICY).st_mode & 0o777 == 0o755
    assert node.told == RESTART


def test_a_policy_script_that_was_edited_is_written_anew(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="agree")
    node.put(IRQBALANCE_POLICY, "#!/bin/sh\n", 0o755)
    assert balance(node, "agree").status is Status.DRIFTED
    apply(node, SPREAD, irqbalance="agree")
    assert node.read(IRQBALANCE_POLICY) == irq_balance.SCRIPT


def test_a_restart_that_fails_puts_everything_back(node: IrqNode, monkeypatch: pytest.MonkeyPatch) -> None:
    places = node.affinity("eth2")
    monkeypatch.setattr(node, "run", lambda *asked: Finished(1, "", "Job failed.\n"))
    with pytest.raises(TransactionError, match="make irqbalance ask its script again: systemctl: Job failed"):
        apply(node, {**SPREAD, "strategy": "list", "cpus": "7"}, irqbalance="agree")
    assert not node.exists(DROP_IN)
    assert not node.exists(IRQBALANCE_POLICY)
    assert node.affinity("eth2") == places


def test_a_file_that_cannot_be_read_makes_it_unknown(node: IrqNode) -> None:
    node.unreadable[DEFAULTS] = errno.EACCES
    row = balance(node, "agree")
    assert row.status is Status.UNKNOWN
    assert row.reason.startswith(f"cannot read {DEFAULTS}")
    assert not any("irqbalance" in str(step) for step in plan(node, SPREAD, irqbalance="agree").steps[1:])


def test_a_unit_that_cannot_be_read_makes_it_unknown(node: IrqNode) -> None:
    node.unreadable[UNIT] = errno.EACCES
    row = balance(node, "agree")
    assert (row.status, row.reason[:39]) == (Status.UNKNOWN, f"cannot read {UNIT}"[:39])


def test_a_file_that_cannot_be_read_is_no_matter_of_who_never_wrote_it(node: IrqNode) -> None:
    node.unreadable[DEFAULTS] = errno.EACCES
    assert balance(node, "leave").status is Status.OVERRIDDEN
    assert rows(node, SPREAD)["irq.two"].status is Status.DRIFTED


def test_without_the_boot_layer_it_cannot_be_told(node: IrqNode) -> None:
    row = balance(node, "agree", layers=(Layer.RUNTIME,))
    assert row.status is Status.UNSUPPORTED
    assert row.reason == "irqbalance is configured by files, which are of the layer boot"


def test_an_image_build_leaves_the_list_to_the_machine_that_boots_it(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="agree", layers=(Layer.BOOT,))
    assert not node.exists(LIST)
    assert node.read(IRQBALANCE_POLICY) == irq_balance.SCRIPT
    assert balance(node, "agree", layers=(Layer.BOOT,)).status is Status.OK
    assert balance(node, "agree").status is Status.DRIFTED


@pytest.mark.parametrize("mode", ["agree", "disable"])
def test_an_image_build_neither_restarts_nor_stops_what_runs_on_its_host(node: IrqNode, mode: str) -> None:
    apply(node, SPREAD, irqbalance=mode, layers=(Layer.BOOT,))
    assert node.told == []
    apply(node, SPREAD, irqbalance=mode)
    assert node.told == (RESTART if mode == "agree" else [("stop", "irqbalance.service")])


# -- the policy script, as irqbalance calls it ---------------------------------------------


@pytest.fixture
def script(node: IrqNode) -> str:
    """The script, looking below the node's folder."""
    apply(node, SPREAD, irqbalance="agree")
    path = f"{node.root}/policy"
    text = irq_balance.SCRIPT.replace(irq_balance.LISTS, node.root + irq_balance.LISTS)
    with open(path, "w", encoding="ascii") as stream:
        stream.write(text.replace("/sys/bus", f"{node.root}/sys/bus"))
    return path


@cases.table
@pytest.mark.parametrize("device", [f"/sys/bus/pci/devices/{ETH2}", "/sys"])
def test_the_number_of_an_interrupt_decides(script: str, device: str, irq_number: int, answer: str) -> None:
    done = subprocess.run(
        ["sh", script, device, str(irq_number)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, answer, "")


def test_without_a_list_nothing_is_banned(script: str, node: IrqNode) -> None:
    node.remove(LIST)
    done = subprocess.run(
        ["sh", script, "/sys", "28"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# -- disable and leave ---------------------------------------------------------------------


def test_disable_stops_it_now_and_for_the_next_boot(node: IrqNode) -> None:
    row = balance(node, "disable")
    assert row.status is Status.DRIFTED
    assert row.reading.boot.value.absent == f"{IRQBALANCE_LINK} starts it"
    apply(node, SPREAD, irqbalance="disable")
    assert not node.is_link(IRQBALANCE_LINK)
    assert node.told == [("stop", "irqbalance.service")]


def test_once_disabled_it_stays_so(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="disable")
    node.remove(RUNNING)
    os.rmdir(f"{node.root}/sys/fs/cgroup/system.slice/irqbalance.service")
    node.told.clear()
    assert balance(node, "disable").status is Status.OK
    assert not apply(node, SPREAD, irqbalance="disable").changed
    assert node.told == []


def test_one_that_was_started_by_hand_is_stopped(node: IrqNode) -> None:
    node.remove(IRQBALANCE_LINK)
    row = balance(node, "disable")
    assert row.reading.boot.value.absent == "it runs, though nothing starts it at boot"
    apply(node, SPREAD, irqbalance="disable")
    assert node.told == [("stop", "irqbalance.service")]


def test_another_link_that_starts_it_is_named(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="disable")
    other = "/etc/systemd/system/graphical.target.wants/irqbalance.service"
    node.link(other, UNIT)
    node.forget()  # as at the start of each run
    row = balance(node, "disable")
    assert row.status is Status.DRIFTED
    assert row.reason.endswith(f"{other} starts it")


def test_a_revert_of_disable_starts_it_again(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="disable")
    node.told.clear()
    revert.revert(node)
    assert node.link_target(IRQBALANCE_LINK) == UNIT
    assert node.told == [("start", "irqbalance.service")]


def test_disable_takes_away_what_agree_has_written(node: IrqNode) -> None:
    apply(node, SPREAD, irqbalance="agree")
    apply(node, SPREAD, irqbalance="disable")
    assert not node.exists(DROP_IN)
    assert not node.exists(IRQBALANCE_POLICY)


def test_an_image_build_does_not_ask_what_runs_on_its_host(node: IrqNode) -> None:
    node.remove(IRQBALANCE_LINK)
    assert balance(node, "disable", layers=(Layer.BOOT,)).status is Status.OK


def test_leave_touches_nothing_and_tells_who_moves_the_interrupts(node: IrqNode) -> None:
    before = node.tree()
    row = balance(node, "leave")
    assert row.status is Status.OVERRIDDEN
    assert row.reason == (
        "boot: irqbalance.service moves interrupts that are declared; declare agree or disable"
    )
    apply(node, SPREAD, irqbalance="leave")
    assert {path: node.tree().get(path) for path in (DEFAULTS, IRQBALANCE_LINK)} == {
        path: before[path] for path in (DEFAULTS, IRQBALANCE_LINK)
    }
    assert node.told == []


def test_leave_has_nothing_to_tell_of_one_that_is_off(node: IrqNode) -> None:
    node.remove(IRQBALANCE_LINK)
    node.remove(RUNNING)
    os.rmdir(f"{node.root}/sys/fs/cgroup/system.slice/irqbalance.service")
    assert balance(node, "leave").status is Status.OK


@pytest.mark.parametrize("mode", ["agree", "leave", "disable"])
def test_where_there_is_none_all_is_well_and_said(bare: IrqNode, mode: str) -> None:
    row = balance(bare, mode)
    assert row.reading.note == "no irqbalance.service is installed that could start"
    apply(bare, SPREAD, irqbalance=mode)
    assert balance(bare, mode).status is Status.OK
    assert not bare.exists(IRQBALANCE_POLICY)


def test_one_that_is_masked_is_none(bare: IrqNode) -> None:
    bare.put(UNIT, SERVICE)
    bare.link("/etc/systemd/system/irqbalance.service", "/dev/null")
    assert balance(bare, "agree").reading.note.startswith("no irqbalance.service")


def test_where_nothing_is_declared_about_it_a_rule_warns(node: IrqNode) -> None:
    done = apply(node, SPREAD)
    words = "irqbalance.service moves interrupts: declare irqbalance as agree or disable"
    assert done.rows[0].reading.note == words
    assert rows(node, {"name": "two", "rps": "off"})["irq.two.rps"].reading.note == ""
    node.remove(IRQBALANCE_LINK)
    assert rows(node, SPREAD)["irq.two"].reading.note == words  # it still runs
    node.remove(RUNNING)
    os.rmdir(f"{node.root}/sys/fs/cgroup/system.slice/irqbalance.service")
    assert rows(node, SPREAD)["irq.two"].reading.note == ""


# -- the rest ------------------------------------------------------------------------------


def test_every_line_that_speaks_to_irqbalance_is_mentioned(node: IrqNode) -> None:
    assert irq.boot_sources(KEY, node) == [
        f"{UNIT}:6: ExecStart=/usr/sbin/irqbalance --foreground $IRQBALANCE_ARGS",
        f"{DEFAULTS}:3: IRQBALANCE_BANNED_CPULIST=3",
        f'{DEFAULTS}:4: IRQBALANCE_ARGS="--interval=5"',
    ]
    node.put(UNIT, "[Service]\nEnvironmentFile=\nEnvironment=A=-j\n")
    node.forget()
    assert irq.boot_sources(KEY, node) == [f"{UNIT}:3: Environment=A=-j"]


def test_where_systemd_does_not_run_there_is_nobody_to_tell(bare: IrqNode) -> None:
    handlers.run(bare, "irqbalance")
    handlers.run(bare, "irqbalance service")
    assert bare.told == []


class Systemd(IrqNode):
    """It answers which drop-ins it has read, and with which content."""

    known: Mapping[str, str] = {}

    def run(self, command: Any, seconds: float = 60) -> Finished:
        now = {path: self.text(path) for path in self.matching(f"{os.path.dirname(DROP_IN)}/*.conf")}
        if list(command) == ["systemctl", "daemon-reload"]:
            self.known = now
        if list(command[:2]) == ["systemctl", "show"]:
            stale = any(self.known.get(path, text) != text for path, text in now.items())
            lines = [f"NeedDaemonReload={'yes' if stale else 'no'}", f"DropInPaths={' '.join(self.known)}"]
            text = "\n".join(["LoadState=loaded", *lines])
            units = command[command.index("--") + 1 :]
            return Finished(0, "\n\n".join([text] * len(units)), "")
        return super().run(command, seconds)


def test_systemd_reads_its_units_again_only_for_what_it_has_not_read(node: IrqNode) -> None:
    host = Systemd(node.root)
    told = []
    for change in (
        lambda: apply(host, SPREAD, irqbalance="agree"),
        lambda: apply(host, {**SPREAD, "nics": {"rails": True}}, irqbalance="agree"),  # the list alone
        lambda: host.put(UNIT, SERVICE.replace("--foreground", "--foreground --journal")),
        lambda: apply(host, SPREAD, irqbalance="agree"),
        lambda: revert.revert(host),
    ):
        host.told.clear()
        host.forget()
        change()
        told.append([*host.told])
    assert told == [RESTART, RESTART[1:], [], RESTART, RESTART]


class Balancing(IrqNode):
    """irqbalance as it runs: until it is started again with its script, it moves what it finds."""

    def run(self, command: Any, seconds: float = 60) -> Finished:
        if list(command) == ["systemctl", "try-restart", "irqbalance.service"]:
            self.scatter()
        return super().run(command, seconds)

    def scatter(self) -> None:
        for number in IRQS["eth2"]:
            self.place(number, "0-15")


@pytest.mark.parametrize("run", ["site", "boot"])
def test_interrupts_are_set_once_irqbalance_leaves_them_alone(node: IrqNode, run: str) -> None:
    """It goes on to move them until it has read its script."""
    node.__class__ = Balancing
    assert isinstance(node, Balancing)
    node.scatter()
    wanted = request(SPREAD, irqbalance="agree")
    if run == "site":
        found = door.apply(node, wanted).rows
    else:
        outcome, errors = boot_run.apply_each(node, wanted)
        assert errors == []
        found = outcome.rows
    assert ("try-restart", "irqbalance.service") in node.told
    assert node.affinity("eth2") == ["0", "1", "2", "3"]
    assert {one.reading.runtime.text for one in found} == {"eth2: 0..3", "agree"}
