# What a developer does here. Plain make and POSIX sh: `make help` lists it.

SHELL := /bin/sh

# Every module in the tree: ours, the tools and the servers that tests start.
MODULES := $(patsubst %/go.mod,%,$(sort $(shell find . -name go.mod -not -path './.cache/*' -not -path '*/testdata/*')))

BIN      := .cache/bin
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION)
FUZZTIME ?= 10s
BENCH    ?= .
COUNT    ?= 6
PKG      ?= ./...
SEEDS    ?= 50
FIRST    ?= 1
DURATION ?= 2m
PARALLEL ?= 2
STORE    ?= sqlite

BENCHTOOLS ?= ../shared/bench
PART       ?= 1

# Shows results only, and fails in CI when a test was skipped.
TESTRUN   := $(BIN)/testrun
TESTFLAGS ?=

.PHONY: help run build deb test check static bench bench-e2e chaos docs dashboards fuzz fmt lint vet tidy vuln setup clean

help: ## list what there is
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "  make chaos SEED=123     make chaos SEEDS=10 FIRST=1 DURATION=15s PARALLEL=2 STORE=sqlite|ferretdb|both"
	@echo "  make bench >old.txt; (change something); make bench >new.txt; make compare"
	@echo "  make bench PKG=./internal/decode BENCH=JSON COUNT=10     make fuzz FUZZTIME=5m"

run: ## the demo: broker, store and a simulated fleet in one process
	go run ./cmd/ingest demo

build: ## static binaries into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

# A version must begin with a digit; a tag is v1.2.3.
deb: DEB_ARCH ?= $(shell go env GOARCH)
deb: DEB_VERSION ?= $(subst -,.,$(if $(filter v%,$(VERSION)),$(patsubst v%,%,$(VERSION)),0.0.0~$(VERSION)))
deb: $(BIN)/nfpm ## a Debian package into bin/; DEB_ARCH=arm64 for a Raspberry Pi
	CGO_ENABLED=0 GOOS=linux GOARCH=$(DEB_ARCH) go build -trimpath -ldflags '$(LDFLAGS)' -o bin/linux-$(DEB_ARCH)/ ./cmd/...
	DEB_ARCH=$(DEB_ARCH) DEB_VERSION=$(DEB_VERSION) $(BIN)/nfpm package --config deploy/deb/nfpm.yaml --packager deb --target bin/

setup: ## what the tests need from the system: installed if root on Debian, else named
	sh scripts/setup.sh

test: setup $(TESTRUN) ## all tests, from a bare machine with only Go
	@for m in $(MODULES); do (cd $$m && go build -o /dev/null ./...) || exit 1; done
	@$(TESTRUN) $(MODULES) -- $(TESTFLAGS) ./...

check: ## all that must hold before a change goes in
	sh scripts/unchanged.sh $(MAKE) static test TESTFLAGS=-race

static: lint vet tidy

bench: ## benchmarks of PKG, COUNT times each, as benchstat reads them
	@go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG)

compare: $(BIN)/benchstat ## what changed between old.txt and new.txt
	@$(BIN)/benchstat old.txt new.txt

# The publisher, the counting MongoDB and the bare subscriber are not ours.
bench-e2e: build ## the whole service against a bare subscriber; writes docs/performance.md
	cd tools && go run ./bench -tools $(abspath $(BENCHTOOLS)) -ingest $(CURDIR)/bin/ingest -out $(CURDIR)/docs/performance.md -part $(PART)

# The test binary itself says what happens as it happens; go test would keep it
# to itself. Every wait in it is bounded, so it needs no time-out.
chaos: setup ## break everything on a schedule, under load, SEEDS times
	@go test -c -o $(BIN)/chaos ./internal/chaos
	@cd internal/chaos && $(CURDIR)/$(BIN)/chaos -test.run TestScheduledFaults -test.timeout 0 -test.parallel $(PARALLEL) \
		-seeds $(if $(SEED),1,$(SEEDS)) -first $(or $(SEED),$(FIRST)) -duration $(DURATION) -store $(STORE)

fuzz: ## every fuzz target for FUZZTIME
	sh scripts/fuzz.sh $(FUZZTIME)

docs: ## docs/payloads.md, from the tables, samples and decoders
	go generate ./internal/decode

dashboards: ## deploy/grafana/dashboards, from tools/dashboards
	@go -C tools/dashboards run .

fmt: $(BIN)/golangci-lint ## format the code
	@for m in $(MODULES); do (cd $$m && $(CURDIR)/$(BIN)/golangci-lint fmt ./...) || exit 1; done

lint: $(BIN)/golangci-lint ## formatting and linters
	@for m in $(MODULES); do (cd $$m && $(CURDIR)/$(BIN)/golangci-lint run ./...) || exit 1; done

vet:
	@for m in $(MODULES); do (cd $$m && go vet ./...) || exit 1; done

tidy:
	@for m in $(MODULES); do (cd $$m && go mod tidy -diff) || exit 1; done

vuln: $(BIN)/govulncheck ## known vulnerabilities in what we depend on (asks the Go vulnerability database)
	@sh scripts/vuln.sh $(BIN)/govulncheck

clean: ## remove what was built
	rm -rf bin .cache

# The tools are built from their own module, so that what they need is pinned
# and stays out of ours. go build does nothing where nothing changed.
.PHONY: $(TESTRUN) $(BIN)/golangci-lint $(BIN)/benchstat $(BIN)/govulncheck $(BIN)/nfpm compare
$(TESTRUN):
	@go -C tools build -o ../$@ ./testrun
$(BIN)/golangci-lint:
	@go -C tools build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BIN)/benchstat:
	@go -C tools build -o ../$@ golang.org/x/perf/cmd/benchstat
$(BIN)/govulncheck:
	@go -C tools build -o ../$@ golang.org/x/vuln/cmd/govulncheck
$(BIN)/nfpm:
	@go -C tools/nfpm build -o ../../$@ github.com/goreleaser/nfpm/v2/cmd/nfpm
