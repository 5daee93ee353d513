#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Prints the path of a Python 3.8 that works, or nothing: on PATH, or among the versions of pyenv.
set -uo pipefail

candidates=()
if found=$(command -v python3.8); then candidates+=("$found"); fi
if command -v pyenv >/dev/null 2>&1; then candidates+=("$(pyenv root)"/versions/3.8*/bin/python3.8); fi
for candidate in ${candidates[@]+"${candidates[@]}"}; do
    # pyenv puts a python3.8 on PATH that fails unless that version was chosen; so ask it to run.
    if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 8))' >/dev/null 2>&1; then
        printf '%s\n' "$candidate"
        break
    fi
done
