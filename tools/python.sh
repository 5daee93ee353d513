#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/python.sh VERSION...
#
# Prints the path of a Python of the first of these versions (3.13, 3.12) that works here, or nothing: from
# the distribution, on PATH, or among the versions of pyenv. The distribution's comes first: its build uses
# profiling, and takes a quarter less time than a build of pyenv. A Python that cannot make an environment
# itself (Debian without python3-venv) comes last.
set -uo pipefail

pyenv=
if command -v pyenv >/dev/null 2>&1; then pyenv=$(pyenv root)/versions; fi
for modules in ensurepip,venv venv; do
    for version in "$@"; do
        for candidate in "/usr/bin/python$version" "$(command -v "python$version")" "$pyenv/$version".*/bin/"python$version"; do
            # pyenv puts a pythonX.Y on PATH that fails unless that version was chosen; so ask it to run.
            if "$candidate" -c "import sys, $modules; sys.exit('%d.%d' % sys.version_info[:2] != sys.argv[1])" "$version" \
                >/dev/null 2>&1; then
                printf '%s\n' "$candidate"
                exit 0
            fi
        done
    done
done
