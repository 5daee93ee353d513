# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parameters of the kernel command line in the kernels of the last ten years, and the words beside them that
are for user space.

Read from __setup(), early_param() and core_param() in the sources of Linux 4.19, 6.1 and 6.12, and from their
admin-guide/kernel-parameters.txt, of all architectures; some of later ones. Of the 368 names that 6.12 has
and 4.19 has not, 14 are as near to an older one as a slip of the pen: the kernel that runs is asked, too.
"""

from __future__ import annotations

import re
from typing import Iterable

from ..model import slips
from ..model.record import regex

#: Those of the kernel itself, with _ for -, which is the same to it
_NAMES = (
    "BusLogic LABC TOMOYO_loader TOMOYO_trigger accept_memory acpi acpi_apic_instance acpi_backlight "
    "acpi_enforce_resources acpi_force_32bit_fadt_addr acpi_force_table_verification acpi_irq_balance "
    "acpi_irq_isa acpi_irq_nobalance acpi_irq_pci acpi_mask_gpe acpi_no_auto_serialize acpi_no_memhotplug "
    "acpi_no_static_ssdt acpi_no_watchdog acpi_os_name acpi_osi acpi_pm_good acpi_rev_override acpi_rsdp "
    "acpi_sci acpi_skip_timer_override acpi_sleep acpi_use_timer_override acpica_no_return_repair "
    "adb_sync add_efi_memmap additional_cpus agp aha152x aic79xx aic7xxx align_va_addr alloc_mptable "
    "alloc_snapshot allow_mismatched_32bit_el0 amd_iommu amd_iommu_dump amd_iommu_intr amd_prefcore "
    "amd_pstate aoe_iflist apc apic apic_extnmi apicpmtimer apm apparmor arcrimi ataflop atarimouse "
    "atascsi audit audit_backlog_limit balloon3_features bau baycom_epp baycom_par baycom_ser_fdx "
    "baycom_ser_hdx bdev_allow_write_mounted bert_disable bgrt_disable blkdevparts boot_delay bootconfig "
    "bootmem_debug bulk_remove ca_keys cache_sram_offset cache_sram_size cachepolicy cachesize cad "
    "calgary carrier_timeout cca ccw_timeout_log cede_offline cfi cgroup_debug cgroup_disable "
    "cgroup_favordynmods cgroup_no_v1 cgroup_v1_proc checkreqprot chunk_root cifsroot cio_ignore "
    "clearcpuid clk_ignore_unused clock clocksource cma cma_pernuma cmma cmo_free_hint coherent_pool "
    "coherentio colibri_pxa270_baseboard com20020 com90io com90xx con3215_drop condev config7 conmode "
    "console console_msg_format consoleblank coredump_filter cpcihp_generic cpu0_hotplug cpu_init_udelay "
    "cpufreq cpuidle_sysfs_switch cpum_sfb_size crash_kexec_post_notifiers crashkernel cs89x0_dma "
    "cs89x0_media csdlock_debug cw dasd ddebug_query debug debug_alternative debug_boot_weak_hash "
    "debug_callthunks debug_guardpage_minorder debug_locks_verbose debug_non_panic_cpus debug_objects "
    "debug_pagealloc debugfs debugpat decay default_hugepagesz deferred_probe_timeout delayacct dfltcc "
    "dhash_entries dhcpclass dis_ucode_ldr disable_1tb_segments disable_cpe_poll disable_cpu_apicid "
    "disable_ddw disable_mtrr_cleanup disable_mtrr_trim disable_octeon_edac disable_radix "
    "disable_timer_pin_1 disable_tlbie disableapic dma_debug dma_debug_driver dma_debug_entries dmasound "
    "driver_async_probe dt_cpu_ftrs dump_apple_properties dyndbg early_ioremap_debug early_page_ext "
    "earlycon earlyprintk ecc edac_report edd eeh efi efi_fake_mem efi_no_storage_paranoia efivar_ssdt "
    "eisa_irq_edge ekgdboc elanfreq elevator elfcorehdr emac_addr emu_nodes emu_size enable_mtrr_cleanup "
    "enable_timer_pin_1 enforcing epoch erst_disable eth ether etm evlist evm fadump fadump_reserve_mem "
    "fail_futex fail_io_timeout fail_iommu fail_make_request fail_page_alloc fail_usercopy failslab "
    "fake_ide fas216_logging fb_tunnels fbcon fips first_memblock_base five_v_on floppy fmd force_cpei "
    "force_ep80219 force_pal_cache_flush forcepae fpaff fpe ftrace ftrace_boot_snapshot "
    "ftrace_dump_on_oops ftrace_filter ftrace_graph_filter ftrace_graph_max_depth ftrace_graph_notrace "
    "ftrace_notrace fw_devlink gart_fix_e820 gather_data_sampling gbpages gcov_persist gdth gpt "
    "hardened_usercopy hardlockup_all_cpu_backtrace hash_pointers hashdist hcheck_dump_tasks "
    "hcheck_margin hcheck_reboot hcheck_tick hcl hest_disable hibernate highmem highres hisax hlt "
    "hostname hpet hpet_mmap hugepages hugepagesz hugetlb_cma hugetlb_free_vmemmap hung_task_panic "
    "hv_nopvspin hvc_iucv hvc_iucv_allow hvirq hw_protection i2c_bus i2c_touchscreen_props ia32_emulation "
    "ibt idle ieee754 ignore_loglevel ignore_rlimit_data ihash_entries ima_appraise ima_appraise_tcb "
    "ima_canonical_fmt ima_hash ima_policy ima_tcb ima_template ima_template_fmt "
    "indirect_target_selection init init_on_alloc init_on_free init_pkru initcall_blacklist "
    "initcall_debug initramfs_async initramfs_options initrd initrdmem int_pln_enable integrity_audit "
    "intel_iommu intel_pstate intremap io7 io_delay iomem iommu iommu_fixed iop13xx_init_adma "
    "iop13xx_init_atu iop13xx_init_i2c iop13xx_init_uart iop3xx_init_atu ip ip28_debug_be ipcmni_extend "
    "ips irq irqaffinity irqfixup irqpoll irqtime isapnp isolcpus itcbase iucv ivrs_acpihid ivrs_hpet "
    "ivrs_ioapic kasan kasan_multi_shot keep_bootcon keepinitrd kernelcore key kgdbcon kgdbdbgp kgdboc "
    "kgdboc_earlycon kgdbts kgdbwait kho kmac kmemleak kprobe_event kpti kstack kunit_shutdown "
    "kvm_cma_resv_ratio l1d_flush l1tf l2cr l3cr lapic lapic_timer_c2_ok lcd load_ramdisk lockdown "
    "log_buf_len log_tree_root loglevel lp lpj lsm lsmsi ltpc mac5380 machvec max_addr max_loop maxcpus "
    "maxtcs maxvpes mce mconsole md mdacon mds mem mem_encrypt mem_fclk_21285 mem_sleep_default memblock "
    "memchunk memdma memhp_default_state memmap memory_corruption_check memory_corruption_check_period "
    "memory_corruption_check_size memtest mfgpt_irq mfgptfix mhash_entries microcode min_addr mini2440 "
    "mini6410 mipsr2emu mitigations mminit_loglevel mmio_stale_data module_blacklist monitor movable_node "
    "movablecore mphash_entries mtdparts mtdset mtrr mtrr_chunk_size mtrr_cleanup_debug mtrr_gran_size "
    "mtrr_spare_reg_nr multitce mx31lilly_baseboard mx31lite_baseboard mx31moboard_baseboard nblsu "
    "ncr53c8xx ndflush netconsole netdev nfsaddrs nfsroot nfsrootdebug niflush nmi_debug nmi_mode "
    "nmi_watchdog no387 no4lvl no5lvl no_alternatives no_bL_switcher no_console_suspend no_debug_objects "
    "no_entry_flush no_file_caps no_hash_pointers no_ipi_broadcast no_kvmapf no_kvmclock "
    "no_kvmclock_vsyscall no_rfi_flush no_scroll no_steal_acc no_stf_barrier no_timer_check "
    "no_uaccess_flush no_vmw_sched_clock noaliencache noalign noaltinstr noapic noapictimer noautogroup "
    "nobats nobp nocache noclflush nocoherentio nodebugmon nodelayacct nodsp noefi noexec noexec32 nofpu "
    "nofsgsbase noftlb nofxsr nogreybus nohalt nohibernate nohlt nohpet nohtw nohugeiomap nohugevmalloc "
    "nohz nohz_full noinitrd nointremap nointroute noinvpcid noiotrap noirqdebug noirqdistrib noisapnp "
    "nojitter nokaslr nokgdbroundup nol1par nol2par nolapic nolapic_timer noltlbs nolwsys nomca nomce "
    "nomfgpt nomodeset nomodule nompx nonmi_ipi nopat nopcid nopfault nopku nopti nopv nopvspin "
    "norandmaps nordrand noreplace_smp noresume norps nosbagart nosep nosgx nosmap nosmep nosmp nosmt "
    "nosoftlockup nospec nospec_store_bypass_disable nospectre_bhb nospectre_v1 nospectre_v2 nosync "
    "nothreads notsc noulri novmcoredd novx nowait nowatchdog nowb nox2apic noxpa noxsave noxsaveopt "
    "noxsaves nps_mtm_hs_ctr nptcg nr_cpus nr_uarts ntlb ntp_tick_adj numa numa_balancing numa_cma "
    "numa_debug numa_zonelist_order numcpus of_debug ofpci_debug ohci1394_dma olpc_ec_timeout "
    "omap_dma_reserve_ch omap_mux oops osst otg_mode page_owner page_poison page_table_check panic "
    "panic_on_taint panic_on_warn panic_print parport parport_init_mode pause_on_oops pci pci_slot_ignore "
    "pcie_aspm pcie_pme pcie_port_pm pcie_ports pcm037_variant pcmv pd_ignore_unused pdcchassis "
    "percpu_alloc pirq plip pm_debug_messages pmb pmtmr pmu_override pnp_reserve_dma pnp_reserve_io "
    "pnp_reserve_irq pnp_reserve_mem pnpacpi pnpbios possible_cpus ppc_pci_reset_phbs "
    "ppc_strict_facility_enable ppc_tm preempt print_fatal_signals profile prompt_ramdisk prot_virt "
    "protdflush protect_bootloader protiflush ps3fb ps3flash psi pti qla1280 quiet radix_hcall_invalidate "
    "raid ramdisk_size ramdisk_start randomize_kstack_offset ras raw_show_trace rcu_nocb_poll rcu_nocbs "
    "rd_size rd_start rdhwr_noopt rdinit rdrand rdt real6410 reboot reg_file_data_sampling "
    "regulator_ignore_unused relax_domain_level resched_latency_warn_ms reserve reserve_mem reservelow "
    "reservetop reset_devices resume resume_offset resumedelay resumewait retain_initrd retbleed "
    "rhash_entries ring3mwait riscv_isa_fallback ro rodata root rootdelay rootflags rootfstype rootwait "
    "rproc_mem rpsctl rtasmsgs rw s390_iommu s390_iommu_aperture sa1100ir sbapagesize sbni sched_debug "
    "sched_thermal_decay_shift sched_verbose schedstats sclp_con_drop sclp_con_pages security selinux "
    "serialnumber sev sh_mv show_lapic sim710 simeth simscsi skew_tick slab_debug slab_max_order "
    "slab_merge slab_min_objects slab_min_order slab_nomerge slab_strict_numa slram slub_debug "
    "slub_max_order slub_memcg_sysfs slub_merge slub_min_objects slub_min_order slub_nomerge smart2 smt "
    "smt_enabled smt_snooze_delay softlockup_all_cpu_backtrace softlockup_panic spec_rstack_overflow "
    "spec_store_bypass_disable spectre_bhi spectre_v2 spectre_v2_user spia_fio_base spia_io_base "
    "spia_peddr spia_pedr spin_retry split_lock_detect srbds ssbd ssl ssl_non_raw st stack_depot_disable "
    "stack_guard_gap stacktrace stacktrace_filter stderr sti sti_font stifb stmmaceth stp stram_pool "
    "stress_hpt stress_slb strict_sas_size surveillance svm swapaccount swiotlb switches sxgbeeth "
    "sysrq_always_enabled tcpmhash_entries test_suspend tft thash_entries thp_anon thp_shmem "
    "thread_backlog_napi threadirqs time_travel time_travel_start tmem topology topology_updates tp720 "
    "tp_printk tp_printk_stop_on_boot tpm tpm_suspend_pcr trace_buf_size trace_clock trace_event "
    "trace_instance trace_options trace_trigger traceoff_on_warning tracing_thresh transparent_hugepage "
    "transparent_hugepage_shmem transparent_hugepage_tmpfs tree_root tsa tsc tsc_early_khz tsx "
    "tsx_async_abort ubd udb udbg_immortal uhash_entries unknown_nmi_panic unwind_debug update_mptable "
    "user_debug userpte uv_memblksize uvrtcevt vdso vdso32 vec vector vga video vm vm_debug vmalloc "
    "vmcp_cma vmhalt vmpanic vmpoff vmreboot vmscape vrc4171_card vrc4173_cardu vsyscall watchdog "
    "watchdog_thresh wd33c93 writecombine x2apic_phys x86_intel_mid_timer xen_512gb_limit xen_emul_unplug "
    "xen_legacy_crash xen_mc_debug xen_msr_safe xen_no_vector_callback xen_nopv xen_nopvspin "
    "xen_scrub_pages xen_timer_slop xirc2ps_cs xive xmon"
)

#: Module → its parameters that are documented; any other module has its own
_OF_MODULES = {
    "acpi": "debug_layer debug_level",
    "amijoy": "map",
    "analog": "map",
    "androidboot": "bootdevice",
    "arm64": "no32bit_el0 nobti nomops nomte nopauth nosme nosve",
    "atkbd": "extra reset scroll set softraw softrepeat",
    "atmel": "pm_modes",
    "bttv": "card pll radio tuner",
    "cgroup": "memory",
    "clocksource": "arm_arch_timer.evtstrm verify_n_cpus",
    "clocksource_wdtest": "holdoff",
    "coresight_cpu_debug": "enable",
    "cpufreq": "default_governor off",
    "cpuhp": "parallel",
    "cpuidle": "governor off",
    "cryptomgr": "notests",
    "db9": "dev",
    "decnet": "addr",
    "dell_smm_hwmon": "fan_max fan_mult force ignore_dmi power_status restricted",
    "devtmpfs": "mount",
    "drm": "edid_firmware",
    "dscc4": "setup",
    "fw_devlink": "strict sync_state",
    "gamecon": "map",
    "gpio_mockup": "gpio_mockup_named_lines gpio_mockup_ranges",
    "grcan": "enable0 enable1 rxsize select txsize",
    "hibernate": "compressor",
    "i8042": (
        "debug direct dumbkbd kbdreset noaux nokbd noloop nomux nopnp notimeout probe_defer reset unlock "
        "unmask_kbd_data"
    ),
    "i8k": "force ignore_dmi power_status restricted",
    "i915": "invert_brightness",
    "ide_core": "nodma",
    "ide_generic": "probe_mask",
    "ide_pci_generic": "all_generic_ide",
    "idxd": "sva tc_override",
    "ima": "ahash_bufsize ahash_minsize",
    "inport": "irq",
    "intel_idle": "max_cstate",
    "iommu": "forcedac passthrough strict",
    "ipe": "enforce success_audit",
    "irqchip": "gicv2_force_probe gicv3_nolpi gicv3_pseudo_nmi",
    "kasan": "fault mode page_alloc.sample page_alloc.sample.order stack_ring_size stacktrace vmalloc",
    "kfence": "sample_interval",
    "kunit": "enable",
    "kvm": (
        "eager_page_split enable_virt_at_load enable_vmware_backdoor ignore_msrs mmu_audit nx_huge_pages "
        "nx_huge_pages_recovery_period_ms nx_huge_pages_recovery_ratio"
    ),
    "kvm_amd": "nested npt",
    "kvm_arm": (
        "mode vgic_v3_common_trap vgic_v3_group0_trap vgic_v3_group1_trap vgic_v4_enable wfe_trap_policy "
        "wfi_trap_policy"
    ),
    "kvm_intel": (
        "emulate_invalid_guest_state ept flexpriority nested unrestricted_guest vmentry_l1d_flush vpid"
    ),
    "libata": "dma force ignore_hpa noacpi",
    "lockd": "nlm_grace_period nlm_tcpport nlm_timeout nlm_udpport",
    "locktorture": (
        "acq_writer_lim bind_readers bind_writers call_rcu_chains long_hold nested_locks nreaders_stress "
        "nwriters_stress onoff_holdoff onoff_interval rt_boost rt_boost_factor shuffle_interval "
        "shutdown_secs stat_interval stutter torture_type verbose writer_fifo"
    ),
    "logibm": "irq",
    "logo": "nologo",
    "lsm": "debug",
    "memchunk": "",
    "memory_hotplug": "memmap_on_memory",
    "microcode": "force_minrev",
    "module": "async_probe dyndbg enable_dups_trace sig_enforce",
    "mousedev": "tap_time xres yres",
    "mtouchusb": "raw_coordinates",
    "netpoll": "carrier_timeout",
    "nf_conntrack": "acct",
    "nfs": (
        "cache_getent cache_getent_timeout callback_nr_threads callback_tcpport delay_retrans "
        "enable_ino64 idmap_cache_timeout max_session_cb_slots max_session_slots nfs4_disable_idmapping "
        "nfs4_unique_id recover_lost_locks send_implementation_id"
    ),
    "nfs4": "layoutstats_timer",
    "nfsd": "inter_copy_offload_enable nfs4_disable_idmapping nfsd4_ssc_umount_timeout",
    "nmi_backtrace": "backtrace_idle",
    "nvme_tcp": "tls_handshake_timeout",
    "onenand": "bdry",
    "oprofile": "cpu_type timer",
    "page_alloc": "shuffle",
    "page_reporting": "page_reporting_order",
    "parkbd": "mode port",
    "pata_legacy": (
        "all autospeed ht6560a ht6560b iordy_mask opti82c46x opti82c611a pio_mask probe_all probe_mask "
        "qdi winbond"
    ),
    "pata_platform": "pio_mask",
    "pcd": "",
    "pd": "",
    "pf": "",
    "pg": "",
    "pnp": "debug",
    "printk": "always_kmsg_dump console_no_auto_verbose debug_non_panic_cpus devkmsg time",
    "proc_mem": "force_override",
    "processor": "max_cstate nocst",
    "psmouse": "proto rate resetafter resolution smartscroll",
    "pstore": "backend",
    "pt": "",
    "pty": "legacy_count",
    "random": "trust_bootloader trust_cpu",
    "rcupdate": (
        "rcu_cpu_stall_cputime rcu_cpu_stall_ftrace_dump rcu_cpu_stall_notifiers rcu_cpu_stall_suppress "
        "rcu_cpu_stall_suppress_at_boot rcu_cpu_stall_timeout rcu_exp_cpu_stall_timeout "
        "rcu_exp_stall_task_details rcu_expedited rcu_normal rcu_normal_after_boot rcu_self_test "
        "rcu_self_test_bh rcu_self_test_sched rcu_task_collapse_lim rcu_task_contend_lim "
        "rcu_task_enqueue_lim rcu_task_ipi_delay rcu_task_lazy_lim rcu_task_stall_info "
        "rcu_task_stall_info_mult rcu_task_stall_timeout rcu_tasks_lazy_ms rcu_tasks_trace_lazy_ms"
    ),
    "rcuperf": (
        "gp_async gp_async_max gp_exp holdoff nreaders nwriters perf_type shutdown verbose writer_holdoff"
    ),
    "rcuscale": (
        "gp_async gp_async_max gp_exp holdoff kfree_alloc_num kfree_by_call_rcu kfree_loops kfree_mult "
        "kfree_nthreads kfree_rcu_test kfree_rcu_test_double kfree_rcu_test_single minruntime nreaders "
        "nwriters scale_type shutdown verbose writer_holdoff writer_holdoff_jiffies"
    ),
    "rcutorture": (
        "cbflood_inter_holdoff cbflood_intra_holdoff cbflood_n_burst cbflood_n_per_burst fqs_duration "
        "fqs_holdoff fqs_stutter fwd_progress fwd_progress_div fwd_progress_holdoff "
        "fwd_progress_need_resched gp_cond gp_exp gp_normal gp_sync irqreader leakpointer n_barrier_cbs "
        "nfakewriters nocbs_nthreads nocbs_toggle nreaders object_debug onoff_holdoff onoff_interval "
        "read_exit read_exit_burst read_exit_delay shuffle_interval shutdown_secs stall_cpu "
        "stall_cpu_block stall_cpu_holdoff stall_cpu_irqsoff stall_cpu_repeat stall_gp_kthread "
        "stat_interval stutter test_boost test_boost_duration test_boost_interval test_no_idle_hz "
        "torture_type verbose"
    ),
    "rcutree": (
        "blimit csd_lock_suppress_rcu_stall do_rcu_barrier dump_tree enable_rcu_lazy gp_cleanup_delay "
        "gp_init_delay gp_preinit_delay jiffies_till_first_fqs jiffies_till_next_fqs "
        "jiffies_till_sched_qs kthread_prio nocb_nobypass_lim_per_jiffy nohz_full_patience_delay qhimark "
        "qlowmark qovld rcu_delay_page_cache_fill_msec rcu_divisor rcu_fanout_exact rcu_fanout_leaf "
        "rcu_idle_gp_delay rcu_idle_lazy_gp_delay rcu_kick_kthreads rcu_min_cached_objs "
        "rcu_nocb_gp_stride rcu_nocb_leader_stride rcu_normal_wake_from_gp rcu_resched_ns "
        "rcu_unlock_delay sysrq_rcu use_softirq"
    ),
    "refscale": (
        "holdoff lookup_instances loops nreaders nruns readdelay scale_type shutdown verbose verbose_batched"
    ),
    "rfkill": "default_state master_switch_mode",
    "rockchip": "usb_uart",
    "scftorture": (
        "holdoff longwait nthreads onoff_holdoff onoff_interval shutdown_secs stat_interval stutter_cpus "
        "use_cpus_read_lock verbose weight_all weight_all_wait weight_many weight_many_wait weight_single "
        "weight_single_wait"
    ),
    "smp": "csd_lock_timeout panic_on_ipistall",
    "smsc_ircc2": "ircc_cfg ircc_dma ircc_fir ircc_irq ircc_sir ircc_transceiver nopnp",
    "srcutree": (
        "big_cpu_lim convert_to_big counter_wrap_check exp_holdoff small_contention_lim srcu_max_nodelay "
        "srcu_max_nodelay_phase srcu_retry_check_delay"
    ),
    "sunrpc": (
        "max_resvport min_resvport pool_mode svc_rpc_per_connection_limit tcp_slot_table_entries "
        "udp_slot_table_entries"
    ),
    "suspend": "pm_test_delay",
    "syscall": "x32",
    "sysctl": "vm.mem_profiling",
    "sysfs": "deprecated",
    "thermal": "act crt nocrt off psv tzp",
    "tmem": "cleancache frontswap selfballooning selfshrinking",
    "torture": "disable_onoff_at_boot ftrace_dump_at_shutdown verbose_sleep_duration verbose_sleep_frequency",
    "tpm": "disable_pcr_integrity",
    "tpm_tis": "interrupts",
    "trace": "evlist",
    "trusted": "dcp_skip_zk_test dcp_use_otp_key rng source",
    "turbografx": "map",
    "uhci_hcd": "ignore_oc",
    "usb_storage": "delay_use quirks",
    "usbcore": (
        "authorized_default autosuspend blinkenlights initial_descriptor_timeout nousb old_scheme_first "
        "quirks usbfs_memory_mb usbfs_snoop usbfs_snoop_max use_both_schemes"
    ),
    "usbhid": "jspoll kbpoll mousepoll",
    "video": "brightness_switch_enabled",
    "virtio_mmio": "device",
    "vt": (
        "color cur_default default_blu default_grn default_red default_utf8 global_cursor_default italic "
        "underline"
    ),
    "workqueue": (
        "cpu_intensive_thresh_us cpu_intensive_warning_thresh debug_force_rr_cpu disable_numa "
        "panic_on_stall power_efficient unbound_cpus watchdog_thresh"
    ),
    "xen": "balloon_boot_timeout event_eoi_delay event_loop_timeout fifo_events",
    "xhci_hcd": "quirks",
    "xive": "store_eoi",
}

#: For init, the initramfs and installers, which read /proc/cmdline: dracut.cmdline(7), initramfs-tools(7),
#: kernel-command-line(7), live-boot(7), bootparam(7). None with a dot is listed, as the kernel leaves them.
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

#: Values of parameters that take nothing else: mm/mempolicy.c, mm/huge_memory.c
_VALUES = {
    "numa_balancing": ("enable", "disable"),
    "transparent_hugepage": ("always", "madvise", "never"),
}

#: Words of parameters whose handlers ignore any other one, mostly in silence. Newer kernels have more: only
#: a slip of one of these is a mistake (drivers/cpufreq/intel_pstate.c, amd-pstate.c; drivers/iommu;
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

#: Shorter names are too many words away from nothing: `ip` and `lp`
_SHORTEST = 4

#: The kernel's own lines about words that it does not take: init/main.c and kernel/params.c
_UNKNOWN = regex(r'Unknown kernel command line parameters? "(.*)", will be passed to user space')
_NAMED = (
    regex(r"Malformed early option '([^']+)'"),
    regex(r"`[^']*' (?:invalid|too large) for parameter `([^']+)'"),
    regex(r"Unknown parameter `([^']+)'"),
)
#: Those of a module as it is loaded, which has a parameter's name alone (kernel/module/main.c:
#: unknown_module_param_cb; kernel/params.c)
_OF_MODULE = (
    regex(r"(?:^|\s)([\w-]+): unknown parameter '([^']+)' ignored"),
    regex(r"(?:^|\s)([\w-]+): `[^']*' (?:invalid|too large) for parameter `([^']+)'"),
)
#: Those of single parameters, by the name that they are about: kernel/sched/isolation.c, mm/mempolicy.c,
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
    """True for a word that is not the kernel's to know. key: with _ for -."""
    return "." in key or key in _FOR_USERS.split()


