# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Usage: stalled_fuse.py DEVICE FOLDER... COMMAND: mounts a file system on each folder, whose program is this
process, and runs COMMAND. It answers no request but the first, so a reader waits without an end, and no
signal ends that wait (fs/fuse/dev.c: request_wait_answer)."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import subprocess
import sys

#: include/uapi/linux/fuse.h: fuse_in_header (length, opcode, unique), fuse_out_header, fuse_init_out
_IN, _OUT, _INIT_OUT = struct.Struct("=IIQ"), struct.Struct("=IiQ"), struct.Struct("=IIIIHHI40x")
_INIT = 26
_MOST = 1 << 17


def mount(device: str, folder: str) -> int:
    handle = os.open(device, os.O_RDWR)
    user, group = os.geteuid(), os.getegid()
    options = f"fd={handle},rootmode=40000,user_id={user},group_id={group},allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"stalled", folder.encode(), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), f"mount {folder}")
    return handle


def serve(handles: list[int]) -> None:
    while True:
        for handle in select.select(handles, [], [])[0]:
            request = os.read(handle, _MOST)
            _length, opcode, unique = _IN.unpack_from(request)
            if opcode == _INIT:
                reply = _INIT_OUT.pack(7, 31, 0, 0, 16, 12, 4096)
                os.write(handle, _OUT.pack(_OUT.size + len(reply), 0, unique) + reply)


def main(device: str, *words: str) -> None:
    handles = [mount(device, folder) for folder in words[:-1]]
    with subprocess.Popen(["/bin/sh", "-c", words[-1]], close_fds=True):
        serve(handles)


if __name__ == "__main__":
    main(*sys.argv[1:])
