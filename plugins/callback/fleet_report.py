# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""End a playbook with one table of all hosts, and write it as JSON, JUnit XML and an HTML page."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_report
type: aggregate
short_description: One table of all hosts at the end of a playbook, and the same as files
version_added: 0.1.0
description:
  - Collects the settings and checks that modules of this collection return, for every host and with any
    strategy, and lists at the end the hosts and settings that are not as expected.
  - Lists hosts that were unreachable, failed, or were not checked as planned. None of them counts as a
    success.
  - A playbook without these modules gets no report.
  - Results of campaigns that M(mlnode.tuning.measure) writes, as in C(campaign.yml), are added. Each
    rail of a node is a check, and the page has a map of the pairs. Results of C(effect.yml) are added
    with a chart of each interval. No other task can name a file to read.
  - Results of M(mlnode.tuning.node_job), as in C(jobs.yml), are joined over all hosts. The report has a part
    with all jobs, and ranks that differ from the others are findings of their hosts.
  - Results hidden by C(no_log) are unknown. The host counts as failed.
author:
  - mlnode.tuning contributors (!UNKNOWN)
requirements:
  - enable in configuration, with C(callbacks_enabled = mlnode.tuning.fleet_report) or
    E(ANSIBLE_CALLBACKS_ENABLED)
options:
  table:
    description: Whether the table is shown.
    type: bool
    default: true
    ini:
      - {section: callback_fleet_report, key: table}
    env:
      - name: MLNODE_REPORT_TABLE
    vars:
      - name: mlnode_report_table
  json:
    description:
      - File for the report as JSON. Its folder is created if missing. Not written if empty.
      - Variables of this plugin are extra variables (C(-e)), as it belongs to no host.
    type: path
    ini:
      - {section: callback_fleet_report, key: json}
    env:
      - name: MLNODE_REPORT_JSON
    vars:
      - name: mlnode_report_json
  junit:
    description:
      - As O(json), in the XML of JUnit. Each host is a test suite, and each setting or check a test case.
    type: path
    ini:
      - {section: callback_fleet_report, key: junit}
    env:
      - name: MLNODE_REPORT_JUNIT
    vars:
      - name: mlnode_report_junit
  html:
    description: As O(json), as a page of differences by cause. It is one file that needs no network.
    type: path
    ini:
      - {section: callback_fleet_report, key: html}
    env:
      - name: MLNODE_REPORT_HTML
    vars:
      - name: mlnode_report_html
seealso:
  - module: mlnode.tuning.node_drift
"""

EXAMPLES = r"""
ansible.cfg: |
  [defaults]
  callbacks_enabled = mlnode.tuning.fleet_report

  [callback_fleet_report]
  html = reports/fleet.html
