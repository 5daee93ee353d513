# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Everything a person or a CI job does here is a target of this file; `make` alone lists them.
# Needs bash, git and one of Python 3.11 to 3.13; the rest is installed into .venv* from the hash-pinned locks.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Recipes are ordered steps, and some change the machine: never run them in parallel.
.NOTPARALLEL:

INVENTORY ?= inventory/local.yml
ARGS ?=
# Tests that take minutes are left out; LONG=1 adds them.
LONG ?=
not_long = $(if $(LONG),,-m "not long")

RUNTIME := $(CURDIR)/.venv/bin
TEST := $(CURDIR)/.venv-test/bin
NEWEST := $(CURDIR)/.venv-newest/bin
BENCH := $(CURDIR)/.venv-bench/bin
DOCS := $(CURDIR)/.venv-docs/bin
SITE := tests/output/docs
COLLECTIONS := $(CURDIR)/.ansible/collections
LINK := $(COLLECTIONS)/ansible_collections/mlnode/tuning

# The checkout is found under its collection name through LINK. ANSIBLE_CONFIG, since ansible ignores the
# ansible.cfg of a folder that anyone may write to (a mounted share, for one).
export ANSIBLE_COLLECTIONS_PATH := $(COLLECTIONS)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export PYTHONUNBUFFERED := 1
# If it were set, every process would compile its imports again.
unexport PYTHONDONTWRITEBYTECODE
# Folders of tests, thousands of them: in memory, if 4 GiB are free.
RAM := $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4194304 ] 2>/dev/null && echo /dev/shm || echo /tmp)
# Plain output instead of boxes of 80 columns.
export MOLECULE_COMMAND_BORDERS := false

# Targets that change this machine run alone on it, across all checkouts.
alone = "$(TEST)/python" tools/one_run.py --name "make $@"
# The default inventory is this machine, and its settings stay.
beside_none = $(if $(filter inventory/local.yml,$(INVENTORY)),"$(RUNTIME)/python" tools/one_run.py --keep --name "make $@")
play = PATH="$(RUNTIME):$$PATH" $(beside_none) ansible-playbook -i $(INVENTORY)
step = @printf '==> [%s] %s\n' "$$(date +%T)" "$(1)"
in_test = @export PATH="$(TEST):$$PATH";
in_newest = @export PATH="$(NEWEST):$$PATH";
in_docs = @export PATH="$(DOCS):$$PATH";
# Run all steps, also after a failure, and report the failed ones at the end.
steps = @MAKE="$(MAKE)" $(2) tools/steps.sh $(1)
pin = .cache/uv/bin/uv pip compile --quiet --universal --python-version $(2) --generate-hashes --no-emit-index-url \
    --custom-compile-command "make lock" $(ARGS) --output-file $(1).txt $(1).in

##@ Use

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile
	@printf '\nVariables: INVENTORY=%s  ARGS="--limit NODE --tags AREA ..." (passed on as they are)  LONG=1\n' '$(INVENTORY)'

.PHONY: env
env: link ## create .venv for the playbooks
	@tools/venv.sh .venv requirements/runtime.txt

.PHONY: site
site: env ## tune the nodes in INVENTORY (default: this machine)
	@$(play) playbooks/site.yml $(ARGS)

.PHONY: preview
preview: env ## list the changes of `make site`, and change nothing
	@$(play) playbooks/site.yml --check --diff $(ARGS)

.PHONY: drift
drift: env ## report drift from the declaration
	@$(play) playbooks/drift.yml $(ARGS)

.PHONY: revert
revert: env ## restore the state before the first run
	@$(play) playbooks/revert.yml $(ARGS)

##@ Develop

LINT := ruff mypy vermin yamllint english codespell markdown biome ansible-lint ee-lint reuse docs-lint docs changelog-lint
SCENARIOS ?= project default inference fabric mixed bake
IN_CONTAINERS = $(addprefix molecule-,$(SCENARIOS))

.PHONY: test
test: env-test ## run all checks of CI, and report the failed ones at the end
	@# Some tests look at the machine: none goes beside the test that tunes it, but what looks at files does. The tests of
	@# `system` measure, so that they have the CPUs first, and the scenarios next, as they take longest and wait half of it.
	$(call steps,$(LINT) -- machine images / sanity unit-oldest unit-node pytest -- $(IN_CONTAINERS) -- system,$(alone))

