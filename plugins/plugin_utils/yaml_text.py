# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML of this collection's own files, without the marks that Ansible gives each value it loads."""

from __future__ import annotations

from typing import Any

import yaml

#: Ten times as fast where PyYAML has it
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text: str) -> Any:
    """Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe loader, see there
