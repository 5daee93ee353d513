# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make bench` says of its figures. The figures themselves are of a machine that does nothing else."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.mlnode.tuning.benchmarks import campaigns, effects, measure, report, shaped
from ansible_collections.mlnode.tuning.benchmarks.commands import EVENT
from ansible_collections.mlnode.tuning.benchmarks.effects import Experiment
from ansible_collections.mlnode.tuning.benchmarks.measure import BenchError, Sample
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import schedule
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign import fleets
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, declaration

BENCHMARKS = ROOT / "benchmarks"


def play(wall: float, cpu: float = 1.0) -> dict[str, float]:
    return {**Sample(wall, cpu, 60.0, 2.0, 4096.0).document()}


def command(wall: float) -> dict[str, float]:
    return {"wall": wall, "cpu": wall, "peak": 10.0, "status": 0}


def results() -> dict[str, Any]:
    names = ("ping", "drift", "site --check", "site", "ansible.posix.sysctl", "site --check, no agent")
    return {
        "date": "2026-01-31",
        "machine": {"cpus": 2, "cpu": "a CPU", "memory_gib": 4.0, "kernel": "6.12", "python": "3.11"},
        "ansible_core": "2.19.0",
        "rounds": 5,
        "plays": {
            "1": dict(zip(names, map(play, (1.0, 1.0, 2.0, 3.5, 9.0, 2.0)))),
            "4": dict(zip(names, map(play, (2.0, 2.4, 4.2, 4.0, 20.0, 9.0)))),
            "10": dict(
                zip(names, (play(4.0), play(6.0, 5.5), play(9.6, 8.0), *map(play, (10.4, 60.0, 9.0))))
            ),
        },
        "others": {"strategy free": play(2.0), "mitogen": "does not work: it is too old"},
        "others_nodes": 4,
        "commands": {
            "python3 -c pass": command(0.01),
            "mlnode check": command(0.03),
            "mlnode metrics --print": command(0.045),
            "mlnode apply": command(0.1),
            "mlnode-apply.service": {**command(0.16), "peak": 0.0},
            EVENT: {**command(1.2), "peak": 0.0},
            "tuned-adm verify": command(0.5),
        },
        "campaigns": {
            "nodes": 20,
            "plays": {
                "ping": play(3.0),
                "preflight": play(7.5),
                "jobs": play(3.6),
                "campaign": {**play(130.0), "rounds": 8, "planned": 112.0, "pairs": 80, "pairs_measured": 79},
            },
            "many": 1024,
            "results": {
                "1": {
                    "campaign.yml": {"wall": 200.0, "cpu": 90.0, "peak": 200.0, "memory": 400.0},
                    "mlnode-results compare": {"wall": 4.0, "cpu": 3.0, "peak": 310.0},
                }
            },
        },
        "jobs": {
            "1": {"mlnode check": command(0.03), "mlnode job": command(0.04)},
            "100": {"mlnode check": command(0.03), "mlnode job": {**command(0.7), "peak": 36.0}},
        },
        "growth": {"1": {"plan": 1.0}, "2": {"plan": 2.0}, "4": {"plan": 4.5}},
        "fleet": {
            "100": {"drift": {"wall": 7.0, "cpu": 8.0, "peak": 70.0, "memory": 90.0}},
            "2000": {"drift": {"wall": 150.0, "cpu": 180.0, "peak": 300.0, "memory": 1600.0}},
        },
    }


def test_each_goal_is_told_whether_it_is_met_or_not() -> None:
    found = {goal.what: (round(goal.found, 2), goal.met) for goal in report.goals(results())}

    assert found == {
        "site.yml without a change, one node, s": (3.5, False),
        "drift.yml to a ping play, 4 nodes": (1.2, True),
        "site --check to a ping play, 4 nodes": (2.1, False),
        "site to a ping play, 4 nodes": (2.0, True),
        "site --check, controller CPU s/node, 4 nodes": (0.25, True),
        "site --check, node CPU s, 4 nodes": (0.5, True),
        "site --check, sent KiB/node, 4 nodes": (1.0, True),
        "site --check, no agent to a ping play, 4 nodes": (4.5, False),
        "site --check, no agent, sent KiB/node, 4 nodes": (1.0, True),
        "drift.yml to a ping play, 10 nodes": (1.5, False),
        "site --check to a ping play, 10 nodes": (2.4, True),
        "site to a ping play, 10 nodes": (2.6, False),
        "site --check, controller CPU s/node, 10 nodes": (0.8, False),
        "site --check, node CPU s, 10 nodes": (0.2, True),
        "site --check, sent KiB/node, 10 nodes": (0.4, True),
        "site --check, no agent to a ping play, 10 nodes": (2.25, False),
        "site --check, no agent, sent KiB/node, 10 nodes": (0.4, True),
        "CPU of drift.yml per node, most nodes to fewest": (0.25, True),
        "mlnode check to tuned-adm verify": (0.06, True),
        "CPU of the boot service to python3 -c pass, nothing to change": (16.0, False),
        "CPU of the boot service to mlnode apply by hand": (1.6, False),
        f"{EVENT}, s": (1.2, True),
        "mlnode metrics, ms": (45.0, True),
        "mlnode metrics, CPU s a day": (4.32, True),
        "mlnode job on one job, ms more than mlnode check": (10.0, True),
        "mlnode job on 100 namespaces with 2000 processes, s": (0.7, False),
        "mlnode job on 100 namespaces with 2000 processes, MiB": (36.0, True),
        "preflight to a ping play, 20 nodes": (2.5, False),
        "jobs to a ping play, 20 nodes": (1.2, True),
        "campaign of 8 rounds, 20 nodes, s": (130.0, True),
        "results of 1024 nodes, 1 rails, MiB": (310.0, False),
        "plan, 4 times the machine": (4.5, False),
        "drift, controller CPU per node, 2000 nodes to 100": (1.12, False),
        "memory of the controller, 2000 nodes, MiB": (1600.0, False),
    }


