# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# packer build -var-file=packer/ubuntu-24.04.pkrvars.hcl packer
source_ami_name  = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"
source_ami_owner = "099720109477" # Canonical
ssh_username     = "ubuntu"
root_device      = "/dev/sda1"
