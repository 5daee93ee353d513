# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Saves the kernel settings that containers share with their host, and restores changed ones.

Usage: host_knobs.py save|restore FILE

`save` first restores the values of an existing FILE of the same boot: an unfinished run has left it.
`restore` prints the restored settings and removes FILE; without a file it does nothing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

#: For tests: a folder in place of /
MACHINE = os.environ.get("ONE_RUN_ROOT", "")

ROOTS = (
    # Before vm: a write to `enabled` makes the kernel compute vm.min_free_kbytes again.
    "/sys/kernel/mm/transparent_hugepage",
    "/proc/sys/fs",
    "/proc/sys/kernel",
    "/proc/sys/vm",
)
# Counts every process that starts; flags that the kernel sets for good.
VOLATILE = {"/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/tainted"}
# Two forms of one setting: a write to one sets the other to 0; writing that 0 is refused or undoes the first.
EITHER_OR = {
    "/proc/sys/vm/dirty_bytes": "/proc/sys/vm/dirty_ratio",
    "/proc/sys/vm/dirty_background_bytes": "/proc/sys/vm/dirty_background_ratio",
    "/proc/sys/vm/overcommit_kbytes": "/proc/sys/vm/overcommit_ratio",
}
EITHER_OR.update({ratio: size for size, ratio in tuple(EITHER_OR.items())})


def read_all() -> dict[str, str]:
    """Every setting that can be both read and written."""
    values = {}
    for root in ROOTS:
        for folder, _, names in os.walk(MACHINE + root):
            for name in names:
                real = Path(folder, name)
                path = str(real)[len(MACHINE) :]
                if path in VOLATILE or real.stat().st_mode & 0o600 != 0o600:
                    continue
                try:
                    values[path] = real.read_text().strip()
                except (OSError, UnicodeDecodeError):
                    continue
    return values


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def load(file: Path) -> dict[str, str]:
    """The values of FILE; none if there is no such file or it is of an earlier boot."""
    try:
        saved = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    return saved["values"] if saved["boot_id"] == boot_id() else {}


def save(file: Path) -> int:
    code = restore(file)
    if code == 0:
        temporary = file.with_name(file.name + ".new")
        # tools/one_run.py restores the values of a killed run.
        saved = {"boot_id": boot_id(), "run": os.environ.get("MLNODE_RUN", ""), "values": read_all()}
        temporary.write_text(json.dumps(saved, indent=1))
        temporary.replace(file)
    return code


def chosen(value: str) -> str:
    """Value to write: of a choice such as `always [madvise] never` the bracketed word."""
    _, bracket, rest = value.partition("[")
    return rest.partition("]")[0] if bracket else value


def differing(saved: dict[str, str]) -> list[str]:
    now = read_all()
    return [path for path in saved if path in now and now[path] != saved[path]]


def restore(file: Path) -> int:
    saved = load(file)
    errors = {}
    # Twice, as a write may change a setting that was compared before.
    for _ in range(2):
        for path in differing(saved):
            if saved[path] == "0" and saved.get(EITHER_OR.get(path, ""), "0") != "0":
                continue
            try:
                before = Path(MACHINE + path).read_text().strip()
                Path(MACHINE + path).write_text(chosen(saved[path]))
                print(f"{path}: {before} -> {saved[path]}")
            except OSError as error:
                errors[path] = error.strerror
    left = differing(saved)
    for path in left:
        print(f"{path}: cannot put back {saved[path]}: {errors.get(path, 'changed again')}", file=sys.stderr)
    if left:
        print(f"remove {file} to leave it at that", file=sys.stderr)
        return 1
    file.unlink(missing_ok=True)
    return 0


def main(arguments: list[str]) -> int:
    actions = {"save": save, "restore": restore}
    if len(arguments) != 2 or arguments[0] not in actions:
        print(__doc__, file=sys.stderr)
        return 2
    return actions[arguments[0]](Path(arguments[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
