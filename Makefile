# Two commands on a fresh machine: `make demo` and `make test`. Each installs all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := setup.py pyproject.toml
# Exact versions and hashes stand in the files; `make lock` makes them.
PIP_INSTALL := pip install --quiet --disable-pip-version-check
LOCKED := requirements/build.txt requirements/runtime.txt requirements/train.txt
OURSELVES := --no-deps --no-build-isolation --editable .
LOWEST := .venv-lowest
TOOLS := .venv-tools
SITE := .venv-site
# Where the tests on real daemons are; naming them saves the collection of all others.
REAL := tests/real tests/attacks tests/functional/test_documentation.py

.PHONY: help demo test test-all test-lowest test-releases test-pbs check bench bench-slurm bench-reserve faults soak \
  fuzz fuzz-short fuzz-coverage deb deb-twice lock generated pictures default-model paper-models reserve-model \
  q-network rpm site clean

help:
	@echo "make demo           the whole loop on a simulated cluster, under 5 minutes"
	@echo "make test           what a change must pass: real Slurm and Prometheus where they can be installed"
	@echo "make test-all       every test: papers and trainings made small, all on real daemons; an hour"
	@echo "make test-lowest    some tests with the lowest version of each package; on Python 3.11"
	@echo "make test-releases  real tests on Slurm 24.11 and 26.05; as root, on Debian"
	@echo "make test-pbs       real tests on an OpenPBS that runs here; as root, not on one in use"
	@echo "make check          ruff, mypy, import-linter, spelling, words of the prose"
	@echo "make bench          speed and memory"
	@echo "make bench-slurm    writes and cycles on a real Slurm with 10,000 jobs; about 15 minutes"
	@echo "make bench-reserve  hours of load on a real Slurm with and without a reserve; about an hour"
	@echo "make faults         faults injected on real Slurms, a table; as root, about 35 minutes"
	@echo "make soak           a day of LPC-EGEE seven times on a real Slurm, accelerated; about 75 minutes"
	@echo "make fuzz           a million faulty inputs to readers and services; goes on if interrupted"
	@echo "make fuzz-short     a minute for each of six kinds of faulty input; a part of CI"
	@echo "make fuzz-coverage  the same by atheris, which follows the code that inputs reach"
	@echo "make deb            the Debian package, into dist/; on Debian 12 or newer"
	@echo "make rpm            the same as an RPM, for RHEL and its kinds; where rpmbuild is"
	@echo "make site           the manual as a site, into site/"
	@echo "make lock           requirements/: exact versions and hashes of what is installed"
	@echo "make deb-twice      builds the package twice: the same bytes; by hand, 10 minutes"
	@echo "make generated      files made of the code: example file, tables of documents, dashboards"
	@echo "make pictures       docs/pictures/users-page-*.png again, in a Chromium"
	@echo "make default-model  write policy_models/default.onnx again"
	@echo "make paper-models   train the networks of the papers of 2008 and 2011 again"
	@echo "make reserve-model  train policy_models/responsive-reserve.onnx again, on LPC-EGEE"
	@echo "make q-network      train policy_models/q-network.onnx again, on four logs"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-train: $(BIN)/python $(SOURCES) $(LOCKED)
	$(BIN)/$(PIP_INSTALL) -r requirements/build.txt -r requirements/train.txt
	$(BIN)/$(PIP_INSTALL) $(OURSELVES)
	touch $@

$(VENV)/installed-test: $(BIN)/python $(SOURCES) $(LOCKED) requirements/test.txt
	$(BIN)/$(PIP_INSTALL) -r requirements/build.txt -r requirements/test.txt
	$(BIN)/$(PIP_INSTALL) $(OURSELVES)
	touch $@

demo: $(VENV)/installed-train
	$(BIN)/slurm-rl demo --output demo-output

test: $(VENV)/installed-test
	tests/real/install_daemons.sh
	@$(call beside_each_other,real and promise,not real and not study)

test-all: $(VENV)/installed-test
	tests/real/install_daemons.sh
	@$(call beside_each_other,real,not real)

# Runs tests in three processes at the same time: those on real daemons, which mostly wait, those of
# modules and against the reference, and the others, which are shown as they run.
define beside_each_other
said=$$(mktemp -d); $(BIN)/pytest -m "$(1)" $(REAL) >"$$said/real" 2>&1 & real=$$!; \
$(BIN)/pytest -m "$(2)" tests/unit tests/reference >"$$said/unit" 2>&1 & unit=$$!; \
trap 'kill $$real $$unit; rm -rf "$$said"; exit 130' INT TERM; \
echo "tests of modules and on real daemons run beside the others; what they say comes last"; \
$(BIN)/pytest -m "$(2)" --ignore=tests/unit --ignore=tests/reference --ignore=tests/real; others=$$?; \
wait $$unit; modules=$$?; cat "$$said/unit"; wait $$real; daemons=$$?; cat "$$said/real"; \
rm -rf "$$said"; exit $$((others | modules | daemons))
endef

