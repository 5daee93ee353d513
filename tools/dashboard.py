# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboard of observability/, made with the types that Grafana publishes. `make dashboard` writes it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import StackingMode
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    GridPos,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

PATH = pathlib.Path(__file__).resolve().parents[1] / "observability" / "dashboards" / "mlnode.json"

#: The variables of the dashboard: a server of Prometheus, and jobs of it
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
OF_JOB = 'job=~"$job"'

Panel = stat.Panel | table.Panel | timeseries.Panel
One = TypeVar("One", stat.Panel, table.Panel, timeseries.Panel)
#: Column, line, width and height, in a grid of 24 columns
Place = tuple[int, int, int, int]

#: Column → its width in pixels, for short values: the others share the rest
NARROW = {"job": 110, "area": 90, "status": 130, "author": 80, "nodes": 70}
#: Legend of the limit of an alert
LIMIT = "limit"


def _query(expression: str, name: str = "A", legend: str = "") -> prometheus.Dataquery:
    made = prometheus.Dataquery().ref_id(name).datasource(SOURCE)
    return made.expr(expression).legend_format(legend)


def _placed(panel: One, title: str, about: str, place: Place) -> One:
    x, y, width, height = place
    where = GridPos(x=x, y=y, w=width, h=height)
    return panel.title(title).description(about).datasource(SOURCE).grid_pos(where)


def single(
    title: str, about: str, place: Place, expression: str, color: str = "", unit: str = "short"
) -> stat.Panel:
    """One number of the present time. color: from 1 on; green below. Without it, no number is better than
    another."""
    panel = stat.Panel().unit(unit).with_target(_query(expression).instant())
    steps = [Threshold(color="green")]
    if color:
        steps.append(Threshold(value=1, color=color))
    panel.thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
    return _placed(panel, title, about, place)


def rows(title: str, about: str, place: Place, expression: str, labels: Sequence[str]) -> table.Panel:
    """A table of now, with a column for each of these labels, and the value as the number of nodes."""
    columns = [*labels, "Value"]
    shown = {
        "excludeByName": {"Time": True, "__name__": True},
        "indexByName": {name: number for number, name in enumerate(columns)},
        "renameByName": {"Value": "nodes"},
    }
    panel = table.Panel().with_target(_query(expression).instant().format(PromQueryFormat.TABLE))
    panel.with_transformation(DataTransformerConfig(id_val="organize", options=shown))
    for name in (*labels, "nodes"):
        if name in NARROW:
            panel.override_by_name(name, [DynamicConfigValue("custom.width", NARROW[name])])
    return _placed(panel, title, about, place)


def most(series: str) -> str:
    """The five with the highest value in the selected time: the same at each point of a line.

    In the steps that Grafana draws: each sample of 10,000 nodes in a day would exceed the 50 million that
    Prometheus loads for a query (query.max-samples). Steps longer than the scrape interval, each at a
    multiple of its length, would miss a server that started a minute ago.
    """
    return f"{series} and topk(5, max_over_time({series}[$__range:$__interval] @ end()))"


def lines(
    title: str,
    about: str,
    place: Place,
    queries: Mapping[str, str],
    unit: str = "short",
    stacked: bool = False,
) -> timeseries.Panel:
    """Lines over time. queries: legend → expression."""
    panel = timeseries.Panel().unit(unit)
    if unit == "short":
        panel.decimals(0)
    if LIMIT in queries:
        panel.override_by_name(
            LIMIT,
            [
                DynamicConfigValue("color", {"mode": "fixed", "fixedColor": "red"}),
                DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [10, 10]}),
            ],
        )
    for name, (legend, expression) in zip("AB", queries.items()):
        panel.with_target(_query(expression, name, legend).range())
    if stacked:
        panel.fill_opacity(30).stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    return _placed(panel, title, about, place)


