#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/steps.sh TARGET... [-- TARGET... -- TARGET...]
#
# Makes one target after the other, also after a failure. Targets between the two `--` are made beside those before
# them, one after the other as well; their output is printed between two of the others, each in one piece. Those at
# the end are made once all of these have ended. What the failed ones printed last, and the slowest tests, are printed
# once more at the end, as the end is what a CI system shows. The Makefile says in MAKE which make that is.
set -uo pipefail

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
# An interrupt of one of them is meant for all.
trap 'exit 130' INT
trap 'exit 143' TERM

all=("$@")
build() {
    if "${MAKE:-make}" "$1" 2>&1 | tee "$results/$1.log"; then touch "$results/$1.passed"; fi
}

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

# Moves the targets before the next `--` from `rest` to `group`.
next_group() {
    group=()
    while [ ${#rest[@]} -gt 0 ] && [ "${rest[0]}" != -- ]; do
        group+=("${rest[0]}")
        rest=("${rest[@]:1}")
    done
    rest=("${rest[@]:1}")
}

rest=("$@")
next_group
first=("${group[@]}")
next_group
beside "${group[@]}" &
for target in "${first[@]}"; do
    build "$target"
    report
done
wait
report
for target in "${rest[@]}"; do build "$target"; done

failed=()
for target in "${all[@]}"; do
    [ -e "$results/$target.log" ] && [ ! -e "$results/$target.passed" ] || continue
    failed+=("$target")
    # Indented, so that none of them is taken for one of this run.
    printf -- '--- the last lines of %s:\n' "$target"
    tail -n 80 "$results/$target.log" | sed 's/^/    /'
done
for target in "${all[@]}"; do
    [ -e "$results/$target.log" ] || continue
    slowest=$(tools/slowest.sh "$results/$target.log")
    if [ -n "$slowest" ]; then
        printf -- '--- the slowest tests of %s:\n' "$target"
        printf '%s\n' "$slowest" | sed 's/^/    /'
    fi
done
[ ${#failed[@]} -ne 0 ] || exit 0
printf '==> [%s] failed: %s\n' "$(date +%T)" "${failed[*]}"
exit 1
