# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role monitoring where the controller has the collection prometheus.prometheus, of which stand-ins say
what they are given. With packages it is played in containers (molecule/project)."""

from __future__ import annotations

import os
import pathlib
import re
import sys

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit.stub_site import Site

#: Role of the collection → its variables that the role monitoring gives it
GIVEN = {
    "node_exporter": (),
    "alertmanager": ("alertmanager_config_file",),
    "prometheus": ("prometheus_alertmanager_config",),
}


def with_collection(site: Site) -> None:
    for role, variables in GIVEN.items():
        folder = site.folder / "collections/ansible_collections/prometheus/prometheus/roles" / role
        shown = " ".join(f"{{{{ {name} | to_json }}}}" for name in variables)
        task = {"name": f"Stand for {role}", "ansible.builtin.debug": {"msg": f"given: {shown}"}}
        for name, content in (("tasks/main.yml", [task]), ("meta/argument_specs.yml", {})):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(yaml.safe_dump(content), encoding="utf-8")


def test_the_roles_of_the_collection_are_used_where_it_is(tmp_path: pathlib.Path) -> None:
    site = Site(tmp_path)
    with_collection(site)
    site.inventory["monitoring"] = {"hosts": {}}
    site.host("one", {}, "training", "fabric", ansible_host="fd00::1")
    site.host("two", {}, "fabric", monitoring_target="10.0.0.2:19100")
    site.host("watch", {}, "monitoring")
    site.everywhere = {
        "drift_ignore": [{"key": "nic.*", "reason": "old firmware", "until": "2099-01-31"}],
        "monitoring_runbook_url": "https://wiki.example/mlnode",
        "monitoring_alertmanager": {"route": {"receiver": "x"}, "receivers": [{"name": "x"}]},
    }

    code, output = site.play("--check", "--diff", playbook="playbooks/monitoring.yml")

    assert code == 0, output
    stood = re.findall(r"TASK \[prometheus\.prometheus\.\w+ : Stand for (\w+)\]", output)
    assert stood == ["node_exporter", "alertmanager", "prometheus"]
    assert "roles/monitoring/templates/alertmanager.yml.j2" in output
    assert "localhost:9093" in output
    assert "+- job_name: mlnode" in output, "beside what the role of the collection writes"
    assert "prometheus.yml (content)" not in output, "which is that role's"
    for target, labels in (
        ("[fd00::1]:9100", '"instance": "one", "job": "training"'),
        ("10.0.0.2:19100", '"instance": "two", "job": "fabric"'),
    ):
        line = f'- {{"targets": ["{target}"], "labels": {{{labels}, "mlnode": "expected"}}}}'
        assert f"+{line}\n" in output
    addresses = re.findall(r"^\+ *runbook_url: (.*)$", output, re.MULTILINE)
    assert addresses
    assert all(re.fullmatch(r"https://wiki\.example/mlnode#mlnode[a-z]+", one) for one in addresses)
    for name in ("one", "two"):
        (asked,) = site.asked(name)
        assert asked["name"] == "monitoring"
        metrics = asked["areas"]["metrics"]
        assert (metrics["textfile_directory"], metrics["ignore"]) == ("auto", site.everywhere["drift_ignore"])
    assert site.asked("watch") == []


#: Python without the module apt, which is in python3-apt
_WITHOUT_APT = """\
#!/bin/sh
export HIDDEN=/usr/lib/python3/dist-packages
exec unshare --mount sh -c 'mount -t tmpfs none $HIDDEN && exec "$0" "$@"' "{python}" "$@"
"""


@pytest.mark.skipif(
    os.getuid() != 0 or not pathlib.Path("/usr/bin/apt-get").exists(), reason="needs root, and Debian's apt"
)
def test_a_preview_needs_no_python3_apt(tmp_path: pathlib.Path) -> None:
    """A run installs it first; a preview may not, and says that the packages would be installed."""
    site = Site(tmp_path)
    site.inventory["monitoring"] = {"hosts": {}}
    python = tmp_path / "python3"
    python.write_text(_WITHOUT_APT.format(python=sys.executable), encoding="utf-8")
    python.chmod(0o755)
    site.host("one", {}, "training", ansible_python_interpreter=str(python))
    site.host("watch", {}, "monitoring", ansible_python_interpreter=str(python))

    code, output = site.play("--check", playbook="playbooks/monitoring.yml")

    assert code == 0, output
    for task, host in (("Install node_exporter", "one"), ("Install Prometheus and Alertmanager", "watch")):
        told = output.partition(f": {task}]")[2].partition("TASK [")[0]
        assert f"changed: [{host}]" in told, told
    assert len(site.asked("one")) == 1, "the rest is previewed"
