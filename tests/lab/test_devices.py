# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NICs that do not take a value: a second one of virtio, whose driver accepts adaptive coalescing and ignores
it where the device has no VIRTIO_NET_F_VQ_NOTF_COAL, and igb, which negotiates pause frames as it boots."""

from __future__ import annotations

from typing import Any

import pytest

from . import guest_facts as facts
from .collection import Collection, Hosts, Played
from .machine import Machine

pytestmark = pytest.mark.long

ADAPTIVE = "nic.fabric.coalesce.adaptive-rx"
PAUSE = "qos.still.global_pause"


class Story:
    """One machine with a second virtio NIC and igb."""

    def __init__(self, machine: Machine, collection: Collection) -> None:
        self.machine = machine
        self.collection = collection
        self.igb = facts.nic(machine, "igb")
        self.born = self.pause()

    def pause(self) -> dict[str, str]:
        found = facts.nics(self.machine)[self.igb]
        return {name: found[f"pause.{name}"] for name in ("autoneg", "rx", "tx")}

    def site(self, **variables: Any) -> Played:
        return self.collection.play("site", Hosts.of(self.machine, "training"), **variables)

    def quiet(self) -> Played:
        rule = {"name": "still", "nics": {"drivers": ["igb"]}, "global_pause": False}
        return self.collection.task("roce_qos", self.machine, name="still", rules=[rule])

    def status(self, key: str) -> tuple[str, str]:
        found = {item["key"]: item for item in facts.check(self.machine)["settings"]}
        return found[key]["status"], found[key]["reason"]


@pytest.fixture(scope="module")
def story(virtual: Machine, collection: Collection) -> Story:
    return Story(virtual, collection)


def test_the_training_profile_is_applied_on_a_second_virtio_nic(story: Story) -> None:
    assert story.site().status == 0
    status, reason = story.status(ADAPTIVE)
    # igb has no adaptive coalescing at all.
    assert (status, "the write was accepted, and it stays off" in reason) == ("unsupported", True), reason
    assert facts.wrong(story.machine) == {}
    assert story.site().changed == 0


def test_what_the_operator_declares_of_it_fails_and_the_rest_is_applied(story: Story) -> None:
    own = {"rules": {"fabric": {"coalesce": {"adaptive-rx": True}}}}
    played = story.site(node_nic=own, node_sysctl={"vm.swappiness": 7})
    assert played.status != 0
    assert facts.sysctl(story.machine, "vm.swappiness") == "7"
    assert [*facts.wrong(story.machine)] == [ADAPTIVE]
    assert story.site().status == 0


def test_pause_frames_that_are_negotiated_are_switched_off(story: Story) -> None:
    assert story.born["autoneg"] == "on", "else nothing is shown"
    played = story.quiet()
    assert played.status == 0
    assert story.pause() == {"autoneg": "off", "rx": "off", "tx": "off"}
    assert story.quiet().changed == 0


def test_a_boot_does_the_same_and_no_unit_fails(story: Story) -> None:
    story.machine.reboot()
    assert story.machine.out("systemctl is-system-running") == "running"
    facts.until(lambda: facts.wrong(story.machine) == {}, "the agent has applied it")
    assert story.pause() == {"autoneg": "off", "rx": "off", "tx": "off"}
    assert story.status(ADAPTIVE)[0] == "unsupported"


def test_a_revert_brings_the_negotiation_back(story: Story) -> None:
    assert story.collection.play("revert", story.machine).status == 0
    facts.until(lambda: story.pause() == story.born, "both ends have agreed again")
    assert story.machine.out("ls /run/mlnode 2>/dev/null || true") == ""
