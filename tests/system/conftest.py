# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.system import packages
from mlnode.agent import agent_modules  # noqa: F401  # of which the agent is built

PROMETHEUS = ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter")


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the programs of Prometheus."""
    folder = tmp_path_factory.mktemp("packages")
    if not packages.unpacked(str(folder), *PROMETHEUS):
        pytest.skip(f"no {', '.join(PROMETHEUS)} could be downloaded here (apt-get download)")
    return f"{folder}/usr/bin"
