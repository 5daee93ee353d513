# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area thp."""

from __future__ import annotations

import re

from ...model.record import regex
from ...model.schema import Form, Option, Table, switch
from ...model.setting import Severity

_WORD = Form(regex(r"[a-z_+]+\Z", re.ASCII), "a word such as madvise")
_SIZE = Form(regex(r"[1-9][0-9]{0,9}kB\Z", re.ASCII), "a size as the kernel writes it, such as 2048kB")

_SOURCE = "transhuge.rst"
_BACKGROUND = "how hard khugepaged and each page size work in the background"
#: mm/khugepaged.c keeps numbers as unsigned int, and accepts fewer of these than small pages in a huge page.
#: A huge page has at most 8192, with pages of 64 KiB (arm64)
_MOST, _MOST_PTES = (1 << 32) - 1, 8191


def _number(name: str, text: str, least: int = 0, most: int = _MOST) -> Option:
    return Option("int", text, least=least, most=most, file=f"khugepaged/{name}")


OPTIONS: Table = {
    "enabled": Option(
        "str",
        """
        When anonymous memory gets huge pages. V(madvise) gives them to programs that ask, V(always) to all,
        and with C(defrag) V(always) any process may then stall in compaction.

        One of the words in C(/sys/kernel/mm/transparent_hugepage/enabled). Unset leaves it untouched.
        """,
        form=_WORD,
        file="enabled",
        reason="always gives huge pages to programs that did not ask, which takes memory; madvise is opt-in",
        source=_SOURCE,
    ),
    "defrag": Option(
        "str",
        """
        How hard a page fault tries to get a huge page, such as V(madvise) or V(defer+madvise). V(always)
        compacts memory in every fault that may get one.
        """,
        form=_WORD,
        file="defrag",
        severity=Severity.MEDIUM,
        reason="direct compaction in a page fault stalls the thread for milliseconds",
        source=_SOURCE,
    ),
    "shmem_enabled": Option(
        "str",
        "Huge pages for shared memory, such as V(advise).",
        form=_WORD,
        file="shmem_enabled",
        reason="huge pages for shared memory, which data loaders use",
        source=_SOURCE,
    ),
    "use_zero_page": switch(
        "Whether a read fault maps one shared zero page, V(0) or V(1).",
        file="use_zero_page",
        reason="read faults map one shared zero page",
        source=_SOURCE,
    ),
    "khugepaged": Option(
        "dict",
        "The background daemon that collects pages into huge pages. It runs under V(madvise) too.",
        parts=True,
        suboptions={
            "defrag": switch("Whether it may compact memory, V(0) or V(1).", file="khugepaged/defrag"),
            "scan_sleep_millisecs": _number(
                "scan_sleep_millisecs", "Pause between two scans, in milliseconds."
            ),
            "alloc_sleep_millisecs": _number(
                "alloc_sleep_millisecs", "Pause after a failed allocation, in milliseconds."
            ),
            "pages_to_scan": _number("pages_to_scan", "Pages per scan.", least=1),
            "max_ptes_none": _number(
                "max_ptes_none", "Unused small pages that a huge page may be made of.", most=_MOST_PTES
            ),
            "max_ptes_swap": _number(
                "max_ptes_swap",
                "Swapped-out small pages that it may bring in for a huge page.",
                most=_MOST_PTES,
            ),
            "max_ptes_shared": _number(
                "max_ptes_shared", "Shared small pages that a huge page may be made of.", most=_MOST_PTES
            ),
        },
        reason=_BACKGROUND,
        source=_SOURCE,
    ),
    "sizes": Option(
        "dict",
        """
        Policy per huge page size, for kernels with C(hugepages-*kB) folders. The key is the size as the
        kernel writes it, such as V(64kB); the value holds C(enabled), C(shmem_enabled) or both.
        """,
        keys=_SIZE,
        values=Option(
            "dict",
            fields={
                name: Option("str", form=_WORD, file=f"hugepages-*/{name}")
                for name in ("enabled", "shmem_enabled")
            },
            parts=True,
        ),
        parts=True,
        reason=_BACKGROUND,
        source=_SOURCE,
    ),
}
