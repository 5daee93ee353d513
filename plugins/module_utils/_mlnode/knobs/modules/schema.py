# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area modules."""

from __future__ import annotations

import re

from ...model.record import regex
from ...model.schema import Form, Option, Table
from ...model.setting import Severity
from .needed import KNOWN

#: include/linux/module.h: MODULE_NAME_LEN is 64 less a word of the machine, with the zero at the end
_LONGEST = 55
_NAME = Form(
    regex(rf"[A-Za-z0-9_][A-Za-z0-9_-]{{0,{_LONGEST - 1}}}\Z", re.ASCII),
    f"the name of a module, which has up to {_LONGEST} letters, digits, _ and -; "
    "its parameters are declared as options",
)
_PARAMETER = Form(
    regex(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z", re.ASCII),
    "the name of a parameter, which has letters, digits, _ and -",
)
# One word of a line of modprobe.d: no blank, quote, comment or backslash.
_VALUE = Form(
    regex(r"[A-Za-z0-9_.,:;=/@+%!~^-]{1,1000}\Z", re.ASCII),
    "a value of letters, digits and _.,:;=/@+%!~^-",
)

OPTIONS: Table = {
    "modules": Option(
        "list",
        """
        Names of modules, such as V(ib_uverbs). C(-) and C(_) are one.

        Names only. Their parameters are O(options).
        """,
        elements="str",
        default=[],
        form=_NAME,
        keyed="name",
        parts=True,
        reason="a module that this node was declared to load",
        source="modules-load.d(5)",
    ),
    "where_needed": Option(
        "list",
        f"""
        Modules to load only if this node needs them; otherwise they are V(unsupported), with the reason.
        Known is C({KNOWN[0]}): with an RDMA device, the driver of these GPUs, an RDMA core that takes peer
        memory, and no DMA-BUF, which the driver's open kernel modules have.
        """,
        elements="str",
        choices=KNOWN,
        default=[],
        keyed="name",
        parts=True,
        reason="a module that this node was declared to load",
        source="modules-load.d(5)",
    ),
    "options": Option(
        "dict",
        """
        Name of a module, and of each of its parameters with a value, as C(modinfo -p) lists them:
        C({ib_core: {netns_mode: 0}}). They are written into a file of C(/etc/modprobe.d), and the module
        takes them when it is loaded, by O(modules) or by other software.

        A module that is loaded with another value waits for a reboot: it is never unloaded.

        Numbers and words; a YAML boolean is refused, as some parameters take C(Y) or C(1), and others only
        numbers.
        """,
        keys=_NAME,
        values=Option("dict", keys=_PARAMETER, values=Option("str", form=_VALUE), parts=True),
        parts=True,
        severity=Severity.MEDIUM,
        reason="a parameter that a module was declared to have",
        source="modprobe.d(5), modinfo -p",
    ),
}
