# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area sysfs."""

from __future__ import annotations

from ...model.schema import Option, Table
from ...model.setting import Severity

OPTIONS: Table = {
    "settings": Option(
        "dict",
        """
        Path of a file below C(/sys), and its value: a number or a text, without a line end.

        A path may have the signs C(*), C(?) and C([...]) of glob(7), each within one name. The value is then
        for every file that matches.

        A file with choices, such as C([none] mq-deadline), takes one of its words. A file that shows C(Y) or
        C(N) takes V(1) or V(0) as well.

        V(null) leaves a file untouched. A YAML boolean is refused, as the kernel wants a number or a word.
        """,
        required=True,
        values=Option("raw", empty=True),
        parts=True,
        severity=Severity.MEDIUM,
        reason="declared by you; mlnode has no opinion on this file",
        source="your declaration",
    ),
}
