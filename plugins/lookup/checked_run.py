# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the options of a run before its first play."""

from __future__ import annotations

DOCUMENTATION = r"""
name: checked_run
short_description: Check the options of a run before its first play
version_added: 0.1.0
description:
  - For C(hosts) of a first play, which Ansible reads with any selection of tags. Fails if C(--tags),
    C(--skip-tags) or C(--limit) select something unknown, or if C(--start-at-task) would begin in the middle.
    Also fails if the name of an extra variable or of a file in C(group_vars) resembles a known one.
  - Your own playbook may import one of this collection, and have more tags. There, only a tag that resembles
    the name of an area is refused, and only if no task has it.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  areas:
    description: Whether the playbook has the areas as tags.
    type: bool
    default: false
  tags:
    description: Other tags of the playbook.
    type: list
    elements: str
    default: []
  whole:
    description: Advice for the message of a playbook without areas as tags.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Verify the inventory
  hosts: "{{ lookup('mlnode.tuning.checked_run', areas=true) }}"
  gather_facts: false
  tasks: []
"""

RETURN = r"""
_raw:
  description:
    - V(localhost), or V(all) with C(--limit), which leaves localhost out and would skip the play.
  type: list
  elements: str
"""

from collections.abc import Mapping
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.mlnode.tuning.plugins.plugin_utils import areas, asked

#: Options with which Ansible plays nothing
_LISTINGS = ("syntax", "listhosts", "listtasks", "listtags")


class LookupModule(LookupBase):  # type: ignore[misc]  # LookupBase has no types
    """The name ansible-core looks for."""

    def run(self, terms: list[Any], variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        known = variables or {}
        command = context.CLIARGS
        limit = command.get("subset")
        if not any(command.get(option) for option in _LISTINGS):
            groups = known.get("groups", {})
            wrong = [
                *self._wrong_tags(command),
                *(asked.wrong_limit(limit, groups, self._loader) if limit else ()),
                *asked.wrong_variables(self._loader),
                *asked.wrong_files(known.get("ansible_inventory_sources") or (), groups),
            ]
            if wrong:
                raise AnsibleError("; ".join(wrong))
        return ["all" if limit else "localhost"]

    def _wrong_tags(self, command: Mapping[str, Any]) -> list[str]:
        playbooks, run, skip = (command.get(name) or () for name in ("args", "tags", "skip_tags"))
        tags = [*(areas.AREAS if self.get_option("areas") else ()), *self.get_option("tags")]
        own = asked.own_playbook(playbooks)
        if not own:
            return asked.misspelt_tags(run, skip, playbooks, self._loader, self.get_option("tags"))
        wrong = asked.wrong_tags(own, run, skip, tags, self.get_option("whole"))
        if command.get("start_at_task"):
            wrong.append(
                f"--start-at-task: {own}.yml cannot start in the middle; run all of it, which changes "
                "nothing on correct nodes"
            )
        return wrong
