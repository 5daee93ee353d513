# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fresh container, without a file of mlnode. Its state is kept for the end."""

from __future__ import annotations

import json


def test_nothing_of_ours_is_there(host, state, baseline):
    assert not [name for name in state if "mlnode" in name]
    baseline.write_text(json.dumps(state))
