# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A Google Compute Engine image whose machines are tuned nodes from their first boot on. For Packer 1.8 or newer:
#   packer init packer/google && packer build -var project_id=PROJECT packer/google
# Packer logs in with the application default credentials. See docs/guide/image.md.

packer {
  required_version = ">= 1.8.0"
  required_plugins {
    googlecompute = {
      source  = "github.com/hashicorp/googlecompute"
      version = ">= 1.1.0"
    }
    ansible = {
      source  = "github.com/hashicorp/ansible"
      version = ">= 1.1.0"
    }
  }
}

variable "project_id" {
  type        = string
  description = "The project in which the image is made and stored."
}

variable "zone" {
  type        = string
  description = "The zone of the machine on which it is made."
  default     = "europe-west3-a"
}

variable "machine_type" {
  type        = string
  description = "The machine on which it is made. Nothing of it gets into the image, so no GPU is needed."
  default     = "e2-small"
}

variable "source_image_family" {
  type        = string
  description = "The family of the image to start from; the newest counts. A family with arm64 in its name needs machine_type t2a-standard-1."
  default     = "debian-12"
}

variable "source_image_project" {
  type        = string
  description = "The project that the image must be of. This one is Debian's."
  default     = "debian-cloud"
}

variable "ssh_username" {
  type        = string
  description = "A user whom the guest agent creates for the login, with sudo."
  default     = "packer"
}

variable "roles" {
  type        = list(string)
  description = "What the machines of the image are: training or inference, and fabric for those with RDMA."
  default     = ["training"]
}

variable "variables_file" {
  type        = string
  description = "What differs from the defaults of the roles; empty for packer/variables.yml."
  default     = ""
}

variable "disk_size" {
  type        = number
  description = "GB of the root disk, at least the size of the image to start from."
  default     = 20
}

variable "disk_type" {
  type        = string
  description = "The type of the root disk while the image is made."
  default     = "pd-balanced"
}

variable "storage_locations" {
  type        = list(string)
  description = "Regions or multi-regions that keep the image, such as eu; empty for the one next to the zone."
  default     = []
}

variable "subnetwork" {
  type        = string
  description = "The subnetwork of the machine, reached over SSH; empty for the default one of the network default."
  default     = ""
}

variable "use_iap" {
  type        = bool
  description = "Go through Identity-Aware Proxy, without a public address or an open port. Needs the gcloud command here."
  default     = false
}

variable "service_account" {
  type        = string
  description = "The service account of the machine. Empty for none, as the machine needs no access to Google's interfaces."
  default     = ""
}

variable "name" {
  type        = string
  description = "Beginning of the image's name, followed by the time; also its family."
  default     = "ml-node"
}

variable "labels" {
  type        = map(string)
  description = "Labels of the image."
  default     = {}
}

locals {
  root           = abspath("${path.root}/../..")
  # The collections folder of the playbook: in a checkout, or in an installed collection
  collections    = "${local.root}/.ansible/collections:${abspath("${local.root}/../../..")}"
  variables_file = var.variables_file != "" ? abspath(var.variables_file) : "${local.root}/packer/variables.yml"
}

source "googlecompute" "ml-node" {
  project_id              = var.project_id
  zone                    = var.zone
  machine_type            = var.machine_type
  source_image_family     = var.source_image_family
  source_image_project_id = [var.source_image_project]
  subnetwork              = var.subnetwork

  disk_size = var.disk_size
  disk_type = var.disk_type

  image_name              = "${var.name}-{{timestamp}}"
  image_family            = var.name
  image_description       = "Tuned for ${join(", ", var.roles)} by mlnode.tuning"
  image_labels            = merge({ roles = join("_", var.roles) }, var.labels)
  image_storage_locations = var.storage_locations

  communicator              = "ssh"
  ssh_username              = var.ssh_username
  ssh_clear_authorized_keys = true
  use_iap                   = var.use_iap
  omit_external_ip          = var.use_iap
  use_internal_ip           = var.use_iap

  # Without an account no program on the machine can get a token from the metadata server.
  disable_default_service_account = var.service_account == ""
  service_account_email           = var.service_account

  # Keys of the project open no account here, and the guest agent writes none of them into the image.
  metadata = { block-project-ssh-keys = "true" }
}

build {
  sources = ["source.googlecompute.ml-node"]

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
