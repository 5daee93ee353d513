# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions that the machine's own libpam opens with the files of a folder: what it really did with each.

Run as a program, as a session lowers the limit of the process that opens it. Standard input is a list of
[folder, service]; the answer is a list of [value of pam_open_session, whether pam_limits was called].
"""

from __future__ import annotations

import ctypes
import json
import resource
import subprocess
import sys
from collections.abc import Sequence

#: Lowered by pam_limits with the file below. Of the file size, as the limit itself stays endless and the
#: next session begins with it again; more than anything here writes, as a write beyond it is a signal.
LIMIT = resource.RLIMIT_FSIZE
KIB = 1 << 20
LINES = f"root soft fsize {KIB}\n"
#: PAM_SILENT of security/_pam_types.h
_SILENT = 0x8000

_Converse = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)


class _Conversation(ctypes.Structure):
    _fields_ = (("converse", _Converse), ("data", ctypes.c_void_p))


def lacking() -> str:
    """Reason why this machine cannot be asked; empty if it can."""
    try:
        library = ctypes.CDLL("libpam.so.0")
    except OSError as error:
        return str(error)
    return "" if hasattr(library, "pam_start_confdir") else "libpam older than 1.4"


def opened(pairs: Sequence[tuple[str, str]]) -> list[tuple[int, bool]]:
    """Value and call of each session, in a process of their own."""
    done = subprocess.run(
        [sys.executable, __file__], input=json.dumps(pairs), capture_output=True, encoding="utf-8", check=True
    )
    return [(value, called) for value, called in json.loads(done.stdout)]


def _main() -> None:
    library = ctypes.CDLL("libpam.so.0")
    memory = ctypes.CDLL(None)
    memory.calloc.restype = ctypes.c_void_p

    @_Converse
    def silent(number: int, _messages: object, replies: object, _data: object) -> int:
        replies[0] = memory.calloc(number, 16)  # type: ignore[index] # struct pam_response; libpam frees it
        return 0

    def session(folder: str, service: str) -> tuple[int, bool]:
        hard = resource.getrlimit(LIMIT)[1]
        resource.setrlimit(LIMIT, (hard, hard))
        handle, conversation = ctypes.c_void_p(), _Conversation(silent, None)
        value = library.pam_start_confdir(
            service.encode(), b"root", ctypes.byref(conversation), folder.encode(), ctypes.byref(handle)
        )
        if value == 0:
            value = library.pam_open_session(handle, _SILENT)
            called = resource.getrlimit(LIMIT)[0] == KIB * 1024
            library.pam_end(handle, value)
            return value, called
        return value, False

    print(json.dumps([session(folder, service) for folder, service in json.load(sys.stdin)]))


if __name__ == "__main__":
    _main()
