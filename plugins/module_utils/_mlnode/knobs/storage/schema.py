# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area storage."""

from __future__ import annotations

import re

from ...model.record import regex
from ...model.schema import Form, Option, Table
from ...model.setting import Severity
from ..nics import schema as rules_schema

#: As /sys/block has it, where ! stands for a slash (block/genhd.c, cciss!c0d0); never a partition
_DEVICE = Form(regex(r"(?!\.{1,2}\Z)[A-Za-z0-9_.!-]{1,31}\Z", re.ASCII), "a block device such as nvme0n1")
#: include/linux/elevator.h: ELV_NAME_MAX is 16, with the zero at the end
_SCHEDULER = Form(regex(r"[a-z0-9_-]{1,15}\Z", re.ASCII), "a word such as none")
MOUNT_POINT = Form(regex(r"/[^\0]*\Z"), "a mount point such as /data", lambda text: text.rstrip("/") or "/")

#: Buses of disks that tuned tunes as well (plugin_disk.py: _device_is_supported), and compound devices
DISKS = ("nvme", "scsi", "virtio", "xen", "mmc")
TYPES = (*DISKS, "dm", "md")

#: 1 GiB in KiB. The kernel would take more, and each file that is read has as much memory read into.
MOST_KB = 1048576

OPTIONS: Table = {
    "rules": rules_schema.rules(
        """
        Each rule sets the read-ahead or the scheduler of some block devices, or the read-ahead of some NFS
        mounts. Two rules may not set different values for the same device.
        """,
        {
            "name": rules_schema.name("C(storage.NAME.read_ahead_kb) and C(storage.NAME.scheduler)"),
            "devices": Option(
                "dict",
                """
                Block devices of the rule. A device must match each given list. Without a list, the rule is
                for all disks that are not removable: every type in O(rules[].devices.types) except V(dm) and
                V(md). Partitions, loop devices and compressed memory match only by name.
                """,
                suboptions={
                    "names": Option("list", "Names as in C(/sys/block).", elements="str", form=_DEVICE),
                    "types": Option(
                        "list",
                        """
                        The bus of a disk. V(dm) is a device of the device mapper (LVM, multipath), V(md) a
                        software RAID.
                        """,
                        elements="str",
                        choices=TYPES,
                    ),
                    "rotational": Option("bool", "Only disks that turn, or only others."),
                },
                declares=False,
            ),
            "nfs": Option(
                "raw",
                """
                V(true) for all NFS mounts instead of block devices, or a list of mount points such as
                V(/data).
                """,
                declares=False,
                empty=True,
            ),
            "read_ahead_kb": Option(
                "raw",
                """
                How far the kernel reads ahead in a file that is read from its beginning to its end, in KiB: a
                multiple of 64 up to V(1048576), as kernels with pages of 64 KiB would round others down.
                V({at_least: N}) raises a lower value and keeps a higher one.

                It is set where the file system is: on a device-mapper or md device, not on the disks that are
                a part of it.
                """,
                file="queue/read_ahead_kb",
                severity=Severity.MEDIUM,
                reason="one reader of a large file waits for each 128 KiB of it, the kernel's default",
                source="sysfs-block, sysfs-class-bdi; tuned: hpc-compute, accelerator-performance; "
                "nfsrahead(5)",
            ),
            "scheduler": Option(
                "str",
                """
                One of the words in C(queue/scheduler), such as V(none). A device that hands its requests on,
                such as a software RAID, has none to choose.
                """,
                form=_SCHEDULER,
                file="queue/scheduler",
                reason="an NVMe drive orders its requests itself, and a scheduler before it only costs time",
                source="block/switching-sched.rst, block/elevator.c",
            ),
        },
    ),
}
