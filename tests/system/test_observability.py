# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics, alerts and dashboard with the programs of the distribution: promtool for the metrics of any node,
and Prometheus, Alertmanager and node_exporter for the way from a drift to an alert."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.system.prometheus import (
    OBSERVABILITY,
    WATCHDOG,
    Exporter,
    Server,
    promtool,
    series_of,
    wait_for,
)
from ansible_collections.mlnode.tuning.tests.unit import nodes, pull_site
from mlnode.agent import declare, history, metrics, pull
from mlnode.agent import watch as minute
from mlnode.agent.node import NodeRow, Survey
from mlnode.agent.registry import KINDS
from mlnode.engine import declared
from mlnode.engine.kind import Info, Row
from mlnode.host import places
from mlnode.linux import node_exporter
from mlnode.model.cause import Cause
from mlnode.model.setting import Boot, Layer, Reading, Setting, Severity, Status, Value

SWAPPINESS = "/proc/sys/vm/swappiness"
FILE = f"{node_exporter.DEBIAN}/{node_exporter.FILE}"
#: Seconds between two checks in the test of the whole way
PERIOD = 4.0
AREAS = {"sysctl": {"settings": {"vm.swappiness": 10}}, "metrics": {"textfile_directory": "auto"}}
#: Of nodes, made at random, the same in each run
STATES = 1000


def _survey(random_: random.Random) -> Survey:
    """Any state of a node: all that a kernel, a file name or an error can bring into it."""

    def text() -> str:
        alphabet = 'a"\\\n{}=,#é\x00\x7f\u2028\udcff\U0001f600 '
        return "".join(random_.choices(alphabet, k=random_.randrange(30)))

    rows = []
    for number in range(random_.randrange(120)):
        area = random_.choice(metrics.areas())
        value = Value(text=text()) if random_.random() < 0.8 else Value(unreadable=text())
        boot = Boot(Value(text=text()), text(), foreign=random_.random() < 0.5)
        setting = Setting(area, f"{area}.{number}{text()}", "/x", "1", "1")
        reading = Reading("/x", value, boot)
        info = Info(random_.choice([*Severity]), "", "")
        causes = (Cause(Layer.BOOT, "note", text(), 1, text()),)
        rows.append(NodeRow(Row(setting, reading, random_.choice([*Status]), causes, info), ("node",)))
    errors = [text() for _ in range(random_.randrange(3))]
    return Survey(tuple(rows), tuple(errors))


