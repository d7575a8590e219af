# make help lists the targets. Everything that is missing on the machine is
# installed or built on the way; what is built once is cached outside the tree.
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
K8S_VERSION ?= v1.34.4
NODES       ?= 2
MINUTES     ?= 5
# The image that the manifests name, until another is given.
IMAGE       ?= $(shell awk '/newName:/{name=$$2} /newTag:/{tag=$$2} END{print name ":" tag}' \
                 manifests/image/kustomization.yaml)
LINT_VERSION ?= v2.15.0
ACTIONLINT_VERSION ?= v1.7.12
CACHES      := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)
E2E_CACHE   ?= $(if $(HPP_E2E_CACHE),$(HPP_E2E_CACHE),$(CACHES)/hostpath-provisioner-e2e)
TOOLS       := $(E2E_CACHE)/tools/$(LINT_VERSION)
ACTIONLINT  := $(E2E_CACHE)/tools/actionlint-$(ACTIONLINT_VERSION)
ARCH        := $(shell go env GOARCH)
# grpcnotrace: gRPC's trace pages use text/template, which keeps every method of every type alive
# and doubles the binary.
GO_BUILD    := CGO_ENABLED=0 GOOS=linux go build -tags grpcnotrace -trimpath -ldflags "-s -w -X main.version=$(VERSION)"
CLUSTER     := bin/cluster
PROVE       := cd e2e && go run ./cmd/prove
RELEASE     := cd e2e && go run ./cmd/release
export K8S_VERSION IMAGE
# One compilation of each package serves the programs, the tests and the linters, in every clone: without the paths of this
# directory, without cgo, as what is released, and without what only debuggers read. Releases are built with flags of their own.
COMPILE     := -trimpath -gcflags=all=-dwarf=false
export GOFLAGS := $(strip $(filter-out $(COMPILE),$(shell go env GOFLAGS)) $(COMPILE))
export CGO_ENABLED := 0
# Otherwise every program with the race detector, such as the tests of a package, sleeps a second before it ends.
export GORACE ?= atexit_sleep_ms=100

.PHONY: help build test test-full test-help test-stale test-unit fuzz torture simulate conformance \
  torture-power power bench lint lint-fast lint-format lint-go lint-shell lint-workflow vulncheck measure image push release deploy demo demo-disks demo-blank-disks \
  demo-single-node demo-local-path demo-operator demo-recover bin/cluster cluster-up cluster-sync cluster-down clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the agent for this machine, in bin/
	@for arch in $(ARCHES); do \
	  GOARCH=$$arch $(GO_BUILD) -o bin/linux-$$arch/ ./cmd/... || exit 1; \
	  echo "bin/linux-$$arch/hostpath-provisioner"; \
	done
build image: ARCHES ?= $(ARCH)

test: ## tier 1: the main promises on real parts, in minutes; STEPS="unit disk" for some steps; needs root
	@$(PROVE) tier1 $(STEPS)

test-full: ## tier 2: everything, in shards of at most twenty minutes; SHARD=disk for one; needs root
	@$(PROVE) tier2 $(SHARD)

test-help: ## the steps of tier 1 and the shards of tier 2, and how many tests each runs
	@$(PROVE) help

test-stale: ## the shards of tier 2 whose files changed since they last passed
	@$(PROVE) stale

test-unit: ## every unit test; no root, no cluster
	@e2e/packages.sh @unit
	go test ./...
	@# -count=1: the cache of results does not see the files of the main module.
	cd e2e && go test -count=1 ./cluster/... ./cmd/... ./proof/... ./torture/... ./bench/... ./conformance/...

fuzz: FUZZTIME ?= 60s
fuzz: ## every fuzz target for FUZZTIME=60s
	e2e/fuzz.sh $(FUZZTIME)

torture: ## kill agents and the API server while volumes are used; MINUTES=5, SEED=, TORTURE_FLAGS=
	@e2e/packages.sh @disk
	@cd e2e && go build -o ../bin/torture ./cmd/torture && \
	  exec ../bin/torture --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(TORTURE_FLAGS)

simulate: ## clusters on invented time, by random seeds; MINUTES=5, SEED=, or WORDS=FILE to replay one
	@SIMULATE_MINUTES=$(MINUTES) SIMULATE_SEED=$(SEED) SIMULATE_WORDS=$(abspath $(WORDS)) \
	  go test -count=1 -v -timeout 24h -run 'TestSimulate$$|TestRawDisks$$' ./controller/simulation

conformance: ## the storage tests of Kubernetes on two real nodes; FULL=1 adds slow and serial ones, K8S_VERSION=v1.34.4
	@e2e/packages.sh @cluster @disk
	cd e2e && go test -count=1 -v -timeout 4h -run 'TestConformance$$' ./nodes

torture-power: ## cut the power of a virtual machine while volumes are used; POWER_ROUNDS=20
	@e2e/packages.sh @disk @vm
	cd e2e && POWER_ROUNDS=$(or $(POWER_ROUNDS),20) go test -count=1 -v -timeout 2h -run TestPowerCut ./vm

power: ## cut the power of disks that keep only what was flushed; POWER_MINUTES=8, POWER_SEED=, POWER_FILESYSTEM=
	@e2e/packages.sh @disk
	cd e2e && go test -count=1 -v -timeout 24h -run 'TestPower$$' ./power