$(LOWEST)/installed: $(SOURCES) requirements/lowest.txt
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info[:2] == (3, 11) else "needs Python 3.11, the oldest: make PYTHON=python3.11 test-lowest")'
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/$(PIP_INSTALL) -r requirements/lowest.txt
	$(LOWEST)/bin/$(PIP_INSTALL) $(OURSELVES)
	touch $@

# Tests that use each package that setup.py asks for, with its lower bound installed.
LOWEST_TESTS := tests/unit/serving tests/unit/metrics tests/unit/forecasts/test_forecast.py \
  tests/unit/evaluation/test_schedule_figures.py tests/unit/cli/test_progress_bar.py \
  tests/contracts/test_accounting_readers.py tests/contracts/test_algorithms.py \
  tests/functional/test_onnx_parity.py tests/functional/test_generated_pages.py \
  tests/reference/test_kernel_against_readable_simulator.py
test-lowest: $(LOWEST)/installed
	$(LOWEST)/bin/lint-imports
	$(LOWEST)/bin/pytest -p no:cacheprovider -m "not real and not study" $(LOWEST_TESTS)

test-releases: $(VENV)/installed-test
	tests/real/install_daemons.sh
	tests/real/install_release.sh trixie
	tests/real/install_release.sh forky
	SLURM_RL_TEST_RELEASES="24.11 26.05" $(BIN)/pytest -m real $(REAL)

test-pbs: $(VENV)/installed-test
	SLURM_RL_TEST_PBS=1 $(BIN)/pytest tests/real/test_openpbs_real.py \
		tests/real/test_openpbs_wide_job.py tests/real/test_openpbs_gpus.py

check: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	git ls-files -z '*.md' '*.py' '*.toml' '*.yml' '*.sh' | xargs -0 $(BIN)/codespell
	$(BIN)/python -m tests.architecture.prose

bench: $(VENV)/installed-test
	$(BIN)/python -m tests.bench.speed.figures --output bench-output

bench-slurm: $(VENV)/installed-test
	tests/real/install_daemons.sh
	$(BIN)/python -m tests.bench.speed.slurm_queue --output bench-output

bench-reserve: $(VENV)/installed-test
	tests/real/install_daemons.sh
	$(BIN)/python -m tests.bench.live.reserve_hours --output bench-output

faults: $(VENV)/installed-test
	tests/real/install_daemons.sh
	$(BIN)/python -m tests.bench.faults.campaign --output faults-output

soak: $(VENV)/installed-test
	tests/real/install_daemons.sh
	$(BIN)/python -m tests.bench.live.soak --output soak-output

fuzz: $(VENV)/installed-test
	$(BIN)/python -m tests.bench.fuzz.campaign --output fuzz-output

# A minute for each kind of input that strangers, users and administrators write. The same inputs each time, so that
# a commit fails by what it changed; another SEED finds what is new.
SEED := 1
FUZZED := heads slurm.conf squeue sacct model configuration
fuzz-short: $(VENV)/installed-test
	rm -rf fuzz-output/short
	$(BIN)/python -m tests.bench.fuzz.campaign --output fuzz-output/short --seconds 60 --part 100 \
	  --seed $(SEED) $(FUZZED:%=--target %)

fuzz-coverage: $(VENV)/installed-test
	$(BIN)/$(PIP_INSTALL) -r requirements/coverage.txt
	for target in swf sacct pbs configuration "offer body" metrics heads slurm.conf squeue; do \
	  $(BIN)/python -m tests.bench.fuzz.coverage_guided "$$target" "fuzz-output/corpus/$$target" \
	    -runs=50000 -seed=1 -print_final_stats=1 || exit 1; done

# With UPGRADE=1 the newest versions of everything.
lock: $(TOOLS)/installed
	$(TOOLS)/bin/python requirements/lock.py $(if $(UPGRADE),--upgrade)

$(TOOLS)/installed: requirements/build.txt requirements/tools.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/$(PIP_INSTALL) -r requirements/build.txt -r requirements/tools.txt
	touch $@

deb:
	deploy/debian/build.sh dist

rpm:
	deploy/rpm/build.sh dist

