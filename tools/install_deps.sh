#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_deps.sh [build|check|fuzz]: installs the Debian packages that are missing for building, for the tests, for fuzzing (each
# includes the former). Says nothing and changes nothing where all are there.
set -euo pipefail

build=(gcc libc6-dev make cmake ninja-build binutils llvm-22-dev)
check=(libcmocka-dev gdb python3 qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
fuzz=(clang-22 libclang-rt-22-dev)

case "${1:-check}" in
build) wanted=("${build[@]}") ;;
check) wanted=("${build[@]}" "${check[@]}") ;;
fuzz) wanted=("${build[@]}" "${check[@]}" "${fuzz[@]}") ;;
*) echo "usage: $0 [build|check|fuzz]" >&2; exit 2 ;;
esac

# A tool installed in another way counts as well.
have() {
    case "$1" in
    gcc) command -v gcc ;;
    make) command -v make ;;
    cmake) command -v cmake ;;
    ninja-build) command -v ninja ;;
    binutils) command -v ld && command -v objdump ;;
    gdb) command -v gdb ;;
    python3) command -v python3 ;;
    llvm-22-dev) command -v llvm-config-22 ;;
    qemu-user-static) command -v qemu-aarch64-static || command -v qemu-aarch64 ;;
    clang-22) command -v clang-22 ;;
    *) command -v dpkg-query && dpkg-query -W -f '${Status}' "$1" 2> /dev/null | grep -q 'ok installed' ;;
    esac > /dev/null 2>&1
}

missing=()
for package in "${wanted[@]}"; do
    have "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get > /dev/null; then
    echo "igata needs (Debian names): ${missing[*]}" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "Missing packages. Run as root:  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

echo "Installing with apt-get, which takes a minute or more: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() { "$@" > "$log" 2>&1 || { tail -n 30 "$log" >&2; return 1; }; }
quietly apt-get update -q || echo "apt-get update failed; trying with the lists at hand" >&2
for package in "${missing[@]}"; do
    if ! apt-cache show "$package" > /dev/null 2>&1; then
        echo "Debian package '$package' is not available from the sources in /etc/apt." >&2
        case "$package" in
        *-22*) echo "LLVM 22 for Debian 12 is in the suite 'bookworm-security', component main: add it to the sources." >&2 ;;
        esac
        exit 1
    fi
done
quietly apt-get install -q -y --no-install-recommends "${missing[@]}"
