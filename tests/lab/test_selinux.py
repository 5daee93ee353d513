# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose SELinux enforces Debian's policy: one story, in the order of the file.

Debian's policy runs services that it does not know as initrc_t, which may do all. It confines irqbalance and
cron, as that of the RHEL family does.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
from typing import Any

import pytest

from . import claims
from . import guest_facts as facts
from .collection import Collection, Hosts, Played
from .machine import Machine

pytestmark = pytest.mark.long

#: Where mlnode writes
FOLDERS = "/etc /usr/local /var/lib /boot"
#: A rule by path, as the RHEL family has one here: in no folder would a new file get this label by itself.
LOCAL_CONTEXTS = "/etc/selinux/default/contexts/files/file_contexts.local"
RULE = r"/etc/systemd/.+\.conf\.d(/.*)?  system_u:object_r:net_conf_t:s0"
RULED = "/etc/systemd/system.conf.d/zz-mlnode-node.conf"

SCRIPT = "/etc/mlnode/irqbalance-policy"
FOLDER = "/etc/systemd/system/irqbalance.service.d"
IRQ_KEY = "irq.irqbalance"
TEXTFILE = "/var/lib/prometheus/node-exporter/mlnode.prom"
USER = "setpriv --reuid 1234 --regid 1234 --clear-groups"

_AVC = re.compile(
    r"(?:AVC|SELINUX_ERR).* denied +\{ (?P<what>.*) \}.*scontext=(?P<by>\S+).*tclass=(?P<kind>\w+)"
)


def denials(machine: Machine) -> set[tuple[str, str, str]]:
    """Who was denied what since the boot: domain, class and permissions."""
    text = machine.run("ausearch --input-logs --raw -m avc,user_avc,selinux_err -ts boot", check=False).stdout
    return {
        (match["by"].split(":")[2], match["kind"], match["what"])
        for match in (_AVC.search(line) for line in text.splitlines() if "permissive=1" not in line)
        if match
    }


class Story:
    """The machine, what is declared on it, and what Debian's own services were denied before."""

    def __init__(self, machine: Machine, collection: Collection) -> None:
        self.machine = machine
        self.collection = collection
        assert machine.out("getenforce") == "Enforcing"
        machine.run("systemctl daemon-reload")
        self.before = denials(machine)
        self.mislabelled = self.wrong_labels()
        machine.run(f"echo '{RULE}' >{LOCAL_CONTEXTS}")
        self.variables: dict[str, Any] = {
            "node_sysctl": claims.WITH_MODULES,
            "node_irq": {"irqbalance": "agree"},
            "node_metrics": {"textfile_directory": "auto"},
        }

    def play(self, name: str, **variables: Any) -> Played:
        return self.collection.play(name, Hosts.of(self.machine), **self.variables, **variables)

    def assert_at_peace(self) -> None:
        """SELinux still enforces and has denied nothing new, and each label is its policy's."""
        facts.until_at_rest(self.machine)
        assert self.machine.out("getenforce") == "Enforcing"
        assert denials(self.machine) - self.before == set()
        assert self.wrong_labels() - self.mislabelled == set()

    def wrong_labels(self) -> set[str]:
        """Files that restorecon would relabel."""
        return {*self.machine.out(f"restorecon -nvR {FOLDERS} 2>&1").splitlines()}


@pytest.fixture(scope="module")
def story(selinux: Machine, collection: Collection) -> Story:
    return Story(selinux, collection)


def test_a_denial_would_be_seen(story: Story) -> None:
    machine = story.machine
    machine.run("runcon -r system_r -t irqbalance_t /bin/true", check=False)
    seen = {by for by, _kind, _what in denials(machine) - story.before}
    assert seen, "nothing was denied"
    story.before |= denials(machine)


def test_site_is_let_and_labels_its_files(story: Story) -> None:
    played = story.play("site")
    assert played.status == 0
    assert played.changed > 0
    assert story.machine.out(f"stat -c %C {RULED}").split(":")[2] == "net_conf_t"
    assert story.machine.out("stat -c %C /usr/local/bin/mlnode").split(":")[2] == "bin_t"
    story.assert_at_peace()
    assert story.play("site").changed == 0


def test_the_row_of_irqbalance_says_what_selinux_does(story: Story) -> None:
    """Checked against irqbalance itself, which is given the same script by hand."""
    machine = story.machine
    row = next(item for item in facts.check(machine)["settings"] if item["key"] == IRQ_KEY)
    assert row["status"] == "unsupported"
    assert row["reason"].startswith(
        "SELinux does not let irqbalance_t run /bin/sh, a file of type shell_exec_t"
    )
    machine.write(SCRIPT, "#!/bin/sh\necho ban=true\n")
    machine.run(f"chmod 755 {SCRIPT}; mkdir -p {FOLDER}")
    words = f"ExecStart=/usr/sbin/irqbalance --policyscript={SCRIPT}"
    machine.write(f"{FOLDER}/story.conf", f"[Service]\nExecStart=\n{words}\n")
    machine.run("systemctl daemon-reload; systemctl restart irqbalance")
    refused = "journalctl -b -u irqbalance --grep 'Unable to execute user policy script' --quiet"
    facts.until(lambda: machine.run(refused, check=False).returncode == 0, "irqbalance asks its script")
    machine.run(f"rm -r {FOLDER} {SCRIPT}; systemctl daemon-reload; systemctl stop irqbalance")
    story.before |= denials(machine)


