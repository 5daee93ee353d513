# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests import the library as `mlnode`, its name in the agent. It is the same package as Ansible's, as
classes of another copy would be other ones."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

_NAME = "mlnode"
_LIBRARY = "ansible_collections.mlnode.tuning.plugins.module_utils._mlnode"


class _Library(Loader):
    """Finder and loader of mlnode: it gives what is imported under the other name."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != _NAME:
            return None
        module = importlib.import_module(_LIBRARY + name[len(_NAME) :])
        return importlib.util.spec_from_loader(name, cls(module))

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


if _NAME not in sys.modules:
    sys.meta_path.insert(0, _Library)
    importlib.import_module(_NAME)
