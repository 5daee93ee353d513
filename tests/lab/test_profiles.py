# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every profile has what it says: without this, a test of a knob could pass on a machine that has none."""

from __future__ import annotations

import pytest

from . import guest_facts as facts
from .machine import Machine

CPUFREQ = "/sys/devices/system/cpu/cpu{}/cpufreq"
MANAGED = ("ondemand", "conservative", "powersave", "userspace")


class TestBaremetal:
    def test_nothing_has_failed_during_the_boot(self, baremetal: Machine) -> None:
        assert baremetal.out("systemctl is-system-running") == "running"

    def test_two_sockets_are_two_numa_nodes_with_memory(self, baremetal: Machine) -> None:
        sockets = baremetal.out("cat /sys/devices/system/cpu/cpu*/topology/physical_package_id").split()
        assert sockets == ["0", "0", "1", "1"]
        assert [baremetal.read(f"/sys/devices/system/node/node{node}/cpulist") for node in (0, 1)] == [
            "0-1",
            "2-3",
        ]
        for node in (0, 1):
            free = baremetal.out(
                f"awk '/MemTotal/ {{ print $4 }}' /sys/devices/system/node/node{node}/meminfo"
            )
            assert int(free) > 900_000

    def test_every_cpu_has_frequencies_and_six_governors(self, baremetal: Machine) -> None:
        baremetal.run(
            "for name in ondemand conservative powersave userspace; do modprobe cpufreq_$name; done"
        )
        for cpu in range(4):
            folder = CPUFREQ.format(cpu)
            assert baremetal.read(f"{folder}/scaling_driver") == "acpi-cpufreq"
            governors = set(baremetal.read(f"{folder}/scaling_available_governors").split())
            assert governors == {"performance", "schedutil", *MANAGED}
            frequencies = baremetal.read(f"{folder}/scaling_available_frequencies").split()
            assert frequencies == ["3000000", "2400000", "1800000", "1200000"]

    def test_a_governor_moves_the_frequency(self, baremetal: Machine) -> None:
        folder = CPUFREQ.format(3)
        for governor, frequency in (("powersave", "1200000"), ("performance", "3000000")):
            baremetal.write(f"{folder}/scaling_governor", governor)
            assert baremetal.read(f"{folder}/scaling_cur_freq") == frequency

    def test_igb_hangs_on_node_1_and_has_rings_channels_and_vectors(self, baremetal: Machine) -> None:
        nic = facts.nic(baremetal, "igb")
        assert baremetal.read(f"/sys/class/net/{nic}/device/numa_node") == "1"
        assert baremetal.read(f"/sys/class/net/{nic}/operstate") == "up"
        baremetal.run(f"ethtool -G {nic} rx 1024 tx 1024")
        assert baremetal.out(f"ethtool -g {nic}").count("1024") == 2
        vectors = baremetal.out(f"ls /sys/class/net/{nic}/device/msi_irqs").split()
        channels = baremetal.out(f"ethtool -l {nic}")
        assert len(vectors) > 4, vectors
        assert "Combined" in channels
        baremetal.run(f"ethtool -C {nic} rx-usecs 50")
        assert "rx-usecs:\t50" in baremetal.out(f"ethtool -c {nic}")

    def test_an_interrupt_goes_where_it_is_told(self, baremetal: Machine) -> None:
        nic = facts.nic(baremetal, "igb")
        irq = baremetal.out(f"ls /sys/class/net/{nic}/device/msi_irqs | tail -n 1")
        baremetal.write(f"/proc/irq/{irq}/smp_affinity_list", "3")
        assert baremetal.read(f"/proc/irq/{irq}/smp_affinity_list") == "3"

    def test_partial_nics_refuse_what_they_lack(self, baremetal: Machine) -> None:
        e1000e, vmxnet3 = facts.nic(baremetal, "e1000e"), facts.nic(baremetal, "vmxnet3")
        assert baremetal.run(f"ethtool -g {e1000e}").returncode == 0
        for words in (f"ethtool -l {e1000e}", f"ethtool -C {vmxnet3} rx-usecs 10"):
            assert baremetal.run(words, check=False).returncode != 0

    def test_soft_roce_is_active_and_carries_traffic(self, baremetal: Machine) -> None:
        port = "/sys/class/infiniband/rxe0/ports/1"
        assert baremetal.read(f"{port}/state") == "4: ACTIVE"
        assert baremetal.read(f"{port}/phys_state") == "5: LinkUp"
        assert baremetal.read(f"{port}/link_layer") == "Ethernet"
        assert baremetal.read("/sys/class/infiniband/rxe0/parent") == facts.nic(baremetal, "e1000e")
        assert "RoCE v2" in baremetal.out(f"cat {port}/gid_attrs/types/0")
        exchange = "ibv_rc_pingpong -d rxe0 -g 0 -n 10"
        assert "10 iters" in baremetal.out(
            f"timeout 60 {exchange} >/dev/null & sleep 2; timeout 50 {exchange} 127.0.0.1"
        )

    def test_netdevsim_has_data_center_bridging(self, baremetal: Machine) -> None:
        nic = facts.nic(baremetal, "netdevsim")
        baremetal.run(f"dcb pfc set dev {nic} prio-pfc all:off 3:on")
        assert "3:on" in baremetal.out(f"dcb pfc show dev {nic} prio-pfc")
        baremetal.run(f"dcb ets set dev {nic} tc-tsa all:strict 3:ets tc-bw all:0 3:100")
        assert "3:100" in baremetal.out(f"dcb ets show dev {nic} tc-bw")
        baremetal.run(f"dcb app add dev {nic} dscp-prio 26:3")
        assert "26:3" in baremetal.out(f"dcb app show dev {nic} dscp-prio").replace("AF31", "26")
        baremetal.run(f"dcb buffer set dev {nic} buffer-size all:0 0:65536 3:131072")
        assert "3:131072b" in baremetal.out(f"dcb buffer show dev {nic}").replace("128Kb", "131072b")
        assert "ieee" in baremetal.out(f"dcb dcbx show dev {nic}")


