# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# An Azure image whose machines are tuned nodes from their first boot on. For Packer 1.8 or newer:
#   packer init packer/azure && az login && packer build -var resource_group=GROUP packer/azure
# Packer logs in as the Azure command line is logged in, so no variable holds a secret. See docs/guide/image.md.

packer {
  required_version = ">= 1.8.0"
  required_plugins {
    azure = {
      source  = "github.com/hashicorp/azure"
      version = ">= 2.0.0"
    }
    ansible = {
      source  = "github.com/hashicorp/ansible"
      version = ">= 1.1.0"
    }
  }
}

variable "resource_group" {
  type        = string
  description = "The resource group that gets the image. It must exist."
}

variable "subscription_id" {
  type        = string
  description = "The subscription in which the image is made; empty for the present one of the Azure command line."
  default     = ""
}

variable "location" {
  type        = string
  description = "Where the image is made; the resource group may be elsewhere."
  default     = "westeurope"
}

variable "vm_size" {
  type        = string
  description = "The machine on which it is made. Nothing of it gets into the image, so no GPU is needed."
  default     = "Standard_B2s"
}

variable "image_publisher" {
  type        = string
  description = "Who publishes the image to start from."
  default     = "Debian"
}

variable "image_offer" {
  type        = string
  description = "The offer of that publisher."
  default     = "debian-12"
}

variable "image_sku" {
  type        = string
  description = "The plan of that offer; generation 2, as machines with GPUs need it."
  default     = "12-gen2"
}

variable "ssh_username" {
  type        = string
  description = "A user whom Azure creates for the login, with sudo; removed at the end."
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
  description = "GB of the root disk; 0 for that of the image to start from, below which it cannot go."
  default     = 0
}

variable "network" {
  type        = string
  description = "The virtual network of the machine, which is then reached at its private address; empty for a temporary one."
  default     = ""
}

variable "subnet" {
  type        = string
  description = "The subnet of that network."
  default     = ""
}

variable "network_resource_group" {
  type        = string
  description = "The resource group of that network."
  default     = ""
}

variable "gallery" {
  type        = string
  description = "A gallery of the same resource group that gets the image as well, for other regions and subscriptions; empty for none."
  default     = ""
}

variable "gallery_image" {
  type        = string
  description = "The image definition in that gallery. It must exist."
  default     = "ml-node"
}

variable "gallery_version" {
  type        = string
  description = "The version of the image there."
  default     = "1.0.0"
}

variable "gallery_regions" {
  type        = list(string)
  description = "Regions that get a copy from the gallery; empty for location alone."
  default     = []
}

variable "name" {
  type        = string
  description = "What the name of the image begins with; the time follows."
  default     = "ml-node"
}

variable "tags" {
  type        = map(string)
  description = "Tags of the image, and of all that is temporary."
  default     = {}
}

locals {
  root           = abspath("${path.root}/../..")
  # The collections folder of the playbook: in a checkout, or in an installed collection
  collections    = "${local.root}/.ansible/collections:${abspath("${local.root}/../../..")}"
  variables_file = var.variables_file != "" ? abspath(var.variables_file) : "${local.root}/packer/variables.yml"
}

source "azure-arm" "ml-node" {
  use_azure_cli_auth = true
  subscription_id    = var.subscription_id
  location           = var.location
  vm_size            = var.vm_size

  os_type         = "Linux"
  image_publisher = var.image_publisher
  image_offer     = var.image_offer
  image_sku       = var.image_sku
  os_disk_size_gb = var.disk_size

  virtual_network_name                = var.network
  virtual_network_subnet_name         = var.subnet
  virtual_network_resource_group_name = var.network_resource_group

  managed_image_resource_group_name = var.resource_group
  managed_image_name                = "${var.name}-{{timestamp}}"

  dynamic "shared_image_gallery_destination" {
    for_each = var.gallery == "" ? [] : [var.gallery]
    content {
      subscription        = var.subscription_id
      resource_group      = var.resource_group
      gallery_name        = var.gallery
      image_name          = var.gallery_image
      image_version       = var.gallery_version
      replication_regions = length(var.gallery_regions) > 0 ? var.gallery_regions : [var.location]
    }
  }

  communicator              = "ssh"
  ssh_username              = var.ssh_username
  ssh_clear_authorized_keys = true

  azure_tags = merge({ Name = var.name, Roles = join(" ", var.roles) }, var.tags)
}

build {
  sources = ["source.azure-arm.ml-node"]

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

  # Azure's own last step: it removes the user, and has the agent provision each machine as a new one.
  provisioner "shell" {
    execute_command = "chmod +x {{ .Path }}; {{ .Vars }} sudo -E sh '{{ .Path }}'"
    inline          = ["waagent -force -deprovision+user && sync"]
  }
}
