# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What root acts on is root's own, whatever the umask of a play was and whatever a user tries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from . import claims
from . import guest_facts as facts
from .collection import Collection, Hosts
from .machine import Finished, Machine

#: Python with the umask of an administrator who has changed it
PYTHON = "/root/loose-python"
UMASKS = ("000", "002")

USER = 1234
POLICY = "/etc/mlnode/irqbalance-policy"
DECLARED = "/etc/mlnode/declared.d"
OWN = f"{DECLARED}/node.json"
EVIL = f"{DECLARED}/evil.json"
ORIGIN = "/var/lib/mlnode/origin.json"
COPY = "/etc/mlnode/origin.json"
SUDOERS = "/etc/sudoers.d/evil"
ASLR = "kernel.randomize_va_space"

#: All that is mlnode's own, apart from links
FILES = (
    "find /etc/mlnode /var/lib/mlnode /run/mlnode /run/mlnode.lock /usr/local/bin/mlnode "
    "/etc/systemd/system/mlnode-* /etc/udev/rules.d/90-mlnode.rules /etc/sysctl.d/*mlnode* "
    "! -type l 2>/dev/null"
)

#: What a user may try; each of them would have root run or write something at the next apply or revert
ATTEMPTS = (
    f"echo '#!/bin/sh' >{POLICY}",
    f"mv {POLICY} {POLICY}.old",
    f"ln -s /tmp/policy {POLICY}",
    f"mv {DECLARED} /tmp/declared.d",
    f"rm -rf {DECLARED}",
    f"echo '{{}}' >{EVIL}",
    f"chmod 666 {OWN}",
    f"echo '{{}}' >{ORIGIN}",
    f"rm -f {ORIGIN}",
    "touch /var/lib/mlnode/confirm.json",
    "mkdir -p /run/mlnode/managed",
    "echo >/usr/local/bin/mlnode",
    "echo >/etc/systemd/system/mlnode-apply.service",
)


def play(machine: Machine, collection: Collection, umask: str) -> None:
    machine.write(PYTHON, f'#!/bin/sh\numask {umask}\nexec /usr/bin/python3 "$@"\n')
    machine.run(f"chmod 755 {PYTHON}")
    host = {**Hosts.of(machine).variables["lab"], "ansible_python_interpreter": PYTHON}
    hosts = Hosts(machine.folder, {"lab": host})
    # Its umask is that of the modules, which is what the rest of this file stands on.
    shown = machine.out(f"{PYTHON} -c 'import os; print(oct(os.umask(0)))'")
    assert int(shown, 8) == int(umask, 8)
    assert collection.play("site", hosts, "--tags", "sysctl,irq").status == 0


def as_user(machine: Machine, command: str) -> Finished:
    return machine.run(
        f"cd /tmp && setpriv --reuid {USER} --regid {USER} --clear-groups sh -c {json.dumps(command)}",
        check=False,
    )


def contents(machine: Machine) -> str:
    return machine.out(f"{FILES} -type f | sort | xargs sha256sum; {FILES} | sort | xargs stat -c '%n %a %u'")


def check(machine: Machine) -> Finished:
    return machine.run("mlnode check", check=False)


def evil(machine: Machine) -> str:
    """A declaration that would switch off what makes addresses hard to guess."""
    known: dict[str, Any] = json.loads(machine.read(OWN))
    return json.dumps({**known, "name": "evil", "kinds": {"sysctl": {"settings": {ASLR: 0}}}}, indent=2)


@pytest.fixture(scope="module")
def node(cloud: Machine, collection: Collection) -> Machine:
    """Played under each umask; what the last play has left is what the others tests begin with."""
    for umask in UMASKS:
        if umask != UMASKS[0]:
            cloud.run("mlnode revert")
        play(cloud, collection, umask)
        loose = cloud.out(f"{FILES} '(' -perm /022 -o ! -user root ')'; true")
        assert loose == "", f"umask {umask}: others can write\n{loose}"
    return cloud


def test_folders_have_their_mode_under_any_umask(node: Machine) -> None:
    folders = ("/etc/mlnode", DECLARED, "/var/lib/mlnode")
    assert node.out(f"stat -c '%a %U' {' '.join(folders)}").splitlines() == ["755 root"] * len(folders)
    assert node.run(f"test -f {POLICY}", check=False).returncode == 0, "nothing to be replaced"
    assert facts.wrong(node) == {}


def test_a_user_replaces_nothing_of_it(node: Machine) -> None:
    before = contents(node)
    assert before
    succeeded = [command for command in ATTEMPTS if as_user(node, command).returncode == 0]
    assert succeeded == []
    assert contents(node) == before


