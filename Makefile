# make setup     once: .venv with everything, the two programs in .venv/bin
# make demo      the operator's engine on three small nodes, offline, in virtual time
# make test      everything that CI runs; the last line is pytest's
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test lint controlplane cluster cluster-demo bench bench-full fuzz manifests lock clean

SHELL := /bin/bash
NAME ?= demo
# The first Python that is new enough; `make setup PYTHON=/path/to/python3.12` takes another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; exit; }; done; echo python3)
BIN := .venv/bin
# Named after what was installed, so that a changed lock or pyproject.toml installs anew and going back does not.
INSTALLED := .venv/.installed-$(shell cat requirements/dev.txt pyproject.toml | cksum | tr ' ' -)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## make .venv with what the hash-locked requirements say, and the project in it

$(INSTALLED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -1):" \
		"install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || { $(PYTHON) -m venv .venv || { \
		echo "$(PYTHON) cannot make virtual environments: install its venv module (Debian, Ubuntu: apt install python3-venv)" >&2; \
		rm -rf .venv; exit 1; }; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f .venv/.installed-*
	@touch $@
	@echo "ready: $(BIN)/dra-operator, $(BIN)/kubectl-dra"

demo: $(INSTALLED) ## play a training job on three half-used nodes (offline, no cluster needed)
	@$(BIN)/python -m examples.demo.run_offline

test: lint controlplane ## everything: lint, then all tests (with a real control plane, built on first use)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(INSTALLED) ## ruff, mypy --strict, the import contract, rendered manifests
	@$(BIN)/ruff check --quiet --output-format concise .
	@$(BIN)/ruff format --check --quiet --output-format concise . || { echo "unformatted files: run .venv/bin/ruff format" >&2; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache > .venv/lint-imports.log || { cat .venv/lint-imports.log >&2; exit 1; }
	@$(BIN)/python manifests/render.py --check

controlplane: $(INSTALLED) ## build etcd, kube-apiserver, … from source into a per-user cache (once)
	@$(BIN)/python -m devcluster build > .venv/controlplane.path

cluster: $(INSTALLED) controlplane ## a real control plane with simulated p4d nodes, the manifests applied (NAME=demo)
	@$(BIN)/python -m devcluster up --name $(NAME) --nodes 4 --profile p4d --classes
	@# No image is built here: the operator runs beside the cluster, with the rights of its account.
	@echo "start the operator:  $(BIN)/$$($(BIN)/python -m devcluster.install --name $(NAME))"
	@echo "use the cluster:     export KUBECONFIG=$$($(BIN)/python -m devcluster kubeconfig --name $(NAME))"
	@echo "end it:              $(BIN)/python -m devcluster down --name $(NAME)"

cluster-demo: $(INSTALLED) controlplane ## the demo's story on a real control plane, checked with kubectl
	@$(BIN)/python -m examples.demo.run_on_cluster

bench: $(INSTALLED) controlplane ## the measurements in bench/, beside the in-tree allocator and kube-scheduler
	@failed=; for each in bench/*/__main__.py; do name=$$(basename $$(dirname $$each)); \
		echo "== bench/$$name"; $(BIN)/python -m bench.$$name || failed="$$failed $$name"; done; \
		test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

bench-full: $(INSTALLED) controlplane ## the long ones (hours): an hour of churn, placement over 10 seeds, both traces and all mixes
	$(BIN)/python -m bench.churn --minutes 60
	$(BIN)/python -m bench.openb --full --jobs $$(nproc)

fuzz: $(INSTALLED) ## property and differential tests on new examples until one fails or you stop it
	@round=0; while round=$$((round + 1)); do echo "round $$round"; \
		$(BIN)/python -m pytest tests -m "hypothesis and not real" --hypothesis-profile=fuzz || exit 1; done

manifests: $(INSTALLED) ## render manifests/install.yaml from manifests/base and crds
	@$(BIN)/python manifests/render.py

# The lock names no index, so that it installs from whichever one pip is set up for.
UV := .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
lock: ## resolve requirements/*.txt anew: runtime and dev from pyproject.toml, build from build.in
	@$(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet --disable-pip-version-check uv
	$(UV) $(UV_ARGS) pyproject.toml -o requirements/runtime.txt
	$(UV) $(UV_ARGS) pyproject.toml --group dev -o requirements/dev.txt
	$(UV) $(UV_ARGS) requirements/build.in -o requirements/build.txt
	@rm -rf .venv-lock

clean: ## remove .venv, caches and what was built here (not the control plane in the per-user cache)
	rm -rf .venv .venv-lock .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
