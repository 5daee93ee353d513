# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of the library and of the agent; a test holds it equal to galaxy.yml."""

from __future__ import annotations

VERSION = "0.1.0"
