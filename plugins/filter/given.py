# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is given of a dictionary in which null means `not this one`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DOCUMENTATION = r"""
name: given
short_description: Drop what is null, however deep
version_added: 0.1.0
author:
  - mlnode.tuning contributors (!UNKNOWN)
description:
  - In the variables of the roles V(null) takes one of the defaults away. A module must not see it, as
    ansible-core 2.18 makes an empty text of it, and options with choices refuse it.
options:
  _input:
    description: A dictionary or list.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Show what is left of the defaults
  ansible.builtin.debug:
    msg: "{{ defaults | combine(mine, recursive=true) | mlnode.tuning.given }}"
  vars:
    defaults: {rules: {fabric: {mtu: 9000, rings: auto}}}
    mine: {rules: {fabric: {mtu: null}}}
"""

RETURN = r"""
_value:
  description: The same without any null, and without what was null in a list.
  type: raw
"""


def given(value: Any) -> Any:
    """See DOCUMENTATION."""
    if isinstance(value, dict):
        return {name: given(item) for name, item in value.items() if item is not None}
    return [given(item) for item in value if item is not None] if isinstance(value, list) else value


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name → filter."""
        return {"given": given}
