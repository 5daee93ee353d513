# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What starts the service of NICs, how often, after which wait, and how it waits for interrupts that drivers
request later.
"""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
from mlnode.engine import units


def commands() -> list[str]:
    """The shell commands of the service, as systemd passes them on."""
    found = re.findall(r"^ExecStart(?:Pre)?=\+/bin/sh -c '(.+)'$", units.NIC_UNIT, re.MULTILINE)
    return [text.replace("$$", "$") for text in found]


@pytest.fixture(name="node")
def _node(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in ("irq/40/eth0-rx-0", "irq/41/eth0-tx-0", "irq/42"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def run(node: pathlib.Path, command: str) -> None:
    """A command on a folder in place of /proc/irq, without its pauses."""
    for path, name in (("/proc/irq", "irq"), ("/run/mlnode-nic/irqs", "seen"), (units.NIC_FLAG, "flag")):
        command = command.replace(path, str(node / name))
    subprocess.run(
        ["/bin/sh", "-c", command.replace("sleep 1", "echo pause >>" + str(node / "pauses"))], check=True
    )


def pauses(node: pathlib.Path) -> int:
    return len((node / "pauses").read_text().splitlines())


def test_an_unchanged_list_of_interrupts_takes_the_whole_wait(node: pathlib.Path) -> None:
    before, wait = commands()
    run(node, before)
    run(node, wait)
    assert not (node / "flag").exists()
    assert pauses(node) == 10


@pytest.mark.parametrize("name", ["irq/42/eth1-rx-0", "irq/43/eth1"])
def test_a_requested_interrupt_ends_the_wait_and_raises_the_flag(node: pathlib.Path, name: str) -> None:
    before, wait = commands()
    run(node, before)
    (node / name).mkdir(parents=True)
    run(node, wait)
    assert (node / "flag").exists()
    assert pauses(node) == 1


def test_so_does_one_that_is_given_back(node: pathlib.Path) -> None:
    before, wait = commands()
    run(node, before)
    (node / "irq/41/eth0-tx-0").rmdir()
    run(node, wait)
    assert (node / "flag").exists()


def test_a_node_without_requested_interrupts_waits(tmp_path: pathlib.Path) -> None:
    (tmp_path / "irq").mkdir()
    before, wait = commands()
    run(tmp_path, before)
    run(tmp_path, wait)
    assert not (tmp_path / "flag").exists()


def test_the_list_is_made_after_the_flag_is_removed_and_before_the_first_run() -> None:
    """A driver that requests an interrupt in between is seen by either of them."""
    lines = [line for line in units.NIC_UNIT.splitlines() if line.startswith("Exec")]
    order = ["/bin/rm -f", commands()[0], "apply --nics", "for second", "apply --nics"]
    assert [any(text in line for text in order) for line in lines[1:]] == [True] * len(order)
    assert all(text in line for text, line in zip(order, lines[1:]))
    # systemd removes the folder of the list.
    assert "RuntimeDirectory=mlnode-nic\n" in units.NIC_UNIT


def test_a_recovered_nic_starts_the_agent_and_a_virtual_interface_does_not() -> None:
    lines = units.UDEV.splitlines()
    virtual = lines.index('DEVPATH=="/devices/virtual/*", GOTO="mlnode_end"')
    (recovered,) = [line for line in lines if "ERROR_EVENT" in line]
    assert 'ENV{ERROR_EVENT}=="SUCCESSFUL_RECOVERY", ATTR{class}=="0x02*"' in recovered
    assert all("touch" not in line for line in lines[: virtual + 1])


# -- how long an event waits ---------------------------------------------------------------

#: Seconds that an event waits for a run by design. All of it is to take 5 s, and a run natively takes less
#: than one (`make bench`).
WAIT = 1

RAISE = ": >flag"


class Service:
    """systemd and a clock: it starts the service while the flag is raised. events: commands that happen at a
    second, or within a run, as `run 1`. runs: the seconds at which they begin.
    """

    def __init__(self, node: pathlib.Path, events: dict[int | str, str]) -> None:
        self._node, self._events = node, events
        self.runs: list[int] = []
        (node / "clock").write_text("0")
        for when, command in events.items():
            (node / f"event {when}").write_text(command)

    def until(self, end: int) -> None:
        idle = f"while [ $(cat clock) -lt {end} ] && [ ! -e flag ]; do sleep 1; done"
        self._shell(idle)
        while (self._node / "flag").exists():
            self._start()
            self._shell(idle)

    def _start(self) -> None:
        for command in re.findall(r"^ExecStart(?:Pre)?=\+?(.+)$", units.NIC_UNIT, re.MULTILINE):
            shell = re.fullmatch("/bin/sh -c '(.+)'", command)
            if command.endswith(" apply --nics"):
                self.runs.append(int((self._node / "clock").read_text()))
                self._shell(self._events.get(f"run {len(self.runs)}", "true"))
            else:
                self._shell(shell.group(1).replace("$$", "$") if shell else command)

    def _shell(self, command: str) -> None:
        for path, name in (("/proc/irq", "irq"), ("/run/mlnode-nic/irqs", "seen"), (units.NIC_FLAG, "flag")):
            command = command.replace(path, name)
        command = re.sub(r"(/bin/)?sleep 1\b", "pause", command)
        tick = (
            'read now <clock; now=$((now + 1)); echo $now >clock; [ ! -e "event $now" ] || . "./event $now"'
        )
        subprocess.run(["/bin/sh", "-c", f"pause() {{ {tick}; }}\n{command}"], check=True, cwd=self._node)

    def waited(self, second: int) -> int:
        """Seconds that an event of this second waited for a run."""
        return min(run for run in self.runs if run >= second) - second


@pytest.mark.parametrize("event", [RAISE, "mkdir -p irq/50/eth1"])
@pytest.mark.parametrize("second", [3, 4, 8, 12, 13, 14, 20])
def test_no_event_waits_long_wherever_the_service_is(node: pathlib.Path, event: str, second: int) -> None:
    service = Service(node, {2: RAISE, second: event})
    service.until(40)
    assert service.waited(2) <= WAIT
    # An interrupt that is requested later than ten seconds after an event causes none.
    if event == RAISE or second < 13:
        assert service.waited(second) <= WAIT
    assert not (node / "flag").exists()


@pytest.mark.parametrize("number", [1, 2])
def test_an_event_within_a_run_has_one_more_after_it(node: pathlib.Path, number: int) -> None:
    service = Service(node, {1: RAISE, f"run {number}": RAISE})
    service.until(40)
    before, after = service.runs[number - 1 : number + 1]
    assert after - before <= WAIT
    assert not (node / "flag").exists()


def test_nothing_runs_without_an_event_and_twice_for_a_burst(node: pathlib.Path) -> None:
    """64 NICs that arrive together with 64 queues each, and renew these within the second."""
    burst = f"for event in $(seq {64 * 64}); do {RAISE}; done"
    service = Service(node, {20: burst, 21: burst})
    service.until(19)
    assert service.runs == []
    service.until(60)
    assert service.runs == [21, 31]


def test_events_that_do_not_end_cause_a_run_for_each_second_at_most(node: pathlib.Path) -> None:
    service = Service(node, dict.fromkeys(range(1, 31), RAISE))
    service.until(60)
    assert len(service.runs) <= 30 + 2


def test_there_is_no_other_wait() -> None:
    """systemd and udev have options that wait or keep a start back; the limit of a start ends none of them
    within minutes."""
    texts = (units.NIC_UNIT, units.NIC_PATH, units.UDEV)
    options = {line for text in texts for line in re.findall(r"^\w+(?:Sec|Burst)=.*$", text, re.MULTILINE)}
    assert options == {"StartLimitIntervalSec=0", "TimeoutStartSec=780"}
    assert not any("settle" in text or "WAIT_FOR" in text for text in texts)
    assert re.findall("sleep [0-9]+", "".join(texts)) == ["sleep 1", "sleep 1"]