"""

import datetime as dt
import importlib
import os
import pathlib
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.errors import MlnodeError
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_answer, fleet_report
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import files
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.model import OF_SUBNET, Fleet

#: Tasks of a playbook that fail because of earlier reports. Such tasks of a role have other reasons.
_VERDICTS = ("ansible.builtin.assert", "ansible.builtin.fail", "assert", "fail")

#: Modules of this collection that report neither settings nor checks
_SILENT = ("agent", "node_topology")

#: The action that writes results. It runs on the controller; what else a result says may be a node's answer.
_MEASURE = "mlnode.tuning.measure"
#: What reads them
_READERS = "ansible_collections.mlnode.tuning.plugins.plugin_utils.results"

#: Module whose answers are joined over all hosts, and the file that joins them
_JOBS = "node_job"
_JOINED = "ansible_collections.mlnode.tuning.plugins.plugin_utils.jobs.in_fleet"

#: Variable that inventory_check.yml shows: hosts in no group of nodes
_LEFT_ALONE = "mlnode_left_alone"

#: Option → the module with its lines(), imported only for this option
_FILES = {"json": "document", "junit": "junit", "html": "page"}


class CallbackModule(CallbackBase):
    """The name ansible-core looks for."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "mlnode.tuning.fleet_report"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._fleet = Fleet(started=_now())
        #: Hosts of the running play, and whether a module reported something about one
        self._targets: list[Any] = []
        self._reported = False
        #: Host → its answer about jobs, which say more together than each alone
        self._jobs: dict[str, Any] = {}
        #: Whether any task was one of this collection's modules
        self._ours = False

    # -- what comes in ---------------------------------------------------------------------------------

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._fleet.playbook = os.path.basename(str(getattr(playbook, "_file_name", "") or "")) or "playbook"

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._close_play()
        manager = play.get_variable_manager()
        self._targets = []
        if manager is None:
            return
        # Options may come from extra variables, which a callback does not get before a play begins.
        self.set_options(var_options=dict(manager.extra_vars))
        inventory = getattr(manager, "_inventory", None)
        if inventory is not None:
            # With `serial`, the inventory knows of the running batch only; the others count, too.
            self._targets = list(inventory.get_hosts(play.hosts, ignore_restrictions=True))
        self._fleet.check_mode = self._fleet.check_mode or bool(play.check_mode)

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self._ours = self._ours or _is_ours(task)

    def v2_runner_on_ok(self, result: Any) -> None:
        self._take(result)
        self._take_measured(result)
        left = _answer(result).get(_LEFT_ALONE) if _action(result) == "ansible.builtin.debug" else None
        if isinstance(left, Mapping):
            self._fleet.left_alone.update((str(host), str(groups)) for host, groups in left.items())

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        answer = _answer(result)
        host = self._take(result, troubled=not ignore_errors)
        if ignore_errors:
            return
        # Reports of modules, and assertions about them, are in the findings and errors already.
        reported = any(answer.get(name) for name in ("settings", "areas", "checks", "errors"))
        verdict = _action(result) in _VERDICTS and getattr(result.task, "_role", None) is None
        of_all = self._take_measured(result) or (verdict and result.task.run_once)
        if of_all and self._is_of_others(host):
            return
        if (host.bad or host.errors) and (reported or verdict):
            return
        failure = f"{result.task.get_name()}: {_message(answer)}"
        if failure not in host.failures:
            host.failures.append(failure)

    def _take_measured(self, result: Any) -> bool:
        """Add the result of a measurement of all nodes, if it is one."""
        answer = _answer(result)
        is_measured = _action(result) == _MEASURE and "file" in answer
        if is_measured:
            self._add(pathlib.Path(answer["folder"]) / answer["file"])
        return is_measured

    def v2_runner_on_skipped(self, result: Any) -> None:
        """A node of a rollout that is done already: the action itself has skipped it, and not a condition."""
        answer = _answer(result)
        if not _is_ours(result.task) or "false_condition" in answer or not answer.get("skip_reason"):
            return
        known = result.host
        host = self._fleet.host(known.get_name(), _groups(known))
        host.skipped = agent_answer.text(answer["skip_reason"]) or ""
        self._reported = True

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._take(result, troubled=True).unreachable = _message(_answer(result))

    def _is_of_others(self, host: Any) -> bool:
        """True if a verdict on the fleet has its reason in another host, reported or silent."""
        others = [other for other in self._fleet.hosts.values() if other is not host]
        missing = any(target.get_name() not in self._fleet.hosts for target in self._targets)
        return missing or any(
            other.bad or other.errors or other.failures or other.unreachable for other in others
        )

    def _take(self, result: Any, troubled: bool = False) -> Any:
        """The host with its reports. A host without any report only counts if it has failed: it may have
        another purpose, like localhost."""
        known = result.host
        module = _action(result).rpartition(".")[2]
        fresh = known.get_name() not in self._fleet.hosts
        host = self._fleet.host(known.get_name(), _groups(known))
        findings = self._fleet.take(host, _answer(result), module)
        if module == _JOBS and "results" not in _answer(result):  # of a loop
            self._jobs[known.get_name()] = _answer(result)
            self._reported = True
        if _is_ours(result.task):
            self._note("unsupported", self._fleet.causes, result)
            self._note("unsupported_overrides", self._fleet.unsupported, result)
        if "censored" in _answer(result) and _is_ours(result.task) and module not in _SILENT:
            # Without an entry, the report of an earlier run would stay, and be mistaken for this one.
            host.errors.append(f"{result.task.get_name()}: no_log hides what {module} has reported")
        if findings or host.errors:
            self._reported = self._reported or module != OF_SUBNET
        elif fresh and not troubled:
            del self._fleet.hosts[known.get_name()]
        return host

    @staticmethod
    def _note(field: str, lines_of: dict[str, list[str]], result: Any) -> None:
        """Lines of a result, each with the hosts that have it."""
        name = result.host.get_name()
        for line in _answer(result).get(field) or ():
            names = lines_of.setdefault(str(line), [])
            names += [] if name in names else [name]

    def _add(self, path: pathlib.Path) -> None:
        """The result of a campaign, as checks of its rails and a table of its pairs; or of an effect."""
        fleet, result, effects = (
            importlib.import_module(f"{_READERS}.{name}") for name in ("fleet", "result", "effects")
        )
        try:
            fields = result.written(path)
            is_effect = "effect" in fields
            if not is_effect and "campaign" not in fields:
                return
            run = effects.read(fields, path) if is_effect else result.read(fields, str(path))
        except MlnodeError as error:
            self._display.warning(f"fleet_report: {error}")
            return
        for host in self._targets:
            if host.get_name() in run.nodes:
                self._fleet.host(host.get_name(), _groups(host))
        if is_effect:
            self._fleet.effects.append(run)
        else:
            fleet.add(self._fleet, run)
        self._reported = True

    def _close_play(self) -> None:
        """Add the hosts of the play that were not checked, to count them."""
        if self._reported:
            for host in self._targets:
                self._fleet.host(host.get_name(), _groups(host))
        self._reported = False

    # -- output ----------------------------------------------------------------------------------------

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._close_play()
        fleet = self._fleet
        if self._jobs:
            importlib.import_module(_JOINED).add(fleet, self._jobs)
        fleet.ended = _now()
        for host in fleet.hosts.values():
            summary = stats.summarize(host.name)
            # A block's rescue makes good for what failed in it, and ignore_unreachable for that.
            if not summary["failures"]:
                host.failures.clear()
            if not summary["unreachable"]:
                host.unreachable = ""
        reported = any(host.findings or host.errors or host.skipped for host in fleet.hosts.values())
        reported = reported or bool(fleet.effects)
        troubled = any(host.unreachable or host.failures for host in fleet.hosts.values())
        if not reported and not (self._ours and troubled):
            return
        if self.get_option("table"):
            self._display.banner("FLEET REPORT")
            for line in _form("table").lines(fleet, _width()):
                self._display.display(line)
        for option, form in _FILES.items():
            path = self.get_option(option)
            if path:
                self._write(pathlib.Path(os.path.expanduser(path)), _form(form).lines(fleet))

    def _write(self, path: pathlib.Path, pieces: Iterable[str]) -> None:
        try:
            files.write(path, pieces)
        except OSError as error:
            self._display.warning(f"fleet_report: cannot write {path}: {error.strerror}")
        else:
            self._display.display(f"{path} is written")


def _form(name: str) -> Any:
    return importlib.import_module(f"{fleet_report.__name__}.{name}")


def _answer(result: Any) -> Mapping[str, Any]:
    answer: Mapping[str, Any] = result.result
    return answer


def _action(result: Any) -> str:
    return str(result.task.resolved_action or result.task.action)


def _is_ours(task: Any) -> bool:
    return str(task.action).startswith("mlnode.tuning.")


def _groups(host: Any) -> list[str]:
    """Without those that Ansible makes by itself, as they say nothing."""
    return sorted(group.name for group in host.get_groups() if group.name not in ("all", "ungrouped"))


def _message(answer: Mapping[str, Any]) -> str:
    """One line: the playbook's output has the rest of a long answer. A loop has its first failure's line."""
    loop = answer.get("results")
    for item in loop if isinstance(loop, list) else []:
        if isinstance(item, Mapping) and item.get("failed"):
            answer = item
            break
    message = answer.get("msg") or answer.get("stderr") or answer.get("reason")
    message = message or answer.get("censored") or "no reason was given"
    lines = message if isinstance(message, list) else (agent_answer.text(message) or "").splitlines()
    return " ".join((agent_answer.text(line) or "").strip() for line in lines[:8])


def _now() -> str:
    return dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
