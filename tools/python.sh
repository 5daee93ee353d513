#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/python.sh VERSION...
#
# Prints the path of a Python of the first of these versions (3.13, 3.12) that works here, or nothing: on PATH, or among
# the versions of pyenv.
set -uo pipefail

pyenv=
if command -v pyenv >/dev/null 2>&1; then pyenv=$(pyenv root)/versions; fi
for version in "$@"; do
    for candidate in "$(command -v "python$version")" "$pyenv/$version".*/bin/"python$version"; do
        # pyenv puts a pythonX.Y on PATH that fails unless that version was chosen; so ask it to run.
        if "$candidate" -c 'import sys, venv; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' "$version" \
            >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            exit 0
        fi
    done
done
