# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus, Alertmanager and node_exporter of the distribution on the loopback interface, fast: a scrape
and an evaluation each second."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
OBSERVABILITY = ROOT / "observability"
RULES = OBSERVABILITY / "rules"

#: Fires always
WATCHDOG = "MlnodeWatchdog"

#: For one answer or one state of an alert, in seconds: a machine that is busy takes some
PATIENCE = 40.0


def _port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def fast(period: float) -> dict[str, Any]:
    """The rules as they are, but for times: a check is due after so many seconds, and no alert waits for
    longer than one. File → its content."""
    files = {}
    for path in sorted(RULES.glob("*.yml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        for group in document["groups"]:
            group["interval"] = "1s"
            for rule in group["rules"]:
                if "for" in rule:
                    rule["for"] = "1s"
                if rule.get("record") == "mlnode:config_period:seconds":
                    rule["expr"] = f"vector({period})"
                if rule.get("record") == "instance:mlnode_pull_stale:group":
                    rule["expr"] = rule["expr"].replace("offset 35m", f"offset {2.5 * period:.0f}s")
        files[path.name] = document
    return files


def promtool(programs: str, *words: str, given: str = "") -> str:
    done = subprocess.run(
        [f"{programs}/promtool", *words], input=given, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def series_of(text: str) -> list[str]:
    return [line for line in text.split("\n") if line and not line.startswith("#")]


class Exporter:
    """node_exporter of one node, which reads what lies in a folder. more: options."""

    def __init__(self, programs: str, folder: str, *more: str) -> None:
        self.port = _port()
        self.command = [
            f"{programs}/prometheus-node-exporter",
            "--collector.disable-defaults",
            "--collector.textfile",
            "--collector.sockstat",
            f"--collector.textfile.directory={folder}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            *more,
        ]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = _started(self.command)
        wait_for(lambda: "node_textfile_scrape_error" in self.metrics())

    def stop(self) -> None:
        if self.process is not None:
            _ended(self.process)
            self.process = None

    def metrics(self) -> str:
        return _get(f"http://127.0.0.1:{self.port}/metrics")


class Server:
    """Prometheus with an Alertmanager."""

    def __init__(self, programs: str, folder: pathlib.Path, exporters: Mapping[str, Exporter], period: float):
        self.port, self.alerts_port = _port(), _port()
        self._folder, self._programs = folder, programs
        static = [
            {"targets": [f"127.0.0.1:{exporter.port}"], "labels": {"instance": name}}
            for name, exporter in exporters.items()
        ]
        for name, document in fast(period).items():
            (folder / name).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        alertmanager = {"static_configs": [{"targets": [f"127.0.0.1:{self.alerts_port}"]}]}
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(folder / path.name) for path in sorted(RULES.glob("*.yml"))],
            "alerting": {"alertmanagers": [alertmanager]},
            "scrape_configs": [{"job_name": "node", "static_configs": static}],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        route = {"receiver": "none", "group_wait": "0s", "group_interval": "1s", "group_by": ["..."]}
        manager = {"route": route, "receivers": [{"name": "none"}]}
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(manager), encoding="utf-8")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        commands = [
            [
                # Debian's reads its template from there, and is not installed.
                *("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /usr/share && exec "$@"'),
                f"{os.path.dirname(self._programs)}/share",
                f"{self._programs}/prometheus-alertmanager",
                f"--config.file={self._folder}/alertmanager.yml",
                f"--storage.path={self._folder}/alertmanager",
                f"--web.listen-address=127.0.0.1:{self.alerts_port}",
                "--cluster.listen-address=",
            ],
            [
                f"{self._programs}/prometheus",
                f"--config.file={self._folder}/prometheus.yml",
                f"--storage.tsdb.path={self._folder}/data",
                # An alert that fires from the start may be sent before Alertmanager is found.
                "--rules.alert.resend-delay=1s",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
        ]
        processes = [_started(command) for command in commands]
        try:
            wait_for(lambda: "Ready" in _get(f"http://127.0.0.1:{self.port}/-/ready"))
            wait_for(lambda: _get(f"http://127.0.0.1:{self.alerts_port}/-/ready") == "OK")
            yield
        finally:
            for process in processes:
                _ended(process)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Raises urllib.error.HTTPError for an expression that is none."""
        text = urllib.parse.urlencode({"query": expression})
        answer = json.loads(_get(f"http://127.0.0.1:{self.port}/api/v1/query?{text}", quiet=False))
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def alerts(self) -> dict[str, list[dict[str, str]]]:
        """Name → labels of the alerts that Alertmanager has."""
        found: dict[str, list[dict[str, str]]] = {}
        for one in json.loads(_get(f"http://127.0.0.1:{self.alerts_port}/api/v2/alerts") or "[]"):
            found.setdefault(one["labels"]["alertname"], []).append(one["labels"])
        return found


def wait_for(right: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Until it is, or AssertionError."""
    end = time.monotonic() + seconds
    while not right():
        assert time.monotonic() < end, f"not within {seconds:.0f} s"
        time.sleep(0.2)


def _get(url: str, quiet: bool = True) -> str:
    """quiet: an empty text where nothing answers yet."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return str(answer.read().decode("utf-8"))
    except OSError:
        if quiet:
            return ""
        raise


def _started(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ},
    )


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(30)
