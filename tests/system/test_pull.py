# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole way of a declaration that is pulled: publish.yml, nginx of the distribution, and the agent as it
is installed, in a mount namespace in which all that it writes is below a folder of the test."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source
from ansible_collections.mlnode.tuning.tests.system import packages
from ansible_collections.mlnode.tuning.tests.system.prometheus import wait_for
from ansible_collections.mlnode.tuning.tests.unit import pull_site
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, current
from mlnode.agent import install, pull_document
from mlnode.agent.call import MARK

ONE, OTHER = "gpu001.example", "gpu002.example"
#: Of a pull that finds nothing new: bytes both ways, and its CPU time as a multiple of that of a Python that
#: imports what speaks HTTPS. Two were measured; seconds would measure the machine and what else runs on it.
BYTES, TIMES = 1024, 4
SPEAKS_HTTPS = [sys.executable, "-c", "import http.client, json, ssl"]

CONFIG = """\
daemon off;
master_process off;
error_log FOLDER/error.log;
pid FOLDER/pid;
events {}
http {
    log_format sizes "$status $request_length $bytes_sent";
    access_log FOLDER/access.log sizes;
    client_body_temp_path FOLDER/temporary;
    proxy_temp_path FOLDER/temporary;
    fastcgi_temp_path FOLDER/temporary;
    uwsgi_temp_path FOLDER/temporary;
    scgi_temp_path FOLDER/temporary;
    server {
        listen 127.0.0.1:PORT;
        root FOLDER/www;
    }
}
"""


class Site:
    """Folder with the key, the inventory and what is published, and the port of its server."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.www, self.key = folder, folder / "www" / "mlnode", folder / "key"
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = int(one.getsockname()[1])
        public = pull_site.key(self.key)
        pull = {
            "url": f"http://127.0.0.1:{self.port}/mlnode",
            "node": "{{ inventory_hostname }}",
            "signers": [public],
        }
        variables = {"node_pull": pull, "node_nccl": {"NCCL_DEBUG": "WARN"}}
        # Nothing listens there: no node is reached.
        node = {"ansible_host": "127.0.0.1", "ansible_port": 1}
        groups = {"training": {"hosts": {ONE: node, OTHER: node}}}
        text = yaml.safe_dump({"all": {"vars": variables, "children": groups}})
        (folder / "hosts.yml").write_text(text, encoding="utf-8")

    def publish(self) -> str:
        """Two areas, of which one writes a file and the other one starts a timer: the rest stays."""
        command = [
            str(pathlib.Path(sys.executable).parent / "ansible-playbook"),
            *("playbooks/publish.yml", "-i", str(self.folder / "hosts.yml"), "--tags", "nccl,pull"),
            *("-e", f"publish_folder={self.www}", "-e", f"publish_key={self.key}"),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        current(done.stderr)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def document(self, node: str = ONE) -> pull_document.Document:
        body = (self.www / f"{node}.signed").read_bytes()
        return pull_document.parse(pull_document.split(body)[1])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


def test_nodes_are_published_without_being_reached(site: Site) -> None:
    assert "changed=1" in site.publish()
    before = {path.name: (path.read_bytes(), path.stat().st_mtime) for path in site.www.iterdir()}
    assert {*before} == {f"{ONE}.signed", f"{OTHER}.signed"}
    [found] = site.document().declarations
    assert (found["name"], found["selected"]) == ("node", ["nccl", "pull"])
    assert found["areas"]["nccl"] == {"variables": {"NCCL_DEBUG": "WARN"}}
    assert found["areas"]["pull"]["node"] == ONE
    assert "changed=0" in site.publish()
    after = {path.name: (path.read_bytes(), path.stat().st_mtime) for path in site.www.iterdir()}
    assert after == before, "what has not changed stays"


class Node:
    """Its agent, and what that writes below a folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.agent = folder, folder / "mlnode"
        self.agent.write_bytes(install.build())
        for name in ("run", "lib"):
            (folder / name).mkdir(mode=0o755)
        shutil.copytree("/etc", folder / "etc", symlinks=True)

    def run(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        mounts = " && ".join(
            f"mount --bind {self.folder}/{name} {path}"
            for name, path in (("etc", "/etc"), ("run", "/run"), ("lib", "/var/lib"))
        )
        # As its first line starts it, and by the Python that has compiled it.
        agent = [sys.executable, "-IS", str(self.agent), *words]
        command = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            f'{mounts} && exec "$@"',
            "sh",
        ]
        return subprocess.run([*command, *agent], input=text, capture_output=True, text=True, check=False)

    def enrol(self, declaration: dict[str, Any]) -> None:
        own = {
            **dict.fromkeys(("check", "diff", "install"), False),
            "risky": True,
            "confirm_seconds": 0,
            "interpreter": "",
            "selected": ["pull"],
        }
        question = {"call": "declare", "options": {**declaration, **own}, **agent_source.said()}
        done = self.run("call", text=json.dumps(question))
        answer = json.loads(done.stdout.split(MARK)[-1])["answer"]
        assert not answer["failed"], answer["msg"]

    def pull(self) -> dict[str, Any]:
        done = self.run("pull", "--json")
        report: dict[str, Any] = json.loads(done.stdout)
        assert (done.returncode == 0) is (report["verdict"] in ("applied", "unchanged")), done.stderr
        return report


