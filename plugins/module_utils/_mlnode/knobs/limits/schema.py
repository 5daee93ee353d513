# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area limits."""

from __future__ import annotations

import re

from ...model.record import regex
from ...model.schema import Form, Option, Table
from ...model.setting import Severity

DOMAINS = ("*", "root")
AUTO = "auto"
_DOMAIN = Form(regex(r"(?:\*|@?[A-Za-z_][A-Za-z0-9_.-]{0,31})\Z", re.ASCII), "*, a user, or @ and a group")

OPTIONS: Table = {
    "nofile": Option(
        "raw",
        """
        Files that a process may have open, at least V(1024). V(unlimited) is refused, as the kernel does not
        have it here.

        A number, or V(SOFT:HARD), for logins, systemd and services alike. A dictionary of C(login),
        C(systemd), C(services) and names of services gives each its own limit, and leaves all others alone; a
        service's own limit beats C(services). Unset leaves the limit untouched. All limits accept these
        forms.

        An amount is a minimum: a higher limit is kept, soft and hard separately. V({exactly: AMOUNT}) can
        replace any amount, and also lowers the limit. O(core) is exact by default, and V({at_least: AMOUNT})
        makes it a minimum.
        """,
        severity=Severity.MEDIUM,
        reason="data loaders and connections of all ranks run out of files; a soft one of a million "
        "breaks some",
        source="systemd.exec(5), LimitNOFILE; moby pull request 45534, containerd pull request 8924",
    ),
    "memlock": Option(
        "raw",
        """
        Memory that a process may lock, in bytes, as a multiple of 1024, or V(unlimited). RDMA needs all
        that it can get.

        V(auto) is V(unlimited) on a node with an RDMA device or an accelerator, and leaves the limit
        untouched on any other.
        """,
        severity=Severity.HIGH,
        reason="RDMA locks the memory it registers, and fails without",
        source="user_verbs.rst",
    ),
    "stack": Option(
        "raw",
        """
        Size of the stack, in bytes, or V(unlimited). At least 8 MiB, the kernel's default.
        """,
        reason="programs with large arrays on the stack crash",
        source="getrlimit(2)",
    ),
    "core": Option(
        "raw",
        """
        Size of the file that a crash leaves, in bytes, or V(unlimited). V(0) leaves none. A higher limit is
        lowered, unless V({at_least: AMOUNT}) is declared.
        """,
        reason="a crash leaves no file to look at, or one as large as memory",
        source="core(5)",
    ),
    "nproc": Option(
        "raw",
        "Processes and threads of one user, at least V(1024), or V(unlimited).",
        severity=Severity.MEDIUM,
        reason="workers and threads of one user cannot be started",
        source="getrlimit(2)",
    ),
    "domains": Option(
        "list",
        """
        Logins with these limits: V(*) for everybody, a user, or V(@) and a group. An empty list leaves logins
        alone.

        V(root) needs a separate line, as V(*) does not include it on Debian and Ubuntu.
        """,
        elements="str",
        default=[*DOMAINS],
        form=_DOMAIN,
        declares=False,
        empty=True,
    ),
    "services": Option(
        "list",
        """
        Services that get their own drop-in, from V(slurmd), V(containerd), V(docker), V(kubelet), V(crio),
        V(ssh) and V(sshd). V(auto) is all installed ones. An empty list leaves them alone.
        """,
        elements="str",
        default=[AUTO],
        declares=False,
        empty=True,
    ),
    "defaults": Option(
        "bool",
        "Whether systemd gives the limits to every service that does not set its own.",
        default=True,
        declares=False,
    ),
}
