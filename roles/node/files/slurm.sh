#!/bin/sh
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Asks Slurm about this node, and to reboot it. The tasks of reboot.yml send it as one word: sh -c SCRIPT slurm VERB.
# look: print `idle`, `jobs` or `out of service`, then the name, the state and the reason, one in a line.
# request REASON SECONDS: reboot the node once its jobs have ended, and return when Slurm begins with it. It is refused
#   if the node is out of service, and fails if the jobs take longer.
# wait REASON: exit with 0 if the node is in service, or drained by others since its reboot. A rebooting node is
#   neither, until its slurmd registers.
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
    shown=$(ask --oneliner show node "$node") || return
    case $shown in
        *" State="*) ;;
        *)
            echo "expected the state of $node, got: $shown" >&2
            return 1
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

# True if the node has this reason. Slurm adds `: reboot issued`, and scontrol the author.
is_reason() {
    case $reason in "$1" | "$1 ["* | "$1 :"*) ;; *) return 1 ;; esac
}

show() { printf '%s\n' "$1" "$node" "$state" "$reason"; }

# After a reboot, Slurm resumes a node that others have drained meanwhile, and a cancelled request resumes it as well.
follow() {
    end=$(($(date +%s) + $2))
    # slurmctld looks for nodes to reboot every other second, and may be restarted meanwhile.
    while sleep 2; do
        read_node || state=+REBOOT_REQUESTED reason=$1
        case $state in
            *+REBOOT_ISSUED*) return ;;
            *+REBOOT*) ;;
            *)
                echo "others have cancelled the reboot: $state $reason" >&2
                return 1
                ;;
        esac
        if ! is_reason "$1" && ask cancel_reboot "$node"; then
            echo "others have drained it meanwhile: $reason" >&2
            # Without its author and time, which scontrol adds
            ask update NodeName="$node" State=DRAIN Reason="${reason% [*}" || echo "it is not drained again" >&2
            return 1
        fi
        if [ "$(date +%s)" -ge "$end" ]; then
            echo "its jobs did not end within $2 s" >&2
            return 1
        fi
    done
}

read_node || exit 1
case $1 in
    look) show "$kind" ;;
    request)
        if [ "$kind" = "out of service" ]; then
            echo "$node is out of service: $state $reason" >&2
            exit 1
        fi
        ask reboot ASAP nextstate=resume reason="$2" "$node" && follow "$2" "$3"
        ;;
    wait)
        [ "$kind" != "out of service" ] && exit
        case $state in
            *+REBOOT_*) exit 1 ;;
            *+DRAIN*) ! is_reason "$2" ;;
            *) exit 1 ;;
        esac
        ;;
    cancel)
        case $state in
            *+REBOOT_REQUESTED*)
                if is_reason "$2"; then
                    ask cancel_reboot "$node" || exit 1
                    kind='cancelled'
                fi
                ;;
        esac
        show "$kind"
        ;;
esac
