# What a developer types. `make help` lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

export PATH := $(PATH):/usr/local/go/bin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
TOOL := go tool -modfile=.ci/tools.mod
# Packages that start goroutines or are called from several.
RACE := ./bwrap/... ./container/... ./egress/... ./event/... ./guard/... ./notify/... ./plan/... ./supervise/...
FUZZTIME ?= 10s

# The first tag leaves out the CLI library's manual page writer, a millisecond
# of every start; the second HTTP/2, 380 kB: the proxy and the engines' API
# speak HTTP/1.1. Functions that begin at multiples of 8 instead of 32 bytes
# save 195 kB of padding. The linker writes through a mapping, which leaves the
# file in the page cache page by page; a copy, as an installation makes one, is
# kept in larger pieces, and each launch maps and unmaps it 2 ms sooner.
TAGS := urfave_cli_no_docs,nethttpomithttp2

# Where neither a launch nor a transfer spends its time nothing is inlined,
# which saves 430 kB. (TLS is spoken to a parent proxy and to engines alone.)
COLD := archive/tar crypto/tls/... crypto/x509/... encoding/asn1 encoding/json github.com/goccy/... \
	github.com/moby/... github.com/tailscale/... math/big mime/... regexp/... text/template/... \
	github.com/urfave/cli/... crypto/internal/fips140/nistec/... crypto/internal/fips140/mlkem vendor/golang.org/x/crypto/... \
	pinfold/bwrap/cgroup pinfold/container pinfold/container/engine pinfold/container/image pinfold/container/launch \
	pinfold/doctor pinfold/hostgit pinfold/recover pinfold/seatbelt

PROGRAM ?= bin/pinfold

build: ## build the stub and the static bin/pinfold
	@scripts/setup go
	@sh stub/build.sh
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags $(TAGS) $(COLD:%=-gcflags=%=-l) -ldflags '-s -w -funcalign 8 -X main.buildVersion=$(VERSION)' -o $(PROGRAM) ./cmd/pinfold
	@cp $(PROGRAM) $(PROGRAM).new && mv -f $(PROGRAM).new $(PROGRAM)

setup: ## install what building and testing need (as root, or with sudo)
	@scripts/setup go run test

demo: ## install what is missing, build, and show the main job
	@scripts/setup go run
	@$(MAKE) --no-print-directory build
	@scripts/demo

test: ## run everything that CI runs
	@scripts/test

unit: build ## run the tests of every package, less integration
	go test ./...

race: build ## run the tests of the concurrent packages under the race detector
	go test -race $(RACE)

integration: build ## attack real sandboxes as the calling user
	PINFOLD_INTEGRATION=1 go test -count=1 -timeout 20m ./integration/...

redteam: build ## run the shared red-team cases (needs root)
	PINFOLD_REDTEAM=../shared/redteam go test -count=1 -timeout 40m -run TestRedteam -v ./integration/

containers: build ## test the container tier on every engine that answers
	PINFOLD_BIN=$(CURDIR)/bin/pinfold PINFOLD_INTEGRATION=1 go test -count=1 -timeout 30m -skip TestRedteam ./integration/container/

chaos: build ## kill launches at random moments, 200 times
	PINFOLD_CHAOS=200 PINFOLD_INTEGRATION=1 go test -count=1 -timeout 40m -run TestChaos -v ./integration/ ./integration/container/

hostile: build ## race the boundary for 30 s each, kill 10,000 connections, carry 10 GiB each way
	PINFOLD_RACE=30s PINFOLD_STORM=10000 PINFOLD_BODY=10737418240 go test -count=1 -timeout 20m -p 1 -run 'TestRacers|TestAddressRacer|TestKilled|TestBodiesOfAny' -v ./notify/ ./egress/
	PINFOLD_SWAP_TIME=30s PINFOLD_INTEGRATION=1 go test -count=1 -run TestSwaps -v ./integration/

print-race:
	@echo $(RACE)

vm: ## run on other kernels and cgroup v2, in virtual machines (needs root; takes long)
	@scripts/vm-test

lint: ## vet, staticcheck, gofumpt, the house rules
	@scripts/lint

fuzz: ## fuzz every parser for FUZZTIME (10s) each
	@scripts/fuzz $(FUZZTIME)

cross: ## build, vet and compile the tests for the other platforms
	@scripts/cross

mac-acceptance: build ## on a Mac: prove that the boundary holds and programs work
	@scripts/mac-acceptance

golden: build ## rewrite golden files and the generated seccomp programs
	@scripts/golden

bench: build ## measure launches and write docs/benchmarks.md
	@scripts/bench

clean: ## remove what was built
	rm -rf bin stub/bin/*/init*

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build setup demo test unit race containers chaos hostile integration redteam lint fuzz cross mac-acceptance golden vm bench clean help print-race
