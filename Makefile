# One command in: `make demo` shows the trio at work, `make test` runs everything, `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
# make test: how many files of tests at a time; they share one server of each kind, and half of them begin with daemons
WORKERS ?= 4
# make fast: what the working tree is compared with
BASE ?= main
PYTEST := $(BIN)/python -m pytest -q --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# make up: local | rabbit, fake | libvirt, sqlite | postgresql | mariadb
BROKER ?= local
DRIVER ?= fake
DB ?= sqlite
HOSTS ?=
# make nova: where nova, placement and the client are installed
NOVA_VENV ?= .venv-nova
# make client: where the openstack client of the tests is installed, and the schemas of Tempest
CLIENT_VENV ?= .venv-client
# make tempest: where Tempest and keystone are installed; ONLY= runs the tests whose names match
TEMPEST_VENV ?= .venv-tempest
# make guests: it is built here, so it is not among the constraints of what make test installs
LIBVIRT_PYTHON ?= 12.8.0
# make shake: what is tested, how many rounds, beside how many busy loops; SEED=, LANE= and UNTIL= repeat a failure
ONLY ?=
REPEAT ?= 1
LOOPS ?= 2
LANES ?= 6
PROCESSES ?= 2
# make simulation: how many seeds, and from which on
SEEDS ?= 10000
FIRST ?= 0

.PHONY: help demo up test suites long lint format fast unit functional hostile amqp client hypervisor guests nova tempest simulation shake ha chaos docs screenshots install bench servers sample constraints clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(STAMP) ## boot some instances on simulated hosts; no broker, no server
	@$(BIN)/python -m fleet_trial.trio demo

up: $(STAMP) $(if $(filter libvirt,$(DRIVER)),hypervisor) ## run a trial fleet until Ctrl-C (BROKER=rabbit DB=postgresql|mariadb: with private servers; DRIVER=libvirt: real guests)
	@$(BIN)/python -m fleet_trial.trio up --broker $(BROKER) --database $(DB) $(if $(HOSTS),--hosts $(HOSTS)) \
	$(if $(filter libvirt,$(DRIVER)),--driver libvirt --directory .fleet-libvirt)

test: ## lint and all suites but for make long; one test with a real guest
	@$(MAKE) --no-print-directory --jobs 2 $(STAMP) servers hypervisor client
	@$(MAKE) --no-print-directory --jobs 2 lint suites

suites: $(STAMP)
	@FLEET_CLIENT_VENV=$(abspath $(CLIENT_VENV)) $(PYTEST) -m 'not long' tests/amqp tests/functional tests/guests/test_boot.py \
	tests/hostile tests/simulation tests/tempest tests/unit tests/upgrade

long: $(STAMP) servers client ## what takes long and finds little more: each night and before a release; some minutes
	@FLEET_CLIENT_VENV=$(abspath $(CLIENT_VENV)) $(PYTEST) -m long tests/amqp tests/functional tests/ha/test_broker.py \
	tests/ha/test_databases.py tests/simulation tests/tempest tests/unit tests/upgrade

lint: $(STAMP) ## ruff, the import contracts, mypy
	@$(BIN)/ruff check -q . && $(BIN)/ruff format -q --check .
	@$(BIN)/lint-imports > $(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@echo "lint: clean"

format: $(STAMP) ## fix what ruff can fix
	@$(BIN)/ruff check -q --fix . ; $(BIN)/ruff format -q .

fast: $(STAMP) ## unit tests of what differs from main, the nearest first, for half a minute at most (BASE=BRANCH)
	@WORKERS=$(WORKERS) BASE=$(BASE) $(BIN)/python -m tests.fast

unit: $(STAMP) ## unit tests; no network, no servers
	@$(PYTEST) -m 'not long' tests/unit

functional: $(STAMP) servers ## functional tests; one process, every database
	@$(PYTEST) tests/functional

hostile: $(STAMP) ## what a member, a reader or an agent can do to others, by every route and call; no servers
	@$(PYTEST) tests/hostile

amqp: $(STAMP) servers client ## tests of the daemons on a private RabbitMQ and PostgreSQL
	@FLEET_CLIENT_VENV=$(abspath $(CLIENT_VENV)) $(PYTEST) tests/amqp

client: ## install the openstack client for the tests into .venv-client, and the files of Tempest with its schemas
	@[ -x $(CLIENT_VENV)/bin/openstack ] || { echo "Setting up $(CLIENT_VENV) ..." && $(PYTHON) -m venv $(CLIENT_VENV) && \
	$(CLIENT_VENV)/bin/pip install -q --disable-pip-version-check python-openstackclient==10.5.0; }
	@ls $(CLIENT_VENV)/lib/python*/site-packages/tempest > /dev/null 2>&1 || \
	$(CLIENT_VENV)/bin/pip install -q --disable-pip-version-check --no-deps tempest==47.0.0

hypervisor: $(STAMP) ## install libvirt, QEMU, and what makes a tiny image for them
	@.ci/install-servers $(BIN)/bindep guests
	@$(BIN)/python -c 'import libvirt' 2>/dev/null || \
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt libvirt-python==$(LIBVIRT_PYTHON) || \
	{ echo "*** NOT INSTALLED: libvirt-python. The tests with real guests are SKIPPED."; [ "$(CI)" != true ]; }

guests: $(STAMP) servers hypervisor ## tests with real guests under a private libvirtd, which are emulated (as root; some minutes)
	@$(PYTEST) --numprocesses 2 tests/guests

nova: $(STAMP) servers ## tests with a real nova 34, which is installed into .venv-nova; some minutes
	@$(NOVA_VENV)/bin/python -c 'import nova, pymysql' 2> /dev/null || { echo "Setting up $(NOVA_VENV) ..." && $(PYTHON) -m venv $(NOVA_VENV) && \
	$(NOVA_VENV)/bin/pip install -q --disable-pip-version-check nova==34.0.0 openstack-placement==16.0.0 \
	python-openstackclient==10.5.0 psycopg2-binary PyMySQL; }
	@FLEET_NOVA_VENV=$(abspath $(NOVA_VENV)) $(PYTEST) --numprocesses 0 tests/nova

tempest: $(STAMP) servers ## OpenStack's own API tests with a real keystone, which are installed into .venv-tempest (ONLY=REGEX)
	@[ -x $(TEMPEST_VENV)/bin/tempest ] || { echo "Setting up $(TEMPEST_VENV) ..." && $(PYTHON) -m venv $(TEMPEST_VENV) && \
	$(TEMPEST_VENV)/bin/pip install -q --disable-pip-version-check tempest==47.0.0 keystone==30.0.0 psycopg2-binary; }
	@$(BIN)/python -m tests.tempest --venv $(TEMPEST_VENV) $(if $(ONLY),--only '$(ONLY)')

simulation: $(STAMP) ## play 10,000 seeds of the services in one thread; a seed that fails prints its history (SEEDS=N FIRST=N)
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) --first $(FIRST)

