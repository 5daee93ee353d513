#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/steps.sh TARGET... [-- TARGET...]
#
# Makes one target after the other, also after a failure, and names at the end those that failed. Targets after
# `--` are made beside them, one after the other as well; their output is printed between two of the others, each
# in one piece. The Makefile says in MAKE which make that is.
set -uo pipefail

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
# An interrupt of one of them is meant for all.
trap 'exit 130' INT
trap 'exit 143' TERM

main=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    main+=("$1")
    shift
done
[ $# -eq 0 ] || shift

build() { "${MAKE:-make}" "$1" || printf '%s\n' "$1" >>"$results/failed"; }

beside() {
    local target
    for target in "$@"; do
        build "$target" >"$results/output" 2>&1
        mv "$results/output" "$results/$EPOCHREALTIME.ended"
    done
}

report() {
    local ended
    for ended in "$results"/*.ended; do
        [ -e "$ended" ] || return 0
        cat "$ended"
        rm "$ended"
    done
}

beside "$@" &
for target in "${main[@]}"; do
    build "$target"
    report
done
wait
report

[ -s "$results/failed" ] || exit 0
printf '==> [%s] failed: %s\n' "$(date +%T)" "$(paste -sd' ' "$results/failed")"
exit 1