.PHONY: lint
lint: env-test env-docs ## run the static checks
	$(call steps,$(LINT))

.PHONY: unit
unit: env-test ## run the unit tests (ARGS="-k NAME")
	$(call step,unit tests)
	$(in_test) pytest tests/unit $(ARGS)

# The factor of cases compared with `make test`
EFFORT ?= 20
.PHONY: robustness
robustness: env-test ## run the kill, fault, fuzz and concurrency tests with more cases (EFFORT=20)
	$(call step,robustness with $(EFFORT) times the effort)
	$(in_test) MLNODE_ROBUSTNESS=$(EFFORT) pytest tests/unit/plugins tests/robustness tests/simulation -m "robustness or hypothesis" \
	    --quiet --numprocesses auto --dist worksteal $(ARGS)
	$(in_test) MLNODE_ROBUSTNESS=$(EFFORT) pytest tests/system/test_sysctl_grammar.py tests/system/test_sysctl_boot.py --quiet

.PHONY: sanity
sanity: env-newest ## run ansible-test sanity
	$(call step,ansible-test sanity)
	$(in_newest) tools/ansible-test.sh

# A root file system or an image by its path, in place of those of Debian; not from the environment, where other tools
# have a variable of this name.
IMAGE :=
ifneq ($(IMAGE),)
export IMAGE
export MLNODE_IMAGE := localhost/mlnode-lab/given:latest
endif
.PHONY: molecule
molecule: env-test $(if $(IMAGE),images) ## run the scenarios in containers (SCENARIOS="default bake", IMAGE=PATH, ANSIBLE=oldest|test|newest)
	$(call steps,$(IN_CONTAINERS),$(alone))

.PHONY: docs
docs: env-docs ## build the documentation site, tests/output/docs/html/index.html, and check its links
	$(call step,documentation)
	@rm -rf $(SITE) && install -d -m 755 $(SITE)/pages/reference
	$(in_docs) antsibull-docs --config-file docs/site/antsibull-docs.cfg collection --use-current --squash-hierarchy \
	    --fail-on-error --dest-dir $(SITE)/pages/reference mlnode.tuning
	$(in_docs) PYTHONPATH="$(COLLECTIONS)" python tools/docs_pages.py $(SITE)/pages
	$(in_docs) sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs/site \
	    --doctree-dir $(SITE)/doctrees $(SITE)/pages $(SITE)/html
	@printf 'the site: %s\n' "$(CURDIR)/$(SITE)/html/index.html"

.PHONY: dashboard
dashboard: env-test ## write the dashboard in observability/ from tools/dashboard.py
	$(in_test) python tools/dashboard.py

.PHONY: release
release: env-test ## make a release without publishing it (ARGS=--dry-run changes nothing)
	$(call step,release)
	$(in_test) tools/release.sh $(ARGS)

.PHONY: lock
lock: ## pin requirements/*.in (ARGS=--upgrade for newer versions)
	@tools/venv.sh .cache/uv requirements/uv.txt
	$(call step,lock files)
	@$(foreach name,runtime test docs oldest bench,$(call pin,requirements/$(name),3.11);) \
	    $(foreach name,node uv,$(call pin,requirements/$(name),3.8);)

.PHONY: bench
bench: env-bench ## compare the collection with its peers, as root (ARGS="--nodes 4,10 --rounds 5 --only plays")
	$(call step,benchmarks)
	@PATH="$(BENCH):$$PATH" PYTHONPATH="$(COLLECTIONS)" "$(BENCH)/python" tools/one_run.py --name "make $@" \
	    tools/container-lab.sh $(BENCH)/python -m ansible_collections.mlnode.tuning.benchmarks.bench $(ARGS)

.PHONY: evidence
evidence: env-test ## run the grid of simulated campaigns, and write tests/simulation/README.md (ARGS="--seeds 20")
	$(call step,evidence)
	$(in_test) PYTHONPATH="$(COLLECTIONS)" python -m ansible_collections.mlnode.tuning.tests.simulation.evidence $(ARGS)