shake: $(STAMP) servers client ## tests in random order under uneven conditions, by seed (SEED=N REPEAT=N ONLY='tests/unit ...'; not part of make test)
	@FLEET_CLIENT_VENV=$(abspath $(CLIENT_VENV)) $(BIN)/python -m tests.shake $(if $(SEED),--seed $(SEED)) --repeat $(REPEAT) \
	--loops $(LOOPS) --lanes $(LANES) --processes $(PROCESSES) $(if $(ONLY),--only $(ONLY)) $(if $(LANE),--lane $(LANE)) $(if $(UNTIL),--until '$(UNTIL)')

ha: $(STAMP) servers ## clusters of RabbitMQ, PostgreSQL and MariaDB Galera that lose a node, also under load; an hour
	@$(BIN)/python -m pytest -q tests/ha
	@$(BIN)/python -m tests.chaos --only 'cluster:*' $(if $(SEED),--seed $(SEED)) $(if $(JSON),--json $(JSON))

chaos: $(STAMP) servers ## inject faults into real daemons; an hour (ONLY='broker:*' SEED=7 JSON=FILE)
	@$(BIN)/python -m tests.chaos $(if $(ONLY),--only '$(ONLY)') $(if $(SEED),--seed $(SEED)) $(if $(JSON),--json $(JSON))

install: $(STAMP) servers ## follow README.md and docs/install.md to the letter, each in a separate root (as root; some minutes)
	@$(BIN)/python -m tests.install

bench: $(STAMP) ## run the benchmarks; figures as JSON lines
	@$(BIN)/python -m tests.bench

docs: $(STAMP) ## build the manual and the man pages in docs/_build; a warning is an error
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@$(BIN)/python -m sphinx -q -W --keep-going -b man docs docs/_build/man
	@cp docs/_build/man/*.[18] etc/man/
	@echo "docs/_build/html/index.html, and man pages in etc/man, which the package installs"

screenshots: $(STAMP) servers ## take the pictures of the page anew: all in docs/_build/screenshots, some in the manual
	@$(BIN)/python -m tests.screenshots docs/_build/screenshots --manual docs/_static/page

servers: $(STAMP) ## install the servers that tests start (root or sudo; otherwise lists what is skipped)
	@.ci/install-servers $(BIN)/bindep

sample: $(STAMP) ## generate etc/fleet/fleet.conf.sample and policy.yaml.sample from the help of options and rules
	@$(BIN)/oslo-config-generator --config-file etc/fleet/oslo-config-generator.conf
	@$(BIN)/oslopolicy-sample-generator --namespace fleet --output-file etc/fleet/policy.yaml.sample

constraints: ## pin the newest releases that the lower bounds allow
	@scratch=$$(mktemp -d) && trap "rm -rf $$scratch" EXIT && $(PYTHON) -m venv $$scratch && \
	$$scratch/bin/pip install -q '.[postgresql,mariadb,nova,keystone,planner,test,docs]' && \
	{ echo "# What is tested, on Python 3.11; made with 'make constraints'."; \
	  $$scratch/bin/pip freeze --exclude fleet; } > constraints.txt

$(STAMP): setup.cfg pyproject.toml constraints.txt
	@echo "Setting up $(VENV) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with make PYTHON=...")'
	@$(PYTHON) -m venv $(VENV) || { echo "On Debian: apt install python3-venv"; exit 1; }
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[postgresql,mariadb,nova,keystone,planner,test]'
	@touch $@

clean: ## remove everything that make has created
	@rm -rf $(VENV) $(CLIENT_VENV) $(TEMPEST_VENV) .fleet .fleet-libvirt build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
