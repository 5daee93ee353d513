# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's clock as adjtimex(2) describes it: chronyd, systemd-timesyncd and similar services report its
accuracy to the kernel."""

from __future__ import annotations

import ctypes
import os
import struct

from ..model.errors import HostError
from ..model.record import NamedTuple

#: include/uapi/linux/timex.h: the clock is not synchronised. The kernel sets it itself after 9 hours without
#: correction, when the error may be 16 s (kernel/time/ntp.c: NTP_PHASE_LIMIT).
_UNSYNC = 0x0040

#: The first fields of struct timex: modes, offset, freq, maxerror, esterror, status. modes 0 changes nothing.
_TIMEX = struct.Struct("@Illlli")
#: More than its size of 208 bytes
_SIZE = 512


class KernelClock(NamedTuple):
    """most_error_us: the largest possible error in microseconds, reported by its service."""

    synchronised: bool
    most_error_us: int


def read() -> KernelClock:
    """Raises HostError."""
    buffer = ctypes.create_string_buffer(_SIZE)
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    except (OSError, AttributeError) as error:
        raise HostError("read", "adjtimex(2)", None, str(error)) from error
    if state < 0:
        raise HostError("read", "adjtimex(2)", ctypes.get_errno() or None, os.strerror(ctypes.get_errno()))
    _modes, _offset, _freq, most_error, _error, status = _TIMEX.unpack_from(buffer)
    return KernelClock(not status & _UNSYNC, most_error)
