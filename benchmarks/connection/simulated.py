# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of a simulated fleet: answers of an agent, from files that simulated.py has written."""

from __future__ import annotations

DOCUMENTATION = r"""
name: simulated
short_description: Answer as the agent of a node does
description:
  - Stands in for a node and its agent. Each question gets the recorded answer to a similar question.
    A question about a campaign gets the answer that was written for this node.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  answers:
    description: The folder with an answer for each call.
    type: path
    required: true
    vars:
      - name: simulated_answers
  host:
    description: The name of the node.
    type: str
    required: true
    vars:
      - name: inventory_hostname
"""

import json
import pathlib
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

#: In the place of a node's name in the files
NAME = b"@NAME@"

#: In the module that Ansible sends for the floor, a play of one ping
_PING = b"ansible.modules.ping"


class Connection(ConnectionBase):  # type: ignore[misc]  # ansible has no types
    """The name ansible-core looks for."""

    transport = "simulated"
    has_pipelining = True
    always_pipeline_modules = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> Any:
        if in_data is not None and _PING in in_data:
            return 0, b'{"ping": "pong"}\n', b""
        name = str(self.get_option("host"))
        folder = pathlib.Path(self.get_option("answers"))
        if in_data is None or "mlnode call" not in cmd:
            raise AnsibleConnectionFailure(
                f"this node is simulated, and knows questions to its agent only: {cmd}"
            )
        question = json.loads(in_data)
        call = question["call"]
        if call == "look":
            state = question["options"]["given"]["state"]
            content = (folder / f"{state}-{name}.json").read_bytes()
            return 0, b'mlnode: begun\nmlnode: {"answer": ' + content + b"}\n", b""
        differs = (folder / "differing").read_text(encoding="utf-8").split()
        answer = (folder / f"{call}{'.differs' if name in differs else ''}.json").read_bytes()
        return 0, b"mlnode: begun\nmlnode: " + answer.replace(NAME, name.encode()) + b"\n", b""

    def put_file(self, in_path: str, out_path: str) -> None:
        raise AnsibleConnectionFailure("this node is simulated, and takes no files")

    fetch_file = put_file

    def close(self) -> None:
        self._connected = False
