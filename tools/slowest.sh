#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/slowest.sh LOG
#
# Prints the slowest tests of each run of pytest in a log, as pytest has printed them. Indented lines are a
# repetition, and left out.
awk '
    /^=+ slowest .*durations =+$/ { inside = 1; print; next }
    inside && /^[0-9.]+s (setup|call|teardown) / { print; next }
    { inside = 0 }
' "$1"
