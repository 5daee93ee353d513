# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.filter.fleet_verdict import fleet_verdict
from ansible_collections.mlnode.tuning.tests.unit import cases


@cases.table
def test_wrong_input_is_named(results: Any, module: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleFilterError) as error:
        fleet_verdict(results, module, **options)
    assert words in str(error.value)
