# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.linux import node_exporter

DEBIAN = "/usr/lib/systemd/system/prometheus-node-exporter.service"
OTHER = "/etc/systemd/system/node_exporter.service"
ARGUMENTS = "/etc/default/prometheus-node-exporter"
COMMAND = "[Service]\nEnvironmentFile=-/etc/default/prometheus-node-exporter\nExecStart={} $ARGS\n"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    return Machine.debian(str(tmp_path / "node"))


def found(node: Machine) -> tuple[str, str]:
    where = node_exporter.textfile_folder(node)
    assert bool(where.path) != bool(where.problem)
    return where.path, where.source


def test_a_node_without_it_says_what_to_do(node: Machine) -> None:
    assert "install it, or give the folder" in node_exporter.textfile_folder(node).problem


def test_debian_has_a_default_of_its_own(node: Machine) -> None:
    node.put(DEBIAN, COMMAND.format("/usr/bin/prometheus-node-exporter"))
    assert "has no --collector.textfile.directory" in node_exporter.textfile_folder(node).problem
    node.put(f"{node_exporter.DEBIAN}/.keep", "")
    assert found(node) == (node_exporter.DEBIAN, "the default of prometheus-node-exporter.service")


@cases.table
def test_the_file_of_arguments(node: Machine, arguments: str) -> None:
    node.put(DEBIAN, COMMAND.format("/usr/bin/prometheus-node-exporter"))
    node.put(f"{node_exporter.DEBIAN}/.keep", "")
    node.put(ARGUMENTS, f"# ARGS=--collector.textfile.directory=/no\n{arguments}\n")
    assert found(node) == ("/srv/text", f"{ARGUMENTS}, ARGS")


@cases.table
def test_a_unit_made_by_hand(node: Machine, text: str) -> None:
    node.put(OTHER, text)
    assert found(node) == ("/srv/text", f"{OTHER}:2")


def test_a_drop_in_counts_after_the_unit(node: Machine) -> None:
    node.put(OTHER, "[Service]\nExecStart=/opt/node_exporter --collector.textfile.directory=/a\n")
    drop_in = f"{OTHER}.d/own.conf"
    node.put(drop_in, "[Service]\nExecStart=\nExecStart=/opt/n --collector.textfile.directory=/b\n")
    assert found(node) == ("/b", f"{drop_in}:3")


def test_the_file_is_replaced_and_the_one_elsewhere_goes(node: Machine) -> None:
    for folder in ("/srv/a", "/srv/b"):
        node.put(f"{folder}/.keep", "")
    node_exporter.write(node, "/srv/a", "x 1\n")
    assert node.text("/srv/a/mlnode.prom") == "# Written by mlnode.tuning\nx 1\n"
    assert node.mode("/srv/a/mlnode.prom") == 0o644
    node_exporter.write(node, "/srv/b", "x 2\n")
    assert not node.exists("/srv/a/mlnode.prom")
    node_exporter.remove(node)
    assert not node.exists("/srv/b/mlnode.prom")
    assert not node.exists(node_exporter.NOTE)
    node_exporter.remove(node)
    assert sorted(os.listdir(f"{node.root}/srv/b")) == [".keep"]


@pytest.mark.parametrize("path", ["/etc/passwd", "/srv/a/mlnode.prom", "../../etc/passwd", "\0"])
def test_a_note_that_names_another_file_removes_nothing(node: Machine, path: str) -> None:
    node.put("/etc/passwd", "root\n")
    node.put("/srv/a/mlnode.prom", "of another program\n")
    node.put(node_exporter.NOTE, f"{path}\n")
    node_exporter.remove(node)
    assert node.exists("/etc/passwd")
    assert node.exists("/srv/a/mlnode.prom")