def is_known(key: str) -> bool:
    """True for a parameter of one of these kernels. key: with _ for -."""
    module, dot, name = key.partition(".")
    return name in _OF_MODULES.get(module, "").split() if dot else key in _NAMES.split(" ")


def meant(key: str) -> str:
    """The known parameter that a misspelt one is taken for; empty if it is known or for user space, or like
    none of them. key: with _ for -."""
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
    """Parameters of a module; of modules with nearly its name, if it is not known itself."""
    modules = [module] if module in _OF_MODULES else [*_OF_MODULES]
    return (f"{one}.{name}" for one in modules for name in _OF_MODULES[one].split())


def refused_value(key: str, value: str) -> str:
    """Reason why no kernel takes a value; empty if one may."""
    taken = _VALUES.get(key, (value,))
    if value not in taken:
        return f"the kernel takes {' or '.join(taken)}, and ignores {value!r}"
    words = _WORDS.get(key, "").split()
    for word in value.split(",") if words else ():
        near = [one for one in words if slips.count(word, one, 1) == 1]
        if word not in words and near and not word.isdigit():
            return f"the kernel ignores {word!r}; did you mean {near[0]}?"
    return ""


def ignored(key: str, words: Iterable[str], log: Iterable[str]) -> str:
    """The line of the kernel's log by which it did not take a parameter; empty if there is none. words: of
    the command line, as it is given there."""
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
