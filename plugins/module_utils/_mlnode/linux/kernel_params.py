# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parameters of the kernel command line in the kernels of the last ten years, and its words for user space.

Read from __setup(), early_param() and core_param() in the sources of Linux 4.19, 6.1 and 6.12, and from their
admin-guide/kernel-parameters.txt, with some later ones. Left out: architectures other than x86 and arm64,
fault injection, and drivers not found in servers, unless their name is similar to a listed one. 14 of the 368
names that are in 6.12 but not in 4.19 differ from an older one by one slip only: the running kernel is asked,
too.
"""

from __future__ import annotations

import re
from typing import Iterable

from ..model import slips
from ..model.record import regex

#: The kernel's own parameters, with _ for -, as both mean the same
_NAMES = (
    "accept_memory acpi acpi_apic_instance acpi_backlight acpi_enforce_resources "
    "acpi_force_32bit_fadt_addr acpi_force_table_verification acpi_irq_balance acpi_irq_isa "
    "acpi_irq_nobalance acpi_irq_pci acpi_mask_gpe acpi_no_auto_serialize acpi_no_memhotplug "
    "acpi_no_static_ssdt acpi_no_watchdog acpi_os_name acpi_osi acpi_pm_good acpi_rev_override "
    "acpi_rsdp acpi_sci acpi_skip_timer_override acpi_sleep acpi_use_timer_override "
    "acpica_no_return_repair add_efi_memmap align_va_addr alloc_snapshot allow_mismatched_32bit_el0 "
    "amd_iommu amd_iommu_dump amd_iommu_intr amd_prefcore amd_pstate apc apic apic_extnmi apicpmtimer "
    "apparmor audit audit_backlog_limit bdev_allow_write_mounted bert_disable bgrt_disable boot_delay "
    "bootconfig ca_keys cgroup_debug cgroup_disable cgroup_favordynmods cgroup_no_v1 cgroup_v1_proc "
    "checkreqprot clearcpuid clk_ignore_unused clocksource cma cma_pernuma coherent_pool console "
    "console_msg_format consoleblank coredump_filter cpu0_hotplug cpu_init_udelay cpufreq "
    "cpuidle_sysfs_switch crash_kexec_post_notifiers crashkernel csdlock_debug ddebug_query debug "
    "debug_alternative debug_boot_weak_hash debug_callthunks debug_guardpage_minorder "
    "debug_locks_verbose debug_non_panic_cpus debug_objects debug_pagealloc debugfs debugpat "
    "default_hugepagesz deferred_probe_timeout delayacct dhash_entries dis_ucode_ldr "
    "disable_cpu_apicid disable_mtrr_cleanup disable_mtrr_trim disable_timer_pin_1 disableapic "
    "dma_debug dma_debug_driver dma_debug_entries driver_async_probe dyndbg early_ioremap_debug "
    "early_page_ext earlycon earlyprintk edac_report edd efi efi_fake_mem efi_no_storage_paranoia "
    "efivar_ssdt ekgdboc elevator elfcorehdr enable_mtrr_cleanup enable_timer_pin_1 enforcing "
    "erst_disable ether evm fb_tunnels fbcon fips ftrace ftrace_boot_snapshot ftrace_dump_on_oops "
    "ftrace_filter ftrace_graph_filter ftrace_graph_max_depth ftrace_graph_notrace ftrace_notrace "
    "fw_devlink gart_fix_e820 gather_data_sampling gbpages gpt hardened_usercopy "
    "hardlockup_all_cpu_backtrace hash_pointers hashdist hest_disable hibernate highmem highres hlt "
    "hostname hpet hpet_mmap hugepages hugepagesz hugetlb_cma hugetlb_free_vmemmap hung_task_panic "
    "hv_nopvspin hw_protection ia32_emulation ibt idle ignore_loglevel ignore_rlimit_data "
    "ihash_entries ima_appraise ima_appraise_tcb ima_canonical_fmt ima_hash ima_policy ima_tcb "
    "ima_template ima_template_fmt indirect_target_selection init init_on_alloc init_on_free "
    "init_pkru initcall_blacklist initcall_debug initramfs_async initramfs_options initrd "
    "int_pln_enable integrity_audit intel_iommu intel_pstate intremap io_delay iomem iommu "
    "iommu_fixed ip ipcmni_extend irq irqaffinity irqfixup irqpoll irqtime isolcpus ivrs_acpihid "
    "ivrs_hpet ivrs_ioapic kasan kasan_multi_shot keep_bootcon kernelcore key kgdbcon kgdboc "
    "kgdboc_earlycon kgdbwait kho kmemleak kprobe_event kpti kunit_shutdown l1d_flush l1tf lapic "
    "lapic_timer_c2_ok lockdown log_buf_len loglevel lpj lsm max_loop maxcpus mce mconsole md mds mem "
    "mem_encrypt mem_sleep_default memblock memchunk memhp_default_state memmap "
    "memory_corruption_check memory_corruption_check_period memory_corruption_check_size memtest "
    "mhash_entries microcode mitigations mminit_loglevel mmio_stale_data module_blacklist "
    "movable_node movablecore mphash_entries mtrr mtrr_chunk_size mtrr_cleanup_debug mtrr_gran_size "
    "mtrr_spare_reg_nr netconsole nfsroot nmi_debug nmi_mode nmi_watchdog no387 no4lvl no5lvl "
    "no_alternatives no_console_suspend no_debug_objects no_file_caps no_hash_pointers "
    "no_ipi_broadcast no_kvmapf no_kvmclock no_kvmclock_vsyscall no_scroll no_steal_acc "
    "no_timer_check noaliencache noapic noapictimer noautogroup noclflush nodelayacct noefi noexec "
    "noexec32 nofsgsbase nofxsr nohalt nohibernate nohlt nohpet nohugeiomap nohugevmalloc nohz "
    "nohz_full noinitrd nointremap nointroute noinvpcid noiotrap noirqdebug noirqdistrib nokaslr "
    "nokgdbroundup nolapic nolapic_timer nomca nomce nomodeset nomodule nonmi_ipi nopat nopcid nopku "
    "nopti nopv nopvspin norandmaps nordrand noreplace_smp nosep nosgx nosmap nosmep nosmp nosmt "
    "nosoftlockup nospec nospec_store_bypass_disable nospectre_bhb nospectre_v1 nospectre_v2 notsc "
    "novmcoredd novx nowait nowatchdog nox2apic noxsave noxsaveopt noxsaves nr_cpus ntp_tick_adj numa "
    "numa_balancing numa_cma numa_debug numa_zonelist_order numcpus of_debug oops page_owner "
    "page_poison page_table_check panic panic_on_taint panic_on_warn panic_print pause_on_oops pci "
    "pci_slot_ignore pcie_aspm pcie_pme pcie_port_pm pcie_ports pd_ignore_unused percpu_alloc "
    "pm_debug_messages pmtmr preempt print_fatal_signals profile protect_bootloader psi pti quiet "
    "raid ramdisk_size randomize_kstack_offset ras rcu_nocb_poll rcu_nocbs rdinit rdrand rdt reboot "
    "reg_file_data_sampling regulator_ignore_unused relax_domain_level resched_latency_warn_ms "
    "reserve_mem reservelow reservetop reset_devices resume resume_offset resumedelay resumewait "
    "retain_initrd retbleed rhash_entries riscv_isa_fallback ro rodata root rootdelay rootflags "
    "rootfstype rootwait rw sched_debug sched_thermal_decay_shift sched_verbose schedstats security "
    "selinux sev show_lapic skew_tick slab_debug slab_max_order slab_merge slab_min_objects "
    "slab_min_order slab_nomerge slab_strict_numa slub_debug slub_max_order slub_memcg_sysfs "
    "slub_merge slub_min_objects slub_min_order slub_nomerge smt softlockup_all_cpu_backtrace "
    "softlockup_panic spec_rstack_overflow spec_store_bypass_disable spectre_bhi spectre_v2 "
    "spectre_v2_user split_lock_detect srbds ssbd stack_depot_disable stack_guard_gap stacktrace "
    "stacktrace_filter svm swapaccount swiotlb sysrq_always_enabled tcpmhash_entries thash_entries "
    "thp_anon thp_shmem thread_backlog_napi threadirqs tp_printk tp_printk_stop_on_boot tpm "
    "tpm_suspend_pcr trace_buf_size trace_clock trace_event trace_instance trace_options "
    "trace_trigger traceoff_on_warning tracing_thresh transparent_hugepage transparent_hugepage_shmem "
    "transparent_hugepage_tmpfs tsa tsc tsc_early_khz tsx tsx_async_abort uhash_entries "
    "unknown_nmi_panic update_mptable user_debug uv_memblksize vdso vdso32 vga video vm vm_debug "
    "vmalloc vmscape vsyscall watchdog watchdog_thresh x2apic_phys xen_512gb_limit xen_emul_unplug "
    "xen_legacy_crash xen_mc_debug xen_msr_safe xen_no_vector_callback xen_nopv xen_nopvspin "
    "xen_scrub_pages xen_timer_slop"
)

#: Module → its documented parameters; any other module has its own
_OF_MODULES = {
    "acpi": "debug_layer debug_level",
    "arm64": "no32bit_el0 nobti nomops nomte nopauth nosme nosve",
    "clocksource": "arm_arch_timer.evtstrm verify_n_cpus",
    "cpufreq": "default_governor off",
    "cpuhp": "parallel",
    "cpuidle": "governor off",
    "devtmpfs": "mount",
    "drm": "edid_firmware",
    "fw_devlink": "strict sync_state",
    "idxd": "sva tc_override",
    "ima": "ahash_bufsize ahash_minsize",
    "intel_idle": "max_cstate",
    "iommu": "forcedac passthrough strict",
    "irqchip": "gicv2_force_probe gicv3_nolpi gicv3_pseudo_nmi",
    "kvm": (
        "eager_page_split enable_virt_at_load enable_vmware_backdoor ignore_msrs mmu_audit "
        "nx_huge_pages nx_huge_pages_recovery_period_ms nx_huge_pages_recovery_ratio"
    ),
    "kvm_amd": "nested npt",
    "kvm_arm": (
        "mode vgic_v3_common_trap vgic_v3_group0_trap vgic_v3_group1_trap vgic_v4_enable "
        "wfe_trap_policy wfi_trap_policy"
    ),
    "kvm_intel": (
        "emulate_invalid_guest_state ept flexpriority nested unrestricted_guest vmentry_l1d_flush vpid"
    ),
    "libata": "dma force ignore_hpa noacpi",
    "lockd": "nlm_grace_period nlm_tcpport nlm_timeout nlm_udpport",
    "memory_hotplug": "memmap_on_memory",
    "microcode": "force_minrev",
    "module": "async_probe dyndbg enable_dups_trace sig_enforce",
    "netpoll": "carrier_timeout",
    "nf_conntrack": "acct",
    "nfs": (
        "cache_getent cache_getent_timeout callback_nr_threads callback_tcpport delay_retrans "
        "enable_ino64 idmap_cache_timeout max_session_cb_slots max_session_slots "
        "nfs4_disable_idmapping nfs4_unique_id recover_lost_locks send_implementation_id"
    ),
    "nfsd": "inter_copy_offload_enable nfs4_disable_idmapping nfsd4_ssc_umount_timeout",
    "nvme_tcp": "tls_handshake_timeout",
    "page_alloc": "shuffle",
    "pnp": "debug",
    "printk": "always_kmsg_dump console_no_auto_verbose debug_non_panic_cpus devkmsg time",
    "processor": "max_cstate nocst",
    "pstore": "backend",
    "random": "trust_bootloader trust_cpu",
    "rcupdate": (
        "rcu_cpu_stall_cputime rcu_cpu_stall_ftrace_dump rcu_cpu_stall_notifiers "
        "rcu_cpu_stall_suppress rcu_cpu_stall_suppress_at_boot rcu_cpu_stall_timeout "
        "rcu_exp_cpu_stall_timeout rcu_exp_stall_task_details rcu_expedited rcu_normal "
        "rcu_normal_after_boot rcu_self_test rcu_self_test_bh rcu_self_test_sched "
        "rcu_task_collapse_lim rcu_task_contend_lim rcu_task_enqueue_lim rcu_task_ipi_delay "
        "rcu_task_lazy_lim rcu_task_stall_info rcu_task_stall_info_mult rcu_task_stall_timeout "
        "rcu_tasks_lazy_ms rcu_tasks_trace_lazy_ms"
    ),
    "rcutree": (
        "blimit csd_lock_suppress_rcu_stall do_rcu_barrier dump_tree enable_rcu_lazy gp_cleanup_delay "
        "gp_init_delay gp_preinit_delay jiffies_till_first_fqs jiffies_till_next_fqs "
        "jiffies_till_sched_qs kthread_prio nocb_nobypass_lim_per_jiffy nohz_full_patience_delay "
        "qhimark qlowmark qovld rcu_delay_page_cache_fill_msec rcu_divisor rcu_fanout_exact "
        "rcu_fanout_leaf rcu_idle_gp_delay rcu_idle_lazy_gp_delay rcu_kick_kthreads "
        "rcu_min_cached_objs rcu_nocb_gp_stride rcu_nocb_leader_stride rcu_normal_wake_from_gp "
        "rcu_resched_ns rcu_unlock_delay sysrq_rcu use_softirq"
    ),
    "rfkill": "default_state master_switch_mode",
    "smp": "csd_lock_timeout panic_on_ipistall",
    "srcutree": (
        "big_cpu_lim convert_to_big counter_wrap_check exp_holdoff small_contention_lim "
        "srcu_max_nodelay srcu_max_nodelay_phase srcu_retry_check_delay"
    ),
    "sunrpc": (
        "max_resvport min_resvport pool_mode svc_rpc_per_connection_limit tcp_slot_table_entries "
        "udp_slot_table_entries"
    ),
    "suspend": "pm_test_delay",
    "syscall": "x32",
    "sysctl": "vm.mem_profiling",
    "thermal": "act crt nocrt off psv tzp",
    "tpm": "disable_pcr_integrity",
    "usb_storage": "delay_use quirks",
    "usbcore": (
        "authorized_default autosuspend blinkenlights initial_descriptor_timeout nousb "
        "old_scheme_first quirks usbfs_memory_mb usbfs_snoop usbfs_snoop_max use_both_schemes"
    ),
    "workqueue": (
        "cpu_intensive_thresh_us cpu_intensive_warning_thresh debug_force_rr_cpu disable_numa "
        "panic_on_stall power_efficient unbound_cpus watchdog_thresh"
    ),
    "xen": "balloon_boot_timeout event_eoi_delay event_loop_timeout fifo_events",
    "xhci_hcd": "quirks",
}

#: For init, the initramfs and installers, which read /proc/cmdline: dracut.cmdline(7), initramfs-tools(7),
#: kernel-command-line(7), live-boot(7), bootparam(7). Without names with a dot, as the kernel ignores them.
_FOR_USERS = """
BOOT BOOT_DEBUG BOOTIF BOOT_IMAGE KEYMAP LANG MAC ROOTFS SYSFONT XCAT archisobasedir archisolabel auto
autoinstall biosdevname blacklist bond boot bootc bootdev break bridge cloud_config_url cloud_init
components composefs config console_font copytoram cow_spacesize cryptdevice cryptkey cryptopts ds dsmod
emergency fastboot fetch findiso fips forcefsck fsck_mode fsckfix ftpfs gfxpayload hostname httpfs ifname
img_dev img_loop imgurl ip iscsi_firmware iscsi_initiator iscsi_target_ip iscsi_target_name iscsi_username
keyboard_layouts live_config live_dir live_media locales loop loopfstype loopoffset luks maybe_ubiquity
modules_load nameserver netroot network_config nocomponents noeject nofstab nomount noprompt nosplash
noswap nosystemd ostree overlayroot persistence persistent preseed priority ramdisk rdblacklist rdinfo
rdloaddriver rdnetdebug rdshell rdudevdebug recovery rescue rhgb single skipfsck splash subnet team timezone
toram union url user_fullname username verbose vlan zfcp zfs znet
"""

#: Complete sets of values: mm/mempolicy.c, mm/huge_memory.c
_VALUES = {
    "numa_balancing": ("enable", "disable"),
    "transparent_hugepage": ("always", "madvise", "never"),
}

#: Words of parameters whose handlers ignore other words, mostly in silence. Newer kernels have more words:
#: only a slip of a listed one is an error (drivers/cpufreq/intel_pstate.c, amd-pstate.c; drivers/iommu;
#: drivers/pci/pcie/aspm.c; arch/x86/kernel/pci-dma.c, process.c, tsc.c; kernel/cpu.c, sched/core.c,
#: time/tick-sched.c; security/lockdown)
_WORDS = {
    "amd_iommu": "off fullflush force_isolation force_enable pgtbl_v1 pgtbl_v2 irtcachedis nohugepages",
    "amd_pstate": "disable passive active guided",
    "cpufreq.default_governor": "performance powersave ondemand userspace conservative schedutil",
    "hugetlb_free_vmemmap": "on off",
    "idle": "poll halt nomwait",
    "intel_iommu": "on off igfx_off forcedac strict sp_off sm_on sm_off tboot_noforce",
    "intel_pstate": (
        "disable active passive no_hwp hwp_only force per_cpu_perf_limits support_acpi_ppc no_cas"
    ),
    "iommu": (
        "off force noforce biomerge panic nopanic merge nomerge soft pt nopt forcesac allowdac nodac "
        "usedac fullflush memaper noagp noaperture"
    ),
    "lockdown": "integrity confidentiality",
    "mitigations": "off auto nosmt",
    "nohz": "on off",
    "nosmt": "force",
    "pcie_aspm": "off force",
    "preempt": "none voluntary full lazy",
    "tsc": "reliable noirqtime unstable nowatchdog recalibrate watchdog",
}

#: Shorter names resemble too many other words: `ip` and `lp`
_SHORTEST = 4

#: The kernel's messages about refused words: init/main.c and kernel/params.c
_UNKNOWN = regex(r'Unknown kernel command line parameters? "(.*)", will be passed to user space')
_NAMED = (
    regex(r"Malformed early option '([^']+)'"),
    regex(r"`[^']*' (?:invalid|too large) for parameter `([^']+)'"),
    regex(r"Unknown parameter `([^']+)'"),
)
#: Messages of a module at loading, which contain the parameter's name alone (kernel/module/main.c:
#: unknown_module_param_cb; kernel/params.c)
_OF_MODULE = (
    regex(r"(?:^|\s)([\w-]+): unknown parameter '([^']+)' ignored"),
    regex(r"(?:^|\s)([\w-]+): `[^']*' (?:invalid|too large) for parameter `([^']+)'"),
)
#: Messages of single parameters, by parameter: kernel/sched/isolation.c, mm/mempolicy.c,
#: mm/huge_memory.c, kernel/cpu.c, drivers/pci/pci.c, drivers/iommu, arch/x86/kernel/cpu/bugs.c
_OWN = {
    "isolcpus": regex(r"isolcpus: (?:Invalid|Error, unknown|Skipped unknown) flag|isolcpus= incorrect CPU"),
    "nohz_full": regex(r"Housekeeping: (?:nohz unsupported|nohz_full= )"),
    "rcu_nocbs": regex(r"kernel parameter 'rcu_nocbs='.*contains nonexistent CPUs"),
    "numa_balancing": regex(r"Unable to parse numa_balancing="),
    "transparent_hugepage": regex(r"transparent_hugepage= cannot parse"),
    "mitigations": regex(r"Unsupported mitigations="),
    "pci": regex(r"PCI: Unknown option `"),
    "intel_iommu": regex(r"DMAR: Unknown option - '"),
    "amd_iommu": regex(r"AMD-Vi: Unknown option - '"),
    "spectre_v2": regex(r"Spectre V2 : unknown option \("),
}


def is_for_users(key: str) -> bool:
    """True for a word for user space, which the kernel ignores. key: with _ for -."""
    return "." in key or key in _FOR_USERS.split()


def is_known(key: str) -> bool:
    """True for a parameter of one of these kernels. key: with _ for -."""
    module, dot, name = key.partition(".")
    return name in _OF_MODULES.get(module, "").split() if dot else key in _NAMES.split(" ")


def meant(key: str) -> str:
    """The known parameter that a misspelt one resembles; empty if it is known, for user space, or unlike any.
    key: with _ for -."""
    module, dot, _name = key.partition(".")
    if is_known(key) or (not dot and is_for_users(key)) or len(key) < _SHORTEST:
        return ""
    near = []
    for known in _dotted(module) if dot else _NAMES.split(" "):
        most = min(slips.most(known), slips.most(key))
        number = slips.count(key, known, most) if len(known) >= _SHORTEST else most + 1
        if number <= most:
            near.append((number, known))
    return min(near)[1] if near else ""


def _dotted(module: str) -> Iterable[str]:
    """Parameters of a module; of modules with a similar name if it is unknown."""
    modules = [module] if module in _OF_MODULES else [*_OF_MODULES]
    return (f"{candidate}.{name}" for candidate in modules for name in _OF_MODULES[candidate].split())


def refused_value(key: str, value: str) -> str:
    """Reason why no kernel takes a value; empty if one may."""
    taken = _VALUES.get(key, (value,))
    if value not in taken:
        return f"the kernel takes {' or '.join(taken)}, and ignores {value!r}"
    words = _WORDS.get(key, "").split()
    for word in value.split(",") if words else ():
        near = [known for known in words if slips.count(word, known, 1) == 1]
        if word not in words and near and not word.isdigit():
            return f"the kernel ignores {word!r}; did you mean {near[0]}?"
    return ""


def ignored(key: str, words: Iterable[str], log: Iterable[str]) -> str:
    """The line of the kernel's log that reports a refused parameter; empty if there is none. words: of the
    command line, unchanged."""
    own = _OWN.get(key)
    given = {_spelled(word) for word in words}
    for line in log:
        unknown = _UNKNOWN.search(line)
        if unknown and not is_for_users(key) and given & {*map(_spelled, unknown.group(1).split(" "))}:
            return line.strip()
        named = next(filter(None, (pattern.search(line) for pattern in _NAMED)), None)
        if (named and _name(named.group(1)) == key) or (own is not None and own.search(line)):
            return line.strip()
        of_module = next(filter(None, (pattern.search(line) for pattern in _OF_MODULE)), None)
        if of_module and _name(f"{of_module.group(1)}.{of_module.group(2)}") == key:
            return line.strip()
    return ""


def _spelled(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"{_name(name)}{equals}{value}"


def _name(text: str) -> str:
    return re.sub("-", "_", text)