def test_the_table_has_all_of_it() -> None:
    text = report.markdown(results())

    assert "2026-01-31, 2 × a CPU, 4.0 GiB, Linux 6.12, ansible-core 2.19.0" in text
    assert "| drift | 2.40 | 1.20 | 0.25 | 0.50 | 1 | 60 |" in text
    assert "| mitogen | does not work: it is too old |" in text
    assert "| mlnode check | 30 | 3.0 | 30 | 3.0 | 10 |" in text
    assert "| plan | 1.000 | 2.000 | 4.500 |" in text
    assert "| drift | 2000 | 150 | 180.0 | 90 | 300 | 1600 |" in text
    assert "| preflight | 7.50 | 2.50 | 0.05 | 0.10 | 0 | 60 |" in text
    assert "79 of 80 pairs have a result; the rounds take 112 s." in text
    assert "| campaign.yml | 1 | 200 | 90.0 | 200 | 400 |" in text
    assert "| site --check to a ping play, 4 nodes | 2.10 | 2 | **no** |" in text


def test_a_part_of_it_is_told_alone() -> None:
    some = {
        name: value
        for name, value in results().items()
        if name not in ("plays", "others", "campaigns", "commands", "jobs", "fleet")
    }

    assert [goal.what for goal in report.goals(some)] == ["plan, 4 times the machine"]
    assert "nodes**" not in report.markdown(some)


def test_simulated_nodes_answer_a_campaign_as_real_ones_do(tmp_path: pathlib.Path) -> None:
    hosts = json.loads(campaigns.inventory(tmp_path, 6, 2).read_text("utf-8"))["training"]["hosts"]
    plan = schedule.plan({name: own["campaign_addresses"] for name, own in hosts.items()}, rounds=8)
    states = [
        {name: json.loads((tmp_path / f"{state}-{name}.json").read_text("utf-8")) for name in hosts}
        for state in ("begun", "collected")
    ]

    report = fleets.report(plan, *states, fleets.ABOUT)

    schema = json.loads((ROOT / "docs/schema/campaign.schema.json").read_text("utf-8"))
    document = json.loads(report["document"])
    jsonschema.validate(document, schema)
    assert (document["verdict"], len(document["pairs"])) == ("pass", 5 * 3 * 2)


def test_bad_paths_are_measured_ones_of_nodes_that_are_well() -> None:
    addresses = {f"n{number:02}": f"10.0.0.{number}" for number in range(1, 21)}

    paths = shaped.bad_paths(addresses, ["n03", "n12"])

    plan = schedule.plan({name: [own] for name, own in addresses.items()})
    met = {name: {slot["peer"] for slot in own} for name, own in plan["slots"].items()}
    assert all(other in met[one] for one, other in paths)
    assert len({*sum(paths, ())} - {"n03", "n12"}) == 6


@pytest.mark.parametrize(("exact", "met"), [(True, "| 0 | yes |"), (False, "| **no** |")])
def test_a_shaped_campaign_has_to_be_exact(exact: bool, met: str) -> None:
    text = report.markdown({**results(), "shaped": [{"exact": True}, {"exact": exact}]})

    [line] = [one for one in text.splitlines() if one.startswith("| shaped campaigns")]
    assert line.endswith(met)


def test_an_effect_is_told_with_its_interval() -> None:
    one = Experiment("a stream", "Mb/s", "more", "small", "large", lambda _state: None, lambda: 0.0)
    row = effects._row(one, [100.0 if state == "A" else 110.0 for state in interval.order(3)])

    text = report.markdown({**results(), "effects": [row]})

    assert (row["mean_before"], row["mean_after"], row["blocks"]) == (100.0, 110.0, 3)
    assert "| a stream (Mb/s) | small | 100 | large | 110 | +10.00 % (95 % interval +8.9" in text


