# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of /proc/sys in the kernels of the last ten years, and their numbers.

Read from the tables of struct ctl_table in the sources of Linux 4.19, 6.1, 6.12 and 7.3, and from
/proc/sys of 6.18; kernel/*unprivileged* and kernel/apparmor_* are also from Debian and Ubuntu. Subtrees of
old protocols and of other architectures are left out: their keys resemble none of these.

An entry is a name and, if its numbers differ from the range of int,

    =LEAST:MOST   the numbers that some of these kernels take, as a preview must not refuse numbers that one
                  of them takes; after + instead, the range since 6.1, as older kernels take an int. An empty
                  end is the one of int; u, L and U are the greatest unsigned int, long and unsigned long of
                  64 bits. With = alone they are unknown, or it takes no numbers
    ,LEAST:MOST   the numbers that every kernel takes, if these are fewer by its version, its build or the
                  machine: 17592186040320 is UINT_MAX pages of 4 KiB (mm/page-writeback.c), 8192 more than
                  SOCK_MIN_RCVBUF of each (include/net/sock.h). ? if the kernel requires more than a range,
                  such as another value, the hardware, or an earlier setting, and for read-only keys
    @UNIT         their unit, of sysctl_handlers

A `*` is the name of an interface.
"""

from __future__ import annotations

_NEIGH = (
    "anycast_delay@ticks app_solicit=0: base_reachable_time@s base_reachable_time_ms@ms "
    "delay_first_probe_time@s gc_interval@s gc_stale_time@s gc_thresh1=0: gc_thresh2=0: gc_thresh3=0: "
    "interval_probe_time_ms@ms>0 locktime@ticks mcast_resolicit=0: mcast_solicit=0: proxy_delay@ticks "
    "proxy_qlen=0: retrans_time@ticks retrans_time_ms@ms ucast_solicit=0: unres_qlen=:,? "
    "unres_qlen_bytes=0:"
)

KEYS = {
    "abi": (
        "riscv_v_default_allow=0:1 sme_default_vector_length= sve_default_vector_length= "
        "tagged_addr_disabled=0:1 vsyscall32="
    ),
    "crypto": "af_alg_restrict=0:2 fips_enabled fips_name= fips_version=",
    "debug": "exception-trace= kprobes-optimization=",
    "dev/cdrom": "autoclose= autoeject= check_media= debug= info= lock=",
    "dev/hpet": "max-user-freq",
    "dev/i915": "oa_max_sample_rate=0: perf_stream_paranoid=0:1",
    "dev/ipmi": "poweroff_powercycle",
    "dev/mac_hid": "mouse_button2_keycode mouse_button3_keycode mouse_button_emulation=",
    "dev/raid": "speed_limit_max speed_limit_min sync_io_depth",
    "dev/rtc": "max-user-freq",
    "dev/scsi": "logging_level",
    "dev/tty": "ldisc_autoload=0:1 legacy_tiocsti=0:1",
    "dev/xe": "observation_paranoid=0:1",
    "fs": (
        "aio-max-nr=0:U aio-nr=0:U,? binfmt_misc= dentry-negative=0:1 dentry-state= dir-notify-enable "
        "epoll= file-max=0:U,0:L file-nr= inode-nr= inode-state= inotify= lease-break-time leases-enable "
        "mount-max=1: negative-dentry-limit= nr_open=64:2147483584 ntfs-debug overflowgid=0:65535 "
        "overflowuid=0:65535 pipe-max-size=0:U,? pipe-user-pages-hard=0:U pipe-user-pages-soft=0:U "
        "protected_fifos=0:2 protected_hardlinks=0:1 protected_regular=0:2 protected_symlinks=0:1 "
        "suid_dumpable=0:2"
    ),
    "fs/epoll": "max_user_watches=0:L",
    "fs/fanotify": "max_queued_events=0: max_user_groups=0: max_user_marks=0: watchdog_timeout=0:",
    "fs/fuse": "default_request_timeout=0:65535 max_pages_limit=1:65535 max_request_timeout=0:65535",
    "fs/inotify": "max_queued_events=0: max_user_instances=0: max_user_watches=0:",
    "fs/mqueue": (
        "msg_default=1:65536 msg_max=1:65536 msgsize_default=128:16777216 msgsize_max=128:16777216 queues_max"
    ),
    "fs/nfs": (
        "idmap_cache_timeout nfs_callback_tcpport nfs_congestion_kb nfs_mountpoint_timeout "
        "nlm_grace_period=0:U nlm_tcpport nlm_timeout=0:U nlm_udpport nsm_local_state=:u "
        "nsm_use_hostnames+0:1"
    ),
    "fs/ntfs": "ntfs-debug",
    "fs/ocfs2/nm": "hb_ctl_path=",
    "fs/quota": "allocated_dquots= cache_hits= drops= free_dquots= lookups= reads= syncs= warnings writes=",
    "fs/verity": "require_signatures=0:1",
    "fs/xfs": (
        "error_level filestream_centisecs inherit_noatime inherit_nodefrag inherit_nodump "
        "inherit_nosymlinks inherit_sync irix_sgid_inherit irix_symlink_mode panic_mask= rotorstep "
        "speculative_cow_prealloc_lifetime speculative_prealloc_lifetime stats_clear= xfssyncd_centisecs"
    ),
    "kernel": (
        "acct acpi_video_flags=0:U apparmor_display_secid_mode apparmor_restrict_unprivileged_io_uring= "
        "apparmor_restrict_unprivileged_unconfined apparmor_restrict_unprivileged_userns= "
        "apparmor_restrict_unprivileged_userns_complain= apparmor_restrict_unprivileged_userns_force= "
        "arch= auto_msgmni=0:1,? bootloader_type=:,? bootloader_version=:,? bpf_stats_enabled= cad_pid= "
        "callhome=0:1 cap_last_cap=:,? core_file_note_size_limit=0:u,? core_modes= core_pattern= "
        "core_pipe_limit=:,0: core_sort_vma=0:1 core_uses_pid ctrl-alt-del dmesg_restrict=0:1 domainname= "
        "dpm_watchdog_timeout_secs=1:U,? dpm_watchdog_warning_timeout_secs=1:u,? firmware_config= "
        "ftrace_dump_on_oops= ftrace_enabled= hardlockup_all_cpu_backtrace=0:1 hardlockup_panic=0:1 "
        "hardlockup_sys_info= hostname= hotplug= hung_task_all_cpu_backtrace=0:1 hung_task_check_count=0: "
        "hung_task_check_interval_secs= hung_task_detect_count= hung_task_panic=0:,0:1 hung_task_sys_info= "
        "hung_task_timeout_secs=0:U,0: hung_task_warnings=-1: hyperv_record_panic_msg=0:1 "
        "ieee_emulation_warnings ignore-unaligned-usertrap io_delay_type io_uring_disabled=0:2 "
        "io_uring_group kdump_on_fatal_mca kdump_on_init kernel_sys_info= kexec_load_disabled=1:1 "
        "kexec_load_limit_panic= kexec_load_limit_reboot= keys= kptr_restrict=0:2 latencytop= lock_stat "
        "max_lock_depth max_rcu_stall_to_panic=1: modprobe= modules_disabled=1:1 msg_next_id=0: msgmax=0: "
        "msgmnb=0: msgmni=0:,0:32768 ngroups_max=:,? nmi_watchdog=0:1,? nmi_wd_lpm_factor=0:u "
        "ns_last_pid=0:U,? numa_balancing=0:4 numa_balancing_promote_rate_limit_MBps=0: "
        "numa_balancing_scan_delay_ms numa_balancing_scan_period_max_ms numa_balancing_scan_period_min_ms "
        "numa_balancing_scan_size_mb=1: oops_all_cpu_backtrace=0:1 oops_limit=0:u osrelease= ostype= "
        "overflowgid=0:65535 overflowuid=0:65535 panic panic_on_io_nmi panic_on_oops "
        "panic_on_rcu_stall=0:1 panic_on_stackoverflow panic_on_unrecovered_nmi panic_on_warn=0:1 "
        "panic_print= panic_sys_info= perf_cpu_time_max_percent=0:100 "
        "perf_event_max_contexts_per_stack=0:1000,? perf_event_max_sample_rate=1:U,? "
        "perf_event_max_stack=0:655360,? perf_event_mlock_kb perf_event_paranoid perf_user_access=0:2 "
        "pid_max=301:4194304,65536:4194304 poweroff_cmd= powersave-nap print-fatal-signals printk "
        "printk_delay=0:10000 printk_devkmsg= printk_ratelimit@s printk_ratelimit_burst prove_locking "
        "random= randomize_va_space real-root-dev reboot-cmd= sched_autogroup_enabled=0:1 "
        "sched_cfs_bandwidth_slice_us=1: sched_child_runs_first sched_deadline_period_max_us=100:u,? "
        "sched_deadline_period_min_us=0:4194304,? sched_domain= sched_energy_aware=0:1,? "
        "sched_itmt_enabled=0:1 sched_latency_ns=100000:U,100000:1000000000 sched_migration_cost_ns "
        "sched_min_granularity_ns=100000:U,100000:1000000000 sched_nr_migrate sched_rr_timeslice_ms= "
        "sched_rt_period_us+1:,? sched_rt_runtime_us+-1:,? sched_schedstats=0:1 sched_tunable_scaling= "
        "sched_util_clamp_max= sched_util_clamp_min= sched_util_clamp_min_rt_default= "
        "sched_wakeup_granularity_ns= scons-poweroff sem sem_next_id=0: sg-big-buff shm_next_id=0: "
        "shm_rmid_forced=0:1 shmall=0:U shmmax=0:U shmmni+0:,0:32768 soft-power soft_watchdog=0:1,? "
        "softlockup_all_cpu_backtrace=0:1 softlockup_panic=0:,0:1 softlockup_sys_info= spin_retry "
        "split_lock_mitigate=0:1 stack_erasing=0:1 stack_tracer_enabled= stop-a syscall_user_dispatch=0:1 "
        "sysctl_writes_strict=-1:1 sysrq=: tainted= task_delayacct=0:1 threads-max=1:,20:1073741823 "
        "timer_migration=0:1 traceoff_on_warning tracepoint_printk= tsb-ratio unaligned-dump-stack "
        "unaligned-trap unknown_nmi_panic unprivileged_bpf_disabled=0:2,? "
        "unprivileged_userns_apparmor_policy unprivileged_userns_clone user_events_max= usermodehelper= "
        "userprocess_debug version= warn_limit=0:u watchdog=0:1,? watchdog_cpumask= watchdog_thresh=0:60"
    ),
    "kernel/firmware_config": "force_sysfs_fallback=0:1 ignore_sysfs_fallback=0:1",
    "kernel/keys": (
        "gc_delay=0: maxbytes=1: maxkeys=1: persistent_keyring_expiry=0: root_maxbytes=1: root_maxkeys=1:"
    ),
    "kernel/loadpin": "enforce=0:1",
    "kernel/perfmon": "debug debug_ovfl expert_mode fastctxsw",
    "kernel/pty": "max nr reserve",
    "kernel/random": (
        "boot_id= entropy_avail=:,? poolsize=:,? urandom_min_reseed_secs= uuid= write_wakeup_threshold="
    ),
    "kernel/seccomp": "actions_avail= actions_logged=",
    "kernel/usermodehelper": "bset= inheritable=",
    "kernel/yama": "ptrace_scope=0:3,?",
    "net": "nf_conntrack_max+0:",
    "net/bridge": (
        "bridge-nf-call-arptables=0:1 bridge-nf-call-ip6tables=0:1 bridge-nf-call-iptables=0:1 "
        "bridge-nf-filter-pppoe-tagged=0:1 bridge-nf-filter-vlan-tagged=0:1 "
        "bridge-nf-pass-vlan-input-dev=0:1"
    ),
    "net/core": (
        "bpf_jit_enable= bpf_jit_harden=0:2 bpf_jit_kallsyms=0:1 bpf_jit_limit=1:U,? busy_poll=0: "
        "busy_read=0: bypass_prot_mem=0:1 default_qdisc= dev_weight+1:U,1: dev_weight_rx_bias+1:U,1: "
        "dev_weight_tx_bias+1:U,1: devconf_inherit_init_net=0:3 fb_tunnels_only_for_init_net=0:2 "
        "flow_limit_cpu_bitmap= flow_limit_table_len=:,0: gro_normal_batch=1: high_order_alloc_disable=0:1 "
        "max_skb_frags=1:,1:17 mem_pcpu_rsv=:,? message_burst message_cost@s netdev_budget "
        "netdev_budget_usecs=:,20000: netdev_max_backlog netdev_rss_key= netdev_tstamp_prequeue "
        "netdev_unregister_timeout_secs=1:3600 optmem_max=:,0: qdisc_max_burst rmem_default=:,8192: "
        "rmem_max=:,8192: rps_default_mask= rps_sock_flow_entries=0:536870912,0:16777216 "
        "skb_defer_max=0:U,0: somaxconn=0: tstamp_allow_data=0:1 txq_reselection_ms txrehash=0:1 warnings "
        "wmem_default=:,8192: wmem_max=:,8192: xfrm_acq_expires xfrm_aevent_etime=0:u "
        "xfrm_aevent_rseqth=0:u xfrm_larval_drop"
    ),
    "net/ipv4": (
        "cipso_cache_bucket_size cipso_cache_enable cipso_rbm_optfmt cipso_rbm_strictvalid "
        "fib_multipath_hash_fields=1:U,1:255 fib_multipath_hash_policy=0:3 fib_multipath_hash_seed= "
        "fib_multipath_use_neigh=0:1 fib_notify_on_flag_change=0:2 fib_sync_mem=0:u,65536:1048576 "
        "fwmark_reflect+0:255 icmp_echo_enable_probe=0:1 icmp_echo_ignore_all+0:1 "
        "icmp_echo_ignore_broadcasts+0:1 icmp_errors_extension_mask=0:255 "
        "icmp_errors_use_inbound_ifaddr+0:1 icmp_ignore_bogus_error_responses+0:1 icmp_msgs_burst=0: "
        "icmp_msgs_per_sec=0: icmp_ratelimit@ms icmp_ratemask igmp_link_local_mcast_reports+0:255 "
        "igmp_max_memberships igmp_max_msf igmp_qrv=1: inet_peer_maxttl@s inet_peer_minttl@s "
        "inet_peer_threshold ip_autobind_reuse=0:1 ip_default_ttl=1:255 ip_dynaddr+0:255 "
        "ip_early_demux+0:255 ip_forward=: ip_forward_update_priority=0:1 ip_forward_use_pmtu+0:255 "
        "ip_local_port_range=1:65535 ip_local_port_step_width=0:u ip_local_reserved_ports= "
        "ip_no_pmtu_disc+0:255 ip_nonlocal_bind+0:255 ip_unprivileged_port_start=0:65535,? "
        "ipfrag_high_thresh=0:U,? ipfrag_low_thresh=0:U,? ipfrag_max_dist=:,0: ipfrag_secret_interval@s "
        "ipfrag_time@s nexthop_compat_mode=0:1 ping_group_range=0:4294967294,0: raw_l3mdev_accept=0:1 "
        "tcp_abort_on_overflow+0:255 tcp_adv_win_scale=-31:31 tcp_allowed_congestion_control= "
        "tcp_app_win+0:31 tcp_autocorking=0:1 tcp_available_congestion_control= tcp_available_ulp= "
        "tcp_backlog_ack_defer=0:1 tcp_base_mss tcp_challenge_ack_limit tcp_child_ehash_entries=0:16777216 "
        "tcp_comp_sack_delay_ns=0:U tcp_comp_sack_nr=0:255 tcp_comp_sack_rtt_percent=1:1000 "
        "tcp_comp_sack_slack_ns=0:U tcp_congestion_control= tcp_dsack+0:255 tcp_early_demux+0:255 "
        "tcp_early_retrans=0:4 tcp_ecn+0:5,0:2 tcp_ecn_fallback+0:1 tcp_ecn_option=0:3,0:2 "
        "tcp_ecn_option_beacon=0:3 tcp_ehash_entries= tcp_fack+0:255 tcp_fastopen "
        "tcp_fastopen_blackhole_timeout_sec=0:U,0: tcp_fastopen_key= tcp_fin_timeout@s tcp_frto+0:255 "
        "tcp_fwmark_accept+0:255 tcp_invalid_ratelimit@ms tcp_keepalive_intvl@s tcp_keepalive_probes+0:255 "
        "tcp_keepalive_time@s tcp_l3mdev_accept=0:1 tcp_limit_output_bytes tcp_low_latency tcp_max_orphans "
        "tcp_max_reordering+1: tcp_max_syn_backlog tcp_max_tw_buckets tcp_mem=0:U tcp_migrate_req=0:1 "
        "tcp_min_rtt_wlen+0:86400 tcp_min_snd_mss=:65535,48:65535 tcp_min_tso_segs=1:,1:255 "
        "tcp_moderate_rcvbuf+0:255 tcp_mtu_probe_floor=:65535,48:65535 tcp_mtu_probing+0:255 "
        "tcp_no_metrics_save+0:255 tcp_no_ssthresh_metrics_save=0:1 tcp_notsent_lowat=0:u "
        "tcp_orphan_retries+0:255 tcp_pacing_ca_ratio=0:1000 tcp_pacing_ss_ratio=0:1000 "
        "tcp_pingpong_thresh=1:255 tcp_plb_cong_thresh=0:256 tcp_plb_enabled=0:1 "
        "tcp_plb_idle_rehash_rounds=0:31 tcp_plb_rehash_rounds=0:31 tcp_plb_suspend_rto_sec=0:255 "
        "tcp_probe_interval=0:u,0:4294967 tcp_probe_threshold tcp_rcvbuf_low_rtt=0: tcp_recovery+0:255 "
        "tcp_reflect_tos=0:1 tcp_reordering+1:,? tcp_retrans_collapse+0:255 tcp_retries1=:255,0:255 "
        "tcp_retries2+0:255 tcp_rfc1337+0:255 tcp_rmem=1:,4096: tcp_rto_max_ms=1000:120000 "
        "tcp_rto_min_us=1: tcp_sack+0:255 tcp_shrink_window=0:1 tcp_slow_start_after_idle+0:255 "
        "tcp_stdurg+0:255 tcp_syn_linear_timeouts=0:255,0:127 tcp_syn_retries=1:,1:127 "
        "tcp_synack_retries+0:255 tcp_syncookies+0:255 tcp_thin_linear_timeouts+0:255 tcp_timestamps+0:255 "
        "tcp_tso_rtt_log=0:255 tcp_tso_win_divisor+0:255 tcp_tw_recycle= tcp_tw_reuse=0:2 "
        "tcp_tw_reuse_delay=1:u,1:60000 tcp_window_scaling+0:255 tcp_wmem=1: "
        "tcp_workaround_signed_windows+0:255 udp_child_hash_entries=0:u,0:65536 udp_early_demux+0:255 "
        "udp_hash_entries= udp_l3mdev_accept=0:1 udp_mem=0:U udp_rmem_min=1: udp_wmem_min=1: "
        "xfrm4_gc_thresh"
    ),
    "net/ipv4/conf/*": (
        "accept_local accept_redirects accept_source_route arp_accept arp_announce arp_evict_nocarrier "
        "arp_filter arp_ignore arp_notify bc_forwarding bootp_relay disable_policy disable_xfrm "
        "drop_gratuitous_arp drop_unicast_in_l2_multicast force_igmp_version forwarding "
        "igmpv2_unsolicited_report_interval igmpv3_unsolicited_report_interval ignore_routes_with_linkdown "
        "ip_forward log_martians mc_forwarding=:,? medium_id promote_secondaries proxy_arp proxy_arp_pvlan "
        "route_localnet rp_filter secure_redirects send_redirects shared_media src_valid_mark tag"
    ),
    "net/ipv4/neigh/*": _NEIGH,
    "net/ipv4/route": (
        "error_burst error_cost flush= gc_elasticity gc_interval@s gc_min_interval@s gc_min_interval_ms@ms "
        "gc_thresh gc_timeout@s max_size min_adv_mss min_pmtu=:,576: mtu_expires@s redirect_load "
        "redirect_number redirect_silence"
    ),
    "net/ipv4/vs": (
        "am_droprate amemthresh backup_only cache_bypass conn_lfactor= conn_max= conn_reuse_mode conntrack "
        "debug_level drop_entry= drop_packet= est_cpulist= est_nice= expire_nodest_conn "
        "expire_quiescent_template ignore_tunneled lblc_expiration lblcr_expiration nat_icmp_send "
        "pmtu_disc run_estimation= schedule_icmp secure_tcp= sloppy_sctp sloppy_tcp snat_reroute "
        "svc_lfactor= sync_persist_mode sync_ports= sync_qlen_max=0:U sync_refresh_period sync_retries=0:3 "
        "sync_sock_size sync_threshold= sync_version+0:1"
    ),
    "net/ipv6": (
        "anycast_src_echo_reply+0:255 auto_flowlabels+0:255,0:3 bindv6only+0:255 calipso_cache_bucket_size "
        "calipso_cache_enable fib_multipath_hash_fields=1:U,1:255 fib_multipath_hash_policy=0:3 "
        "fib_notify_on_flag_change=0:2 flowlabel_consistency+0:255 flowlabel_reflect+0:7 "
        "flowlabel_state_ranges+0:255 fwmark_reflect+0:255 idgen_delay@s idgen_retries "
        "ioam6_id=0:u,0:16777215 ioam6_id_wide=0:U,0:16777215 ip6frag_high_thresh=0:U,? "
        "ip6frag_low_thresh=0:U,? ip6frag_secret_interval@s ip6frag_time@s ip_nonlocal_bind+0:255 "
        "max_dst_opts_length max_dst_opts_number max_hbh_length max_hbh_opts_number mld_max_msf mld_qrv=1: "
        "seg6_flowlabel xfrm6_gc_thresh"
    ),
    "net/ipv6/conf/*": (
        "accept_dad accept_ra accept_ra_defrtr accept_ra_from_local accept_ra_min_hop_limit "
        "accept_ra_min_lft accept_ra_mtu accept_ra_pinfo accept_ra_rt_info_max_plen "
        "accept_ra_rt_info_min_plen accept_ra_rtr_pref accept_redirects accept_source_route "
        "accept_untracked_na=0:2 addr_gen_mode=:,0:1 autoconf dad_transmits disable_ipv6 disable_policy "
        "drop_unicast_in_l2_multicast drop_unsolicited_na enhanced_dad force_forwarding=0:1 "
        "force_mld_version force_tllao forwarding hop_limit=1:255 ignore_routes_with_linkdown "
        "ioam6_enabled=0:1 ioam6_id= ioam6_id_wide= keep_addr_on_down max_addresses max_desync_factor "
        "mc_forwarding=:,? mldv1_unsolicited_report_interval@ms mldv2_unsolicited_report_interval@ms "
        "mtu=:,? ndisc_evict_nocarrier=0:1 ndisc_notify ndisc_tclass=0:255 optimistic_dad proxy_ndp "
        "ra_defrtr_metric=0:u,1:u ra_honor_pio_life=0:1 ra_honor_pio_pflag=0:1 regen_max_retry "
        "regen_min_advance router_probe_interval@s router_solicitation_delay@s "
        "router_solicitation_interval@s router_solicitation_max_interval@s router_solicitations=-1: "
        "rpl_seg_enabled=0:1 seg6_enabled seg6_require_hmac stable_secret= suppress_frag_ndisc "
        "temp_prefered_lft temp_valid_lft use_oif_addrs_only use_optimistic use_tempaddr"
    ),
    "net/ipv6/icmp": (
        "echo_ignore_all=:,0:1 echo_ignore_anycast=:,0:1 echo_ignore_multicast=:,0:1 "
        "error_anycast_as_unicast=0:255,0:1 errors_extension_mask=0:255 ratelimit=0:@ms ratemask="
    ),
    "net/ipv6/neigh/*": _NEIGH,
    "net/ipv6/route": (
        "flush gc_elasticity gc_interval@s gc_min_interval@s gc_min_interval_ms@ms gc_thresh gc_timeout@s "
        "max_size min_adv_mss mtu_expires@s skip_notify_on_dev_down=:,0:1"
    ),
    "net/iw_cm": "default_backlog",
    "net/mpls": "default_ttl=1:255 input= ip_ttl_propagate=0:1 platform_labels=",
    "net/mptcp": (
        "add_addr_timeout@s add_addr_v6_port_drop_ts=0:1 allow_join_initial_addr_port=0:1 "
        "available_path_managers= available_schedulers= blackhole_timeout=0:U,0: checksum_enabled=0:1 "
        "close_timeout@s enabled=0:1 path_manager= pm_type=0:U,0:1 scheduler= stale_loss_cnt=0:u "
        "syn_retrans_before_tcp_fallback=0:255"
    ),
    "net/netfilter": (
        "nf_conntrack_acct+0:1 nf_conntrack_buckets= nf_conntrack_checksum+0:1 nf_conntrack_count=:,? "
        "nf_conntrack_dccp_loose=0:1 nf_conntrack_dccp_timeout_closereq nf_conntrack_dccp_timeout_closing "
        "nf_conntrack_dccp_timeout_open nf_conntrack_dccp_timeout_partopen "
        "nf_conntrack_dccp_timeout_request nf_conntrack_dccp_timeout_respond "
        "nf_conntrack_dccp_timeout_timewait nf_conntrack_events+0:2 nf_conntrack_expect_max+1: "
        "nf_conntrack_frag6_high_thresh=0:U,? nf_conntrack_frag6_low_thresh=0:U,? "
        "nf_conntrack_frag6_timeout nf_conntrack_generic_timeout nf_conntrack_gre_timeout "
        "nf_conntrack_gre_timeout_stream nf_conntrack_helper nf_conntrack_icmp_timeout "
        "nf_conntrack_icmpv6_timeout nf_conntrack_log_invalid= nf_conntrack_max+0: "
        "nf_conntrack_sctp_timeout_closed nf_conntrack_sctp_timeout_cookie_echoed "
        "nf_conntrack_sctp_timeout_cookie_wait nf_conntrack_sctp_timeout_established "
        "nf_conntrack_sctp_timeout_heartbeat_sent nf_conntrack_sctp_timeout_shutdown_ack_sent "
        "nf_conntrack_sctp_timeout_shutdown_recd nf_conntrack_sctp_timeout_shutdown_sent "
        "nf_conntrack_tcp_be_liberal=0:1 nf_conntrack_tcp_ignore_invalid_rst=0:1 "
        "nf_conntrack_tcp_loose=0:1 nf_conntrack_tcp_max_retrans=0:255 nf_conntrack_tcp_timeout_close "
        "nf_conntrack_tcp_timeout_close_wait nf_conntrack_tcp_timeout_established "
        "nf_conntrack_tcp_timeout_fin_wait nf_conntrack_tcp_timeout_last_ack "
        "nf_conntrack_tcp_timeout_max_retrans nf_conntrack_tcp_timeout_syn_recv "
        "nf_conntrack_tcp_timeout_syn_sent nf_conntrack_tcp_timeout_time_wait "
        "nf_conntrack_tcp_timeout_unacknowledged nf_conntrack_timestamp+0:1 nf_conntrack_udp_timeout "
        "nf_conntrack_udp_timeout_stream nf_flowtable_tcp_timeout nf_flowtable_udp_timeout "
        "nf_hooks_lwtunnel= nf_log_all_netns"
    ),
    "net/netfilter/nf_log": "0= 1= 10= 11= 12= 2= 3= 4= 5= 6= 7= 8= 9=",
    "net/rdma_ucm": "max_backlog",
    "net/rds": (
        "max_unacked_bytes max_unacked_packets ping_enable reconnect_max_delay_ms=0:U "
        "reconnect_min_delay_ms=1:U"
    ),
    "net/rds/ib": (
        "flow_control max_recv_allocation=0:U max_recv_wr=1:U max_send_wr=1:U max_unsignaled_wr=1:64"
    ),
    "net/rds/tcp": "rds_tcp_rcvbuf= rds_tcp_sndbuf=",
    "net/sctp": (
        "addip_enable addip_noauth_enable addr_scope_policy=0: association_max_retrans=1: auth_enable= "
        "cookie_hmac_alg= cookie_preserve_enable default_auto_asconf ecn_enable encap_port=0:65535 "
        "hb_interval=1:86400000 intl_enable l3mdev_accept=0:1 max_autoclose=0:U max_burst=0: "
        "max_init_retransmits=1: path_max_retrans=1: pf_enable pf_expose=0: pf_retrans=0: "
        "plpmtud_probe_interval= prsctp_enable ps_retrans rcvbuf_policy reconf_enable "
        "rto_alpha_exp_divisor=0:1000 rto_beta_exp_divisor=0:1000 rto_initial=1:86400000 rto_max= "
        "rto_min=1:U rwnd_update_shift=1:16 sack_timeout=1:500 sctp_mem=0:U sctp_rmem sctp_wmem "
        "sndbuf_policy udp_port=0:65535 valid_cookie_life=1:86400000"
    ),
    "net/smc": (
        "autocorking_size=0:u hs_ctrl= limit_smc_hs=0:1 rmem=:1073741823 smcr_buf_type=0:2 "
        "smcr_max_conns_per_lgr smcr_max_links_per_lgr smcr_max_recv_wr=2:2048 smcr_max_send_wr=2:2048 "
        "smcr_testlink_time wmem=:1073741823"
    ),
    "net/tipc": (
        "bc_retruni=0:U key_exchange_enabled=0:1 max_tfms=1: named_timeout+0: sk_filter=0:U tipc_rmem+1:"
    ),
    "net/unix": "max_dgram_qlen=:,0:",
    "net/vrf": "strict_mode=",
    "net/vsock": "child_ns_mode= g2h_fallback=0:1 ns_mode=",
    "sunrpc": (
        "max_resvport min_resvport nfs_debug= nfsd_debug= nlm_debug= rdma_inline_write_padding=0: "
        "rdma_max_inline_read rdma_max_inline_write rdma_memreg_strategy rdma_pad_optimize "
        "rdma_slot_table_entries rpc_debug= tcp_fin_timeout tcp_max_slot_table_entries "
        "tcp_slot_table_entries transports= udp_slot_table_entries"
    ),
    "sunrpc/svc_rdma": (
        "max_outbound_read_requests=1:255 max_req_size max_requests=4:16384 rdma_stat_read= "
        "rdma_stat_recv= rdma_stat_rq_poll+0:0 rdma_stat_rq_prod+0:0 rdma_stat_rq_starve+0:0 "
        "rdma_stat_sq_poll+0:0 rdma_stat_sq_prod+0:0 rdma_stat_sq_starve= rdma_stat_write="
    ),
    "user": (
        "max_cgroup_namespaces=0: max_fanotify_groups=0: max_fanotify_marks=0: max_inotify_instances=0: "
        "max_inotify_watches=0: max_ipc_namespaces=0: max_mnt_namespaces=0: max_net_namespaces=0: "
        "max_pid_namespaces=0: max_time_namespaces=0: max_user_namespaces=0: max_uts_namespaces=0:"
    ),
    "vm": (
        "admin_reserve_kbytes=0:U allocate_pgste=0:1 block_dump=0: cmm_pages= cmm_timed_pages= "
        "cmm_timeout= compact_memory= compact_unevictable_allowed=0:1 compaction_proactiveness=0:100 "
        "defrag_mode=0:1 dirty_background_bytes=1:U,1:17592186040320 dirty_background_ratio=0:100 "
        "dirty_bytes=1:U,131072:17592186040320 dirty_expire_centisecs=0: dirty_ratio=0:100 "
        "dirty_writeback_centisecs=:,0: dirtytime_expire_seconds=0:U,0: drop_caches=1:4 "
        "enable_soft_offline=0:1 extfrag_threshold+0:1000 force_cgroup_v2_swappiness= "
        "highmem_is_dirtyable=0:1 hugepages_treat_as_movable= hugetlb_optimize_vmemmap=:,0:1 "
        "hugetlb_shm_group laptop_mode= legacy_va_layout=0: lowmem_reserve_ratio= max_map_count=0: "
        "mem_profiling= mem_profiling_compressed=0:1 memfd_noexec= memory_failure_early_kill=0:1 "
        "memory_failure_recovery=0:1 min_free_kbytes=0:U,0: min_slab_ratio=0:100 min_unmapped_ratio=0:100 "
        "mmap_min_addr= mmap_rnd_bits=:,? mmap_rnd_compat_bits=:,? movable_gigantic_pages "
        "nr_hugepages=0:U,0: nr_hugepages_mempolicy=0:U,0: nr_overcommit_hugepages=0:U,0: nr_trim_pages=0: "
        "numa_stat=0:1 numa_zonelist_order= oom_dump_tasks oom_kill_allocating_task "
        "overcommit_kbytes=0:U,0:L overcommit_memory=0:2 overcommit_ratio=:,0: page-cluster=0:,0:10 "
        "page_lock_unfairness=0: panic_on_oom=0:2 panic_on_unrecoverable_memory_failure=0:1 "
        "percpu_pagelist_fraction=0:U,? percpu_pagelist_high_fraction=0:U,? shrink_inodes_with_pagecache= "
        "stat_interval@s stat_refresh= swappiness=0:200 unprivileged_userfaultfd=0:1 "
        "user_reserve_kbytes=0:U vdso_enabled= vfs_cache_pressure=0: vfs_cache_pressure_denom=100: "
        "vsyscall32= watermark_boost_factor=0: watermark_scale_factor=1:3000 zone_reclaim_mode=0:"
    ),
}
