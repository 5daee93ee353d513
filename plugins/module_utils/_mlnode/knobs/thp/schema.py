# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area thp."""

from __future__ import annotations

import re

from ...model.record import regex
from ...model.schema import Form, Option, Table

_WORD = Form(regex(r"[a-z_+]+\Z", re.ASCII), "a word such as madvise")
_SIZE = Form(regex(r"[1-9][0-9]{0,9}kB\Z", re.ASCII), "a size as the kernel writes it, such as 2048kB")

OPTIONS: Table = {
    "enabled": Option(
        "str",
        """
        When anonymous memory gets huge pages. V(madvise) gives them to programs that ask, V(always) to all,
        and with C(defrag) V(always) any process may then stall in compaction.

        One of the words in C(/sys/kernel/mm/transparent_hugepage/enabled). Unset leaves it untouched.
        """,
        form=_WORD,
    ),
    "defrag": Option(
        "str",
        """
        How hard a page fault tries to get a huge page, such as V(madvise) or V(defer+madvise). V(always)
        compacts memory in every fault that may get one.
        """,
        form=_WORD,
    ),
    "shmem_enabled": Option("str", "Huge pages for shared memory, such as V(advise).", form=_WORD),
    "use_zero_page": Option("int", "Whether a read fault maps one shared zero page, V(0) or V(1).", least=0),
    "khugepaged": Option(
        "dict",
        "The background daemon that collects pages into huge pages. It runs under V(madvise) too.",
        parts=True,
        suboptions={
            "defrag": Option("int", "Whether it may compact memory, V(0) or V(1).", least=0),
            "scan_sleep_millisecs": Option("int", "Pause between two scans, in milliseconds.", least=0),
            "alloc_sleep_millisecs": Option(
                "int", "Pause after a failed allocation, in milliseconds.", least=0
            ),
            "pages_to_scan": Option("int", "Pages per scan.", least=0),
            "max_ptes_none": Option("int", "Unused small pages that a huge page may be made of.", least=0),
            "max_ptes_swap": Option(
                "int", "Swapped-out small pages that it may bring in for a huge page.", least=0
            ),
            "max_ptes_shared": Option("int", "Shared small pages that a huge page may be made of.", least=0),
        },
    ),
    "sizes": Option(
        "dict",
        """
        Policy per huge page size, for kernels with C(hugepages-*kB) folders. The key is the size as the
        kernel writes it, such as V(64kB); the value holds C(enabled), C(shmem_enabled) or both.
        """,
        keys=_SIZE,
        values=Option(
            "dict", fields=dict.fromkeys(("enabled", "shmem_enabled"), Option("str", form=_WORD)), parts=True
        ),
        parts=True,
    ),
}
