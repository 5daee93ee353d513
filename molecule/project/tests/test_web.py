# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that pull, as their guide has it, after the tests of the README and of watching: systemd starts the
service and its timer, and nginx of the distribution has the files."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import subprocess
import time

import pytest

GUIDE = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"], "docs/guide/pull.md")
NODES = ("gpu001.example", "gpu002.example", "gpu003.example")
WEB = "config.example"
START = ("systemctl", "start", "mlnode-pull")
#: Seconds for a timer that is due at once, on a busy machine
PATIENCE = 30
SECONDS = itertools.count(1)


def inside(host: str, *command: str, given: bytes = b"", check: bool = True) -> str:
    """Standard output of a command in a container."""
    done = subprocess.run(
        ["podman", "exec", "--interactive", host, *command], input=given, capture_output=True, check=check
    )
    return done.stdout.decode()


def report(node: str) -> dict[str, object]:
    return json.loads(inside(node, "cat", "/run/mlnode/pull/report.json"))


def served(node: str) -> bytes:
    return inside(WEB, "cat", f"/var/www/html/mlnode/{node}.signed").encode()


def serve(node: str, content: bytes) -> None:
    """Publish with a distinct time, because nginx derives the ETag from size and second."""
    path = f"/var/www/html/mlnode/{node}.signed"
    inside(WEB, "sh", "-c", f"cat > {path} && touch --date=@{next(SECONDS)} {path}", given=content)


@pytest.fixture(scope="session")
def walk(walked, project, installed, named):
    del installed
    for node in NODES:
        named(node)
    (project / ".ssh").mkdir(mode=0o700)
    section = GUIDE.read_text(encoding="utf-8").partition("## Set up\n")[2].partition("\n## ")[0]
    group, variables = re.findall(r"^```yaml\n(.*?)```", section, re.M | re.S)
    for name, text in (("hosts.yml", group), ("group_vars/all.yml", variables)):
        with (project / name).open("a", encoding="utf-8") as stream:
            stream.write(text)
    return walked(section)


def test_every_command_succeeds(walk):
    for done in walk.done:
        assert done.status == 0, f"{done.command}\n{done.output[-3000:]}"


def test_what_is_published_first_is_in_force_and_the_change_is_applied(walk):
    first, then = (done.output for done in walk.done if "journalctl" in done.command)
    for node in NODES:
        assert re.search(rf"^{node} .*\napplied, serial \d+$", first, re.M), first
        assert re.search(rf"^{node} .*\napplied, serial \d+; changed: node nccl$", then, re.M), then
        assert "NCCL_DEBUG=WARN" in inside(node, "cat", "/etc/nccl.conf")


def test_no_node_is_reached_by_a_publication_and_a_second_one_changes_nothing(walk):
    again = walk.run("ansible-playbook mlnode.tuning.publish -e publish_key=~/.ssh/mlnode -e ansible_port=1")
    assert again.status == 0, again.output
    assert {node: row["changed"] for node, row in again.recap().items()} == dict.fromkeys(NODES, 0)


def test_the_timer_starts_it_and_nothing_new_is_a_304(walk):
    """The timer as it is, but for when it is due."""
    del walk
    node, folder = NODES[0], "/run/systemd/system/mlnode-pull.timer.d"
    soon = b"[Timer]\nOnCalendar=\nOnActiveSec=1\nRandomizedDelaySec=0\n"
    before = report(node)
    inside(node, "sh", "-c", f"mkdir -p {folder} && cat > {folder}/soon.conf", given=soon)
    inside(node, "sh", "-c", "systemctl daemon-reload && systemctl restart mlnode-pull.timer")
    end = time.monotonic() + PATIENCE
    while (now := report(node)) == before and time.monotonic() < end:
        time.sleep(0.5)
    inside(
        node, "sh", "-c", f"rm -r {folder} && systemctl daemon-reload && systemctl restart mlnode-pull.timer"
    )
    assert (now["verdict"], now["serial"], now["reason"]) == ("unchanged", before["serial"], "")
    log = inside(WEB, "cat", "/var/log/nginx/access.log")
    assert re.search(rf'"GET /mlnode/{node}\.signed HTTP/1\.1" 304 0 "-" "mlnode"$', log, re.M), log
    assert inside(node, "systemctl", "is-active", "mlnode-pull.timer") == "active\n"


def older(walk, content: bytes) -> bytes:
    """The same, of the day before, and rightly signed."""
    text = content.partition(b"-----END SSH SIGNATURE-----\n")[2].decode()
    document = json.loads(text)
    text = text.replace(f'"serial":{document["serial"]}', f'"serial":{document["serial"] - 86400}')
    words = [
        "ssh-keygen",
        "-Y",
        "sign",
        "-n",
        "mlnode-pull@mlnode.tuning",
        "-f",
        f"{walk.folder}/.ssh/mlnode",
    ]
    return subprocess.run(words, input=text.encode(), capture_output=True, check=True).stdout + text.encode()


def test_what_is_refused_changes_nothing_and_is_reported(walk):
    node = NODES[1]
    right, before = served(node), report(node)
    cases = {
        "no declared signer has signed it": right.replace(b"WARN", b"INFO"),
        f"it is for the node {NODES[0]}": served(NODES[0]),
        "is older than": older(walk, right),
    }
    for reason, content in cases.items():
        assert content != right
        serve(node, content)
        inside(node, *START, check=False)
        assert inside(node, "systemctl", "is-failed", "mlnode-pull") == "failed\n"
        now = report(node)
        assert (now["verdict"], now["serial"], reason in now["reason"]) == (
            "refused",
            before["serial"],
            True,
        ), now
        assert reason in inside(node, "journalctl", "--unit=mlnode-pull", "--output=cat", "--lines=9")
        assert "NCCL_DEBUG=WARN" in inside(node, "cat", "/etc/nccl.conf")
    assert 'mlnode_pull_success_timestamp_seconds{verdict="refused"}' in inside(
        node, "mlnode", "metrics", "--print"
    )
    serve(node, right)
    inside(node, *START)
    assert report(node)["verdict"] == "applied"
