# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import bz2
import errno
import pathlib
import zlib
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source


@pytest.mark.parametrize("packer", [bz2, zlib])
def test_the_archive_is_packed_once_for_all_hosts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, packer: ModuleType
) -> None:
    packed: list[bytes] = []
    compress = packer.compress
    monkeypatch.setattr(packer, "compress", lambda *given: packed.append(compress(*given)) or packed[-1])
    with ThreadPoolExecutor(4) as hosts:
        found = [*hosts.map(agent_source.packed, [packer] * 4, [str(tmp_path)] * 4)]
    assert len(packed) == 1
    assert {*found} == {*packed}
    assert packer.decompress(packed[0]) == agent_source.unzipped()


def test_without_locks_each_host_packs_its_own(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(_file: object, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(agent_source.fcntl, "flock", flock)
    assert zlib.decompress(agent_source.packed(zlib, str(tmp_path))) == agent_source.unzipped()


def test_what_a_killed_run_has_begun_is_not_sent(tmp_path: pathlib.Path) -> None:
    agent_source.packed(zlib, str(tmp_path))
    [path] = [one for one in tmp_path.iterdir() if one.suffix == ".zlib"]
    path.rename(f"{path}.new")
    pathlib.Path(f"{path}.new").write_bytes(b"half of it")
    assert zlib.decompress(agent_source.packed(zlib, str(tmp_path))) == agent_source.unzipped()
