# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sign the declarations of a node, and write them for the node to pull."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import pathlib
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.mlnode.tuning.plugins.plugin_utils import options_of

from ..module_utils._mlnode.agent import pull_document, registry
from ..module_utils._mlnode.agent.pull_document import Document
from ..module_utils._mlnode.knobs.pull import schema as enrolment
from ..module_utils._mlnode.model.errors import MlnodeError, printable

#: Seconds; a key on a token waits for a touch
_PATIENCE = 60

#: Begin of a signature (PROTOCOL.sshsig). Before the key come these bytes, a version, and the key's length.
_MAGIC = b"SSHSIG"
_BEFORE = 14

# Ansible imports this file once and then forks for each host: one read serves all hosts.
_SPEC = options_of.module("publish")
registry.imported()


class ActionModule(ActionBase):
    """The name ansible-core looks for."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        checked = ArgumentSpecValidator(_SPEC).validate(dict(self._task.args))
        if checked.error_messages:
            raise AnsibleActionFail(f"publish: {'; '.join(checked.error_messages)}")
        given = checked.validated_parameters
        node = str((task_vars or {}).get("inventory_hostname", ""))
        folder, key = pathlib.Path(given["folder"]), given["key"]
        path = folder / pull_document.file_name(node)
        try:
            declarations = _declarations(node, given["declarations"])
            public = _public(key)
            old, before, signer = _published(path)
            same = pull_document.render(Document(node, old.serial, declarations)) if old else b""
            if old and same == before and signer == public:
                return {**result, "changed": False, "path": str(path), "serial": old.serial}
            serial = max(int(time.time()), old.serial + 1 if old else 0)
            content = pull_document.render(Document(node, serial, declarations))
            if not self._task.check_mode:
                _write(path, _signature(key, content) + content, serial)
        except (MlnodeError, ValueError, OSError) as error:
            raise AnsibleActionFail(f"publish: {node}: {error}") from error
        if self._task.diff:
            result["diff"] = {
                "before": _shown(old.declarations if old else ()),
                "after": _shown(declarations),
                "before_header": str(path),
                "after_header": str(path),
            }
        return {**result, "changed": True, "path": str(path), "serial": serial}


def _declarations(node: str, given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """With the fields of a document, as JSON has them. Raises MlnodeError, ValueError."""
    if not enrolment.NODE.pattern.match(node):
        raise ValueError(f"the name of a node that pulls must be {enrolment.NODE.words}")
    fields = [{name: declaration[name] for name in pull_document.FIELDS} for declaration in given]
    declarations: list[dict[str, Any]] = json.loads(json.dumps(fields))
    pull_document.check(declarations)
    # By the next one a node without the area would look for no other.
    names = [(declaration["areas"].get("pull") or {}).get("node") for declaration in declarations]
    if node not in names:
        other = next((f"it is {name!r}" for name in names if name), "no declaration has it")
        raise ValueError(f"pull.node has to be this name, and {other}: set node_pull")
    return declarations


def _published(path: pathlib.Path) -> tuple[Document | None, bytes, bytes]:
    """The published document, its bytes, and the public key that signed them; nothing if the document is
    incomplete. Raises OSError."""
    try:
        signature, content = pull_document.split(path.read_bytes())
        return pull_document.parse(content), content, _signer(signature)
    except (FileNotFoundError, MlnodeError, ValueError):
        return None, b"", b""


def _signer(signature: bytes) -> bytes:
    """Raises ValueError."""
    blob = base64.b64decode(b"".join(signature.splitlines()[1:-1]), validate=True)
    if not blob.startswith(_MAGIC):
        raise ValueError("not a signature of OpenSSH")
    return blob[_BEFORE : _BEFORE + int.from_bytes(blob[_BEFORE - 4 : _BEFORE], "big")]


def _public(key: str) -> bytes:
    """Raises ValueError, OSError."""
    path = pathlib.Path(key if key.endswith(".pub") else f"{key}.pub")
    try:
        return base64.b64decode(path.read_text(encoding="utf-8").split()[1], validate=True)
    except (IndexError, binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a public key") from error


def _signature(key: str, content: bytes) -> bytes:
    """Raises ValueError, OSError."""
    command = ["ssh-keygen", "-Y", "sign", "-f", key, "-n", pull_document.NAMESPACE]
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function  # on the controller
            command, input=content, capture_output=True, check=False, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"ssh-keygen has not signed in {_PATIENCE} s") from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise ValueError(f"ssh-keygen cannot sign with {key}: {printable(lines[-1])}")
    return done.stdout


def _write(path: pathlib.Path, content: bytes, serial: int) -> None:
    """Whole or not at all, whatever reads it meanwhile. Its time is the serial, as servers make the ETag of
    size and time: two of one second would be taken for one, and a copy elsewhere for another. Raises
    OSError."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("xb") as stream:
            os.fchmod(stream.fileno(), 0o644)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.utime(temporary, (serial, serial))
        temporary.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _shown(declarations: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(declarations, indent=2) + "\n" if declarations else ""