def test_of_what_a_program_prints_the_number_counts() -> None:
    assert effects._program(None, "faults", "no") > 0
    with pytest.raises(BenchError, match="KeyError: 'nothing'"):
        effects._program(None, "nothing", "")


def test_rounds_are_interleaved_and_each_figure_has_its_median() -> None:
    order: list[str] = []
    walls = {"a": iter([1.0, 9.0, 2.0]), "b": iter([5.0, 4.0, 6.0])}

    def run(name: str) -> Sample:
        order.append(name)
        return Sample(next(walls[name]), 0.0, 0.0)

    found = measure.interleaved(3, {"a": lambda: run("a"), "b": lambda: run("b")}, lambda words: None)

    assert order == ["a", "b"] * 3
    assert measure.medians(found["a"]).wall == 2.0
    assert measure.document(found)["b"]["walls"] == [5.0, 4.0, 6.0]


def test_a_command_is_measured_with_all_that_it_waits_for() -> None:
    busy = "x = [i * i for i in range(3_000_000)]"
    found = measure.run(["sh", "-c", f"{sys.executable} -c '{busy}'; true"], {})

    assert found.cpu > 0.05
    assert found.wall >= found.cpu * 0.5
    assert found.peak > 10


def test_a_command_that_fails_is_no_figure() -> None:
    with pytest.raises(BenchError, match=r"exit status 7\nall went wrong"):
        measure.run(["sh", "-c", "echo all went wrong; exit 7"], {})


def test_commands_are_measured_on_a_node_with_its_own_python(tmp_path: pathlib.Path) -> None:
    commands = {"true": ["true"], "false": ["false"]}
    done = subprocess.run(
        [sys.executable, "-I", "-", json.dumps(commands), "3"],
        input=(BENCHMARKS / "inside.py").read_bytes(),
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    found = json.loads(done.stdout)

    assert {name: one["status"] for name, one in found.items()} == {"true": 0, "false": 1}
    assert all(one["wall"] > 0 and one["peak"] > 0 for one in found.values())


def test_of_a_service_the_whole_control_group_counts(tmp_path: pathlib.Path) -> None:
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(
        "#!/bin/sh\n[ $1 != show ] || printf 'CPUUsageNSec=1500000000\\nExecMainStatus=3\\n'\n"
    )
    systemctl.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-I", "-", json.dumps({"boot": ["mlnode-apply.service"]}), "1"],
        input=(BENCHMARKS / "inside.py").read_bytes(),
        capture_output=True,
        check=True,
        env={"PATH": f"{tmp_path}:/bin:/usr/bin"},
    )
    found = json.loads(done.stdout)["boot"]

    assert (found["cpu"], found["status"]) == (1.5, 3)


def test_an_event_takes_until_the_value_is_right_and_the_run_has_ended(tmp_path: pathlib.Path) -> None:
    (tmp_path / "value").write_text("60\n")
    systemctl = tmp_path / "systemctl"
    systemctl.write_text("#!/bin/sh\n[ $1 != show ] || echo CPUUsageNSec=1500000000\n")
    systemctl.chmod(0o755)
    run = "cat value >>seen; echo 60 >value; sleep 0.3; echo end >>seen"
    wait = "until [ -e flag ]; do sleep 0.01; done; rm flag"
    service = f"for round in 1 2; do {wait}; flock lock -c '{run}'; rm lock; done"
    event = ["a.service", *(str(tmp_path / name) for name in ("flag", "value", "lock"))]
    with subprocess.Popen(["/bin/sh", "-c", service], cwd=tmp_path):
        done = subprocess.run(
            [sys.executable, "-I", "-", json.dumps({"event": event}), "1"],
            input=(BENCHMARKS / "inside.py").read_bytes(),
            capture_output=True,
            check=True,
            env={"PATH": f"{tmp_path}:/bin:/usr/bin"},
        )
    figures = json.loads(done.stdout)["event"]

    assert (figures["cpu"], figures["status"]) == (1.5, 0)
    assert figures["wall"] >= 0.3
    assert (tmp_path / "seen").read_text().split() == ["61", "end"] * 2


def test_the_peer_looks_at_settings_that_the_profile_declares_and_with_their_values() -> None:
    [peer] = yaml.safe_load((BENCHMARKS / "plays/peer.yml").read_text(encoding="utf-8"))
    declared = declaration("training")["sysctl"]["settings"]

    assert len(peer["vars"]["settings"]) == 21
    for key, value in peer["vars"]["settings"].items():
        assert declared[key] in (value, {"at_least": value}), key
