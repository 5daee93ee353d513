#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/container-lab.sh COMMAND [ARGUMENT...]
#
# Runs COMMAND where rootful podman can start containers with systemd in them. Installs missing packages (Debian and
# Ubuntu), writes a containers.conf for machines that podman's defaults do not fit, and gives hosts that still carry
# version 1 cgroups a mount namespace without them. On an ordinary host with cgroup2 COMMAND is simply started.
# The namespace is kept. A second call finds the containers of the first:
#   tools/container-lab.sh podman exec -it mlnode-deb13 bash
set -euo pipefail

say() { printf 'container-lab: %s\n' "$*"; }
die() {
    printf 'container-lab: error: %s\n' "$*" >&2
    exit 1
}

[ $# -ge 1 ] || {
    printf 'usage: tools/container-lab.sh COMMAND [ARGUMENT...]\n' >&2
    exit 2
}

# Rootless containers cannot change the kernel settings of the scenarios.
[ "$(id -u)" -eq 0 ] || die "needs root, as the containers set kernel parameters. Try: sudo -E $0 $*"

# --- programs -------------------------------------------------------------------------------------------------

# crun is the one runtime that the scenarios are tested with. podman's network needs iptables or nft, by its version.
missing=()
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need podman podman
need crun crun
need mmdebstrap mmdebstrap
need ssh openssh-client
need iptables iptables
need nft nftables
# Ubuntu's mmdebstrap does not bring the keys of the Debian archive along.
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)

if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null 2>&1 ||
        die "missing: ${missing[*]}. Install them with this system's package manager and run again."
    say "installing with apt-get: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update </dev/null
    apt-get -q install -y --no-install-recommends "${missing[@]}" </dev/null |
        awk '/^(Need to get|Fetched|Setting up)/ { print "container-lab: " $0; fflush() }'
fi

# --- containers.conf ------------------------------------------------------------------------------------------

# Bit 24 of the effective capabilities is CAP_SYS_RESOURCE: without it a hard limit cannot be raised, and podman's
# own defaults (a million open files) end in `crun: setrlimit RLIMIT_NOFILE`.
capabilities=$(awk '/^CapEff:/ { print $2 }' /proc/self/status)
may_raise_limits=$((16#$capabilities >> 24 & 1))

containers=()
engine=()
if [ "$may_raise_limits" -eq 0 ]; then
    # The open files of this shell, the most that it can pass on; podman lowers its own processes to 32768.
    files=$(ulimit -Hn)
    containers+=("default_ulimits = [\"nofile=$files:$files\", \"nproc=8192:8192\"]")
fi
pure_cgroup2() { [ "$(stat --file-system --format=%T /sys/fs/cgroup)" = cgroup2fs ]; }
if ! pure_cgroup2; then
    # The controllers belong to version 1 there, so podman's default limit has no file.
    containers+=('pids_limit = 0')
fi
if [ ! -d /run/systemd/system ]; then
    # podman's defaults talk to systemd and to its journal.
    engine+=('cgroup_manager = "cgroupfs"' 'events_logger = "file"')
    containers+=('log_driver = "k8s-file"')
fi
if [ -z "${CONTAINERS_CONF:-}" ] && [ $((${#containers[@]} + ${#engine[@]})) -gt 0 ]; then
    config=${MLNODE_CACHE:-$HOME/.cache/mlnode}/container-lab/containers.conf
    mkdir -p "$(dirname "$config")"
    {
        printf '# Written by tools/container-lab.sh for what this machine lacks.\n[containers]\n'
        printf '%s\n' "${containers[@]}"
        printf '[engine]\n'
        printf '%s\n' "${engine[@]}"
    } >"$config.$$"
    mv "$config.$$" "$config"
    export CONTAINERS_CONF=$config
fi

# --- cgroups --------------------------------------------------------------------------------------------------

if pure_cgroup2; then
    exec "$@"
fi

# crun refuses hybrid cgroups. The namespace is held by a bind mount of its nsfs file, which the kernel allows only
# on a mount that is not shared. Other mounts of the host still arrive in it (slave), nothing goes back.
folder=/run/mlnode-container-lab
namespace=$folder/mnt
mkdir -p "$folder"
# For root alone: any user can hold a lock on a file that they may read.
(umask 077 && : >>"$folder.lock")
exec 9>>"$folder.lock"
flock 9
if [ "$(stat --file-system --format=%T "$namespace" 2>/dev/null)" != nsfs ]; then
    say "hybrid cgroups: making a mount namespace with cgroup2 alone"
    if ! mountpoint --quiet "$folder"; then
        mount --bind "$folder" "$folder"
        mount --make-private "$folder"
    fi
    : >"$namespace"
    unshare --mount="$namespace" --propagation slave \
        sh -c 'umount --recursive /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup' 9>&- || {
        umount "$namespace" 2>/dev/null || true
        die "cannot mount cgroup2; this needs CAP_SYS_ADMIN"
    }
fi
exec 9>&-

# nsenter starts in the root folder of the namespace.
exec nsenter --mount="$namespace" env --chdir="$PWD" "$@"
