# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rings, channels, coalescing, offloads and the rest, on five drivers: what ethtool can do the module can.

ethtool(8) itself sets every knob first, and puts it back; that is what the module is measured by.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.nic import exclusive
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.errors import DeclarationError

from . import guest_facts as facts
from .collection import Collection, Played
from .conftest import AGENT
from .machine import Machine

#: The last one is that of the interface by which all are connected.
DRIVERS = ("igb", "e1000e", "vmxnet3", "netdevsim", "virtio_net")

NAME = "lab"
DECLARED = f"/etc/mlnode/declared.d/{NAME}.json"

#: Every coalescing parameter is absent somewhere; these are of three kinds
COALESCE = {"rx-usecs": 50, "rx-frames-irq": 8, "stats-block-usecs": 1000, "adaptive-tx": "on"}

#: For a new connection to a machine that a busy one emulates
CONFIRM_SECONDS = 300

LINK_FILE = "/etc/systemd/network/10-other.link"

#: Before udev's own rules, which give names
SLOW_NAMES = "/etc/udev/rules.d/01-slow.rules"


class Story:
    """One machine, its NICs, and a rule for each of them."""

    def __init__(self, machine: Machine, collection: Collection) -> None:
        self.machine = machine
        self.collection = collection
        self.before = facts.nics(machine)
        self.tried = facts.tried_nics(machine)
        self.commands: list[str] = []

    @property
    def after(self) -> dict[str, dict[str, str]]:
        """What ethtool prints once it has itself set all that it can."""
        return {nic: found["after"] for nic, found in self.tried.items()}

    def declare(self) -> Played:
        rules = [_rule(driver, self.tried[facts.nic(self.machine, driver)]["asked"]) for driver in DRIVERS]
        return declare(self.collection, self.machine, *rules, allow=["management"])


def _rule(driver: str, knobs: dict[str, str]) -> dict[str, Any]:
    """A rule for the NICs of a driver; knobs as in nics.py."""
    rule: dict[str, Any] = {"name": driver, "nics": {"drivers": [driver]}}
    for knob, value in knobs.items():
        group, _dot, field = knob.partition(".")
        if field:
            rule.setdefault(group, {})[field] = value
        else:
            rule[group] = value
    return rule


def declare(collection: Collection, machine: Machine, *rules: dict[str, Any], **more: Any) -> Played:
    # Emulated, and beside others: that there is an undo is shown in test_confirm.py.
    more.setdefault("confirm_seconds", CONFIRM_SECONDS)
    return collection.task("nic_ethtool", machine, name=NAME, rules=rules, **more)


def statuses(played: Played) -> dict[str, str]:
    return {row["key"]: row["status"] for row in played.result["settings"]}


def reasons(played: Played) -> dict[str, str]:
    assert "settings" in played.result, played.output[-3000:]
    return {row["key"]: row["reason"] for row in played.result["settings"]}


# -- every knob that ethtool can change ----------------------------------------------------


@pytest.fixture(scope="module")
def story(baremetal_agent: Machine, collection: Collection) -> Story:
    return Story(baremetal_agent, collection)


def test_what_is_to_be_set_is_worth_it(story: Story) -> None:
    """Else all that follows would prove nothing."""
    nics = {driver: facts.nic(story.machine, driver) for driver in DRIVERS}
    assert {*nics.values()} == {*story.tried}
    assert [found["left"] for found in story.tried.values()] == [{}] * len(DRIVERS)
    groups = {
        driver: {knob.partition(".")[0] for knob in story.tried[nic]["asked"]} for driver, nic in nics.items()
    }
    least = {"rings", "features", "mtu", "tx_queue_len"}
    for driver in DRIVERS:
        assert groups[driver] >= least, (driver, story.tried[nics[driver]]["refused"])
    assert groups["igb"] >= least | {"channels", "coalesce", "pause", "private_flags"}
    assert groups["e1000e"] >= least | {"coalesce", "pause"}
    assert groups["netdevsim"] >= least | {"channels", "coalesce", "pause"}


