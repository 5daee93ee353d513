# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Session lines of PAM as distributions bring them: Debian 12, Ubuntu 24.04, RHEL 9 with authselect's profile
sssd, and SUSE. In each the limits reach every login."""

from __future__ import annotations

import pathlib

from ansible_collections.mlnode.tuning.tests.unit import cases

#: Distribution → name of a file in /etc/pam.d, or its path → its lines
ALL: dict[str, dict[str, str]] = cases.load(pathlib.Path(__file__).with_suffix(".yml"))