def test_promtool_and_node_exporter_take_any_state_of_a_node(
    programs: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them in one start of each program, with the number of the state in each name: one text may have
    a metric once."""
    node, folder = watched(tmp_path / "node"), tmp_path / "states"
    folder.mkdir()
    texts = []
    for seed in range(STATES):
        survey = _survey(random.Random(seed))
        monkeypatch.setattr(metrics, "survey", lambda _host, survey=survey: survey)
        text = metrics.look(node).text
        assert len(series_of(text)) <= metrics.SERIES + metrics.LISTED
        texts.append(re.sub(r"^((?:# (?:HELP|TYPE) )?mlnode_)", rf"\g<1>state{seed}_", text, flags=re.M))
        (folder / f"{seed}.prom").write_text(texts[-1], encoding="utf-8")
    promtool(programs, "check", "metrics", given="".join(texts))
    exporter = Exporter(programs, str(folder))
    exporter.start()
    try:
        found = exporter.metrics()
    finally:
        exporter.stop()
    assert "\nnode_textfile_scrape_error 0\n" in found
    taken = [line for line in series_of(found) if line.startswith("mlnode_state")]
    assert len(taken) == sum(len(series_of(text)) for text in texts)


# -- the whole way -------------------------------------------------------------------------


def watched(folder: pathlib.Path) -> nodes.Node:
    """A node with a declaration and the timer."""
    node = nodes.made(nodes.CASES["metrics"], folder)
    nodes.install(node)
    node.put("/proc/uptime", "1000.00 1.00\n")
    declared_as(node, AREAS)
    return node


def declared_as(node: nodes.Node, areas: dict[str, Any]) -> None:
    order = declare.Order("node", KINDS, areas, tuple(KINDS), whole=True, after=history.record)
    assert not declare.run(node, order).failed
    node.forget()


class Watch:
    """A node, its exporter, and the server."""

    def __init__(self, node: nodes.Node, exporter: Exporter, server: Server) -> None:
        self.node, self.exporter, self.server = node, exporter, server

    def check(self) -> None:
        """What both timers do."""
        self.node.forget()
        metrics.export(self.node)
        assert minute.export(self.node)

    def wait(self, name: str, fires: bool = True, checks: bool = True) -> list[dict[str, str]]:
        """Until an alert fires, or does not any more. checks: the timer goes on meanwhile."""

        def right() -> bool:
            if checks:
                self.check()
            return (name in self.server.alerts()) is fires

        wait_for(right)
        return self.server.alerts().get(name, [])


@pytest.fixture(scope="module")
def watch(programs: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    folder = tmp_path_factory.mktemp("watch")
    node = watched(folder / "node")
    metrics.export(node)
    exporter = Exporter(programs, node.root + node_exporter.DEBIAN)
    server = Server(programs, folder, {"gpu001": exporter}, PERIOD)
    exporter.start()
    try:
        with server.running():
            made = Watch(node, exporter, server)
            wait_for(lambda: bool(server.query("mlnode_check_success")))
            yield made
    finally:
        exporter.stop()


def test_a_node_as_declared_has_no_alert(watch: Watch) -> None:
    watch.wait(WATCHDOG)
    for _ in range(8):
        watch.check()
        time.sleep(0.5)
    assert {*watch.server.alerts()} == {WATCHDOG}
    assert [one["value"][1] for one in watch.server.query("mlnode_check_success")] == ["1"]


def test_a_drift_by_hand_is_an_alert_with_area_setting_and_cause(watch: Watch) -> None:
    watch.node.put("/etc/sysctl.d/10-other.conf", "vm.swappiness = 60\n")
    watch.node.put(SWAPPINESS, "60\n")
    watch.check()
    [alert] = watch.wait("MlnodeDrift", checks=False)
    assert (alert["area"], alert["setting"]) == ("sysctl", "vm.swappiness")
    assert alert["cause"] == "/etc/sysctl.d/10-other.conf"
    watch.node.put(SWAPPINESS, "10\n")
    watch.wait("MlnodeDrift", fires=False)


def test_a_governor_that_changes_while_a_job_runs(watch: Watch) -> None:
    governor = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
    watch.node.put(governor, "performance\n")
    watch.node.put("/proc/900/comm", "python\n")
    watch.node.put("/proc/900/stat", f"900 (python) R {' '.join(['1'] * 18)} 500 1\n")
    watch.node.put("/proc/900/fd/.keep", "")
    watch.node.link("/proc/900/fd/5", "/dev/nvidia0")
    watch.check()
    watch.node.put(governor, "powersave\n")
    [alert] = watch.wait("MlnodeGovernorChanged")
    assert alert["governor"] == "powersave"
    os.unlink(f"{watch.node.root}/proc/900/fd/5")
    os.unlink(watch.node.root + places.WATCHED)
    watch.wait("MlnodeGovernorChanged", fires=False)


def test_a_watch_that_is_dead(watch: Watch) -> None:
    watch.check()
    os.unlink(f"{watch.node.root}{node_exporter.DEBIAN}/{node_exporter.WATCH_FILE}")

    def fires() -> bool:
        watch.node.forget()
        metrics.export(watch.node)
        return "MlnodeWatchStale" in watch.server.alerts()

    wait_for(fires)
    watch.wait("MlnodeWatchStale", fires=False)


def test_a_timer_or_a_check_that_is_dead(watch: Watch) -> None:
    watch.check()
    watch.wait("MlnodeCheckStale", checks=False)
    watch.wait("MlnodeCheckStale", fires=False)


@pytest.mark.parametrize("share", [0.97, 0.5])
def test_half_a_file(watch: Watch, share: float) -> None:
    watch.check()
    text = watch.node.text(FILE)
    watch.node.put(FILE, text[: int(len(text) * share)])
    watch.wait("MlnodeFileBroken", checks=False)
    watch.wait("MlnodeFileBroken", fires=False)


def test_half_a_file_at_the_end_of_a_line(watch: Watch) -> None:
    watch.check()
    lines = watch.node.text(FILE).splitlines(keepends=True)
    watch.node.put(FILE, "".join(lines[: len(lines) // 2 // 3 * 3]))
    watch.wait("MlnodeNotReporting", checks=False)
    watch.wait("MlnodeNotReporting", fires=False)


def test_a_file_that_is_none(watch: Watch) -> None:
    watch.node.put(FILE, "no metrics at all {\n")
    watch.wait("MlnodeFileBroken", checks=False)
    watch.wait("MlnodeFileBroken", fires=False)


def test_a_node_that_is_silent(watch: Watch) -> None:
    watch.check()
    watch.exporter.stop()
    watch.wait("MlnodeNotReporting", checks=False)
    watch.exporter.start()
    watch.wait("MlnodeNotReporting", fires=False)


def test_a_declaration_that_no_run_has_written(watch: Watch) -> None:
    path = declared.path_of("other")
    other = declared.Declaration("other", {"sysctl": {"settings": {"vm.dirty_ratio": "10"}}})
    watch.node.put(path, declared.render(other).decode())
    [alert] = watch.wait("MlnodeForeignDeclaration")
    assert alert["author"] == "other"
    os.unlink(watch.node.root + path)
    watch.wait("MlnodeForeignDeclaration", fires=False)


def test_a_part_of_a_node_that_cannot_be_checked(watch: Watch) -> None:
    path = declared.path_of("broken")
    watch.node.put(path, "{")
    watch.wait("MlnodeCheckFailed")
    os.unlink(watch.node.root + path)
    watch.wait("MlnodeCheckFailed", fires=False)


def test_a_node_whose_pull_is_refused(watch: Watch, tmp_path: pathlib.Path) -> None:
    def turn() -> None:
        watch.node.forget()
        pull.pull(watch.node)

    def fires() -> bool:
        turn()
        watch.check()
        return bool(watch.server.alerts().get("MlnodePullStale"))

    public = pull_site.key(tmp_path / "right")
    pull_site.key(tmp_path / "wrong")
    with pull_site.serving() as site:
        spec = {"url": site.url, "node": pull_site.NODE, "signers": [public]}
        document = pull_site.document(1, pull_site.declaration({**AREAS, "pull": spec}))
        path = f"/mlnode/{pull_site.NODE}.signed"
        declared_as(watch.node, {**AREAS, "pull": spec})
        site.files[path] = pull_site.signed(document, tmp_path / "right")
        turn()
        site.files[path] = pull_site.signed(document, tmp_path / "wrong")
        wait_for(fires)
        [alert] = watch.server.alerts()["MlnodePullStale"]
        assert alert["verdict"] == "refused"
        [panel] = [panel for panel in dashboard()["panels"] if panel["title"] == "Pulls"]
        [row] = watch.server.query(interpolated(panel["targets"][0]["expr"]))
        assert row["metric"]["verdict"] == "refused"
        assert {*row["metric"], "Value"} - {"__name__"} == columns(panel)
        site.files[path] = pull_site.signed(document, tmp_path / "right")
        wait_for(lambda: not fires())
    declared_as(watch.node, AREAS)


def dashboard() -> dict[str, Any]:
    path = OBSERVABILITY / "dashboards" / "mlnode.json"
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def columns(panel: dict[str, Any]) -> set[str]:
    [organized] = panel["transformations"]
    return {*organized["options"]["indexByName"]}


def interpolated(expression: str) -> str:
    """As Grafana sends it for all jobs, one hour, and a data source with the interval of these scrapes."""
    for variable, value in {"$job": ".+", "$__range": "1h", "$__interval": "1s"}.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression
    return expression


def test_each_query_of_the_dashboard(watch: Watch) -> None:
    """Each is one, and those that a node without RDMA and pulls has an answer to have one."""
    watch.node.put(SWAPPINESS, "60\n")
    watch.wait("MlnodeDrift")
    records = "job_area_setting_cause_status:mlnode_drift:count"
    wait_for(lambda: bool(watch.server.query(records)))
    empty = {"Pause frames", "Imbalance of rails", "Pulls"}
    for panel in dashboard()["panels"]:
        assert panel["description"]
        for target in panel["targets"]:
            answer = watch.server.query(interpolated(target["expr"]))
            assert answer or panel["title"] in empty, panel["title"]
            if answer and panel["type"] == "table":
                assert {*answer[0]["metric"], "Value"} - {"__name__"} == columns(panel), panel["title"]
    [row] = watch.server.query(records)
    assert row["metric"]["setting"] == "vm.swappiness"
    watch.node.put(SWAPPINESS, "10\n")
    watch.wait("MlnodeDrift", fires=False)
