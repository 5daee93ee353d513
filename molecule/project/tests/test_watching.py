# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From nothing to an alert, following the guide to watching, in the README's project."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import time

import pytest

GUIDE = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"], "docs/guide/watching.md")
ASK = "amtool alert"
KEY = "net.core.somaxconn"
CONFIG = "/etc/prometheus/prometheus.yml"
#: Seconds for a scrape and an evaluation, 15 each in the package, twice as both may just be over
PATIENCE = 60


def answers(walk, found: bool):
    """The lines about the value, once Alertmanager has some or has none any more."""
    command = walk.of(ASK).command
    end = time.monotonic() + PATIENCE
    while True:
        lines = [line for line in walk.run(command).output.splitlines() if KEY in line]
        if bool(lines) == found or time.monotonic() > end:
            return lines
        time.sleep(2)


@pytest.fixture(scope="session")
def walk(walked, project, installed, named):
    """In the project of the README, with the installed collection."""
    del installed
    named("watch.example")
    text = GUIDE.read_text(encoding="utf-8")
    section = text.partition("## From nothing to an alert\n")[2].partition("\n## ")[0]
    (group,) = re.findall(r"`hosts\.yml`.*?:\n\n```yaml\n(.*?)```", section, re.S)
    with (project / "hosts.yml").open("a", encoding="utf-8") as stream:
        stream.write(group)
    # A manual check is refused while the timer's check is under way, which takes long on a busy machine.
    return walked(section, PATIENCE)


def test_every_command_succeeds(walk):
    for done in walk.done:
        assert done.status == 0, f"{done.command}\n{done.output[-3000:]}"


def test_what_a_preview_names_is_done_once(walk):
    hosts = ("gpu001.example", "gpu002.example", "gpu003.example", "watch.example")
    preview, done = walk.of("monitoring --check"), walk.of("tuning.monitoring  ")
    again = walk.run("ansible-playbook mlnode.tuning.monitoring")

    reloads = {"watch.example": 1}  # which no preview does
    for host in hosts:
        changed = done.recap()[host]["changed"] - reloads.get(host, 0)
        assert preview.recap()[host]["changed"] == changed > 0, host
        assert again.recap()[host]["changed"] == 0, again.output


def test_a_value_changed_by_hand_is_an_alert_until_it_is_put_back(walk):
    (alert,) = answers(walk, found=True)
    assert alert.startswith("MlnodeDrift ")
    assert f"{KEY} is drifted on 1 node, cause: unknown" in alert

    back = walk.run("ansible-playbook mlnode.tuning.site --limit gpu002.example")
    assert back.status == 0, back.output
    # The next check of the timer would do, in 15 minutes.
    assert walk.tried(walk.of("mlnode metrics").command, PATIENCE).status == 0
    assert answers(walk, found=False) == []


def test_a_configuration_that_prometheus_refuses_is_not_put_in_place(walk):
    """The configuration has a key unknown to Prometheus, and lacks the lines that the role has added."""
    edit = "sed -i -e '/BEGIN mlnode/,/END mlnode/d' -e 's/^global:/unknown: 1\\n&/'"
    assert walk.run(f'ansible watch.example --become -a "{edit} {CONFIG}"').status == 0
    refused = walk.run("ansible-playbook mlnode.tuning.monitoring --limit watch.example")

    assert refused.status == 2, refused.output
    assert "field unknown not found" in refused.output
    command = ["podman", "exec", "watch.example", "cat", CONFIG]
    left = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "unknown: 1" in left
    assert "mlnode" not in left
