# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a result of a fleet into a folder of the controller."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.mlnode.tuning.plugins.plugin_utils import options_of
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import files

#: Of a file name without its ending: nothing that leads out of the folder
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

# Ansible imports this once and then forks for every host, so that what is read here is read for all of them.
_SPEC = options_of.module("write_result")


class ActionModule(ActionBase):
    """The name ansible-core looks for. It runs on the controller, so that the callback fleet_report takes its
    word for a path, and no node's."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        checked = ArgumentSpecValidator(_SPEC).validate(dict(self._task.args))
        # A task sends its arguments along with its result, and a document has many megabytes.
        self._task.args = {name: one for name, one in self._task.args.items() if name != "document"}
        given = checked.validated_parameters
        wrong = checked.error_messages or _wrong(given)
        if wrong:
            raise AnsibleActionFail(f"write_result: {'; '.join(wrong)}")
        folder, file = pathlib.Path(given["folder"]), f"{given['name']}.json"
        result.update(changed=False, folder=str(folder))
        if self._task.check_mode:
            return result
        try:
            if given["state"] == "absent":
                (folder / file).unlink(missing_ok=True)
                return result
            files.write(folder / file, [given["document"].rstrip("\n"), "\n"])
        except OSError as error:
            raise AnsibleActionFail(
                f"write_result: cannot write or remove {folder / file}: {error.strerror}"
            ) from error
        return {**result, "file": file}


def _wrong(given: Mapping[str, Any]) -> list[str]:
    if not _NAME.fullmatch(given["name"]):
        return [f"name: must be letters, digits, '-', '_' and '.', got {given['name']!a}"]
    return ["document: is required"] if given["state"] == "present" and given["document"] is None else []