.PHONY: clean
clean: ## remove environments, caches and results
	rm -rf .venv .venv-bench .venv-docs .venv-newest .venv-node .venv-oldest .venv-test .ansible .cache .coverage .coverage.* \
	    .hypothesis .mypy_cache .pytest_cache .ruff_cache htmlcov tests/output mlnode-tuning-*.tar.gz*
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# The targets above use the following ones, which also work alone.

.PHONY: link
link:
	@mkdir -p "$(dir $(LINK))"
	@ln -sfn ../../../.. "$(LINK)"

.PHONY: env-test
env-test: link
	@tools/venv.sh .venv-test requirements/test.txt

.PHONY: env-docs
env-docs: link
	@tools/venv.sh .venv-docs requirements/docs.txt

.PHONY: env-bench
env-bench: link
	@tools/venv.sh .venv-bench requirements/bench.txt

# The newest ansible-core requires a newer Python than some distributions have.
.PHONY: env-newest
env-newest: link
	@tools/venv.sh .venv-newest requirements/test.txt $$(tools/python.sh 3.13 3.12 3.11)

.PHONY: env-oldest
env-oldest: link
	@tools/venv.sh .venv-oldest requirements/oldest.txt $$(tools/python.sh 3.11)

.PHONY: env-node
env-node: link
	@python=$$(tools/python.sh 3.8); \
	if [ -z "$$python" ]; then echo "skipped: there is no Python 3.8 here"; exit 0; fi; \
	tools/venv.sh .venv-node requirements/node.txt "$$python"

# The environment whose ansible-core plays a scenario. Together, the scenarios cover the oldest and the newest
# supported ansible-core, and the one for this distribution's Python, and each is played once; ANSIBLE=oldest
# plays all with one.
PLAYED_default := newest
PLAYED_mixed := oldest
ANSIBLE = $(or $(PLAYED_$*),test)

.PHONY: images
images: env-test
	$(call step,images of the scenarios)
	$(in_test) $(alone) tools/container-lab.sh $(TEST)/ansible-playbook $(SCENARIOS:%=--inventory=molecule/%/inventory) \
	    molecule/shared/$(if $(IMAGE),given,images).yml

molecule-%: env-test
	$(call step,molecule: $* with the ansible-core of .venv-$(ANSIBLE))
	@$(MAKE) env-$(ANSIBLE)
	@# Only ansible-playbook is taken from there. What molecule notes goes with the run: one that was killed would have left
	@# the next one containers that are not as create makes them, or are gone.
	$(in_test) play=$$(mktemp -d); trap 'rm -rf "$$play"' EXIT; \
	ln -s "$(CURDIR)/.venv-$(ANSIBLE)/bin/ansible-playbook" "$$play"; \
	PATH="$$play:$$PATH" MOLECULE_EPHEMERAL_DIRECTORY="$$play/$*" $(alone) tools/container-lab.sh \
	    timeout --foreground --kill-after=60 3600 $(TEST)/molecule test -s $*

.PHONY: ruff
ruff: env-test
	$(call step,ruff)
	$(in_test) ruff check .
	$(in_test) ruff format --check .

.PHONY: mypy
mypy: env-test
	$(call step,mypy --strict)
	@# The lab too, as a wrong call there shows only after an hour.
	$(in_test) mypy -p ansible_collections.mlnode.tuning.plugins -p ansible_collections.mlnode.tuning.tests.lab
	@# The dashboard, because no Grafana is there to refuse it. Its types, like those of the lint, need Python 3.11.
	$(in_test) mypy --python-version 3.11 -p ansible_collections.mlnode.tuning.tools.dashboard \
	    -p ansible_collections.mlnode.tuning.tools.english

.PHONY: vermin
vermin: env-test
	$(call step,vermin: what nodes run needs no more than Python 3.8)
	$(in_test) vermin --target=3.8- --no-tips --violations plugins/module_utils plugins/modules examples

.PHONY: yamllint
yamllint: env-test
	$(call step,yamllint)
	$(in_test) yamllint --strict .

.PHONY: english
english: env-test
	$(call step,share of sentences that no manual would have)
	$(in_test) PYTHONPATH="$(COLLECTIONS)" python tools/english.py