def panels() -> Sequence[Panel]:
    """The present state of the fleet, differences and their age, and hardware."""
    return (
        single("Nodes", "Nodes that report.", (0, 0, 4, 4), f"sum(job:mlnode_nodes:count{{{OF_JOB}}})"),
        single(
            "Not as declared",
            "Nodes with at least one drifted setting.",
            (4, 0, 4, 4),
            f"sum(job:mlnode_nodes_drifted:count{{{OF_JOB}}})",
            "orange",
        ),
        single(
            "Silent",
            "Nodes that should report, and do not.",
            (8, 0, 4, 4),
            f"count(instance:mlnode_silent:group{{{OF_JOB}}}) or vector(0)",
            "red",
        ),
        single(
            "Checks that fail",
            "Nodes whose check does not see all that is declared.",
            (12, 0, 4, 4),
            f"count(mlnode_check_success{{{OF_JOB}}} == 0) or vector(0)",
            "red",
        ),
        single(
            "Wait for a reboot",
            "Nodes with a declared value that only a boot brings.",
            (16, 0, 4, 4),
            f"count(mlnode_reboot_required{{{OF_JOB}}} == 1) or vector(0)",
        ),
        single(
            "Oldest check",
            "Age of the last check of the node that was checked longest ago.",
            (20, 0, 4, 4),
            f"max(time() - mlnode_check_timestamp_seconds{{{OF_JOB}}})",
            unit="s",
        ),
        rows(
            "Drift by cause",
            "One row for one cause, and on how many nodes it is.",
            (0, 4, 24, 10),
            f"sort_desc(job_area_setting_cause_status:mlnode_drift:count{{{OF_JOB}}})",
            ("setting", "cause", "status", "area", "job"),
        ),
        rows(
            "Declarations",
            "Digests of the declarations: nodes of one group have the same.",
            (0, 14, 10, 6),
            f"sort_desc(count by (job, digest, author) (mlnode_declaration_info{{{OF_JOB}}}))",
            ("job", "digest", "author"),
        ),
        rows(
            "Versions",
            "Versions of the agent.",
            (10, 14, 7, 6),
            f"sort_desc(count by (job, version) (mlnode_build_info{{{OF_JOB}}}))",
            ("job", "version"),
        ),
        rows(
            "Pulls",
            "Result of the last pull on nodes that fetch their declaration from a web server.",
            (17, 14, 7, 6),
            f"sort_desc(count by (job, verdict) (mlnode_pull_success_timestamp_seconds{{{OF_JOB}}}))",
            ("job", "verdict"),
        ),
        lines(
            "Drifted settings",
            "By area.",
            (0, 20, 12, 8),
            {"{{area}}": f'sum by (area) (job_area_state:mlnode_settings:sum{{{OF_JOB},state="drifted"}})'},
            stacked=True,
        ),
        lines(
            "Corrections per day",
            "Settings that runs have put back.",
            (12, 20, 12, 8),
            {"{{job}}": f"sum by (job) (increase(mlnode_corrections_total{{{OF_JOB}}}[1d]))"},
        ),
        lines(
            "Pause frames",
            "The five NICs with the most.",
            (0, 28, 8, 8),
            {
                "{{instance}} {{device}}": most(f"mlnode_nic_pause_frames_per_second{{{OF_JOB}}}"),
                LIMIT: "mlnode:config_pause_frames:rate",
            },
        ),
        lines(
            "Imbalance of rails",
            "The five nodes whose rails of one class differ most in bytes sent, as a share of the busiest.",
            (8, 28, 8, 8),
            {
                "{{instance}}": most(f"instance:mlnode_port_imbalance:ratio{{{OF_JOB}}}"),
                LIMIT: "mlnode:config_port_imbalance:ratio",
            },
            unit="percentunit",
        ),
        lines(
            "Duration of a check",
            "The five slowest nodes.",
            (16, 28, 8, 8),
            {"{{instance}}": most(f"mlnode_check_duration_seconds{{{OF_JOB}}}")},
            unit="s",
        ),
    )


def made() -> Dashboard:
    """Dashboard of all jobs, for a day, as long as a planned reboot may wait."""
    source = dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    everything = VariableOption(text="All", value="$__all")
    job = dashboard.QueryVariable("job").label("Job").datasource(SOURCE)
    job.query({"query": "label_values(mlnode_build_info, job)", "refId": "job"})
    job.multi(True).include_all(True).all_value(".+").current(everything)
    job.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    whole = dashboard.Dashboard("mlnode: nodes as declared").uid("mlnode").tags(["mlnode"]).version(1)
    whole.editable().refresh("1m").timezone("browser").time("now-24h", "now")
    whole.with_variable(source).with_variable(job)
    for number, panel in enumerate(panels(), 1):
        whole.with_panel(panel.id(number))
    return whole.build()


def text() -> str:
    """The file."""
    return json.dumps(made(), cls=JSONEncoder, indent=2) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
