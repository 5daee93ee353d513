# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from mlnode.agent import registry
from mlnode.model.errors import DeclarationError
from mlnode.model.unknown import refuse_unknown


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_kind_names_what_it_does_not_know_and_what_it_knows(kind: str) -> None:
    with pytest.raises(DeclarationError, match=r"surprise: unknown; known are"):
        registry.KINDS[kind].parse({"surprise": 1}, None)


def test_an_unknown_name_is_reported_with_its_place() -> None:
    refuse_unknown("thp", ["enabled"], ("enabled", "defrag"))
    words = r"^thp\.enabeld: unknown; known are enabled, defrag; did you mean enabled\?$"
    with pytest.raises(DeclarationError, match=words):
        refuse_unknown("thp", ["enabled", "enabeld"], ("enabled", "defrag"))