def test_every_knob_becomes_what_ethtool_itself_can_make_it(story: Story) -> None:
    played = story.declare()
    assert played.status == 0
    assert {*statuses(played).values()} == {"changed"}
    assert facts.nics(story.machine) == story.after
    story.commands = played.result["commands"]
    # The NIC that all of this goes through was among them, so that a new connection had to show itself.
    assert played.result["confirmed"] is True


def test_a_second_run_changes_nothing_and_the_node_is_as_declared(story: Story) -> None:
    again = story.declare()
    assert (again.status, again.changed) == (0, 0)
    assert {*statuses(again).values()} == {"ok"}
    found = facts.check(story.machine)
    assert (found["exit"], facts.wrong_in(found)) == (0, {})


@pytest.mark.long
def test_the_agent_alone_brings_it_back_after_a_reboot(story: Story) -> None:
    story.machine.reboot()
    assert story.machine.out("systemctl is-system-running") == "running"
    assert facts.nics(story.machine) == story.after
    assert facts.wrong(story.machine) == {}


def test_a_revert_makes_it_what_ethtool_printed_before(story: Story) -> None:
    # Queues are among it, so that udev reports NICs just when the agent is removed.
    assert story.collection.play("revert", story.machine).status == 0
    assert facts.nics(story.machine) == story.before
    story.machine.assert_no_unit_failed()
    assert story.machine.out("systemctl list-units --all --plain --no-legend 'mlnode*'") == ""


@pytest.mark.long
def test_what_ethtool_is_refused_the_module_never_calls_done(story: Story) -> None:
    """Knobs that are shown and cannot be set: an error that names them, or unsupported, and no change."""
    refused = {
        knob.partition(".")[0]: (nic, knob, value)  # one of each group
        for nic, found in story.tried.items()
        for knob, value in found["refused"].items()
    }
    assert refused
    story.machine.load(AGENT)
    for nic, knob, value in refused.values():
        driver = next(driver for driver in DRIVERS if facts.nic(story.machine, driver) == nic)
        rule = _rule(driver, {knob: value})
        played = declare(story.collection, story.machine, rule, allow=["management"])
        if played.status == 0:
            assert {*statuses(played).values()} == {"unsupported"}, f"{driver} {knob}"
        else:
            assert knob.partition(".")[2] in played.result["msg"], f"{driver} {knob}"
    assert facts.nics(story.machine) == story.before, refused


@pytest.mark.long
def test_the_commands_that_it_names_do_the_same(story: Story) -> None:
    assert story.commands
    story.machine.run(" && ".join(story.commands))
    assert facts.nics(story.machine) == story.after


@pytest.mark.long
def test_a_boot_waits_until_udev_has_named_the_nics(cloud_agent: Machine, collection: Collection) -> None:
    """The rule is for the interface by which all are connected, so that nothing but the boot may set it."""
    cloud = cloud_agent
    nic = facts.nic(cloud, "virtio_net")
    rule = {"name": "named", "nics": {"names": [nic]}, "rings": {"rx": 256}, "mtu": 1400}
    assert declare(collection, cloud, rule, allow=["management"]).status == 0
    # The agent is there in less; until then the NIC is eth0.
    cloud.write(SLOW_NAMES, 'ACTION=="add", SUBSYSTEM=="net", SUBSYSTEMS=="pci", PROGRAM="/bin/sleep 40"\n')
    cloud.reboot()
    assert cloud.out("systemctl is-system-running") == "running"
    assert facts.wrong(cloud) == {}
    now = facts.nics(cloud)[nic]
    assert (now["rings.rx"], now["mtu"]) == ("256", "1400")


@pytest.fixture(scope="module")
def node(baremetal_agent: Machine) -> Machine:
    """For one thing after the other, with the agent, without which nothing lasts until the next boot."""
    baremetal_agent.load(AGENT)
    return baremetal_agent


def declared(machine: Machine) -> str:
    return machine.out(f"cat {DECLARED} 2>/dev/null || true")


# -- what a driver has not -----------------------------------------------------------------


