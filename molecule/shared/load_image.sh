#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: load_image.sh PATH NAME HOOKS
#
# Makes the image NAME of the root file system or image at PATH: a folder, a tarball, or an archive of OCI or Docker.
# HOOKS are commands of sh that run in it, with the root folder as $1. They make the users admin and deploy.
# Exits with 1 and one line if PATH is something else, or lacks a program that the scenarios need.
set -euo pipefail
path=$1 name=$2 hooks=$3
work=$name-work

die() {
    printf 'IMAGE=%s: %s\n' "$path" "$*" >&2
    exit 1
}

# The last line that podman prints names the image, after `Loaded image: ` for an archive.
taken() {
    local said
    said=$("$@" 2>&1) || die "podman cannot read it: ${said##*$'\n'}"
    said=${said##*$'\n'}
    podman tag "${said##* }" "$work"
}

[ -e "$path" ] || die "no such file or folder; give the path of a root file system or an image"
if [ -d "$path" ]; then
    if [ -e "$path/oci-layout" ]; then
        taken podman pull --quiet "oci:$path"
    else
        [ -d "$path/usr" ] && [ -d "$path/etc" ] || die "expected a root file system or an OCI layout, got a folder without usr and etc"
        # shellcheck disable=SC2016 # for the inner shell
        taken bash -o pipefail -c 'tar --numeric-owner --one-file-system -C "$1" -c . | podman import --quiet -' - "$path"
    fi
else
    # Not through a pipe: grep ends early, and tar would then fail.
    names=$(tar --list --file "$path" 2>/dev/null) || die "expected a tar archive, which tar cannot list"
    if grep --quiet --extended-regexp --line-regexp '(\./)?(oci-layout|manifest\.json)' <<<"$names"; then
        taken podman load --quiet --input "$path"
    elif grep --quiet --extended-regexp '^(\./)?usr/' <<<"$names"; then
        taken podman import --quiet "$path"
    else
        die "expected a root file system (usr/) or an image (oci-layout, manifest.json), got another archive"
    fi
fi

container=mlnode-given-$$
trap 'podman rm --force --ignore "$container" >/dev/null 2>&1; podman rmi "$work" >/dev/null 2>&1 || true' EXIT
# shellcheck disable=SC2016 # for the shell in the image
check='
    missing=
    [ -x /sbin/init ] || [ -L /sbin/init ] || missing="$missing systemd (/sbin/init),"
    python3 -c "import sys; sys.exit(sys.version_info < (3, 8))" 2>/dev/null || missing="$missing Python 3.8 or newer (python3),"
    for program in systemctl sshd sudo ip useradd chpasswd; do
        PATH=$PATH:/usr/sbin:/sbin command -v $program >/dev/null || missing="$missing $program,"
    done
    echo "missing:$missing"'
said=$(podman run --rm --privileged --network=none --user=0 --entrypoint=/bin/sh "$work" -c "$check" 2>&1) ||
    die "its /bin/sh does not run: ${said##*$'\n'}"
missing=${said##*missing:}
[ -z "$missing" ] || die "the image lacks${missing%,}; install them in it"

# For an image that has been made by them before.
hooks="for user in admin deploy; do userdel --force --remove \$user 2>/dev/null || :; done
$hooks"
# Privileged as the containers of the scenarios, with which they must start here too.
said=$(podman run --name="$container" --privileged --network=none --user=0 --entrypoint=/bin/sh "$work" -ec "$hooks" sh / 2>&1) ||
    die "it cannot be prepared for the scenarios: ${said##*$'\n'}"
podman commit --quiet --change 'ENTRYPOINT []' --change 'USER root' "$container" "$name" >/dev/null
printf '%s is the image %s\n' "$path" "$name"
