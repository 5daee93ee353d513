#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/venv.sh DIR LOCKFILE [PYTHON]
#
# Makes the Python virtual environment DIR from the hash-pinned LOCKFILE, with PYTHON or by default with the
# distribution's Python. If that is not 3.11 to 3.13, it takes the newest of these that works here. Does
# nothing if DIR was already made from that same lock: the stamp, written last, holds the lock's checksum and
# the Python version, so an environment that was left half-made is made again. uv installs, in a fifth of
# pip's CPU time; pip makes a separate environment for it. If uv fails, pip tries: its configuration may name
# another index or certificate.
set -euo pipefail

uv=.cache/uv
uv_lock=requirements/uv.txt

say() { printf 'venv: %s\n' "$*"; }
die() {
    printf 'venv: error: %s\n' "$*" >&2
    exit 1
}

[ $# -eq 2 ] || [ $# -eq 3 ] || die "usage: tools/venv.sh DIR LOCKFILE [PYTHON]"
dir=${1%/}
lock=$2
[ -f "$lock" ] || die "no lock file $lock"
# A second run for the same environment waits, and finds it made.
mkdir -p "${uv%/*}"
exec 9>".cache/${dir##*/}.lock"
flock 9
stamp=$dir/.lock-stamp
sum=$(sha256sum <"$lock")
sum=${sum%% *}

# Up to date: same lock, and the interpreter behind the environment is still the version it was made with. The
# location is part of the stamp, because the scripts in bin/ contain it and a moved tree breaks them.
if [ -f "$stamp" ] && [ -x "$dir/bin/python" ]; then
    version=$("$dir/bin/python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || version=
    if [ -n "$version" ] && [ "$(cat "$stamp")" = "$sum $version $(cd "$dir" && pwd -P)" ]; then
        exit 0
    fi
fi

find_python() {
    local named distributed
    distributed=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
    [[ $distributed =~ ^3\.1[123]$ ]] || distributed=
    # shellcheck disable=SC2086 # one word or none
    named=$("$(dirname "$0")/python.sh" $distributed 3.13 3.12 3.11)
    # A distribution may have no name but this one.
    if [ -z "$named" ] && python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
        named=$(command -v python3)
    fi
    printf '%s\n' "$named"
    [ -n "$named" ]
}

# Debian and Ubuntu ship Python without ensurepip; the package with it has the version in its name.
has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

apt_install() {
    local as_root=()
    command -v apt-get >/dev/null 2>&1 || die "missing: $*. Install it with this system's package manager and run again."
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1 || ! sudo -n true 2>/dev/null; then
            die "missing: $*. As root: apt-get install $*"
        fi
        as_root=(sudo -n)
    fi
    say "installing with apt-get: $*"
    # Others that wait for the same find it installed.
    # For root alone: any user can hold a lock on a file that they may read.
    "${as_root[@]}" sh -c 'umask 077 && : >>/run/mlnode-apt.lock'
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive flock /run/mlnode-apt.lock sh -ec '
        apt-get -qq update
        apt-get -qq install -y --no-install-recommends "$@" >/dev/null' sh "$@" </dev/null
}

if [ $# -eq 3 ]; then
    python=$3
elif ! python=$(find_python); then
    if command -v python3 >/dev/null 2>&1 && version=$(python3 --version 2>/dev/null); then
        die "need Python 3.11, 3.12 or 3.13; the only one that runs here is $version"
    fi
    apt_install python3 python3-venv
    python=$(find_python) || die "need Python 3.11, 3.12 or 3.13; the one of this system's packages is $(python3 --version 2>&1)"
fi
version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')

if ! has_venv "$python"; then
    apt_install "python${version%.*}-venv"
    has_venv "$python" || die "$python has no venv module even with python${version%.*}-venv installed"
fi

say "making $dir with Python $version from $lock"
log=$dir/install.log
start=$SECONDS
total=$(grep -c '^[a-z0-9].*==' "$lock")

with_uv() {
    "$0" "$uv" "$uv_lock" "$python" || return
    rm -rf "$dir"
    "$python" -m venv --without-pip "$dir"
    "$uv/bin/uv" pip install --quiet --no-progress --python "$dir/bin/python" --require-hashes --no-deps -r "$lock" \
        </dev/null >"$log" 2>&1 && return
    tail -n 30 "$log" >&2
    return 1
}

# A line per package is noise, a minute of silence is worse: every twentieth is printed.
with_pip() {
    rm -rf "$dir"
    "$python" -m venv "$dir"
    "$dir/bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar off \
        --require-hashes --no-deps -r "$lock" </dev/null 2>&1 | tee "$log" |
        awk -v total="$total" '
            /^Collecting / && ++n % 20 == 0 { print "venv: fetched " n " of at most " total; fflush() }
            /^Installing collected/ { print "venv: installing"; fflush() }' && return
    tail -n 30 "$log" >&2
    return 1
}

# The lock is complete, except for packages that pyproject.toml leaves out on purpose (--no-deps).
if [ "$lock" = "$uv_lock" ]; then
    with_pip || die "pip could not install $lock (the lines above are the end of its output)"
elif ! with_uv; then
    say "uv could not install $lock (the lines above are the end of its output): trying pip"
    with_pip || die "pip could not install $lock either (the lines above are the end of its output)"
fi
# Processes of tests end within seconds, and spend a tenth of them on the search for reference cycles.
case $dir in
.venv-test | .venv-newest | .venv-oldest | .venv-docs)
    echo 'import gc; gc.set_threshold(100_000, 50, 50)' >"$dir/lib/python${version%.*}/site-packages/fewer_collections.pth"
    ;;
esac
printf '%s %s %s\n' "$sum" "$version" "$(cd "$dir" && pwd -P)" >"$stamp"
say "$dir is ready ($((SECONDS - start)) s)"
