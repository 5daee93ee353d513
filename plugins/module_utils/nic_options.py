# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option `nics` of every module whose rules are for NICs."""

from __future__ import annotations

from typing import Any

from .mlnode.knobs import selection

_TEXTS = {"type": "list", "elements": "str"}
_NUMBERS = {"type": "list", "elements": "int"}

#: Of an argument spec
NICS: dict[str, Any] = {
    "type": "dict",
    "options": {
        "names": _TEXTS,
        "drivers": _TEXTS,
        "addresses": _TEXTS,
        "pci_ids": _TEXTS,
        "rdma": _TEXTS,
        "rails": {"type": "raw"},
        "nodes": _NUMBERS,
        "speeds": _NUMBERS,
        "link": {"type": "str", "choices": list(selection.LINKS)},
        "link_layer": {"type": "str", "choices": list(selection.LINK_LAYERS)},
        "management": {"type": "bool"},
    },
}
