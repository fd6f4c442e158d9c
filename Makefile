# make demo   install into .venv and analyse some of the sample logs
# make test   install with the development tools and run the whole test suite
#             (EXTRAS=dev,runtime also tests the bundled runtime, which needs torch;
#             EXTRAS=dev,browser the HTML report in chromium, where that is installed)
# make check  what CI runs beside the tests: formatting, lint, types
# make docs   write docs/rules/ again, from the headers of the rules
# make screens  what HTML reports look like, for a person to look at: build/screens/
# make catalogue  measure every rule: benchmarks/catalogue.md (some minutes)

PYTHON ?= python3
EXTRAS ?= dev
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check docs screens catalogue clean

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
