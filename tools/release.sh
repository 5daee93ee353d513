#!/usr/bin/env bash
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: tools/release.sh [--dry-run]
#
# Makes the release of galaxy.yml's version: release notes, commit, archive, tag, checksum and, where git has a key of
# GnuPG, signatures. All of it is made and verified in a throw-away clone; only then does this repository get the
# commit, the tag and the archive. With --dry-run it gets none of them. Nothing is pushed or published.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD

say() { printf 'release: %s\n' "$*"; }
die() {
    printf 'release: error: %s\n' "$*" >&2
    exit 1
}

dry=
case "$*" in
    "") ;;
    --dry-run) dry=yes ;;
    *) die "usage: tools/release.sh [--dry-run]" ;;
esac

# --- what must be true before -----------------------------------------------------------------------------------

[ -z "$(git status --porcelain)" ] || die "files are changed or untracked here (git status): commit or remove them"
branch=$(git symbolic-ref --quiet --short HEAD || echo "no branch")
[ -n "$dry" ] || [ "$branch" = main ] || die "on $branch: a release is made of main"

version=$(sed -n 's/^version: //p' galaxy.yml)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] ||
    die "galaxy.yml: version '$version' is not of the form 1.2.3, which Galaxy takes"
archive=mlnode-tuning-$version.tar.gz
library=plugins/module_utils/_mlnode/model/version.py
grep --quiet --fixed-strings --line-regexp "VERSION = \"$version\"" "$library" ||
    die "version mismatch: galaxy.yml has $version, $library has $(sed -n 's/^VERSION = //p' "$library")"
other=$(grep --only-matching 'mlnode-tuning-.*\.tar\.gz' execution-environment.yml | grep -vxF "$archive" | head -n 1 || true)
[ -z "$other" ] || die "version mismatch: galaxy.yml has $version, execution-environment.yml has $other"
tag=v$version
! git rev-parse --quiet --verify "refs/tags/$tag" >/dev/null ||
    die "$tag is there already: set the next version in galaxy.yml, $library and execution-environment.yml"
compgen -G 'changelogs/fragments/*.y*ml' >/dev/null || die "changelogs/fragments is empty: a release has notes"

# --- in a clone -------------------------------------------------------------------------------------------------

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Tools that read plugins take the collection's name from the path.
clone=$work/ansible_collections/mlnode/tuning
git clone --quiet --no-hardlinks --no-checkout . "$clone"
git -C "$clone" checkout --quiet --detach "$(git rev-parse HEAD)"
for name in user.name user.email user.signingkey gpg.format gpg.program; do
    if value=$(git config "$name"); then git -C "$clone" config "$name" "$value"; fi
done
key=
if [ "$(git config gpg.format || echo openpgp)" = openpgp ]; then key=$(git config user.signingkey || true); fi

cd "$clone"
# The tools have to use the clone, not the checkout.
unset ANSIBLE_CONFIG
export ANSIBLE_COLLECTIONS_PATH=$work

say "release notes of $version"
antsibull-changelog lint
antsibull-changelog release --version "$version"
antsibull-changelog lint-changelog-yaml changelogs/changelog.yaml
git add --all
git -c commit.gpgsign=false commit --quiet ${key:+--gpg-sign="$key"} --message "Release $version"

say "build $archive"
ansible-galaxy collection build --output-path "$work" >/dev/null
[ -z "$(git status --porcelain)" ] || die "the build has left files in the tree: $(git status --porcelain)"

# As its user gets it: in an otherwise empty project, without a network.
say "verify $archive"
mkdir "$work/project"
cd "$work/project"
export ANSIBLE_COLLECTIONS_PATH=$work/project/collections
ansible-galaxy collection install "$work/$archive" -p collections --offline >/dev/null
ansible-galaxy collection verify --offline "mlnode.tuning:$version" >/dev/null
named() { basename --suffix "$1" --multiple "${@:2}" | sed 's/^/mlnode.tuning./'; }
mapfile -t playbooks < <(named .yml "$clone"/playbooks/*.yml)
ansible-playbook -i localhost, --syntax-check "${playbooks[@]}" >/dev/null
named .py "$clone"/plugins/modules/[a-z]*.py | xargs ansible-doc --type module >/dev/null

cd "$work"
sha256sum "$archive" >"$archive.sha256"
if [ -n "$key" ]; then
    # ansible-galaxy verifies with a keyring only the manifest, which has the checksums of all files.
    say "sign with $key"
    tar --extract --gzip --file "$archive" MANIFEST.json
    gpg --batch --yes --local-user "$key" --armor --detach-sign --output "$archive.asc" MANIFEST.json
    git -C "$clone" tag --sign --message "Release $version" "$tag"
else
    say "not signed: git has no key of GnuPG (git config user.signingkey)"
    git -C "$clone" -c tag.gpgsign=false tag --annotate --message "Release $version" "$tag"
fi

# --- here -------------------------------------------------------------------------------------------------------

say "$(wc -c <"$archive") bytes, $(tar --list --file "$archive" | grep -vc '/$') files, sha256 $(cut -c1-64 "$archive.sha256")"
if [ -n "$dry" ]; then
    say "dry run: commits, tags and files are as they were here; the notes would begin with"
    sed -n '1,20s/^/    /p' "$clone/CHANGELOG.md"
    exit 0
fi
cp "$archive" "$archive.sha256" ${key:+"$archive.asc"} "$here"
cd "$here"
git fetch --quiet "$clone" HEAD
git merge --quiet --ff-only FETCH_HEAD
git fetch --quiet "$clone" "refs/tags/$tag:refs/tags/$tag"
say "$branch has the commit 'Release $version', tagged $tag; $archive lies here. To publish it:"
say "  git push origin $branch $tag"
say "  ansible-galaxy collection publish $archive"
