#!/bin/sh
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The last step on the machine that an image is made of: removes what must not be the same on two machines.
set -eu

root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# The first boot makes new ones.
root find /etc/ssh -name 'ssh_host_*' -delete
if command -v cloud-init >/dev/null; then root cloud-init clean --logs; fi
# Empty and not away: without it systemd takes its presets for the units that it enables, machine-id(5).
root truncate --size=0 /etc/machine-id
root rm -f /var/lib/dbus/machine-id /var/lib/systemd/random-seed
root find /var/log/journal -type f -delete 2>/dev/null || true
root find /var/lib/dhcp /var/lib/NetworkManager -name '*.lease*' -delete 2>/dev/null || true
root rm -rf "$HOME/.ansible" /root/.ansible
rm -f "$HOME/.bash_history"
root sync
