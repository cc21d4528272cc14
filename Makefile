# make repro                 sets up and runs the main job: data, gate, training, evaluation
# make repro PROFILE=quick   the same with params/quick.yaml, in a copy under .profiles/ that leaves yours alone
# make test                  sets up and runs the tests; make test-slow runs the long ones
# make check                 architecture, types and style
# make bench / make report   measures the claims / draws all results on one page
# make demo                  two months of questions to a running server, calibrated by a local Prefect server; a page
# make ui                    a local Prefect server with the training flow on it; PORT=4300 for another port
# make serve                 serves the release that params name, at http://127.0.0.1:8080
PYTHON ?= python3
VENV := .venv
BIN := $(abspath $(VENV))/bin
READY := $(VENV)/.ready
export PATH := $(BIN):$(PATH)
export DVC_NO_ANALYTICS := 1
export DO_NOT_TRACK := 1
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: repro test test-slow check bench report ui demo serve pipeline clean
.DEFAULT_GOAL := repro

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11; give another one: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || \
	  { echo "$(PYTHON) has no venv; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $(READY)

ifdef PROFILE
repro: $(READY)
	python -m tasks.profile $(PROFILE) -- python -m dvc repro
	@python -m tasks.profile $(PROFILE) -- python -m stages.report
else
repro: $(READY)
	python -m dvc repro
	@python -m stages.report  # DVC may have restored outputs, and wall times are in no cache
	@echo "report: artifacts/evaluate/report.html"
endif

test: $(READY)
	python -m pytest

test-slow: $(READY)
	python -m pytest -m slow --timeout 3600

check: $(READY)
	ruff format --check .
	ruff check .
	mypy
	lint-imports

bench: $(READY)
	python -m benchmarks.run

report: $(READY)
	python -m benchmarks.report

ui: $(READY)
	python -m flows.ui $(PORT)

demo: $(READY)
	python -m flows.demo $(PORT)

serve: $(READY)
	python -m flows.serve

pipeline: $(READY)  # the README's picture of the stage graph
	python -m tasks.picture docs/pipeline.svg

clean:
	rm -rf $(VENV) .profiles .mypy_cache .ruff_cache .pytest_cache .hypothesis
