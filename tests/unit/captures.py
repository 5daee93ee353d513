# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All answers of a NIC, as they stand in the file of a captured tree."""

from __future__ import annotations

import errno
from typing import Any

from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.drivers.dcb import device as dcb
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.drivers.ethtool import device as ethtool
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.drivers.nic_files import FORMAT
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.errors import (
    HostError,
    MissingError,
    errno_name,
)


def of_ethtool(device: ethtool.Device) -> dict[str, Any]:
    """For ROOT/ethtool/NAME.json."""
    answers: dict[str, Any] = {}
    for group in ethtool.GROUPS:
        try:
            answers[group] = dict(device.get(group))
        except OSError as error:
            answers[group] = errno_name(error.errno or errno.EIO)
        except ValueError:
            answers[group] = errno_name(errno.EPROTO)
    return {"format": FORMAT, "answers": answers}


def of_dcb(device: dcb.Device) -> dict[str, Any]:
    """For ROOT/dcb/NAME.json."""
    answers: dict[str, Any] = {}
    for group in dcb.GROUPS:
        try:
            answers[group] = dict(device.get(group))
        except MissingError as error:
            answers[group] = error.missing
        except HostError:  # it stays unreadable
            continue
    return {"format": FORMAT, "answers": answers}
