# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# An Amazon machine image whose machines are tuned nodes from their first boot on. For Packer 1.8 or newer:
#   packer init packer && packer build -var 'roles=["training", "fabric"]' packer
# ml-node.json is the same for Packer 1.6, which Debian 12 has. See docs/guide/image.md.

packer {
  required_version = ">= 1.8.0"
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.2.8"
    }
    ansible = {
      source  = "github.com/hashicorp/ansible"
      version = ">= 1.1.0"
    }
  }
}

variable "region" {
  type        = string
  description = "Where the image is made; machines in other regions need a copy of it."
  default     = "eu-central-1"
}

variable "instance_type" {
  type        = string
  description = "The machine on which it is made. Nothing of it gets into the image, so no GPU is needed."
  default     = "t3.small"
}

variable "architecture" {
  type        = string
  description = "x86_64, or arm64 for Graviton and Grace; the machine and the image to start from have to be of it."
  default     = "x86_64"
}

variable "source_ami_name" {
  type        = string
  description = "The name of the image to start from, with * for any text; the newest counts."
  default     = "debian-12-amd64-*"
}

variable "source_ami_owner" {
  type        = string
  description = "The account that it must be of, as every account may publish an image of that name. This one is Debian's."
  default     = "136693071363"
}

variable "ssh_username" {
  type        = string
  description = "Who may log in to a machine of that image, and become root with sudo."
  default     = "admin"
}

variable "roles" {
  type        = list(string)
  description = "What the machines of the image are: training or inference, and fabric for those with RDMA."
  default     = ["training"]
}

variable "variables_file" {
  type        = string
  description = "What differs from the defaults of the roles; empty for variables.yml beside this file."
  default     = ""
}

variable "root_device" {
  type        = string
  description = "The root disk of that image: /dev/xvda of Debian and Amazon Linux, /dev/sda1 of Ubuntu."
  default     = "/dev/xvda"
}

variable "volume_size" {
  type        = number
  description = "GiB of the root disk; 0 for that of the image to start from, below which it cannot go."
  default     = 0
}

variable "volume_type" {
  type        = string
  description = "The type of the root disk: gp3, gp2, io1 or io2."
  default     = "gp3"
}

variable "volume_throughput" {
  type        = number
  description = "MiB/s of a root disk of type gp3, 125 to 1000, of which 125 cost nothing extra; 0 for another type."
  default     = 125
}

variable "volume_iops" {
  type        = number
  description = "Operations per second: 3000 to 16000 of gp3, of which 3000 cost nothing extra; 0 for gp2."
  default     = 3000
}

variable "copy_regions" {
  type        = list(string)
  description = "Other regions that get a copy, encrypted with the account's own key for EBS there."
  default     = []
}

variable "share_accounts" {
  type        = list(string)
  description = "Accounts that may start machines of it; they need kms_key_id to be a key that they may use."
  default     = []
}

variable "ssh_interface" {
  type        = string
  description = "session_manager goes through SSM, without an open port; empty for the machine's address."
  default     = ""
}

variable "iam_instance_profile" {
  type        = string
  description = "What the machine may do on which it is made; SSM needs AmazonSSMManagedInstanceCore in it."
  default     = ""
}

variable "subnet_id" {
  type        = string
  description = "The subnet of the machine on which it is made, reached over SSH; empty for the default one."
  default     = ""
}

variable "kms_key_id" {
  type        = string
  description = "The key that encrypts the image; empty for the account's own for EBS, which no other account can use."
  default     = ""
}

variable "name" {
  type        = string
  description = "What the name of the image begins with; the time follows."
  default     = "ml-node"
}

variable "tags" {
  type        = map(string)
  description = "Tags of the image and its snapshots."
  default     = {}
}

locals {
  root           = abspath("${path.root}/..")
  # The collections folder of the playbook: in a checkout, or in an installed collection
  collections    = "${local.root}/.ansible/collections:${abspath("${local.root}/../../..")}"
  variables_file = var.variables_file != "" ? abspath(var.variables_file) : "${local.root}/packer/variables.yml"
  tags = merge({
    Name   = var.name
    Source = "{{ .SourceAMI }}"
    Roles  = join(" ", var.roles)
  }, var.tags)
}

source "amazon-ebs" "ml-node" {
  region          = var.region
  instance_type   = var.instance_type
  subnet_id       = var.subnet_id
  ami_regions     = var.copy_regions
  ami_users       = var.share_accounts
  ami_name        = "${var.name}-{{timestamp}}"
  ami_description = "Tuned for ${join(", ", var.roles)} by mlnode.tuning"

  source_ami_filter {
    filters = {
      name                = var.source_ami_name
      architecture        = var.architecture
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
    owners      = [var.source_ami_owner]
    most_recent = true
  }

  launch_block_device_mappings {
    device_name           = var.root_device
    volume_size           = var.volume_size
    volume_type           = var.volume_type
    throughput            = var.volume_throughput
    iops                  = var.volume_iops
    delete_on_termination = true
  }

  communicator              = "ssh"
  ssh_interface             = var.ssh_interface
  iam_instance_profile      = var.iam_instance_profile
  ssh_username              = var.ssh_username
  temporary_key_pair_type   = "ed25519"
  ssh_clear_authorized_keys = true

  encrypt_boot = true
  kms_key_id   = var.kms_key_id

  # Metadata, with the credentials in it, needs a token: on this machine, and on all that boot the image.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }
  imds_support = "v2.0"

  tags          = local.tags
  snapshot_tags = local.tags
  run_tags      = { Name = "${var.name} (making an image)" }
}

build {
  sources = ["source.amazon-ebs.ml-node"]

  # Wait until the boot of the source image is complete.
  provisioner "shell" {
    inline = ["if command -v cloud-init >/dev/null; then sudo cloud-init status --wait || [ $? -eq 2 ]; fi"]
  }

  provisioner "ansible" {
    playbook_file = "${local.root}/playbooks/bake.yml"
    user          = var.ssh_username
    use_proxy     = false
    ansible_env_vars = [
      "ANSIBLE_CONFIG=${local.root}/ansible.cfg",
      "ANSIBLE_COLLECTIONS_PATH=${local.collections}",
      "ANSIBLE_HOST_KEY_CHECKING=False",
    ]
    extra_arguments = [
      "--extra-vars", "@${local.variables_file}",
      "--extra-vars", "bake_roles=${join(",", var.roles)}",
    ]
  }

  # Remove identifiers that must be unique for each machine.
  provisioner "shell" {
    script = "${local.root}/packer/clean.sh"
  }
}
