#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/steps.sh TARGET...
#
# Makes one target after the other, also after a failure, and names at the end those that failed. The Makefile
# says in MAKE which make that is.
set -uo pipefail

# Somebody who interrupts one of them means all.
trap 'exit 130' INT
trap 'exit 143' TERM

failed=()
for target in "$@"; do
    "${MAKE:-make}" "$target" || failed+=("$target")
done
[ ${#failed[@]} -ne 0 ] || exit 0
printf '==> [%s] failed: %s\n' "$(date +%T)" "${failed[*]}"
exit 1
