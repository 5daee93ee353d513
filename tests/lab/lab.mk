# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The kernel lab: see docs/guide/lab.md. Included by the Makefile.

# One of tests/lab/profiles.py. `make lab` builds all but debian12 by itself, and runtimes only with LONG=1.
PROFILE ?=
in_lab = PYTHONPATH="$(COLLECTIONS)" $(TEST)/python -m ansible_collections.mlnode.tuning.tests.lab

##@ Kernel lab

.PHONY: lab
lab: env-test ## build the machines of the kernel lab, as root (PROFILE=NAME for one of them)
	@$(in_lab).build $(or $(PROFILE),$(if $(LONG),--long))

.PHONY: test-lab
test-lab: lab ## run the tests on these machines (ARGS="-k NAME", LONG=1 for all of them)
	$(call step,tests on machines of their own kernel)
	@# A file stays with one process, which has machines of its own: an emulated one keeps one CPU busy at most, and
	@# waits for a fifth of the time.
	$(in_test) pytest tests/lab $(not_long) --numprocesses 3 --dist loadfile --verbose --durations=10 $(ARGS)

.PHONY: lab-shell
lab-shell: env-test ## a root shell on a fresh machine of PROFILE (baremetal)
	@$(in_lab).build $(or $(PROFILE),baremetal)
	@$(in_lab).shell $(or $(PROFILE),baremetal)
