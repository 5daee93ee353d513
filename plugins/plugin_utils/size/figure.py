# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One number of a plan, with its unit, formula and source."""

from __future__ import annotations

from typing import Any, NamedTuple

#: Sources of formulas
NCCL = "nccl-tests, doc/PERFORMANCE.md"
ZERO = "Rajbhandari et al., ZeRO, arXiv:1910.02054, section 7"
MEGATRON = "Narayanan et al., Megatron-LM, arXiv:2104.04473, section 3"
FAT_TREE = "Leiserson, Fat-Trees, IEEE Trans. Computers C-34 (1985); Al-Fares et al., SIGCOMM 2008, section 3"
RAILS = "NVIDIA DGX SuperPOD reference architecture, compute fabric"


class Figure(NamedTuple):
    """estimate: it depends on more than the given numbers (placement, routing, overlap). Otherwise it follows
    from them by arithmetic. source: empty for a definition."""

    name: str
    value: float
    unit: str
    formula: str
    source: str = ""
    estimate: bool = False

    @property
    def basis(self) -> str:
        return "estimate" if self.estimate else "exact"

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "basis": self.basis,
            "formula": self.formula,
            "source": self.source,
        }


def text(value: float) -> str:
    """Four significant digits, as the inputs rarely have more; whole numbers in full."""
    exact = float(value)  # an int passes for a float
    rounded = exact if exact.is_integer() else float(f"{exact:.4g}")
    if rounded and not 1e-3 <= rounded < 1e15:
        return f"{rounded:.4g}"
    return f"{int(rounded):,}" if rounded.is_integer() else f"{rounded:,}"
