#!/bin/sh
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Asks Slurm about this node, and to reboot it. The tasks of reboot.yml send it as one word: sh -c SCRIPT slurm VERB.
# look: print `idle`, `jobs` or `out of service`, then the name, the state and the reason, one in a line.
# request REASON: reboot the node once its jobs have ended. It is refused if the node is out of service.
# wait: exit with 0 if the node is in service. A rebooting node is not, until its slurmd registers.
# cancel REASON: cancel a reboot with this reason that has not begun. Print the same as look, or `cancelled`.
set -u
# Slurm of AWS ParallelCluster is in /opt/slurm.
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin
export PATH

# Without an answer, scontrol retries for more than a minute.
ask() { timeout 10 scontrol "$@"; }

# Empty for a node that slurm.conf does not list: a dynamic node has the name of its host.
node=$(ask show aliases) || exit 1
node=${node:-$(uname -n | cut -d. -f1)}
case $node in
    *[!A-Za-z0-9._-]*)
        echo "expected one node of Slurm on this host, got $node" >&2
        exit 1
        ;;
esac

read_node() {
    shown=$(ask --oneliner show node "$node") || exit 1
    case $shown in
        *" State="*) ;;
        *)
            echo "expected the state of $node, got: $shown" >&2
            exit 1
            ;;
    esac
    state=${shown#* State=}
    state=${state%% *}
    case $shown in
        *" Reason="*) reason=${shown##* Reason=} ;;
        *) reason= ;;
    esac
    # Positive lists, as newer versions add states. `IDLE*`: slurmd does not respond.
    kind="out of service"
    case $state in
        ALLOCATED | ALLOCATED+* | MIXED | MIXED+* | IDLE+COMPLETING* | IDLE+*+COMPLETING*) kind='jobs' ;;
        IDLE | IDLE+*) kind='idle' ;;
    esac
    flags=$state+
    while flags=${flags#*+} && [ -n "$flags" ]; do
        case ${flags%%+*} in
            CLOUD | COMPLETING | DYNAMIC_FUTURE | DYNAMIC_NORM | MAINTENANCE | PLANNED | RESERVED) ;;
            *) kind="out of service" ;;
        esac
    done
}

show() { printf '%s\n' "$1" "$node" "$state" "$reason"; }

read_node
case $1 in
    look) show "$kind" ;;
    request)
        if [ "$kind" = "out of service" ]; then
            echo "$node is out of service: $state $reason" >&2
            exit 1
        fi
        ask reboot ASAP nextstate=resume reason="$2" "$node"
        ;;
    wait) [ "$kind" != "out of service" ] ;;
    cancel)
        case "$state $reason" in
            *REBOOT_REQUESTED*" $2"*)
                ask cancel_reboot "$node" || exit 1
                kind='cancelled'
                ;;
        esac
        show "$kind"
        ;;
esac