def test_services_and_users_check_the_node(story: Story) -> None:
    machine = story.machine
    machine.run(
        f"rm -f {TEXTFILE}; systemctl start mlnode-check mlnode-watch; systemctl restart mlnode-apply"
    )
    assert "mlnode_check_timestamp_seconds" in machine.read(TEXTFILE)
    done = machine.run(f"cd /tmp && {USER} mlnode check --json", check=False)
    assert done.returncode in (0, 3), done.stderr
    story.assert_at_peace()


def test_a_nic_that_arrives_gets_its_settings(story: Story) -> None:
    machine = story.machine
    nic = facts.nic(machine, "igb")
    slot = machine.out(f"basename $(readlink -f /sys/class/net/{nic}/device)")
    drivers = "/sys/bus/pci/drivers/igb"
    machine.run(
        f"echo {slot} >{drivers}/unbind; echo {slot} >{drivers}/bind; udevadm settle; ip link set {nic} up"
    )
    served = "systemctl show --property ExecMainExitTimestampMonotonic --value mlnode-nic"
    before = machine.out(served)
    facts.until(lambda: machine.out(served) != before, "the service has seen the NIC")
    story.assert_at_peace()
    assert facts.wrong(machine) == {}


def test_a_job_of_cron_says_what_it_may_not_read(story: Story) -> None:
    """Debian's policy confines it (system_cronjob_t); that of the RHEL family does not."""
    machine = story.machine
    done = "/var/tmp/cron.status"
    machine.write(
        "/etc/cron.d/story",
        f"* * * * * root test -e {done} || "
        f"{{ /usr/local/bin/mlnode check >/var/tmp/cron.out 2>&1; echo $? >{done}; }}\n",
    )
    facts.until(lambda: machine.run(f"test -s {done}", check=False).returncode == 0, "cron has checked")
    machine.run("rm /etc/cron.d/story")
    assert machine.read(done) == "1"
    assert "cannot read /var/lib/mlnode/origin.json: EACCES" in machine.read("/var/tmp/cron.out")
    confined = {denial for denial in denials(machine) if denial[0] == "system_cronjob_t"}
    assert confined
    story.before |= confined


def test_a_declaration_is_pulled(story: Story, tmp_path: pathlib.Path) -> None:
    machine = story.machine
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    signers = [key.with_suffix(".pub").read_text().strip()]
    story.variables["node_pull"] = {"url": "http://127.0.0.1:8080", "node": "lab", "signers": signers}
    assert story.play("site").status == 0
    story.variables["node_sysctl"] = {**claims.WITH_MODULES, "vm.swappiness": 7}
    published = tmp_path / "published"
    played = story.play("publish", publish_key=str(key), publish_folder=str(published))
    assert played.status == 0
    with subprocess.Popen(["tar", "-C", published, "-c", "."], stdout=subprocess.PIPE) as packed:
        subprocess.run(
            machine.ssh("root@127.0.0.1", "mkdir /srv/www && tar -C /srv/www -x"),
            stdin=packed.stdout,
            check=True,
        )
    machine.run(
        "systemd-run --unit story-web python3 -m http.server 8080 --directory /srv/www --bind 127.0.0.1"
    )
    assert "would be applied" in machine.run("mlnode pull --dry-run", check=False).stdout
    machine.run("systemctl start mlnode-pull")
    assert facts.sysctl(machine, "vm.swappiness") == "7"
    machine.run("systemctl stop story-web")
    story.assert_at_peace()


def test_a_boot_brings_everything_back(story: Story) -> None:
    story.machine.reboot()
    machine = story.machine
    assert machine.out("systemctl is-active mlnode-apply.service mlnode-nic.path").split() == ["active"] * 2
    facts.until(lambda: facts.wrong(machine) == {}, "the agent has applied it")
    assert facts.sysctl(machine, "vm.swappiness") == "7"
    assert facts.sysctl(machine, "net.ipv4.tcp_congestion_control") == "bbr"
    story.assert_at_peace()


def test_revert_is_let(story: Story) -> None:
    assert story.play("revert").status == 0
    assert facts.sysctl(story.machine, "vm.swappiness") == "60"
    assert (
        story.machine.run("ls -d /etc/mlnode /usr/local/bin/mlnode /var/lib/mlnode", check=False).stdout == ""
    )
    story.assert_at_peace()
