# make demo   install into .venv and analyse some of the sample logs
# make test   install with the development tools and run the whole test suite
#             (EXTRAS=dev,runtime also tests the bundled runtime, which needs torch;
#             EXTRAS=dev,browser the HTML report in chromium, where that is installed)
# make check  what CI runs beside the tests: formatting, lint, types
# make docs   write docs/rules/ again, from the headers of the rules
# make screens  what HTML reports look like, for a person to look at: build/screens/
# make catalogue  measure every rule: benchmarks/catalogue.md (some minutes)
# make bench  measure speed and memory beside other tools: benchmarks/README.md (half an hour;
#             SIZE=1GB ROUNDS=5, LARGEST=5GB for memory and growth up to there)
# make bench-quick  the same in two minutes, with margins for noise: what CI runs

PYTHON ?= python3
EXTRAS ?= dev
SIZE   ?= 1GB
ROUNDS ?= 5
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check docs screens catalogue bench bench-quick clean

demo: $(VENV)/.demo
	$(BIN)/specdiag analyze sample_logs/founding-* sample_logs/walk_stopped_early.jsonl sample_logs/healthy*

test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadscope

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.demo
	rm -f docs/rules/*.md
	$(BIN)/specdiag rules --output docs/rules

screens: $(VENV)/.browser
	$(BIN)/python tests/browser/screens.py build/screens

catalogue: $(VENV)/.test
	$(BIN)/python benchmarks/catalogue.py

bench: $(VENV)/.demo
	$(BIN)/python -m benchmarks.bench --size $(SIZE) --rounds $(ROUNDS) $(if $(LARGEST),--largest $(LARGEST))

bench-quick: $(VENV)/.demo
	$(BIN)/python -m benchmarks.bench --quick

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)
	$(PIP) --editable .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)
	$(PIP) --editable '.[$(EXTRAS)]'
	touch $@ $(VENV)/.demo

$(VENV)/.browser: pyproject.toml constraints.txt | $(VENV)
	$(PIP) --editable '.[browser]'
	touch $@ $(VENV)/.demo

$(VENV):
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis specdiag-report.html
