#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/play-limit.sh SECONDS COMMAND [ARGUMENT...]
#
# Runs COMMAND, which plays with ansible-core, and ends it after that time. ansible-core 2.19 can lose the thread that
# takes results (KeyError in results_thread_main, https://github.com/ansible/ansible/issues/86027) and then waits for
# ever: only where that is what the run printed, it is made once more, and a third time, as one run of a scenario has
# lost two plays in a row.
set -uo pipefail

seconds=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# timeout(1) makes a process group, which an interrupt of the terminal does not reach. SIGKILL for all of it: up to
# 2.19.3 ansible-playbook passes SIGTERM on to its last worker and goes on itself.
finish() { kill -KILL -- "-$pid" 2>/dev/null; }
trap 'finish; exit 130' INT TERM

# One of its threads has ended with an error, and the play waits for a result that will not come.
lost() { grep -q 'in results_thread_main' "$log"; }

play() {
    : >"$log"
    timeout --kill-after=60 "$seconds" "$@" > >(tee "$log") 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null && ! lost; do sleep 2; done
    ! lost || finish
    wait "$pid"
}

for run in first second third; do
    [ "$run" = first ] || printf 'play-limit: ansible-core lost a result and would have waited for ever; %s run\n' "$run"
    play "$@"
    code=$?
    lost || break
done
# 124: timeout(1) has ended it.
[ "$code" -ne 124 ] || printf 'play-limit: ended after %s s\n' "$seconds"
exit "$code"
