# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boots a lab machine and gives a shell on it; the machine goes away with the shell."""

from __future__ import annotations

import argparse
import subprocess
import sys

from . import profiles
from .build import LabError
from .collection import Collection
from .machine import Machine


def main() -> int:
    parser = argparse.ArgumentParser(description="A root shell on a lab machine.")
    parser.add_argument("profile", help=f"one of {', '.join(profiles.PROFILES)}")
    parser.add_argument("command", nargs="?", help="run this instead of a shell")
    options = parser.parse_args()
    try:
        machine = Machine(profiles.named(options.profile))
    except LabError as error:
        print(f"lab: error: {error}", file=sys.stderr)
        return 1
    try:
        print(f"lab: booting {options.profile}; its console: {machine.folder}/console.log", flush=True)
        machine.start()
        inventory = Collection.checkout().inventory(machine)
        print(f"lab: playbooks reach it with: make site INVENTORY={inventory}", flush=True)
        return subprocess.call(machine.ssh("root@127.0.0.1", *([options.command] if options.command else [])))
    except LabError as error:
        print(f"lab: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        machine.close()


if __name__ == "__main__":
    sys.exit(main())
