#!/usr/bin/env bash
# Installs the missing packages that busbench needs.
#
#   scripts/setup.sh build   for `make` (the default)
#   scripts/setup.sh bench   also for drawing reports (optional)
#   scripts/setup.sh check   also for tests and measurements
#   scripts/setup.sh perf    also the peers that make perf compares with
#   scripts/setup.sh gpu     also for building the nccl backend: CUDA's compiler and NCCL
#   scripts/setup.sh fresh   also for the fresh Debian roots of tests/fresh
#   scripts/setup.sh deb     also for `make deb`
#
# scripts/libraries.txt lists what each level needs.
#
# If CUDA and NCCL are missing, NVIDIA's Python packages (350 MB to download, 700 MB unpacked) go into build/cuda. The
# tests of the nccl backend need them, but no GPU; NCCL=2.xx.y names another NCCL. Without them `make check` skips these tests.
#
# If nothing is missing, nothing is done and no network is used. Optional packages that cannot be installed are named and
# left out.
# Exit: 0 nothing is missing, 2 usage, 3 something is missing and cannot be installed.
set -euo pipefail

LEVEL=${1:-build}
case $#:$LEVEL in
[01]:build | [01]:bench | [01]:check | [01]:perf | [01]:gpu | [01]:fresh | [01]:deb) ;;
*)
	echo "usage: scripts/setup.sh [build|bench|check|perf|gpu|fresh|deb]" >&2
	exit 2
	;;
esac

TEMP=$(mktemp -d)
trap 'rm -rf "$TEMP"' EXIT

. "$(dirname "$0")/libraries.sh"

# Debian's package of clang's sanitizers has clang's VERSION in its name, which changed over time.
clang_runtime_package() {
	local version
	version=$(apt-cache depends clang 2>/dev/null |
		sed -n 's/.*Depends: clang-\([0-9][0-9]*\).*/\1/p' | head -n 1)
	if [ -z "$version" ]; then
		return
	elif [ -n "$(apt-cache show "libclang-rt-$version-dev" 2>/dev/null)" ]; then
		echo "libclang-rt-$version-dev"
	else
		echo "libclang-common-$version-dev"
	fi
}

# look: MISSING = rows of libraries.txt that are needed and missing, WANTED = the optional ones.
look() {
	local row rows
	MISSING=()
	WANTED=()
	rows=$(libraries missing "$LEVEL")
	while IFS= read -r row; do
		case $row in
		'') ;;
		'?'*) WANTED+=("${row#?}") ;;
		*) MISSING+=("$row") ;;
		esac
	done <<<"$rows"
}

report() {
	local name package what needed
	echo "missing for 'setup.sh $LEVEL' (Debian package: what it is):"
	printf '%s\n' "${MISSING[@]}" "${WANTED[@]}" | sed '/^$/d' | while IFS='|' read -r name package what needed; do
		echo "  $package: $what, for $needed"
	done
}

# packages ROW...: their packages, each once.
packages() {
	local row name package rest
	for row in "$@"; do
		IFS='|' read -r name package rest <<<"$row"
		case $package in
		*VERSION*) clang_runtime_package ;;
		*) printf '%s\n' $package ;;
		esac
	done | sort -u
}

# give_up REASON
give_up() {
	if [ ${#MISSING[@]} -eq 0 ] && [ ${#WANTED[@]} -gt 0 ]; then
		report
		finish "done without these: $1"
	fi
	echo "setup.sh: $1" >&2
	[ ${#MISSING[@]} -eq 0 ] || report >&2
	exit 3
}

# has_cuda CUDA_HOME NCCL_HOME: nvcc runs, and the headers exist.
has_cuda() {
	"$1/bin/nvcc" --version >/dev/null 2>&1 &&
		CUDA_INCLUDE="-I$2/include -I$1/include" is_here cuda nccl.h cuda_runtime_api.h
}

WHEELS=(nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl)

get_cuda() {
	local home=${CUDA_HOME:-/usr/local/cuda} folder
	has_cuda "$home" "${NCCL_HOME:-$home}" && return
	folder=$(cd "$(dirname "$0")/.." && pwd)/build/cuda
	home=$folder/nvidia/cu13
	has_cuda "$home" "$folder/nvidia/nccl" || {
		echo "installing into $folder: ${WHEELS[*]} nvidia-nccl-cu13==$NCCL_WANTED"
		python3 -m pip install --quiet --no-deps --upgrade --target "$folder" \
			"${WHEELS[@]/%/==13.*}" "nvidia-nccl-cu13==$NCCL_WANTED" >"$TEMP/log" 2>&1 || {
			tail -n 20 "$TEMP/log" >&2
			give_up "pip could not install them; please install CUDA's toolkit (13, or 11.8 or newer) and NCCL (2.18 or newer)"
		}
		has_cuda "$home" "$folder/nvidia/nccl" || give_up "the packages that pip installed in $folder do not work"
	}
	echo "build with: make CUDA=1 CUDA_HOME=$home NCCL_HOME=$folder/nvidia/nccl"
}

# finish WORDS
finish() {
	if [ "$LEVEL" = gpu ]; then
		get_cuda
	fi
	echo "setup.sh $LEVEL: $1"
	exit 0
}

look
[ $((${#MISSING[@]} + ${#WANTED[@]})) -gt 0 ] || finish "nothing is missing"

command -v apt-get >/dev/null || give_up "no apt-get here; please install these with your package manager"
ROOT=()
if [ "$(id -u)" -ne 0 ]; then
	{ command -v sudo >/dev/null && sudo -n true 2>/dev/null; } ||
		give_up "neither root nor sudo without a password; please have these installed"
	ROOT=(sudo -n)
fi
APT=("${ROOT[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq
	-o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=120)

report
"${APT[@]}" update </dev/null || echo "setup.sh: could not refresh the package lists" >&2
install() {
	echo "installing: $*"
	"${APT[@]}" install -y --no-install-recommends "$@" </dev/null >"$TEMP/log" 2>&1 || {
		tail -n 20 "$TEMP/log" >&2
		return 1
	}
}
if [ ${#MISSING[@]} -gt 0 ]; then
	install $(packages "${MISSING[@]}") || give_up "apt-get could not install them"
fi
if [ ${#WANTED[@]} -gt 0 ]; then
	install $(packages "${WANTED[@]}") || echo "setup.sh: going on without them" >&2
fi
look
[ $((${#MISSING[@]} + ${#WANTED[@]})) -eq 0 ] || give_up "still missing after the installation"
finish "done"