def cpu(call: Callable[[], object]) -> float:
    """CPU time in seconds of the processes that a call starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def node(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Enrolled, with a server that has what was published for it."""
    if os.geteuid():
        pytest.skip("root is needed for a mount namespace")
    folder = site.folder
    if not packages.unpacked(str(folder), "nginx"):
        pytest.skip("nginx could not be downloaded here (apt-get download)")
    if not site.www.exists():
        site.publish()
    (folder / "temporary").mkdir()
    config = CONFIG.replace("FOLDER", str(folder)).replace("PORT", str(site.port))
    (folder / "nginx.conf").write_text(config, encoding="utf-8")
    command = [f"{folder}/usr/sbin/nginx", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
    one = Node(tmp_path_factory.mktemp("node"))
    one.enrol(dict(site.document().declarations[0]))
    with subprocess.Popen(command) as server:
        try:
            wait_for(lambda: _listens(site.port))
            yield one
        finally:
            server.terminate()


def test_it_is_applied_and_then_costs_next_to_nothing(site: Site, node: Node) -> None:
    conf = node.folder / "etc" / "nccl.conf"
    assert not conf.exists() or "NCCL_DEBUG=WARN" not in conf.read_text(encoding="utf-8")
    report = node.pull()
    assert (report["verdict"], report["changed"]) == ("applied", ["node nccl"])
    assert "NCCL_DEBUG=WARN" in conf.read_text(encoding="utf-8")
    reports: list[dict[str, Any]] = []
    pulls, pythons = [], []
    for _ in range(3):
        pythons.append(cpu(lambda: subprocess.run(SPEAKS_HTTPS, check=True)))
        pulls.append(cpu(lambda: reports.append(node.pull())))
    assert [one["verdict"] for one in reports] == ["unchanged"] * 3
    lines = (site.folder / "access.log").read_text(encoding="ascii").split("\n")
    status, asked, answered = map(int, lines[-2].split())
    print(f"304: {asked} bytes asked, {answered} answered; {min(pulls):.3f} s of CPU")
    print(f"Python: {min(pythons):.3f} s of CPU")
    assert status == 304
    assert asked + answered <= BYTES
    # The least of them, as others on a busy machine take the caches.
    assert min(pulls) <= TIMES * min(pythons)


def put(path: pathlib.Path, content: bytes) -> None:
    """With another time than any before, as nginx makes the ETag of size and second; so does publish."""
    before = path.stat().st_mtime if path.exists() else 0
    path.write_bytes(content)
    os.utime(path, (before + 1, before + 1))


def test_what_is_not_for_this_node_now_is_refused(site: Site, node: Node, tmp_path: pathlib.Path) -> None:
    path = site.www / f"{ONE}.signed"
    right, document = path.read_bytes(), site.document()
    assert node.pull()["verdict"] in ("applied", "unchanged")
    other = document.declarations[0]
    other = {**other, "areas": {**other["areas"], "nccl": {"variables": {"NCCL_DEBUG": "INFO"}}}}
    newer = pull_document.render(document._replace(serial=document.serial + 5, declarations=[other]))
    older = pull_document.render(document._replace(serial=document.serial - 5, declarations=[other]))
    pull_site.key(tmp_path / "wrong")
    cases = {
        "no declared signer": pull_site.signed(newer, tmp_path / "wrong"),
        f"for the node {OTHER}": (site.www / f"{OTHER}.signed").read_bytes(),
        "is older than": pull_site.signed(older, site.key),
        "has signed it": pull_site.signed(newer, site.key)[:-100],
        "404": b"",
    }
    conf = node.folder / "etc" / "nccl.conf"
    before = conf.read_bytes()
    for words, content in cases.items():
        path.unlink(missing_ok=True)
        if content:
            put(path, content)
        report = node.pull()
        assert (report["verdict"], words in report["reason"]) == ("refused", True), report
        assert report["serial"] == document.serial
        assert conf.read_bytes() == before
    put(path, pull_site.signed(newer, site.key))
    assert node.pull()["verdict"] == "applied"
    assert "NCCL_DEBUG=INFO" in conf.read_text(encoding="utf-8")
    put(path, right)
    assert "is older than" in node.pull()["reason"], "what was in force before"