def _lacking(driver: str, knobs: dict[str, str]) -> dict[str, Any]:
    """A rule for what is not among the knobs of a NIC, or fixed there."""
    wanted: dict[str, Any] = {f"rings.{field}": 64 for field in ("rx-mini", "rx-jumbo")}
    wanted |= {f"channels.{field}": 1 for field in ("rx", "tx", "combined")}
    wanted |= {f"coalesce.{field}": value for field, value in COALESCE.items()}
    wanted |= {f"pause.{field}": "off" for field in ("autoneg", "rx", "tx")}
    wanted |= {"fec": "rs", "private_flags.no-such-flag": "on"}
    found = {knob: value for knob, value in wanted.items() if knob not in knobs}
    other = {"off [fixed]": "on", "on [fixed]": "off"}
    fixed = {knob: other[value] for knob, value in knobs.items() if value in other}
    return _rule(driver, found | _together(fixed))


def _together(features: dict[str, str]) -> dict[str, str]:
    """Those that do not exclude one before them: a declaration with both is refused as a whole."""
    kept: dict[str, str] = {}
    for knob, value in features.items():
        tried = {name.removeprefix("features."): one == "on" for name, one in {**kept, knob: value}.items()}
        with contextlib.suppress(DeclarationError):
            exclusive.refuse_features("", tried)
            kept[knob] = value
    return kept


def test_what_a_driver_has_not_is_unsupported_and_named(node: Machine, collection: Collection) -> None:
    """What only the driver's answer tells fails, as it is declared here and not by a profile."""
    before = facts.nics(node)
    rules = [_lacking(driver, before[facts.nic(node, driver)]) for driver in DRIVERS]
    played = declare(collection, node, *rules, allow=["management"])
    refused = {key for key, reason in reasons(played).items() if "EOPNOTSUPP" in reason}
    assert {key.split(".")[2] for key in refused} == {"coalesce"}
    assert played.status != 0
    assert {key for key in refused if key in played.result["msg"]} == refused
    assert {key for key, status in statuses(played).items() if status != "unsupported"} == refused
    for key, reason in reasons(played).items():
        _kind, driver, group, *field = key.split(".", 3)
        assert driver in reason or key in refused, f"{key}: {reason}"
        # "interrupt coalescing", "private flags"; the value itself, or that the driver has none of the kind
        names = (*field, "error correction" if group == "fec" else group.partition("-")[0][: len("coalesc")])
        assert any(name in reason.lower() for name in names), f"{key}: {reason}"
    assert facts.nics(node) == before
    assert {*facts.wrong(node)} == refused


def test_netdevsim_lies_to_ethtool_and_not_to_the_module(node: Machine, collection: Collection) -> None:
    """`tso off` ends there with 0 and does nothing, though the kernel could tell that it is fixed."""
    nic = facts.nic(node, "netdevsim")
    node.run(f"ethtool -K {nic} tso off")
    before, kept = facts.nics(node), declared(node)
    rule = {**_rule("netdevsim", {"mtu": "1400", "features.tso": "off"})}
    failed = declare(collection, node, rule, on_unsupported="fail")
    assert failed.status != 0
    assert "nic.netdevsim.feature.tso: " in failed.result["msg"]
    assert "the driver netdevsim keeps tso on [fixed]" in failed.result["msg"]
    assert (facts.nics(node), declared(node)) == (before, kept)
    played = declare(collection, node, rule)
    assert played.status == 0
    assert statuses(played) == {"nic.netdevsim.feature.tso": "unsupported", "nic.netdevsim.mtu": "changed"}


def test_what_a_driver_takes_and_ignores_fails_and_the_rest_is_applied(
    node: Machine, collection: Collection
) -> None:
    """igb keeps txvlan as rxvlan is (igb_fix_features), and e1000e what it agreed on with the other end."""
    applied = {"mtu": "1300", "rings.rx": "128", "tx_queue_len": "300"}
    for driver, knob in (("igb", "features.txvlan"), ("e1000e", "pause.rx")):
        key = f"nic.{driver}.{knob.replace('features', 'feature')}"
        failed = declare(collection, node, _rule(driver, {**applied, knob: "off"}))
        assert failed.status != 0
        assert f"{key}: " in failed.result["msg"]
        assert "the write was accepted, and it stays on" in failed.result["msg"]
        values = facts.nics(node)[facts.nic(node, driver)]
        assert {name: values[name] for name in applied} == applied
        assert [*facts.wrong(node)] == [key]
    assert declare(collection, node, _rule("igb", {"mtu": "1400"})).status == 0


