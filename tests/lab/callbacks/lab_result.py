# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what the last task of a play has returned, for Collection.task(): a task would take a second."""

from __future__ import annotations

import json
import os
import pathlib

from ansible.executor.task_result import CallbackTaskResult
from ansible.plugins.callback import CallbackBase

#: The environment variable with the path of the file
FILE = "LAB_RESULT"


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "lab_result"

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        pathlib.Path(os.environ[FILE]).write_text(json.dumps(result.result, default=str))

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        self.v2_runner_on_ok(result)
