# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option `expect`, with every key that it takes."""

from __future__ import annotations

from collections.abc import Collection

from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks import expect


def _named(keys: Collection[str]) -> str:
    return ", ".join(f"C({key})" for key in keys)


class ModuleDocFragment:
    """Used as C(extends_documentation_fragment: mlnode.tuning.expect)."""

    DOCUMENTATION = rf"""
options:
  expect:
    description:
      - Expected values, as a dictionary with the sections C(all), C(rails), C(devices) and the switch C(exact). The
        most specific section wins, key by key.
      - C(all) is for the node, and for every RDMA device except virtual functions. C(rails) is for the RDMA network of
        the GPUs, with C(count) for the number of rails, and a rail's number for a single one. C(devices) has names of
        devices (C(mlx5_0)) or ports (C(mlx5_0/1)).
      - C(exact=true) fails for every device that is not declared.
      - Keys of ports and devices are {_named(expect.PORT_KEYS)}. Keys of the node, in C(all) only, are
        {_named(expect.NODE_KEYS)}.
      - An unknown key is refused with the nearest one.
    type: dict
    default: {{}}
"""
