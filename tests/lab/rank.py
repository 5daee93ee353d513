# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for a rank: holds its devices, and on demand uses memory, is busy, or gives up huge pages."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal

#: linux/prctl.h
PR_SET_THP_DISABLE = 41

parser = argparse.ArgumentParser()
parser.add_argument("devices", nargs="*")
parser.add_argument("--mebibytes", type=int, default=0)
parser.add_argument("--busy", action="store_true")
parser.add_argument("--no-thp", action="store_true")
options = parser.parse_args()

# As the first process of a container, nothing ends it by itself.
signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
held = [os.open(device, os.O_RDWR) for device in options.devices]
memory = bytearray(b"x") * (options.mebibytes << 20)
if options.no_thp:
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
print("ready", flush=True)
while options.busy:
    bytes(8 << 20)
while True:
    signal.pause()