def test_error_correction_is_set_and_put_back(node: Machine, collection: Collection) -> None:
    """netdevsim says that it has none until somebody sets it, other than hardware."""
    nic = facts.nic(node, "netdevsim")
    node.run(f"ethtool --set-fec {nic} encoding baser")
    rule = _rule("netdevsim", {"fec": "rs"})
    assert statuses(declare(collection, node, rule)) == {"nic.netdevsim.fec": "changed"}
    assert facts.nics(node)[nic]["fec"] == "rs"
    assert declare(collection, node, rule).changed == 0
    assert node.run("mlnode revert", check=False).returncode == 0
    assert facts.nics(node)[nic]["fec"] == "baser"
    node.load(AGENT)


# -- too much ------------------------------------------------------------------------------


def test_more_than_there_is_is_clamped_and_both_numbers_are_told(
    node: Machine, collection: Collection
) -> None:
    nic = facts.nic(node, "igb")
    most = facts.nics(node)[nic]["rings.max rx"]
    rule = {"name": "igb", "nics": {"drivers": ["igb"]}, "rings": {"rx": 100000}}
    played = declare(collection, node, rule)
    assert (played.status, statuses(played)) == (0, {"nic.igb.ring.rx": "clamped"})
    assert "100000" in reasons(played)["nic.igb.ring.rx"]
    assert most in reasons(played)["nic.igb.ring.rx"]
    assert facts.nics(node)[nic]["rings.rx"] == most
    assert declare(collection, node, rule).changed == 0


def test_more_than_there_is_can_be_an_error(node: Machine, collection: Collection) -> None:
    before, kept = facts.nics(node), declared(node)
    rule = {"name": "igb", "nics": {"drivers": ["igb"]}, "rings": {"rx": 100000}, "beyond_max": "fail"}
    played = declare(collection, node, {**rule, "tx_queue_len": 400})
    assert played.status != 0
    assert "100000" in played.result["msg"]
    assert before[facts.nic(node, "igb")]["rings.max rx"] in played.result["msg"]
    assert (facts.nics(node), declared(node)) == (before, kept)


# -- which NICs, and in which order --------------------------------------------------------


@contextlib.contextmanager
def watched(machine: Machine) -> Iterator[list[tuple[str, str, bool]]]:
    """Reports of the kernel: which NIC, its MTU, whether its link is up. Filled at the end."""
    machine.run(
        "setsid -f sh -c 'echo $$ >/tmp/watcher; exec ip -o monitor link' </dev/null >/tmp/links 2>&1"
    )
    found: list[tuple[str, str, bool]] = []
    yield found
    machine.run("kill $(cat /tmp/watcher)")
    for line in machine.read("/tmp/links").splitlines():
        _number, name, flags, _mtu, mtu, *_rest = line.split()
        found.append((name.rstrip(":"), mtu, "LOWER_UP" in flags))


def _carrier_losses(machine: Machine, nic: str) -> int:
    return int(machine.read(f"/sys/class/net/{nic}/carrier_down_count"))


def test_nics_are_changed_one_at_a_time_and_the_management_path_is_left_alone(
    node: Machine, collection: Collection
) -> None:
    path, *links = (facts.nic(node, driver) for driver in ("virtio_net", "igb", "e1000e"))
    before = facts.nics(node)
    others = {nic for nic in before if nic != path}
    rule = {"name": "all", "nics": {"management": False}, "mtu": 1300, "tx_queue_len": 300}
    losses = [_carrier_losses(node, nic) for nic in links]
    with watched(node) as reported:
        played = declare(collection, node, rule)
    assert played.status == 0
    after = facts.nics(node)
    assert after[path] == before[path]
    for nic in others:
        assert (after[nic]["mtu"], after[nic]["tx_queue_len"]) == ("1300", "300")
    # What is said of one NIC ends before it begins with the next one; so its link is up again by then.
    last = [[*reports][-1] for _nic, reports in itertools.groupby(reported, key=lambda report: report[0])]
    assert sorted(nic for nic, _mtu, _up in last) == sorted(others)
    assert {mtu for _nic, mtu, _up in last} == {"1300"}
    assert {nic for nic, _mtu, up in last if up} == {*links}
    # The kernel sends one report a second at most, and may pass over a reset of less; it counts each of them.
    for nic, lost in zip(links, losses):
        assert _carrier_losses(node, nic) > lost, f"{nic} was not reset, so nothing was waited for"


