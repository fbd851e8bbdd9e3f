# make help lists what there is.
.DEFAULT_GOAL := help
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help build run demo docs test short race fuzz faults lint bench deploy ci clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/fairlead
	go build -trimpath -o bin/fairlead ./cmd/agent

run: ## start an agent with an embedded server
	go run ./cmd/agent run --dev

demo: ## show order and shares
	go run ./cmd/agent demo

docs: ## generate the pages that are made of the code
	go generate ./config

test: ## all tests, the real binary included
	go test ./...

short: ## the tests of the packages, without the real binary
	go test -short $$(go list ./... | grep -v /integration)

race: ## the race detector
	go test -race -short ./agent/... ./fairshare ./priority ./config ./leases/...

fuzz: ## every fuzz target for 30 seconds
	./.ci/fuzz 30s

faults: ## every fault that is to be survived, with a table; takes long
	go run ./integration/faults

lint: ## golangci-lint, built from source the first time
	go run $(GOLANGCI) run ./...

bench: ## throughput and latency, side by side
	go run ./cmd/agent bench

deploy: ## check what is in deploy/ with the parsers of those who read it
	cd deploy/check && go test ./...

ci: ## what must hold before a change lands
	./.ci/run

clean: ## remove what was built
	rm -rf bin
