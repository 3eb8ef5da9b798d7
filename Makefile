# The two commands that matter: make demo, make test. Everything is installed below .vig/.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= $(shell command -v python3.11 || command -v python3)
DEMO_SECONDS ?= 20
SETUP = $(PYTHON) tools/setup_environment.py
IN_ENVIRONMENT = source tools/env.sh

.PHONY: help setup kilted-environment server-environment demo robot test lint colcon jazzy \
  bench-core bench-path bench-memory bench-sim show-hardware stress faults soak bench-live bench-cooperative \
  sweep-cooperative clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: server-environment  ## ROS 2 Kilted, the package, Triton and the demo's models, all below .vig/

kilted-environment:
	@$(SETUP) kilted

server-environment:
	@$(SETUP) kilted triton
	$(IN_ENVIRONMENT)
	python -m vig_governor.demo.assets prepare

demo: server-environment  ## cameras, then a language model beside one, on one slot; DEMO_SECONDS=20 for each run
	@$(IN_ENVIRONMENT)
	python -m vig_governor.demo.assets prepare --all
	exec vig demo --seconds $(DEMO_SECONDS)

robot: server-environment  ## a Triton and two cameras to practise on, for 30 minutes: docs/getting-started.md
	@$(IN_ENVIRONMENT)
	exec python -m vig_governor.demo.robot

test:  ## all set-up, linters, every test, colcon on Kilted, build and round trip on Jazzy
	@exec $(PYTHON) tools/run_checks.py

lint: kilted-environment  ## flake8, pydocstyle, mypy --strict vig_core, package consistency
	@$(IN_ENVIRONMENT)
	exec python -m pytest -q test/lint

colcon: kilted-environment  ## colcon build into install/, then a look from a clean shell
	@exec tools/colcon_build.sh kilted

jazzy:  ## build on ROS 2 Jazzy in its own environment, one round trip between two processes
	@$(SETUP) jazzy
	source tools/env.sh jazzy
	exec python -m pytest -q test/ros/test_interfaces_round_trip.py

bench-core: kilted-environment  ## time per decision at 4, 8 and 32 streams
	@$(IN_ENVIRONMENT)
	exec python benchmark/bench_core.py

bench-path: server-environment  ## where each millisecond goes, and the node's share of a core; QUICK=1
	@$(IN_ENVIRONMENT)
	python benchmark/bench_path.py
	python benchmark/bench_references.py
	exec python benchmark/bench_share.py --lend

bench-sim: kilted-environment  ## governor and baselines on the published scenarios in virtual time; QUICK=1
	@$(IN_ENVIRONMENT)
	exec python benchmark/bench_sim.py

bench-live: server-environment  ## governor, tuned Triton and newest-only clients on one server; QUICK=1
	@$(IN_ENVIRONMENT)
	exec python -m benchmark.live

show-hardware: server-environment  ## calibrate, exchange weights and instances, and see it told; QUICK=1
	@$(IN_ENVIRONMENT)
	python -m vig_governor.demo.assets prepare
	exec python benchmark/hardware.py

bench-cooperative: server-environment  ## a language model beside a camera: direct, whole, cut into quanta; QUICK=1
	@$(IN_ENVIRONMENT)
	exec python -m benchmark.cooperative

sweep-cooperative: kilted-environment  ## where cutting a text works: gap, fixed cost, rate, in virtual time; QUICK=1
	@$(IN_ENVIRONMENT)
	exec python benchmark/cooperative_sweep.py

stress: kilted-environment  ## ten million random transitions through the core; EVENTS=10000000
	@$(IN_ENVIRONMENT)
	exec python benchmark/stress_core.py

bench-memory: server-environment  ## the node's memory with four 1080p streams over 5 minutes; QUICK=1 for one
	@$(IN_ENVIRONMENT)
	exec python benchmark/bench_memory.py

faults: server-environment  ## named faults staged against a real server and the real node; FAULTS="name ..."
	@$(IN_ENVIRONMENT)
	exec python -m benchmark.faults $(FAULTS)

soak: server-environment  ## half an hour of load, bursts and restarts of the server; SOAK_MINUTES=30
	@$(IN_ENVIRONMENT)
	exec python -m benchmark.soak

clean:  ## remove what was built; the environments in .vig/ stay (rm -rf .vig removes them)
	@rm -rf build install log
	find . -path ./.vig -prune -o -name __pycache__ -type d -exec rm -rf {} +