class TestEpp:
    def test_amd_pstate_is_active(self, epp: Machine) -> None:
        assert epp.read("/sys/devices/system/cpu/amd_pstate/status") == "active"
        assert epp.read(f"{CPUFREQ.format(0)}/scaling_driver") == "amd-pstate-epp"

    def test_a_preference_is_taken_under_powersave_and_refused_as_busy_under_performance(
        self, epp: Machine
    ) -> None:
        folder = CPUFREQ.format(0)
        preference = f"{folder}/energy_performance_preference"
        epp.write(f"{folder}/scaling_governor", "powersave")
        epp.write(preference, "balance_performance")
        assert epp.read(preference) == "balance_performance"
        epp.write(f"{folder}/scaling_governor", "performance")
        assert epp.read(preference) == "performance"
        refused = epp.run(f"echo power >{preference}", check=False)
        assert refused.returncode != 0
        assert "busy" in refused.stderr


class TestBoot:
    def test_grub_has_started_the_kernel_and_knows_how_to_do_it_again(self, boot: Machine) -> None:
        assert boot.read("/proc/cmdline").startswith("BOOT_IMAGE=/boot/vmlinuz-")
        boot.run("update-grub")
        boot.run("grub-script-check /boot/grub/grub.cfg")
        assert "console=ttyS0" in boot.read("/boot/grub/grub.cfg")


class TestCloud:
    def test_it_has_neither_frequencies_nor_a_second_node_nor_a_nic_with_a_speed(
        self, cloud: Machine
    ) -> None:
        assert cloud.out("ls /sys/devices/system/cpu/cpu0 | grep -c cpufreq || true") == "0"
        assert cloud.read("/sys/devices/system/node/online") == "0"
        nic = facts.nic(cloud, "virtio_net")
        assert cloud.read(f"/sys/class/net/{nic}/speed") == "-1"


class TestDebian12:
    def test_it_has_the_older_kernel(self, debian12: Machine) -> None:
        assert debian12.out("uname -r").startswith("6.1.")


@pytest.mark.parametrize("file", ["disk.qcow2", "key"])
def test_a_machine_keeps_its_files_to_itself(baremetal: Machine, file: str) -> None:
    assert (baremetal.folder.stat().st_mode & 0o077) == 0
    assert (baremetal.folder / file).exists()


class TestVirtual:
    def test_both_virtio_nics_accept_adaptive_coalescing_and_ignore_it(self, virtual: Machine) -> None:
        paths = virtual.out("ls -d /sys/bus/virtio/drivers/virtio_net/*/net/*").split()
        assert len(paths) == 2
        for nic in (path.rpartition("/")[2] for path in paths):
            virtual.run(f"ethtool -C {nic} adaptive-rx on")
            assert "Adaptive RX: off" in virtual.out(f"ethtool -c {nic}")

    def test_igb_negotiates_pause_frames_and_ignores_what_is_set_meanwhile(self, virtual: Machine) -> None:
        nic = facts.nic(virtual, "igb")
        before = facts.nics(virtual)[nic]
        assert before["pause.autoneg"] == "on"
        virtual.run(f"ethtool -A {nic} rx off tx off", check=False)
        facts.until(lambda: facts.nics(virtual)[nic] == before, "both ends have agreed again")


@pytest.mark.long
class TestRuntimes:
    def test_both_runtimes_have_control_groups_of_version_2(self, runtimes: Machine) -> None:
        assert runtimes.out("docker info --format '{{.CgroupVersion}}'") == "2"
        assert runtimes.out("podman info --format '{{.Host.CgroupsVersion}}'") == "v2"

    def test_the_rdma_device_is_on_the_second_node(self, runtimes: Machine) -> None:
        nic = facts.nic(runtimes, "igb")
        assert runtimes.read("/sys/class/infiniband/rxe0/parent") == nic
        assert runtimes.read(f"/sys/class/net/{nic}/device/numa_node") == "1"
