#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/steps.sh TARGET... [-- TARGET...]... [/ TARGET...]...
#
# Makes one target after the other, also after a failure. Targets after a `--` run one after the other as
# well, in parallel to those before it; their output appears between two of the first ones, each in one piece.
# They have priority on the CPUs, so targets that mostly wait should come last. Targets after a `/` start once
# all before it have ended. At the end, the last lines of failed targets, the slowest tests and the duration
# of the steps are printed once more, because a CI system shows the end. The Makefile passes its make as MAKE.
set -uo pipefail

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
# An interrupt of one of them stops all.
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

# Each lane is a list of targets separated by spaces. It has seven times the CPU share of the lane before
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
    # Indented, so tools/slowest.sh does not take them for tests of this run.
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
