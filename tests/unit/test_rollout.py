# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout over a fleet: its waves, what stops it, where it goes on, and its budget of reboots."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.filter.rollout_waves import rollout_waves
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT
from ansible_collections.mlnode.tuning.tests.unit.stub_site import FINE, Site, failed

WAVES = ROOT / "inventory/rollout.yml"


@cases.table
def test_waves_are_a_list_for_serial(waves: str, given: dict[str, Any], sizes: list[str]) -> None:
    assert rollout_waves(waves, **given) == sizes


def test_numbers_are_doubled_for_any_fleet() -> None:
    first, second, *others = map(int, rollout_waves("exponential", canary=2, size=5))
    assert (first, second, others[:3]) == (2, 5, [10, 20, 40])
    assert sum(others) > 1_000_000


@cases.table
def test_what_is_no_wave_is_refused(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=re.escape(f"rollout_waves: {message}")):
        rollout_waves(*given)


def fleet(folder: pathlib.Path, count: int) -> tuple[Site, list[str]]:
    site, names = Site(folder), [f"gpu{number:02d}" for number in range(1, count + 1)]
    for name in names:
        site.host(name, {})
    return site, names


def test_a_rollout_stops_at_a_share_of_failures_and_goes_on_where_it_stopped(tmp_path: pathlib.Path) -> None:
    site, names = fleet(tmp_path, 20)
    # Of the waves of 1, 2, 4 and 8 nodes, and of the 5 that are left. 30 % of the nodes fail: one of the
    # third wave, 4 of the fourth one, and one of the rest.
    third, fourth, rest = names[3:7], names[7:15], names[15:]
    broken = [third[2], *fourth[1:5], rest[2]]
    for name in broken:
        (tmp_path / name / "answers.json").write_text(json.dumps({"node": ["vm.swappiness: overridden"]}))
    state = tmp_path / "rollout.json"

    def rollout(*words: str) -> tuple[int, str]:
        given = {"mlnode_max_fail_percentage": 40, "mlnode_rollout": str(state)}
        return site.play("-e", f"@{WAVES}", "-e", json.dumps(given), *words)

    def asked() -> dict[str, int]:
        return {name: len(site.asked(name)) for name in names}

    code, output = rollout()

    assert (code, failed(output)) == (2, {*broken} - {*rest}), output
    assert asked() == {name: int(name not in rest) for name in names}
    done = {json.loads(line)["host"] for line in state.read_text().splitlines()}
    assert done == {*names} - {*rest} - {*broken}

    for name in broken:
        (tmp_path / name / "answers.json").write_text("{}")
    code, output = rollout()

    assert (code, failed(output)) == (0, set()), output
    assert asked() == {name: 2 if name in broken and name not in rest else 1 for name in names}

    site.everywhere = {"node_sysctl": {"vm.swappiness": 10}}
    code, output = rollout("--limit", names[0])
    assert code == 0, output
    assert asked()[names[0]] == 2, "it is declared otherwise"


@pytest.mark.long
def test_a_resumed_rollout_and_a_revert_write_the_fleet_report(tmp_path: pathlib.Path) -> None:
    """Nodes that were done already are in it, and are not said to be looked at."""
    site, _names = fleet(tmp_path, 3)
    site.settings["callbacks_enabled"] = "mlnode.tuning.fleet_report"
    report = tmp_path / "fleet.json"
    given = {"mlnode_rollout": str(tmp_path / "rollout.json"), "mlnode_report_json": str(report)}
    assert site.play("-e", json.dumps(given))[0] == 0

    code, output = site.play("-e", json.dumps(given))

    assert (code, {host["state"] for host in json.loads(report.read_text())["hosts"]}) == (0, {"not checked"})
    line = f"gpu[01:03]: {tmp_path}/rollout.json has this node as done with this declaration"
    assert line in output.partition("FLEET REPORT")[2], output

    report.unlink()
    code, output = site.play("-e", json.dumps(given), playbook="playbooks/revert.yml")

    assert code == 0, output
    assert "FLEET REPORT" in output
    assert [host["state"] for host in json.loads(report.read_text())["hosts"]] == ["ok"] * 3


#: A node that is reached otherwise than by a local connection, or Ansible would refuse to reboot it. Answers
#: the modules with which it is looked at before, notes when it goes down and is up, and has another boot ID
#: then.
_CONNECTION = '''\
import json
import pathlib
import time

from ansible.plugins.connection.local import Connection as Local

DOCUMENTATION = """
name: rebooted
short_description: a node
options:
  pipelining: {type: bool, default: true}
"""
DEBIAN = {"distribution": "Debian", "distribution_version": "13", "os_family": "Debian"}
FACTS = {f"ansible_{name}": value for name, value in DEBIAN.items()}
FOUND = {"ansible_facts": FACTS, "files": [{"path": "/sbin/shutdown"}]}


class Connection(Local):
    transport = "rebooted"
    always_pipeline_modules = True

    def exec_command(self, cmd, in_data=None, sudoable=True):
        host = pathlib.Path(self._shell.get_option("remote_tmp")).parent
        times = host / "reboots"
        if in_data:
            return 0, json.dumps(FOUND).encode(), b""
        if "shutdown" in cmd:
            start = time.monotonic()
            time.sleep(0.2)
            with times.open("a") as file:
                file.write(f"{start} {time.monotonic()}\\n")
        boots = times.read_text().count("\\n") if times.exists() else 0
        return 0, f"boot {boots}\\n".encode(), b""
'''


def test_one_budget_of_reboots_holds_for_all_waves(tmp_path: pathlib.Path) -> None:
    site, names = fleet(tmp_path, 6)
    (tmp_path / "connection").mkdir()
    (tmp_path / "connection/rebooted.py").write_text(_CONNECTION)
    waits = {"changed": False, "settings": [], "reboot_required": True}
    for name in names:
        busy = {"running": ["Slurm job 7"]} if name == names[1] else {}
        answers = {"areas": {"boot": {**waits, **busy}}, "drift": {**FINE, "settings": []}}
        (tmp_path / name / "answers.json").write_text(json.dumps(answers))
        site.inventory["training"]["hosts"][name]["ansible_connection"] = "rebooted"
    site.everywhere = {"node_reboot": True, "node_reboot_at_once": 1, "node_reboot_most": 3}
    site.settings["connection_plugins"] = str(tmp_path / "connection")
    state = tmp_path / "rollout.json"

    code, output = site.play("--check")
    calls = {call["call"] for name in names for call in site.asked(name)}
    assert (code, calls) == (0, {"declare"}), "a preview does not verify a reboot that it left out"

    code, output = site.play(mlnode_serial=[1, 5], mlnode_rollout=str(state))

    assert (code, failed(output)) == (0, set()), output
    times = {
        name: (tmp_path / name / "reboots").read_text().split()
        for name in names
        if (tmp_path / name / "reboots").exists()
    }
    assert [*times] == [names[0], names[2], names[3]], output
    spans = sorted((float(down), float(up)) for down, up in times.values())
    assert all(up <= down for (_down, up), (down, _up) in zip(spans, spans[1:])), "one at a time"
    assert f"until the next run: {names[4]}, {names[5]}" in " ".join(output.split())
    assert state.read_text() == "", "a node that waits for a reboot is not done"
