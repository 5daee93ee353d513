#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/steps.sh TARGET... [-- TARGET...]... [/ TARGET...]...
#
# Makes one target after the other, also after a failure. Targets behind a `--` are made beside those before it, one after
# the other as well; their output is printed between two of the first ones, each in one piece. They have the CPUs first, so
# that those that wait most should come last. Targets behind a `/` are made once all before it have ended. What the failed
# ones printed last, and the slowest tests, are printed once more at the end with how long the steps took, as the end is
# what a CI system shows. The Makefile says in MAKE which make that is.
set -uo pipefail

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
# An interrupt of one of them is meant for all.
trap 'exit 130' INT
trap 'exit 143' TERM

build() {
    local niceness=$1 target=$2 start=$SECONDS
    if nice -n "$niceness" "${MAKE:-make}" "$target" 2>&1 | tee "$results/$target.log"; then
        touch "$results/$target.passed"
    fi
    printf '%6d s  %s\n' $((SECONDS - start)) "$target" >>"$results/seconds"
}

beside() {
    local niceness=$1 target
    for target in "${@:2}"; do
        build "$niceness" "$target" >"$results/$target.output" 2>&1
        mv "$results/$target.output" "$results/$EPOCHREALTIME.ended"
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

# Each of the lanes has targets with a space between two of them, and seven times the share of the CPUs of the one before
# (1.25 to the power of 9, see sched(7)); 19 is the least share of all.
run_lanes() {
    local at target niceness=$((9 * (${#lanes[@]} - 1)))
    for at in "${!lanes[@]}"; do
        # shellcheck disable=SC2086 # targets are words
        [ "$at" -eq 0 ] || beside $((niceness - 9 * at)) ${lanes[at]} &
    done
    for target in ${lanes[0]}; do
        build "$niceness" "$target"
        report
    done
    wait
    report
}

all=() lanes=("")
for word in "$@" /; do
    case $word in
    --) lanes+=("") ;;
    /)
        run_lanes
        lanes=("")
        ;;
    *)
        lanes[-1]+=" $word"
        all+=("$word")
        ;;
    esac
done

failed=()
for target in "${all[@]}"; do
    [ -e "$results/$target.log" ] && [ ! -e "$results/$target.passed" ] || continue
    failed+=("$target")
    # Indented, so that none of them is taken for one of this run.
    printf -- '--- the last lines of %s:\n' "$target"
    tail -n 80 "$results/$target.log" | sed 's/^/    /'
done
printf -- '--- seconds of the longest steps:\n'
sort --numeric-sort --reverse "$results/seconds" | head -n 10
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
