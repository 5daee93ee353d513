#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/ansible-test.sh [all | ARGUMENT...]
#
# Runs `ansible-test sanity` (the first on PATH): the tests that no other tool of `make lint` replaces, all of
# them, or the tests in the arguments of ansible-test. It runs on a copy of the working tree, because it
# derives the collection's name from the real path .../ansible_collections/mlnode/tuning, and a link does not
# suffice.
set -euo pipefail

say() { printf 'ansible-test: %s\n' "$*"; }

cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy=$work/ansible_collections/mlnode/tuning
mkdir -p "$copy" "$work/bin"

# All files that git tracks or would add, as they are in the working tree now; deleted files are skipped.
git ls-files --cached --others --exclude-standard --deduplicate -z |
    while IFS= read -r -d '' file; do
        if [ -e "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi
    done | tar --create --null --files-from=- | tar --extract --directory="$copy"

# ansible-test takes every pythonX.Y on PATH for a working one; version managers put stubs there that fail.
# A folder with such a stub is left out of PATH.
runs() { "$1" -c '' >/dev/null 2>&1; }
path=
IFS=: read -r -a folders <<<"$PATH"
for folder in "${folders[@]}"; do
    usable=yes
    for interpreter in "$folder"/python3.[0-9] "$folder"/python3.[0-9][0-9]; do
        if [ -x "$interpreter" ] && ! runs "$interpreter"; then
            usable=no
            break
        fi
    done
    if [ "$usable" = yes ]; then path=$path:$folder; fi
done

# The oldest Python on which this ansible-core runs modules: 3.8 for 2.19, 3.9 for 2.21. If it is available,
# modules are imported on it.
oldest_version=$(python -c '
from ansible_test._util.target.common.constants import REMOTE_ONLY_PYTHON_VERSIONS
print(REMOTE_ONLY_PYTHON_VERSIONS[0])')
oldest=$(tools/python.sh "$oldest_version")
if [ -n "$oldest" ]; then ln -s "$oldest" "$work/bin/python$oldest_version"; fi
path=${path#:}:$work/bin

# The sanity tests install their pinned tools with a pip that ansible-test downloads from its own site, which
# not every network can reach. If it was not downloaded yet, the pip bundled with Python does the same.
local_version=$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
python - "$oldest_version" "$local_version" <<'PYTHON'
import os
import sys

from ansible_test._internal.host_configs import VirtualPythonConfig
from ansible_test._internal.python_requirements import get_venv_packages

STAND_IN = '''\
"""Installs the packages named on the command line with the pip that Python carries."""
import subprocess
import sys

packages = [arg for arg in sys.argv[1:] if arg not in ("--no-setuptools", "--no-wheel")]
subprocess.check_call([sys.executable, "-m", "ensurepip"], stdout=subprocess.DEVNULL)
subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet"] + packages)
'''

cache = os.path.expanduser("~/.ansible/test/cache")
os.makedirs(cache, exist_ok=True)
for version in sys.argv[1:]:
    pip = get_venv_packages(VirtualPythonConfig(version=version))["pip"]
    script = os.path.join(cache, "get_pip_%s.py" % pip.replace(".", "_"))
    if not os.path.exists(script):
        with open(script + ".new", "w") as new:
            new.write(STAND_IN)
        os.replace(script + ".new", script)
PYTHON

cd "$copy"
# Scenarios and tests are not part of the built collection and follow ruff's rules, not those for plugins.
sanity() {
    env -u ANSIBLE_CONFIG -u ANSIBLE_COLLECTIONS_PATH PATH="$path" \
        ansible-test sanity --local --color no --exclude molecule/ --exclude tests/ "$@"
}
if [ $# -gt 0 ]; then
    [ "$1" != all ] || shift
    # Without a version, it uses every installed one.
    sanity --python "$local_version" "$@"
    exit 0
fi

# Each of these tests installs its tools first; together they take three quarters of the time. Other steps of
# `make lint` cover them: ruff (pep8, pylint), yamllint, antsibull-changelog (changelog), and antsibull-docs,
# which calls ansible-doc. The rest, above all the schema of meta/runtime.yml, runs at the forge:
# .github/workflows/test.yml runs all tests on all files.
skipped=()
for name in ansible-doc changelog import pep8 pylint runtime-metadata yamllint; do skipped+=(--skip-test "$name"); done
sanity --python "$local_version" "${skipped[@]}"
# Ansible does not load the library; the unit tests do, on Python 3.8, too.
import_version=$local_version
if [ -n "$oldest" ]; then import_version=$oldest_version; fi
say "modules are imported on Python $import_version"
sanity --python "$import_version" --test import plugins/modules/
