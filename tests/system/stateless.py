# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare two settings of the network namespace: `python FILE ROOT LAYER...`, in an image's folder or on the
node that runs this."""

from __future__ import annotations

import sys

from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent import (
    agent_modules,
    install,
    mounts,
)
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent.registry import KINDS
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.engine import engine
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.engine.plan import Request
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.setting import Layer

SETTINGS = {"net.core.somaxconn": 7777, "net.ipv4.tcp_fin_timeout": 33}

if __name__ == "__main__":
    assert agent_modules
    root, *layers = sys.argv[1:]
    host, kind = Host(root, mounts.ALL), KINDS["sysctl"]
    if root != "/":
        install.install(host, notify=False)
    if layers:
        request = Request("node", kind, kind.checked({"settings": SETTINGS}), tuple(map(Layer, layers)))
        engine.apply_together(host, lambda: [request])