def test_a_declaration_of_a_user_is_reported_and_not_obeyed(node: Machine, collection: Collection) -> None:
    node.write(EVIL, evil(node))
    node.run(f"chown {USER}:{USER} {EVIL} && chmod 666 {EVIL}")
    found = check(node)
    assert found.returncode not in (0, None)
    assert EVIL in found.stdout + found.stderr
    applied = node.run("mlnode apply", check=False)
    assert applied.returncode != 0
    assert EVIL in applied.stdout + applied.stderr
    assert facts.sysctl(node, ASLR) == "2"
    assert node.out(f"stat -c '%u %a' {EVIL}") == f"{USER} 666", "root has made its own what a user wrote"
    drift = collection.task("node_drift", node, fail_at="low")
    assert drift.status != 0
    assert EVIL in drift.output
    node.run(f"rm {EVIL}")
    assert facts.wrong(node) == {}


def test_a_declaration_that_others_can_write_to_is_mended_or_refused(node: Machine) -> None:
    """It is root's: a run takes the right away, or goes no further; a look reports it."""
    node.run(f"chmod 666 {OWN}")
    found = check(node)
    assert found.returncode != 0
    assert OWN in found.stdout + found.stderr
    applied = node.run("mlnode apply", check=False)
    mode = node.out(f"stat -c %a {OWN}")
    assert mode == "644" or (applied.returncode != 0 and OWN in applied.stdout + applied.stderr)
    node.run(f"chmod 644 {OWN}")
    assert check(node).returncode == 0


@pytest.mark.parametrize("owner", [USER, 0])
def test_an_origin_that_names_another_file_puts_nothing_there(node: Machine, owner: int) -> None:
    """Whoever wrote it: no run can have remembered such a file."""
    known = json.loads(node.read(ORIGIN))
    saved = {"content": "ZXZpbAo=", "mode": 0o440, "uid": 0, "gid": 0}
    entry = {"id": f"file:{SUDOERS}", "key": SUDOERS, "file": SUDOERS, "saved": saved, "value": "present"}
    known["entries"] = [{**entry, "folders": []}]
    node.write("/root/evil.json", json.dumps(known))
    # Of a user the first file is refused as it is; one of root's own is damaged, and the second then counts.
    for store in (ORIGIN, COPY):
        node.run(f"cp -p {store} /root/{store.replace('/', '_')}")
        node.run(f"cp /root/evil.json {store} && chown {owner} {store} && chmod 600 {store}")
    reverted = node.run("mlnode revert", check=False)
    assert reverted.returncode != 0
    assert ORIGIN in reverted.stdout + reverted.stderr
    assert node.run(f"test -e {SUDOERS}", check=False).returncode != 0
    for store in (ORIGIN, COPY):
        node.run(f"cp -p /root/{store.replace('/', '_')} {store}")
    assert check(node).returncode == 0


#: node_exporter's user owns its folder, as Debian's package has it
TEXTFILE = "/srv/textfile"
#: Puts a link to root's file in the place of each name that root may open there, as fast as it can
SWAP = f"""
import os, time
end = time.monotonic() + 20
while time.monotonic() < end:
    for name in ("mlnode.prom", ".mlnode.prom.mlnode-tmp"):
        try:
            os.symlink("/etc/shadow", "{TEXTFILE}/spare")
            os.rename("{TEXTFILE}/spare", "{TEXTFILE}/" + name)
        except OSError:
            pass
"""


def test_root_writes_metrics_for_a_user_and_nothing_else(node: Machine, collection: Collection) -> None:
    shadow = "stat -c '%a %u %g %h' /etc/shadow; sha256sum </etc/shadow"
    node.run(f"install -d -o {USER} -g {USER} {TEXTFILE}")
    claims.converge(collection, node, "metrics", node_metrics={"textfile_directory": TEXTFILE})
    node.write("/tmp/swap.py", SWAP)
    # A check that the timer has begun, at its nice value, would still be there after 20 s beside SWAP.
    node.run("systemctl stop mlnode-check.timer")
    facts.until_at_rest(node)
    before = node.out(shadow)

    as_user(node, "nohup python3 /tmp/swap.py </dev/null >/tmp/swapped 2>&1 &")
    for _check in range(3):
        # It may end as refused, and must not end elsewhere.
        node.run("mlnode metrics", check=False)
        assert node.run(f"grep -rl '^root:' {TEXTFILE}", check=False).stdout == ""
    assert node.out(shadow) == before
    node.run("while pgrep -f 'tmp/[s]wap.py' >/dev/null; do sleep 1; done")

    node.run(f"rm -f {TEXTFILE}/* && mlnode metrics")
    assert node.out(f"stat -c '%F %u' {TEXTFILE}/mlnode.prom") == f"regular file {USER}"
    assert node.out(shadow) == before


def test_it_is_reverted_as_any_node(node: Machine, collection: Collection) -> None:
    claims.converge(collection, node, "sysctl")
    assert collection.play("revert", node).status == 0
    left = node.out("ls -d /etc/mlnode /var/lib/mlnode /usr/local/bin/mlnode 2>/dev/null; true")
    assert left == ""
