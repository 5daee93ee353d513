# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Vendors of GPUs and other accelerators: PCI ids, device files, and services that hold these files.

Pure data. Vendor ids and class codes are in pci.ids. A display of any other vendor belongs to a management
controller (ASPEED, Matrox) or a hypervisor (Cirrus, Bochs, virtio, QXL, VMware, Hyper-V).
"""

from __future__ import annotations

from .record import NamedTuple

#: Base and sub class (PCI Code and ID Assignment): VGA, 3D and other display controllers, accelerators
VGA, _3D, _DISPLAY, PROCESSING = 0x0300, 0x0302, 0x0380, 0x1200
#: Other system peripheral, and no class of the specification
_PERIPHERAL, _UNASSIGNED = 0x0880, 0xFF00

NVIDIA, INTEL = 0x10DE, 0x8086
_NUMBER = "[0-9]{1,5}"
#: Device files of drivers/gpu/drm and drivers/accel
_RENDER = (f"dri/renderD{_NUMBER}", "/sys/class/drm/{name}")
_ACCEL = (f"accel/accel{_NUMBER}", "/sys/class/accel/{name}")


class Accelerator(NamedTuple):
    """name: of the vendor. classes: of PCI. files: pattern of a device file below /dev, and a link to its PCI
    function or a file with the address, by the file's name or its first number; "" if there is neither. Only
    computing processes hold these files; files for monitors are left out. services: /proc/PID/comm, cut to 15
    characters, of daemons that hold a file all the time, and why. conf: file of its NCCL. others: devices of
    these classes for other work."""

    name: str
    classes: tuple[int, ...]
    files: tuple[tuple[str, str], ...]
    services: tuple[tuple[str, str], ...] = ()
    conf: str = ""
    others: tuple[int, ...] = ()


#: PCI vendor → its accelerators
VENDORS = {
    # nvidiactl is also held by monitors, nvidia-uvm never alone. drivers/linux of persistenced, DCMI, DCGM.
    NVIDIA: Accelerator(
        "NVIDIA",
        (VGA, _3D, _DISPLAY),
        ((f"nvidia{_NUMBER}", ""), _RENDER),
        (
            ("nvidia-persiste", "nvidia-persistenced keeps the driver awake"),
            ("nv-fabricmanage", "nv-fabricmanager sets up NVSwitches"),
            ("nv-hostengine", "DCGM watches GPUs"),
            ("dcgm-exporter", "the same for Prometheus"),
            ("nvidia-device-p", "nvidia-device-plugin hands GPUs to Kubernetes and watches them"),
            ("nvidia-smi", "shows GPUs, with --loop for ever"),
        ),
        "/etc/nccl.conf",
    ),
    # kfd: computations. cardN may be a console's. drivers/gpu/drm/amd/amdkfd/kfd_chardev.c. Documentation of
    # ROCm Data Center Tool and AMD Device Metrics Exporter: rdc.service, gpuagent.service.
    0x1002: Accelerator(
        "AMD",
        (VGA, _3D, _DISPLAY, PROCESSING),
        (("kfd", ""), _RENDER),
        (("rdcd", "RDC watches GPUs"), ("gpuagent", "the same for AMD's exporter to Prometheus")),
        "/etc/rccl.conf",  # src/misc/param.cc of RCCL
    ),
    INTEL: Accelerator("Intel", (VGA, _3D, _DISPLAY), (_RENDER,)),
    # drivers/accel/habanalabs; hlN in Linux before 6.3 (Documentation/ABI/testing/sysfs-driver-habanalabs).
    # hl-smi holds hl_controlDN and accel_controlDN.
    0x1DA3: Accelerator(
        "Habana", (PROCESSING,), (_ACCEL, (f"hl{_NUMBER}", "/sys/class/habanalabs/{name}/pci_addr"))
    ),
    # "System peripheral: NeuronDevice (Trainium)" in lspci of trn1. neuron_cdev.c of aws-neuronx-dkms: the
    # files have no parent in sysfs. AWS Neuron documentation: neuron-ls --show-all-procs lists both tools.
    0x1D0F: Accelerator(
        "AWS",
        (_PERIPHERAL, PROCESSING),
        ((f"neuron{_NUMBER}", ""),),
        (
            ("neuron-monitor", "reads counters all the time"),
            ("neuron-device-p", "neuron-device-plugin hands devices to Kubernetes"),
            ("neuron-ls", "lists devices"),
            ("neuron-top", "shows load"),
        ),
    ),
    # "Unassigned class [ff00]" in lspci of Cloud TPU; accelN to v4, and vfio from v5p on (Google Cloud TPU
    # documentation; JAX: hardware_utils.py).
    0x1AE0: Accelerator(
        "Google", (_UNASSIGNED, PROCESSING), ((f"accel{_NUMBER}", "/sys/class/accel/{name}"),)
    ),
    # Ascend documentation, container deployment: davinciN, vdavinciN for a part of one; davinci_manager,
    # devmm_svm and hisi_hdc are for all, and are held by npu-smi and npu-exporter. Kunpeng processors have
    # ZIP engines of the same class (drivers/crypto/hisilicon/zip/zip_main.c).
    0x19E5: Accelerator("Huawei", (PROCESSING,), ((f"v?davinci{_NUMBER}", ""),), others=(0xA250, 0xA251)),
    # FuriosaAI documentation: RNGD in a folder, Warboy without; npuNmgmt is for furiosa-smi. npu0pe0-3 is a
    # range of cores.
    0x1ED2: Accelerator(
        "FuriosaAI",
        (PROCESSING,),
        tuple(
            (f"{folder}npu{_NUMBER}(?:pe{_NUMBER}(?:-{_NUMBER})?)?", f"/sys/class/{card}/busname")
            for folder, card in (
                ("rngd/", "rngd_mgmt/rngd!npu{number}mgmt"),
                ("", "npu_mgmt/npu{number}_mgmt"),
            )
        ),
    ),
    # RBLN SDK documentation: rblnN for each device, rsdN for a group of them
    0x1EFF: Accelerator(
        "Rebellions",
        (PROCESSING,),
        ((f"rbln{_NUMBER}", "/sys/class/rebellions/{name}"),),
        (
            ("rbln-daemon", "serves tools and exporters of the node"),
            ("rbln-smd", "rbln-daemon of newer drivers"),
            ("rbln-stat", "shows load"),
            ("rbln-smi", "as rbln-stat"),
        ),
    ),
}

#: Variables that choose the devices of a process, or of a container
VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
#: Pattern of every device file of an accelerator, below /dev → its path in sysfs
FILES = dict(file for vendor in VENDORS.values() for file in vendor.files)
#: Patterns of the files that stand for one accelerator
EACH = tuple(pattern for pattern in FILES if _NUMBER in pattern)
#: Name of a vendor → the file that its library of collectives reads
CONFS = {vendor.name: vendor.conf for vendor in VENDORS.values() if vendor.conf}
#: Folders of these files
FOLDERS = tuple(sorted({f"/dev/{pattern.rpartition('/')[0]}".rstrip("/") for pattern in FILES}))
CLASSES = {code for vendor in VENDORS.values() for code in vendor.classes}


def vendor_of(vendor: int, device: int, class_code: int) -> Accelerator | None:
    """class_code: of PCI, three bytes. None for other functions and vendors."""
    row = VENDORS.get(vendor)
    is_known = row is not None and class_code >> 8 in row.classes and device not in row.others
    return row if is_known else None
