#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a change of the management path that would undo itself."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nic_confirm
short_description: Keep a change of the management path that would undo itself
version_added: 0.1.0
description:
  - M(mlnode.tuning.nic_ethtool) calls this over a new connection to show that the node can be reached after a change of the
    interface that carries the connection. Without it the change is undone by itself when its time is over.
  - Call it yourself where that cannot be, or without O(id) to see what waits and what was undone; that changes nothing.
  - Over the very connection by which the change was made it is refused, as that may be the last one that works.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  id:
    description:
      - The change to keep, as RV(mlnode.tuning.nic_ethtool#module:confirm.id) and C(mlnode status) on the node tell it.
      - In check mode it is only looked for. One that does not wait any more fails the module, with what became of it;
        one that was confirmed before does not.
    type: str
  padding:
    description:
      - How many bytes of random text to answer with. An answer of this size fills packets of the size that a larger MTU
        allows, which a switch port that is still smaller drops in silence.
    type: int
    default: 0
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
attributes:
  diff_mode:
    support: none
seealso:
  - module: mlnode.tuning.nic_ethtool
"""

EXAMPLES = r"""
- name: See whether something waits, or was undone
  mlnode.tuning.nic_confirm:
  register: node

- name: Keep the change
  mlnode.tuning.nic_confirm:
    id: "{{ node.pending.id }}"
  when: node.pending
"""

RETURN = r"""
confirmed:
  description: Whether O(id) is confirmed now.
  returned: success
  type: bool
  sample: true
pending:
  description: What still waits to be confirmed; empty if nothing does.
  returned: success
  type: dict
  contains:
    id:
      description: What O(id) takes.
      type: str
    name:
      description: The declaration it belongs to.
      type: str
    words:
      description: What was changed.
      type: str
    deadline:
      description: When it is undone, by the clock of the node.
      type: str
    left:
      description: How many seconds are left until then.
      type: int
  sample: {}
undone:
  description: What was undone by itself and has not been told by a run yet; empty if nothing was.
  returned: success
  type: dict
  contains:
    id:
      description: Under which it had waited.
      type: str
    text:
      description: What was undone, when and why, in one line.
      type: str
    stuck:
      description: What could not be put back, and why.
      type: list
      elements: str
  sample: {}
padding:
  description: Random text of O(padding) bytes.
  returned: success
  type: str
  sample: ""
"""

import base64
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import confirm
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import MlnodeError
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.host import Host

#: More fills the packets of no interface better: the largest MTU is 65520 (IPoIB in connected mode)
MOST_PADDING = 1048576


def main() -> None:
    options: dict[str, dict[str, Any]] = {"id": {"type": "str"}, "padding": {"type": "int", "default": 0}}
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    wanted, padding = module.params["id"], module.params["padding"]
    if not 0 <= padding <= MOST_PADDING:
        tuning_module.fail(module, f"padding: {padding} is not between 0 and {MOST_PADDING}")
    host = Host()
    try:
        waited = False
        if wanted is not None:
            waited = confirm.ready(host, wanted) if module.check_mode else confirm.confirm(host, wanted)
        pending, undone = confirm.pending(host), confirm.undone(host)
    except MlnodeError as error:
        tuning_module.fail(module, f"confirm: {error}")
    tuning_module.leave(
        module,
        changed=waited,
        confirmed=wanted is not None and not (module.check_mode and waited),
        pending=_pending(pending) if pending else {},
        undone={"id": undone.id, "text": undone.text, "stuck": list(undone.stuck)} if undone else {},
        # Random, as ssh compresses, and as text, as the answer is JSON.
        padding=base64.b64encode(os.urandom(padding)).decode("ascii")[:padding],
    )


def _pending(found: confirm.Pending) -> dict[str, Any]:
    return {
        "id": found.id, "name": found.name, "words": found.words, "deadline": found.deadline, "left": found.left,
    }  # fmt: skip


if __name__ == "__main__":
    main()
