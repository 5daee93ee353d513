# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside a guest, from standard input: for each set of .link files, the file that udev's net_setup_link
takes for each interface, and the lines that the installed agent names.

Argument: a list of {name: text} in JSON. Prints a list of {interface: [udev's file, {source: sure}]}.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, "/usr/local/bin/mlnode")

from mlnode.host.host import Host  # of the installed command, on the lab machine
from mlnode.knobs.nic import owners

FOLDER = pathlib.Path("/run/systemd/network")


def udev(name: str) -> str:
    words = ["udevadm", "test-builtin", "--action=add", "net_setup_link", f"/sys/class/net/{name}"]
    said = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    files = re.findall(r"^ID_NET_LINK_FILE=(.+)$", said, re.MULTILINE)
    return files[0] if files else ""


def named() -> dict[str, dict[str, bool]]:
    host = Host()
    words = owners.interface_words(host, owners.of_machine(host))
    return {name: {word.source: word.sure for word in words.get(name, ())} for name in NICS}


NICS = sys.argv[2:]
results = []
for files in json.loads(sys.argv[1]):
    for path, text in files.items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text)
    lines = named()
    results.append({name: (udev(name), lines[name]) for name in NICS})
    for path in files:
        (FOLDER / path).unlink()
print(json.dumps(results))
