#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/ee-lint.sh
#
# Checks execution-environment.yml and meta/execution-environment.yml as far as possible without a build:
# writes the build context of an image, installs the collection from there, and reads its dependencies as the
# build does.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The definition expects its files in its own folder, and the checkout must stay unchanged.
cp execution-environment.yml "$work"
ansible-galaxy collection build --output-path "$work" >/dev/null
ansible-builder create --file "$work/execution-environment.yml" --context "$work/context" --verbosity 1 >/dev/null
(
    # As the Containerfile does; the checkout itself must not be taken for the installed collection.
    cd "$work/context/_build"
    env -u ANSIBLE_CONFIG ANSIBLE_COLLECTIONS_PATH="$work/collections" \
        ansible-galaxy collection install --offline -r requirements.yml >/dev/null
)
ansible-builder introspect "$work/collections" | tee "$work/found"
grep --quiet '# from collection mlnode.tuning' "$work/found" || {
    printf 'ee-lint: error: ansible-builder found no dependency of mlnode.tuning: look at meta/execution-environment.yml\n' >&2
    exit 1
}
