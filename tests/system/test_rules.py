# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and alerts with promtool, the configurations of the guide with amtool, and the names of metrics that
the rules ask for with node_exporter."""

from __future__ import annotations

import pathlib
import re
import subprocess
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.fixtures import fabric_files
from ansible_collections.mlnode.tuning.tests.system.prometheus import (
    OBSERVABILITY,
    WATCHDOG,
    Exporter,
    promtool,
    series_of,
)

GUIDE = OBSERVABILITY.parent / "docs" / "guide" / "watching.md"
RUNBOOK = "https://github.com/mlnode/tuning/blob/main/docs/guide/watching.md"


def rules() -> dict[str, dict[str, Any]]:
    documents = [
        yaml.safe_load((OBSERVABILITY / "rules" / name).read_text(encoding="utf-8"))
        for name in ("errors.yml", "alerts.yml")
    ]
    groups = [group for document in documents for group in document["groups"]]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def test_the_rules_are_rules(programs: str) -> None:
    promtool(programs, "check", "rules", *map(str, sorted((OBSERVABILITY / "rules").glob("*.yml"))))


@pytest.mark.parametrize("name", sorted(path.name for path in (OBSERVABILITY / "tests").glob("*.yml")))
def test_the_alerts_do_as_their_tests_have_it(programs: str, name: str) -> None:
    promtool(programs, "test", "rules", str(OBSERVABILITY / "tests" / name))


@pytest.mark.parametrize("alert", rules())
def test_each_alert_is_tested_and_explained(alert: str) -> None:
    tests = [
        one
        for path in (OBSERVABILITY / "tests").glob("*.yml")
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
        if test["name"] == alert
        for one in test["alert_rule_test"]
        if one["alertname"] == alert
    ]
    fires = [bool(one.get("exp_alerts")) for one in tests]
    assert True in fires, "it fires"
    if alert == WATCHDOG:
        assert all(fires), "it never stops"
    else:
        assert fires[0] is False, "it is quiet before"
        assert fires[-1] is False, "it resolves"
    assert rules()[alert]["annotations"]["runbook_url"] == f"{RUNBOOK}#{alert.lower()}"
    assert "nodes" not in rules()[alert]["annotations"]["summary"], "one node is not '1 nodes'"
    section = re.search(rf"^### {alert}\n(.+?)(?=^##|\Z)", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert section, "no section of the guide"
    assert len(section[1]) > 100, "which says what to do"


def test_amtool_takes_the_configurations_of_the_guide(programs: str, tmp_path: pathlib.Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    given = [yaml.safe_load(block)["monitoring_alertmanager"] for block in blocks if "receivers:" in block]
    assert len(given) == 2
    for number, one in enumerate(given):
        path = tmp_path / f"{number}.yml"
        path.write_text(yaml.safe_dump(one), encoding="utf-8")
        subprocess.run([f"{programs}/amtool", "check-config", str(path)], check=True, capture_output=True)
    route = ["config", "routes", "test", f"--config.file={tmp_path / '1.yml'}"]
    for alert, receiver in ((WATCHDOG, "dead-mans-switch"), ("MlnodeDrift", "cluster-team")):
        words = [f"{programs}/amtool", *route, f"alertname={alert}"]
        assert subprocess.check_output(words, text=True).strip() == receiver


def test_the_metrics_of_others_have_these_names(programs: str, tmp_path: pathlib.Path) -> None:
    """A rule about a name that no one exports is silent for ever. node_exporter with a port of RDMA, and the
    network of this machine."""
    device = tmp_path / "class" / "infiniband" / "mlx5_0"
    files = {"board_id": "MT_1", "fw_ver": "28.43.1014", "hca_type": "MT4129"}
    port = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}
    counters = {**fabric_files.PORT_COUNTERS, "port_rcv_packets": 1, "port_xmit_packets": 1}
    files.update({f"ports/1/{name}": text for name, text in port.items()})
    files.update({f"ports/1/counters/{name}": str(value) for name, value in counters.items()})
    for name, text in files.items():
        (device / name).parent.mkdir(parents=True, exist_ok=True)
        (device / name).write_text(f"{text}\n", encoding="utf-8")
    (tmp_path / "class" / "net").symlink_to("/sys/class/net")
    collectors = ("infiniband", "netstat", "netdev", "netclass", "stat")
    options = [f"--collector.{name}" for name in collectors]
    exporter = Exporter(programs, str(tmp_path), *options, f"--path.sysfs={tmp_path}")
    exporter.start()
    try:
        found = {line.partition("{")[0].partition(" ")[0] for line in series_of(exporter.metrics())}
    finally:
        exporter.stop()
    texts = [path.read_text(encoding="utf-8") for path in (OBSERVABILITY / "rules").glob("*.yml")]
    rules_alone = re.sub(r"^ *#.*$", "", "\n".join(texts), flags=re.M)
    asked = {*re.findall(r"\bnode_(?!exporter\b)\w+", rules_alone)}
    assert len(asked) > 20
    assert asked <= found


def test_one_cause_on_400_nodes_is_one_alert_with_their_number(programs: str, tmp_path: pathlib.Path) -> None:
    labels = 'area="sysctl",setting="vm.swappiness",cause="tuned: /etc/tuned/a/tuned.conf",status="drifted"'
    series = [
        {"series": f'mlnode_drift_info{{job="node",instance="n{number}",{labels}}}', "values": "1x9"}
        for number in range(400)
    ]
    expected = {"expr": f'ALERTS{{alertname!="{WATCHDOG}"}}', "eval_time": "5m", "exp_samples": []}
    count = {"expr": "max(job_area_setting_cause_status:mlnode_drift:count)", "eval_time": "5m"}
    alert = (
        'ALERTS{alertname="MlnodeDrift",alertstate="firing",job="node",severity="warning",area="sysctl",'
        'setting="vm.swappiness",cause="tuned: /etc/tuned/a/tuned.conf",status="drifted"}'
    )
    expected["exp_samples"] = [{"labels": alert, "value": 1}]
    test = {
        "rule_files": [str(path) for path in sorted((OBSERVABILITY / "rules").glob("*.yml"))],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "promql_expr_test": [expected, {**count, "exp_samples": [{"labels": "{}", "value": 400}]}],
            }
        ],
    }
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump(test), encoding="utf-8")
    promtool(programs, "test", "rules", str(path))
