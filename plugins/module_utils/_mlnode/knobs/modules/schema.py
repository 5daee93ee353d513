# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area modules."""

from __future__ import annotations

import re

from ...model.record import regex
from ...model.schema import Form, Option, Table

#: include/linux/module.h: MODULE_NAME_LEN is 64 less a word of the machine, with the zero at the end
_LONGEST = 55
_NAME = Form(
    regex(rf"[A-Za-z0-9_][A-Za-z0-9_-]{{0,{_LONGEST - 1}}}\Z", re.ASCII),
    f"the name of a module, which has up to {_LONGEST} letters, digits, _ and -; "
    "its parameters belong into a file of /etc/modprobe.d",
)

OPTIONS: Table = {
    "modules": Option(
        "list",
        """
        Names of modules, such as V(ib_uverbs). C(-) and C(_) are one.

        Names only. Parameters of modules belong into a file of C(/etc/modprobe.d).
        """,
        elements="str",
        default=[],
        form=_NAME,
        keyed="name",
        parts=True,
    ),
}