bench: ## the agent beside the limit of its control plane; FULL=1, or scale: SCALE=1; more in docs/performance.md
	@e2e/packages.sh @disk
	cd e2e && go run ./bench $(if $(SCALE),scale) $(if $(FULL),--full) \
	  $(if $(FIGURES),--figures $(FIGURES)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	  $(if $(DISK),--disk $(DISK)) $(if $(POOL),--pool $(abspath $(POOL))) $(if $(JSON),--json $(abspath $(JSON))) $(BENCH_FLAGS)

lint-shell: # the scripts
	@e2e/packages.sh shellcheck
	shellcheck -x -S warning $$(git ls-files '*.sh') .ci/run

lint-workflow: # of a forge; shellcheck reads its commands
	@test -x $(ACTIONLINT)/actionlint || GOBIN=$(ACTIONLINT) go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)
	$(ACTIONLINT)/actionlint .github/workflows/*.yml

lint: lint-format lint-workflow ## gofmt, vet, golangci-lint, shellcheck and actionlint
	@test -x $(TOOLS)/golangci-lint || { echo "building golangci-lint $(LINT_VERSION), once"; \
	  GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION); }
	$(TOOLS)/golangci-lint run ./...
	for os in darwin windows; do GOOS=$$os go build ./controller/kube/contract ./volume/inspect || exit 1; done
	cd e2e && $(TOOLS)/golangci-lint run -c ../.golangci.yml ./...

lint-format: lint-shell # and gofmt
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these files"; exit 1; }

# The same tags in both modules, so that what the first run finds out of their dependencies serves the second.
LINT_TAGS := -tags disk,faults,vm,power
lint-go: # vet
	go vet $(LINT_TAGS) ./...
	cd e2e && go vet $(LINT_TAGS) ./...

lint-fast: lint-format lint-go ## gofmt, vet and shellcheck

vulncheck: ## known vulnerabilities in code that the programs call; needs a way to vuln.go.dev
	@e2e/vulncheck.sh ./cmd/...

measure: ## how large packages, interfaces and the whole code are
	@cd e2e && go run ./cmd/measure ..

image: build ## the image as a docker-archive, for docker load or containerd; ARCH=arm64 for another machine
	@$(RELEASE) image $(IMAGE) $(ARCH) ../_artifacts/hostpath-provisioner.tar

push: ## the image for amd64 and arm64, to a registry: IMAGE=registry.example.com/hostpath-provisioner:v0.1.0
	@$(RELEASE) push --check $(IMAGE)
	@$(MAKE) --no-print-directory build ARCHES="amd64 arm64"
	@$(RELEASE) push $(IMAGE)

release: ## the files of a release: VERSION=v1.2.3 IMAGE=registry.example.com/hostpath-provisioner REPOSITORY=https://github.com/example/hostpath-provisioner PUSH=1 KEY=cosign.key
	@$(RELEASE) make --version $(VERSION) --image $(IMAGE) --repository "$(REPOSITORY)" $(if $(PUSH),--push) $(if $(KEY),--key $(abspath $(KEY)))

demo: ## from a fresh checkout to a claim, a pod, a file, and back
	@e2e/demo.sh

demo-disks: ## raw disks: a disk becomes a PV, pods use it, and it is wiped between two tenants
	@e2e/packages.sh e2fsprogs mount
	@e2e/demo-disks.sh

demo-blank-disks: ## blank disks become pools with quotas in two commands, and are blank again at the end
	@e2e/packages.sh e2fsprogs xfsprogs btrfs-progs mount
	@e2e/demo-blank-disks.sh

demo-single-node: ## the same for a cluster of one machine: the class hostpath
	@e2e/demo-single-node.sh

demo-local-path: ## the class of k3s and kind: a volume of before, a new one, and back
	@e2e/demo-local-path.sh

demo-operator: ## the operator: three commands until a pod writes, repair, upgrade, claim pools, lost node, removal
	@e2e/demo-operator.sh

demo-recover: ## a cluster is lost, and a new one on its disks gets every claim back with one command
	@e2e/demo-recover.sh

deploy: ## install into the cluster of KUBECONFIG
	e2e/kubectl.sh apply -k manifests/legacy
	e2e/kubectl.sh -n hostpath-provisioner rollout status daemonset/hostpath-provisioner --timeout=2m

bin/cluster: # starts the cluster and works with it; a demo calls it many times
	@cd e2e && go build -buildvcs=false -o ../bin/ ./cmd/cluster
cluster-up cluster-sync cluster-down: bin/cluster

cluster-up: ## a real cluster on this machine; NODES=2, K8S_VERSION=v1.34.4
	@e2e/packages.sh @cluster
	@$(CLUSTER) up --nodes $(NODES)

cluster-sync: export KUBECONFIG := # whichever other cluster it names
cluster-sync: image ## build, load and deploy the agent into that cluster
	@$(CLUSTER) load _artifacts/hostpath-provisioner.tar
	@# The CSI form, if it is there, has the pool.
	@e2e/kubectl.sh -n hostpath-provisioner delete daemonset hostpath-provisioner-csi \
	  --ignore-not-found --cascade=foreground
	e2e/kubectl.sh -n hostpath-provisioner delete pod -l k8s-app=hostpath-provisioner # they come back with the new image
	@$(MAKE) --no-print-directory deploy

cluster-down: ## end that cluster and leave nothing behind
	@$(CLUSTER) down

clean: ## remove what was built in the tree
	rm -rf bin _artifacts
