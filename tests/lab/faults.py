# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of the collection that the lab has to notice, and the claim that catches each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import claims
from .collection import Collection
from .machine import Machine

LIBRARY = "plugins/module_utils/_mlnode"


@dataclass(frozen=True)
class Fault:
    """One line of the library, what it becomes, the claim that catches it, and the words it does so with."""

    file: str
    old: str
    new: str
    claim: Callable[[Collection, Machine], None]
    words: str


FAULTS = {
    "persistence: the drop-in is not written": Fault(
        f"{LIBRARY}/knobs/sysctl/kind.py",
        'BootFile(f"{DROP_IN}{name}.conf", own_file.content(name, lines))',
        'BootFile(f"{DROP_IN}{name}.conf", None)',
        claims.boot_files_alone_bring_values_back,
        # The run reads its files as the next boot would, and ends in failure.
        "site.yml ended with 2",
    ),
    "read-back: what was written is taken for what is": Fault(
        f"{LIBRARY}/engine/steps.py",
        "if fits(runtime.text, file.want, file.among) or (file.partial and refused is None):",
        "if True:",
        claims.a_value_that_does_not_take_is_an_error,
        "a value that did not take went unnoticed",
    ),
    "override detection: later files are not read": Fault(
        f"{LIBRARY}/linux/drop_ins.py",
        "for name in sorted(files)]",
        'for name in sorted(files) if name < "zz-mlnode-u"]',
        claims.a_later_file_is_reported,
        "an override went unnoticed",
    ),
}
