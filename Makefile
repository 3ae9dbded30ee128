# SPDX-License-Identifier: Apache-2.0
#
#   make             release build: build/igata          make check-asan   tests under AddressSanitizer and UBSan
#   make demo        the five-minute tour                make check-tsan   threaded tests under ThreadSanitizer
#   make check       all tests                           make fuzz         libFuzzer, FUZZ_SECONDS each (default 60)
#   make bench       speed                               make sizes        lines per folder against their budgets
#   make fmt         clang-format                        make install-deps what the build needs (Debian, as root)
#   make mutation    do the tests notice seeded bugs?    make bench-gate BASE=REVISION   slower than that revision?
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)
CONFIGURE = cmake -S . -G Ninja -Wno-dev
TSAN_TESTS ?= (^rt_|thread)

.PHONY: all build demo check check-asan check-tsan fuzz bench bench-gate fmt sizes mutation two-compilers install-deps clean

all: build

build:
	@bash tools/install_deps.sh build
	@$(CONFIGURE) -B build -DCMAKE_BUILD_TYPE=Release > build.log 2>&1 || { cat build.log; rm -f build.log; exit 1; }
	@rm -f build.log
	@cmake --build build -j $(JOBS) --target igata igata_rt libigata

demo: build
	@bash tools/demo.sh

check:
	@bash tools/install_deps.sh check
	$(CONFIGURE) -B build -DCMAKE_BUILD_TYPE=Release
	cmake --build build -j $(JOBS) --target all tools libigata
	cd build && $(CTEST)

check-asan:
	@bash tools/install_deps.sh check
	$(CONFIGURE) -B build-asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DIGATA_SANITIZE=address,undefined
	cmake --build build-asan -j $(JOBS) --target all tools
	cd build-asan && $(CTEST)

check-tsan:
	@bash tools/install_deps.sh check
	$(CONFIGURE) -B build-tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DIGATA_SANITIZE=thread
	cmake --build build-tsan -j $(JOBS) --target all tools
	cd build-tsan && $(CTEST) -R '$(TSAN_TESTS)'

fuzz:
	@bash tools/install_deps.sh fuzz
	$(CONFIGURE) -B build-fuzz -DCMAKE_C_COMPILER=clang-22 -DCMAKE_BUILD_TYPE=RelWithDebInfo -DIGATA_FUZZ=ON
	cmake --build build-fuzz -j $(JOBS) --target fuzzers
	bash tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

bench: build
	cmake --build build -j $(JOBS) --target benchmarks
	@bash bench/run.sh

bench-gate: build
	cmake --build build -j $(JOBS) --target benchmarks
	@bash bench/gate.sh '$(BASE)' $(MODELS)

fmt:
	@command -v clang-format > /dev/null || { echo "make fmt needs clang-format (Debian: apt-get install clang-format)" >&2; exit 1; }
	git ls-files '*.c' '*.h' | xargs clang-format -i

sizes:
	@bash tools/sizes.sh

mutation:
	@bash tools/install_deps.sh check
	bash tools/mutation.sh

two-compilers: build
	mkdir -p build/test-work/two-compilers
	cd build/test-work/two-compilers && OTHER=build IGATA=$(CURDIR)/build/igata SRC=$(CURDIR) BUILD=$(CURDIR)/build \
		SHARED=$(CURDIR)/../shared bash $(CURDIR)/test/scripts/two_compilers.sh

install-deps:
	@bash tools/install_deps.sh fuzz

clean:
	rm -rf build build-asan build-tsan build-fuzz
