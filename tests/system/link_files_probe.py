# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Script: for each set of .link files, the file that udev's net_setup_link takes for each interface, and the
lines that mlnode names.

Standard library only, as machines of the lab run it. Arguments: the folder or archive with the package
mlnode, udevadm, and interfaces. Standard input is a list of {name: text}, as JSON. Prints a list of
{interface: [file of udev, {source: sure}]}.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path("/run/systemd/network")


def udev(program: str, name: str) -> str:
    """Empty if udev takes none. Without --action, which older versions lack, it is `add`."""
    words = [program, "test-builtin", "net_setup_link", f"/sys/class/net/{name}"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    files = re.findall(r"^ID_NET_LINK_FILE=(.+)$", done.stdout, re.MULTILINE)
    return files[0] if files else ""


def named(names: list[str]) -> dict[str, dict[str, bool]]:
    from mlnode.host.host import Host  # of the first argument
    from mlnode.knobs.nics import owners

    host = Host()
    words = owners.interface_words(host, owners.of_machine(host))
    return {name: {word.source: word.sure for word in words.get(name, ())} for name in names}


def main(package: str, program: str, *names: str) -> None:
    sys.path.insert(0, package)
    results = []
    for files in json.load(sys.stdin):
        for path, text in files.items():
            (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
            (FOLDER / path).write_text(text)
        lines = named([*names])
        results.append({name: (udev(program, name), lines[name]) for name in names})
        for path in files:
            (FOLDER / path).unlink()
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
