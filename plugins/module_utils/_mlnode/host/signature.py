# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of OpenSSH (PROTOCOL.sshsig), verified by its ssh-keygen."""

from __future__ import annotations

import errno
from typing import Sequence

from ..model.errors import HostError, MlnodeError, printable
from . import places, selinux, system
from .host import Host

#: Any word: a key is trusted by its content, and not by its name
_WHO = "publisher"

#: It takes milliseconds
_SECONDS = 30.0

#: Input files of ssh-keygen: the allowed signers, and the signature
_ALLOWED, _SIGNED = (f"{places.PULL_FOLDER}/{name}" for name in ("allowed_signers", "signature"))


def require(host: Host, content: str, signature: bytes, keys: Sequence[str], namespace: str) -> None:
    """Raises MlnodeError unless one of the keys has signed this content, in this namespace.

    keys: type and key, as in a file of public keys.
    """
    allowed = "".join(f'{_WHO} namespaces="{namespace}" {key}\n' for key in keys)
    try:
        host.write_file(_ALLOWED, allowed.encode("ascii"), mode=0o600)
        host.write_file(_SIGNED, signature, mode=0o600)
        signers, signed = host.real(_ALLOWED), host.real(_SIGNED)
        words = ["-Y", "verify", "-f", signers, "-I", _WHO, "-n", namespace, "-s", signed]
        with selinux.own_domain("ssh-keygen"):
            done = system.run(["ssh-keygen", *words], _SECONDS, content)
    except HostError as error:
        if error.path == "ssh-keygen" and error.errno == errno.ENOENT:
            raise MlnodeError(
                "ssh-keygen is missing, without which the signature is not known to be right: install "
                "openssh-client (Debian, Ubuntu) or openssh (Red Hat, SUSE), 8.1 or newer"
            ) from error
        raise
    finally:
        clear(host)
    if done.rc != 0:
        said = (done.err.strip() or done.out.strip()).splitlines() or [f"exit status {done.rc}"]
        raise MlnodeError(f"no declared signer has signed it: {printable(said[-1])}")


def clear(host: Host) -> None:
    """Remove the input files of ssh-keygen, as a killed pull leaves them. Raises HostError."""
    for path in (_ALLOWED, _SIGNED):
        host.remove_file(path)