def test_the_management_path_is_refused_by_name_with_how_to_allow_it(
    node: Machine, collection: Collection
) -> None:
    path = facts.nic(node, "virtio_net")
    before = facts.nics(node)
    played = declare(collection, node, {"name": "all", "mtu": 1400, "tx_queue_len": 300})
    assert played.status != 0
    for words in (f"{path}: ", "connection", "allow", "management"):
        assert words in played.result["msg"]
    after = facts.nics(node)
    # The length of its queue cuts off nobody.
    assert after[path] == {**before[path], "tx_queue_len": "300"}
    assert {after[nic]["mtu"] for nic in after if nic != path} == {"1400"}, "the others are set all the same"


# -- what stands on NICs, and who else sets them -------------------------------------------


def test_a_bond_has_its_mtu_and_keeps_its_carrier_while_its_members_get_rings(
    node: Machine, collection: Collection
) -> None:
    members = [facts.nic(node, driver) for driver in ("igb", "vmxnet3")]
    node.run("ip link add bond0 type bond mode active-backup miimon 100")
    for nic in members:
        node.run(f"ip link set {nic} down && ip link set {nic} master bond0 && ip link set {nic} up")
    node.run("ip link set bond0 up")
    carrier = "/sys/class/net/bond0/carrier"
    facts.until(lambda: node.read(carrier) == "1", "the bond is up")
    facts.until(
        lambda: node.read("/proc/net/bonding/bond0").count("MII Status: up") == 3, "its members are up"
    )
    downs = node.read(f"{carrier}_down_count")
    rule = {"name": "bond", "nics": {"names": ["bond0"]}, "mtu": 1450, "rings": 1024}
    played = declare(collection, node, rule)
    assert played.status == 0
    assert statuses(played) == dict.fromkeys(
        ("nic.bond.ring.rx", "nic.bond.ring.tx", "nic.bond.mtu"), "changed"
    )
    now = facts.nics(node)
    for nic in members:
        assert (now[nic]["mtu"], now[nic]["rings.rx"], now[nic]["rings.tx"]) == ("1450", "1024", "1024")
    assert node.read("/sys/class/net/bond0/mtu") == "1450"
    assert [row["want"] for row in played.result["settings"] if row["key"] == "nic.bond.mtu"] == [
        "bond0: 1450"
    ]
    assert node.read(f"{carrier}_down_count") == downs
    assert declare(collection, node, rule).changed == 0
    node.run("ip link del bond0")


def test_a_link_file_that_sets_the_same_is_named_with_its_line(node: Machine, collection: Collection) -> None:
    node.write(LINK_FILE, "[Match]\nDriver=igb\n\n[Link]\nRxBufferSize=2048\n")
    rule = {"name": "igb", "nics": {"drivers": ["igb"]}, "rings": {"rx": 512, "tx": 512}}
    played = declare(collection, node, rule)
    assert played.status == 0
    assert statuses(played)["nic.igb.ring.rx"] == "overridden"
    assert statuses(played)["nic.igb.ring.tx"] in ("changed", "ok")
    assert f"{LINK_FILE}:5" in reasons(played)["nic.igb.ring.rx"]
    assert "2048" in reasons(played)["nic.igb.ring.rx"]
    assert facts.nics(node)[facts.nic(node, "igb")]["rings.rx"] == "512"
    assert facts.wrong(node).keys() == {"nic.igb.ring.rx"}
    # The same in both places is no quarrel.
    assert statuses(declare(collection, node, {**rule, "rings": {"rx": 2048}})) == {
        "nic.igb.ring.rx": "changed"
    }
    node.run(f"rm {LINK_FILE}")
