# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes for effect.yml that are reverted or declared, and a stand-in for their campaigns."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit.stub_site import Site

#: At the end of the stub of stub_site.py: a node that is reverted or declared, and looks which it is. Where
#: it has a file `dies`, its revert ends the controller, as a power cut would. With
#: a file `cannot be declared` it fails at that, and with a file `booted` its lease is over.
STATES = """

import json
import os
import signal

from ansible.errors import AnsibleConnectionFailure

class AgentAction(AgentAction):
    def call(self, name, options, interpreter="", changes=False, of_bare=None):
        host = pathlib.Path(self.get_shell_option("remote_tmp")).parent
        state = host / "state"
        if (host / "gone").exists():
            raise AnsibleConnectionFailure("no route to host")
        wanted = "reverted" if name == "revert" else "declared"
        changed = state.read_text() != wanted
        with open(host / "leases", "a") as stream:
            stream.write(json.dumps({"call": name, "check": options["check"], **options["lease"]}) + chr(10))
        if (host / "booted").exists() and options["lease"]["step"] == "renew":
            return {"changed": False, "failed": True, "msg": "lease: it is over: the node was booted"}
        if not options["check"]:
            if (host / f"cannot be {wanted}").exists():
                return {"changed": False, "failed": True, "msg": "the disk is full"}
            state.write_text(wanted)
            if name == "revert" and (host / "dies").exists():
                # This process, the one that measures, and the controller
                measures = pathlib.Path(f"/proc/{os.getppid()}/stat").read_text()
                os.kill(int(measures.rpartition(")")[2].split()[1]), signal.SIGKILL)
        answer = {"changed": changed, "areas": {}, "reboot_required": False, "not_in_force": []}
        return {"changed": changed} if name == "revert" else answer
"""

#: In the place of the module campaign. A node measures the speed of its state in its file `speeds`, with
#: noise. Its file `fails` has, for the number of a phase, the fault of the node there: "unreachable",
#: "hangs", "dies" for good, "boots" before it measures, the words with which it refuses, or {"pair": why its
#: pairs have no result}; with "again" the second time, too. With a file `busy` it refuses in check mode.
CAMPAIGN = """
import json
import pathlib
import random
import time

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        given, host = self._task.args, pathlib.Path(self.get_shell_option("remote_tmp")).parent
        if self._task.check_mode and (host / "busy").exists():
            return {"failed": True, "msg": "job 7 runs here"}
        if self._task.check_mode:
            return {"changed": False, "shift": 0.0, "took": 0.01}
        with open(host / "asked", "a") as stream:
            stream.write(json.dumps({"call": self._task.action, **given}) + chr(10))
        number, again = [*given["id"].split("-"), "", ""][2:4]
        fault = json.loads((host / "fails").read_text()).get(number) if (host / "fails").exists() else None
        if fault == "dies":
            (host / "gone").touch()
        if fault == "hangs":
            time.sleep(60)
        if fault == "boots":
            (host / "booted").touch()
            (host / "state").write_text("declared")
            fault = None
        if fault in ("dies", "unreachable"):
            raise AnsibleConnectionFailure("no route to host")
        if isinstance(fault, str):
            return {"failed": True, "msg": fault}
        if given["state"] == "started":
            (host / "slots").write_text(json.dumps(given["slots"]))
            return {"changed": True, "shift": 0.0, "took": 0.01}
        if given["state"] == "begun":
            return {"changed": True, "ends": 1.0}
        reason = (fault or {}).get("pair", "") if not again or (fault or {}).get("again") else ""
        speed = json.loads((host / "speeds").read_text())[(host / "state").read_text()]
        noise = random.Random(given["id"][-4:] + host.name)
        slots = [
            {
                "round": slot["round"], "rail": 0, "reason": reason,
                "forward_gbits": speed * noise.gauss(1, 0.001), "backward_gbits": speed, "hole": 0.9,
            }
            for slot in json.loads((host / "slots").read_text())
            if not slot["serves"]
        ]
        answer = {"kernel": "", "declarations": {}, "rails": [], "served": [], "slots": slots}
        return {"changed": True, "done": True, "problem": "", "answer": json.dumps(answer)}
"""

#: Nothing is waited for.
FAST = {"effect_settle": 0, "campaign_lead": -1000, "campaign_duration": 1}


def site(
    folder: pathlib.Path, names: Iterable[str], state: str, groups: Iterable[str] = (), **speeds: float
) -> Site:
    """Nodes in a state, with a stand-in for their campaigns. speeds: in Gb/s, for `reverted` and `declared`;
    90 for both if not given."""
    made = bare(
        folder,
        {name: {"campaign_addresses": [f"192.0.2.{number}"]} for number, name in enumerate(names, 1)},
        state,
        groups,
    )
    made.note("campaign")
    (made.plugins / "action/campaign.py").write_text(CAMPAIGN, encoding="utf-8")
    known = {"reverted": 90.0, "declared": 90.0, **speeds}
    for name in names:
        (folder / name / "speeds").write_text(json.dumps(known), encoding="utf-8")
    return made


def bare(
    folder: pathlib.Path, hosts: Mapping[str, Mapping[str, Any]], state: str, groups: Iterable[str] = ()
) -> Site:
    """Nodes with these variables, in a state that changes nothing but a file."""
    made = Site(folder)
    call = made.plugins / "plugin_utils/agent_call.py"
    call.write_text(f"{call.read_text(encoding='utf-8')}{STATES}", encoding="utf-8")
    for name, variables in hosts.items():
        made.host(name, {}, *groups, **variables)
        (folder / name / "state").write_text(state, encoding="utf-8")
    return made


def fails(folder: pathlib.Path, name: str, phase: int, fault: Any) -> None:
    """See CAMPAIGN. phase: from 1 on."""
    (folder / name / "fails").write_text(json.dumps({str(phase): fault}), encoding="utf-8")


def leases(folder: pathlib.Path, name: str) -> list[dict[str, Any]]:
    """Of the calls that changed a node, in their order."""
    asked = map(json.loads, (folder / name / "leases").read_text(encoding="utf-8").splitlines())
    return [lease for lease in asked if not lease["check"]]


def states(folder: pathlib.Path, names: Iterable[str]) -> set[str]:
    return {(folder / name / "state").read_text(encoding="utf-8") for name in names}