.PHONY: codespell
codespell: env-test
	$(call step,codespell)
	$(in_test) codespell

.PHONY: markdown
markdown: env-test
	$(call step,rumdl: form of the Markdown files)
	$(in_test) rumdl check --no-cache --quiet .

.PHONY: biome
biome: env-test
	$(call step,biome: JavaScript and CSS)
	@# A wheel of it is there for this kind of machine alone.
	$(in_test) if [ "$$(uname -sm)" != "Linux x86_64" ]; then echo "skipped: there is no Biome for this machine"; exit 0; fi; \
	biome lint --error-on-warnings

.PHONY: ansible-lint
ansible-lint: env-test
	$(call step,ansible-lint)
	$(in_test) ansible-lint --offline --profile production --strict

.PHONY: ee-lint
ee-lint: env-test
	$(call step,execution environment)
	$(in_test) tools/ee-lint.sh

.PHONY: reuse
reuse: env-test
	$(call step,reuse)
	$(in_test) reuse lint --lines

.PHONY: docs-lint
docs-lint: env-docs
	$(call step,antsibull-docs)
	$(in_docs) antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs=self .

.PHONY: changelog-lint
changelog-lint: env-test
	$(call step,antsibull-changelog)
	$(in_test) antsibull-changelog lint

# Tests of the interface to ansible-core. `make pytest` runs them on the newest supported ansible-core with all values; each
# test uses only its first value here, because no ansible-core is known to treat the others differently.
ANSIBLE_TESTS := $(addprefix tests/unit/plugins/,action/ callback/ modules/) \
    $(wildcard tests/unit/plugins/plugin_utils/test_*.py tests/unit/plugins/module_utils/test_*.py) tests/unit/test_interfaces.py
.PHONY: unit-oldest
unit-oldest: env-oldest
	$(call step,unit tests on the oldest supported ansible-core)
	@PATH="$(CURDIR)/.venv-oldest/bin:$$PATH" TMPDIR=$(RAM) pytest -q --once --numprocesses 2 --dist loadfile $(ANSIBLE_TESTS)

# The library on the oldest Python of a node, 3.8, without ansible. vermin does not know the types behind method calls; the
# last mypy for 3.8 checks them. Tests cover the agent, which imports the whole library and runs the engine, and the readers
# of Linux files. Each test uses only its first value here; `make pytest` uses all.
LIBRARY := plugins/module_utils/_mlnode
LIBRARY_TESTS := $(addprefix tests/unit/$(LIBRARY)/,agent drivers host linux)
.PHONY: unit-node
unit-node: env-node
	$(call step,the library on Python 3.8: types and unit tests)
	@# `make mypy` checks argument and assignment types.
	@[ ! -d .venv-node ] || .venv-node/bin/mypy --config-file= --python-version 3.8 --namespace-packages \
	    --explicit-package-bases --disable-error-code arg-type --disable-error-code assignment \
	    --disable-error-code var-annotated $(LIBRARY)
	@[ ! -d .venv-node ] || TMPDIR=$(RAM) .venv-node/bin/pytest $(LIBRARY_TESTS) -q -m "not hypothesis and not robustness" \
	    --once --numprocesses 2 --dist loadfile

.PHONY: pytest
pytest: env-newest
	$(call step,unit tests with coverage)
	@# A file stays with one process.
	$(in_newest) TMPDIR=$(RAM) pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations=10 \
	    --cov --cov-report=term $(not_long) tests/unit tests/simulation tests/robustness $(ARGS)

MACHINE_TESTS := tests/system/test_this_machine.py
.PHONY: system
system: env-test
	$(call step,tests in network namespaces and with programs of this machine)
	$(in_test) TMPDIR=$(RAM) $(alone) pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations=10 \
	    $(not_long) tests/system --ignore=$(MACHINE_TESTS) $(ARGS)

.PHONY: machine
machine: env-test
	$(call step,tests that tune this machine and revert it)
	$(in_test) TMPDIR=$(RAM) $(alone) pytest --numprocesses 1 --durations=10 $(MACHINE_TESTS) $(ARGS)

-include tests/lab/lab.mk
