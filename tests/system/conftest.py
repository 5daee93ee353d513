# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from mlnode.agent import everything  # noqa: F401  # of which the agent is built