# A warning, such as a link to nowhere, ends it.
site: $(SITE)/installed
	$(SITE)/bin/sphinx-build -q -W --keep-going -c deploy/site . site
	cp site/README.html site/index.html

$(SITE)/installed: requirements/site.txt
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/$(PIP_INSTALL) -r requirements/site.txt
	touch $@

# The same bytes from another folder, with other packages at hand, in another time zone, by another umask.
deb-twice:
	rm -rf dist/first dist/second dist/clone
	deploy/debian/build.sh dist/first
	umask 077 && git clone --quiet . dist/clone && TZ=Asia/Tokyo dist/clone/deploy/debian/build.sh dist/second
	cmp dist/first/*.deb dist/second/*.deb && sha256sum dist/first/*.deb
	rm -rf dist/clone

generated: $(VENV)/installed-test
	$(BIN)/python -m slurm_rl_plugin.configuration.generated
	$(BIN)/python deploy/grafana/generate_dashboards.py

pictures: $(VENV)/installed-test
	$(BIN)/python -m tests.functional.users_site docs/pictures

default-model: $(VENV)/installed-train
	$(BIN)/python -m tests.bench.default_model

# Generated loads only, as the papers describe them.
paper-models: $(VENV)/installed-train
	$(BIN)/slurm-rl train \
	  mmn:interactive=.2,seed=1101 mmn:interactive=.4,seed=1102 mmn:interactive=.5,seed=1103 \
	  mmn:interactive=.2,seed=1104 mmn:interactive=.4,seed=1105 mmn:interactive=.5,seed=1106 \
	  --shares vo0=.7,vo1=.2,vo2=.05,vo3=.05 --algorithm sarsa --estimates class-median \
	  --runs 1 --seed 1 --output policy_models/reactive-grids.onnx
	$(BIN)/slurm-rl train \
	  egee:load=.7,seed=1101 egee:load=.7,seed=1102 egee:load=.7,seed=1103 egee:load=.7,seed=1104 \
	  --algorithm echo-state --estimates class-median \
	  --runs 1 --seed 1 --output policy_models/non-markovian.onnx

LPC = $(SLURM_RL_TRACES)/LPC-EGEE-2004-1.2-cln.swf.gz
# Past of the log only: jobs 0 to 133,000, as recorded, busier, and on smaller machines.
reserve-model: $(VENV)/installed-train
	$(BIN)/slurm-rl train \
	  $(foreach first,19000 28500 66500 76000 85500 104500 114000 123500,\
	    $(LPC)@jobs=$(first):$(shell expr $(first) + 9500)) \
	  $(LPC)@jobs=19000:28500,load=.6 $(LPC)@jobs=28500:38000,load=.7 \
	  $(LPC)@jobs=66500:76000,load=.7 $(LPC)@jobs=76000:85500,load=.8 \
	  $(LPC)@jobs=114000:123500,load=.7 $(LPC)@jobs=123500:133000,load=.7 \
	  $(LPC)@jobs=104500:114000,load=.8,processors=50 \
	  $(LPC)@jobs=123500:133000,load=.7,processors=50 \
	  $(LPC)@jobs=76000:85500,load=.75,processors=60 \
	  --processors 81 --config policy_models/responsive-reserve.toml --estimates oracle --runs 1 \
	  --hold --set searched=reserve --set start=sjf --hidden 1 --steps 30 --seed 1 \
	  --output policy_models/responsive-reserve.onnx

# The first 60 % of three logs, and the past of LPC-EGEE, crowded.
PARALLEL = $(foreach part,SDSC-SP2-1998-4.2@12000:22000 SDSC-SP2-1998-4.2@25000:35000 \
    CTC-SP2-1996-3.1@20000:30000 CTC-SP2-1996-3.1@36000:46000 \
    HPC2N-2002-2.2@60000:70000 HPC2N-2002-2.2@110000:120000,\
    $(SLURM_RL_TRACES)/$(subst @,-cln.swf.gz@jobs=,$(part)))
q-network: $(VENV)/installed-train
	$(BIN)/slurm-rl train \
	  $(LPC)@jobs=66500:76500,load=.7,processors=81 $(LPC)@jobs=123000:133000,load=.7,processors=81 \
	  $(PARALLEL) --algorithm fitted-q --preset slowdown --backfill easy --runs 1 --seed 1 \
	  --hidden 3 --steps 12 --set gamma=.3 --set kept=6 --set batch=4 \
	  --output policy_models/q-network.onnx

clean:
	rm -rf $(VENV) $(LOWEST) $(TOOLS) $(SITE) build dist site *.egg-info demo-output
