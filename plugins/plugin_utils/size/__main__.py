# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command mlnode-size, for a Python that knows the collection's folder and nothing else of it."""

from __future__ import annotations

import sys

if sys.hexversion < 0x030B0000:  # the oldest that ansible-core 2.19 runs with
    sys.exit(f"mlnode-size needs Python 3.11 or newer, and this is {sys.version.split()[0]}: set PYTHON=")

from .cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
