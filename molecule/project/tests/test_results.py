# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A first campaign as its page has it, in the project that the README has made, and its result."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
SCRIPT = "collections/ansible_collections/mlnode/tuning/scripts/mlnode-results"
NODES = ["gpu001.example", "gpu002.example", "gpu003.example"]
PAIR = NODES[:2]
#: Files of this collection on a node, and their content
KEPT = "cd /etc; find . /usr/local/bin -path '*mlnode*' | sort; cat */*mlnode*.conf mlnode/declared.d/* 2>&1"
LEASE = "/var/lib/mlnode/lease.json"
#: A measurement that is killed, and for which a node waits no longer than necessary
JOB = {
    "effect_kinds": ["command"],
    "effect_command": "sleep 8",
    "effect_timeout": 9,
    "effect_warmups": 0,
    "effect_settle": 0,
    "effect_lease": 60,
    "campaign_allow": ["busy"],
}
#: A link that a busy machine fills evenly, too
LINK = "rate 100mbit burst 32k latency 50ms"


@pytest.fixture(scope="session")
def walk(walked, project, installed, addresses):
    """In the project of the README, with the installed collection."""
    del installed
    text = (ROOT / "docs/checks/campaign.md").read_text(encoding="utf-8")
    section = text.partition("## A first campaign\n")[2].partition("\n## ")[0]
    (variables,) = re.findall(r"`host_vars/gpu001\.example\.yml`.*?:\n\n```yaml\n(.*?)```", section, re.S)
    (project / "host_vars").mkdir()
    for name in NODES:
        # Other tests may run at the same time: a node that is asked after the first round has begun is not
        # measured.
        own = variables.replace("10.0.0.1", addresses[name]) + "campaign_lead: 60\n"
        (project / f"host_vars/{name}.yml").write_text(own, encoding="utf-8")
        shape = ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *LINK.split()]
        subprocess.run(["podman", "exec", name, *shape], check=True)
    return walked(section)


def test_every_node_is_looked_at_and_reached(walk):
    assert walk.of("name=iperf3").status == 0
    look = walk.of("preflight")
    assert not re.search(r"(fail|unknown) +path_mtu", look.output), look.output
    # A container may not read all processes, which is `unknown`.
    assert look.status == (2 if re.search(r"^\s*unknown: \d", look.output, re.MULTILINE) else 0), look.output
    assert not re.search(r"^\s*fail: \d", look.output, re.MULTILINE), look.output


def test_a_pair_is_measured_and_not_proven(walk):
    campaign = walk.of("tuning.campaign")

    assert campaign.status == 2
    assert "coverage: 1 of 1 planned pairs measured, of 1 that there are" in campaign.output, campaign.output
    assert "unknown: 2 nodes: 2 unknown" in campaign.output


def test_the_result_is_of_its_schema_and_is_read_back(walk):
    (path,) = (walk.folder / "campaigns").glob("*.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    schema = (ROOT / "docs/schema/campaign.schema.json").read_text(encoding="utf-8")
    jsonschema.validate(content, json.loads(schema))
    (pair,) = content["pairs"]
    # About the rate of the shaped link, on a machine that may be busy. Without the shape it is above 1 Gb/s.
    assert 0.05 < pair["gbits"] < 0.2
    assert [node["name"] for node in content["nodes"]] == PAIR

    compared = walk.run(f"{SCRIPT} compare --json {path} {path}")

    # One pair has no known noise, so no result can be `same`.
    assert compared.status == 3, compared.output
    found = json.loads(compared.output)
    assert [node["name"] for node in found["nodes"]] == PAIR


def test_an_effect_is_measured_over_apply_and_revert(walk):
    """The nodes are in the same state before the first run and after the revert."""
    # Files alone, as the nodes have the values of one kernel: so they are applied and asked at the same time.
    short = """-e effect_blocks=1 -e effect_settle=0 -e campaign_duration=2 -e campaign_lead=20
        -e '{"node_layers": ["boot"]}'"""
    done = walk.run(f"ansible-playbook mlnode.tuning.effect {' '.join(short.split())}")

    # One block of the three that an interval needs; each takes minutes
    assert done.status == 2, done.output
    said = " ".join(done.output.split())
    assert "got 1 block; 2 more would give one" in said, done.output
    (path,) = (walk.folder / "campaigns").glob("effect-*.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    schema = (ROOT / "docs/schema/effect.schema.json").read_text(encoding="utf-8")
    jsonschema.validate(content, json.loads(schema))
    (result,) = content["results"]
    assert result["lost"] == {"A": 0, "B": 0}
    assert all(value > 0 for pair in result["pairs"] for value in pair["values"])
    assert "All nodes are put back to their state before the run." in said, done.output


def test_a_node_restores_itself_after_its_controller_was_killed(walk):
    """Killed in the second phase, and so in the other state than the node was found in."""
    before = walk.run(KEPT, "gpu001#").output
    job = {**JOB, "node_layers": ["boot"]}
    play = f"ansible-playbook mlnode.tuning.effect --limit gpu001.example -e '{json.dumps(job)}'"
    wait = "until grep -q 'phase 2 of' killed.log || ! kill -0 $!; do sleep 0.2; done; sleep 2"
    walk.run(f"{play} > killed.log 2>&1 & {wait}; kill -KILL $!")

    there = walk.run(KEPT, "gpu001#").output
    refused = walk.run("mlnode revert || python3 -IS /var/lib/mlnode/lease-agent revert", "gpu001#")
    ended = walk.run(f"for _ in $(seq 180); do test -e {LEASE} || exit 0; sleep 1; done; exit 1", "gpu001#")

    said = (walk.folder / "killed.log").read_text(encoding="utf-8")
    assert there != before, said
    assert "effect.yml alternates the state of this node" in refused.output
    assert ended.status == 0, said
    assert walk.run(KEPT, "gpu001#").output == before
    again = walk.run(f"{play} -e effect_put_back=true")
    assert again.status == 0, again.output
    assert "its controller did not go on within 60 s: the old values are back" in again.output


def test_nothing_is_left_on_a_node(walk, host):
    del walk
    assert host.run("ls /run/mlnode/campaign* 2>/dev/null").stdout == ""
    assert host.run("pgrep -x iperf3").stdout == ""
