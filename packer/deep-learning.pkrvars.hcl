# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# packer build -var-file=packer/deep-learning.pkrvars.hcl packer
# With the NVIDIA driver, CUDA and EFA. Its disk is large, and the copy takes a while.
source_ami_name  = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) *"
source_ami_owner = "898082745236" # Amazon's deep learning images
ssh_username     = "ubuntu"
root_device      = "/dev/sda1"
