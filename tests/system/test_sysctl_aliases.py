# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every namespaced number below /proc/sys/net of the running kernel is changed in a fresh network namespace:
the other files that move with it are those of the table, and show what it says. A new alias of a new kernel
fails this test by its name."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.unit import cases

pytestmark = [pytest.mark.system, namespaces.needs_root]

LIBRARY = "ansible_collections.mlnode.tuning.plugins.module_utils._mlnode"

#: Copied to each interface whose own file was never written, as only the kernel knows
#: (net/ipv4/devinet.c: devinet_copy_dflt_conf). A line for an interface is such a write, so that no line for
#: the default undoes it.
DEFAULTS = "net/ipv4/conf/default/"

#: Runs in a namespace of its own, of which nothing is left. Prints the moves that the table does not have,
#: those that it has and the kernel does not make, and the keys that were changed
LOOK = f"""
import json, os, subprocess, sys
from {LIBRARY}.linux import sysctl_aliases

TOP, NET = "/proc/sys/", "net/"

def read(name):
    try:
        file = os.open(TOP + name, os.O_RDONLY)
    except OSError:
        return None
    try:
        return " ".join(os.read(file, 4096).decode("ascii").split())
    except OSError:
        return None
    finally:
        os.close(file)

def write(name, value):
    try:
        with open(TOP + name, "w", encoding="ascii") as stream:
            stream.write(value)
        return True
    except OSError:
        return False

for words in ("link add v0 type veth peer name v1", "link set v0 up"):
    subprocess.run(["ip", *words.split()], check=True)
names = [os.path.join(folder, file)[len(TOP):] for folder, _, files in os.walk(TOP + NET) for file in files]
names = [name for name in names if read(name) is not None and not name.split("/")[3:4] in (["lo"], ["v1"])]
table = {{}}
for one in names:
    for source in sysctl_aliases.sources(one)[1:]:
        table.setdefault(source.name, {{}})[one] = source.shows
new, missing, tried = [], [], []
for name in sorted(names):
    old = read(name)
    numbers = (old or "").split()
    if name.endswith("/flush") or not numbers or not all(one.lstrip("-").isdigit() for one in numbers):
        continue
    for step in (1, -1, 2, -2, 1000):
        value = " ".join([str(int(numbers[0]) + step), *numbers[1:]])
        before = {{one: read(one) for one in names}}
        if not write(name, value) or read(name) == old:
            continue
        tried.append(name)
        after = {{one: read(one) for one in names}}
        moves = {{one: shows(after[name], old) for one, shows in table.get(name, {{}}).items()}}
        for one in names:
            shown = moves.get(one)
            if one == name or shown in (after[one], sysctl_aliases.UNKNOWN):
                continue
            if before[one] != after[one]:
                new.append([name, one, before[one], after[one], shown])
            elif shown is not None:
                missing.append([name, one, after[one], shown])
        write(name, old)
        break
print(json.dumps([new, missing, tried]))
"""


def test_no_name_moves_another_that_the_table_does_not_have() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", LOOK],
        check=False, capture_output=True, text=True, timeout=300, env=namespaces.ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    new, missing, tried = json.loads(done.stdout)
    assert [move for move in new if not move[0].startswith(DEFAULTS)] == []
    assert missing == []
    assert len(tried) > 200
    assert {"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} <= {*tried}


@cases.table
def test_names_that_belong_to_the_whole_machine_show_one_value(one: str, other: str) -> None:
    """Nothing is written here, as these are not a namespace's."""
    paths = [f"/proc/sys/{name}" for name in (one, other)]
    if not all(map(os.path.exists, paths)):
        pytest.skip(f"this kernel, or this namespace, does not have both: {paths}")
    texts = []
    for path in paths:
        with open(path, encoding="ascii") as stream:
            texts.append(stream.read())
    assert texts[0] == texts[1]
