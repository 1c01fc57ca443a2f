#!/usr/bin/env bash
# Makes one folder that ci/gpu_check.sh runs from on a bare machine with a GPU: no compiler, no packages, no network.
#
#   ci/gpu_bundle.sh [FOLDER]      (gpu-bundle in B)
#
#   B=DIR                 the build (build); make brings it up to date
#   ARCHS="80 90"         devices to have code for: compute capabilities without the point
#   NCCL=2.xx.y           the NCCL to pack for, whose headers the build must have (scripts/libraries.sh names the usual one)
#   NCCL_TESTS_HOME=DIR   binaries of nccl-tests to compare with, in DIR or DIR/build; without it none are packed
#
# FOLDER/bin              the benchmarks that the check runs and topology, stripped; they find lib/busbench by their RPATH
# FOLDER/lib/busbench     the nccl backend, and the libraries that ldd names but those of the C library, CUDA and NCCL
# FOLDER/tests            gpu_speed, gpu_kernels, and the tests of the backend that hold on real GPUs
# FOLDER/ci               gpu_check.sh: start it there
# FOLDER/bundle.txt       what was built, and what it needs of the machine
#
# CUDA's runtime is linked statically: then only the driver counts, which serves programs of its own major version or
# an older one. The C++ library stays out: NCCL needs it as well, and a newer NCCL could not use an older one beside.
#
# Exit: 0 made, 1 it could not be, or is larger than 58 MiB with the files of this checkout, 2 usage.
set -euo pipefail

# A machine that is lent takes 64 MiB: the folder, and the files of the checkout that git does not ignore.
MOST_MIB=58
# Each has the whole library in it: 1.4 MiB, with training kernels 1.8.
PROGRAMS="all_reduce all_gather reduce_scatter broadcast reduce gather scatter alltoall alltoallv sendrecv hypercube
	p2p_bandwidth p2p_latency mem_bandwidth zero"
COMPARED="all_reduce all_gather reduce_scatter broadcast reduce alltoall sendrecv"
# Of the machine: the C library's, C++'s, CUDA's and NCCL's; and the backend, which is packed already.
LEFT_OUT='^(ld-linux.*|linux-vdso|nccl|lib(c|m|dl|pthread|rt|resolv|util|stdc\+\+|gcc_s|cuda|cudart|cublas|cublasLt|nccl))\.so'

cd "$(dirname "$0")/.."
if [ $# -gt 1 ] || [[ ${1:-} == -* ]]; then
	sed -n '2,/^# Exit/s/^# \{0,1\}//p' ci/gpu_bundle.sh >&2
	exit 2
fi
B=${B:-build}
GPU_B=$B/bundled
# shellcheck source=scripts/libraries.sh
. scripts/libraries.sh
ARCHS=${ARCHS:-80 90}
FOLDER=${1:-$B/gpu-bundle}

fail() {
	echo "gpu_bundle.sh: $*" >&2
	exit 1
}

build() {
	local arch gencode=''
	[[ $ARCHS =~ ^[0-9]+(\ +[0-9]+)*$ ]] || fail "ARCHS=$ARCHS: expected compute capabilities as in \"80 90\""
	for arch in $ARCHS; do
		gencode+=${gencode:+ }"-gencode arch=compute_$arch,code=sm_$arch"
	done
	# Two makes in one folder link each other's unfinished libraries, so a second bundle waits until the first is packed.
	mkdir -p "$GPU_B"
	exec {LOCK}>"$GPU_B/lock"
	flock "$LOCK"
	make --no-print-directory -s -j"$(nproc)" B="$B" GPU_B="$GPU_B" NVCC_GENCODE="$gencode" all gpu-tests || fail "make failed"
	[ -f "$GPU_B/backends/nccl.so" ] || fail "$GPU_B/backends/nccl.so was not built: that needs nvcc and nccl.h (make CUDA=1 says more)"
	HEADERS=$(headers)
	[ "$HEADERS" = "$NCCL_WANTED" ] || fail "the build has the headers of NCCL $HEADERS, not $NCCL_WANTED: set NCCL_HOME, or NCCL=$HEADERS"
}

# pack FOLDER FILE...: stripped copies.
pack() {
	local file folder=$1
	shift
	mkdir -p "$folder"
	for file in "$@"; do
		[ ! -f "$file" ] || strip -o "$folder/${file##*/}" "$file"
	done
}

# The libraries that these files need and a bare machine lacks.
pack_libraries() {
	local name path
	ldd "$@" | awk '$2 == "=>" { print $1, $3 == "not" ? "" : $3 }' | sort -u | while read -r name path; do
		[[ ! $name =~ $LEFT_OUT ]] || continue
		[ -n "$path" ] || fail "$name is not found on this machine"
		cp -L "$path" "$FOLDER/lib/busbench/$name"
	done
}

# Compressed: each of them has its own copy of the same device code.
pack_nccl_tests() {
	local home=${NCCL_TESTS_HOME:-} names
	[ -n "$home" ] || return 0
	[ -x "$home/all_reduce_perf" ] || home=$home/build
	[ -x "$home/all_reduce_perf" ] || fail "NCCL_TESTS_HOME=$NCCL_TESTS_HOME has no all_reduce_perf"
	read -ra names <<<"$COMPARED"
	names=("${names[@]/#/$home/}")
	pack "$TEMP/nccl-tests" "${names[@]/%/_perf}"
	tar -czf "$FOLDER/nccl-tests.tar.gz" -C "$TEMP" nccl-tests
}

# The newest version of the C library that a packed file needs.
glibc() {
	readelf -V "$FOLDER"/bin/* "$FOLDER"/lib/busbench/* "$FOLDER"/tests/* | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | tr _ ' '
}

# The version of NCCL's headers that the build has.
headers() {
	local header
	header=$(grep -o -- '-isystem [^ ]*' "$GPU_B/devices" | while read -r _ path; do
		[ ! -f "$path/nccl.h" ] || { echo "$path/nccl.h"; break; }
	done)
	awk '/#define NCCL_(MAJOR|MINOR|PATCH) / { v = v "." $3 } END { print substr(v, 2) }' "$header"
}

describe() {
	"$FOLDER/bin/all_reduce_perf" --version | awk 'NR == 1 { print "busbench " $NF }'
	echo "commit $(git log -1 --format=%h 2>/dev/null || echo unknown)$(git diff --quiet HEAD 2>/dev/null || echo ' with changes')"
	echo "built with CUDA $("$(awk '{ print $1 }' "$GPU_B/devices")" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
	echo "headers of NCCL $HEADERS"
	echo "for sm_${ARCHS// / sm_}"
	echo "needs $(glibc)"
}

# Bytes of the files that travel with the folder: those of the checkout that git does not ignore.
checkout_bytes() {
	git ls-files -z --cached --others --exclude-standard 2>/dev/null | du -cb --files0-from=- 2>/dev/null | awk 'END { print $1 + 0 }'
}

weigh() {
	local bytes all
	bytes=$(du -sb "$FOLDER" | cut -f 1)
	all=$((bytes + $(checkout_bytes)))
	awk -v f="$FOLDER" -v b="$bytes" -v a="$all" 'BEGIN { printf "%s: %.1f MiB, with the checkout %.1f MiB\n", f, b / 2 ^ 20, a / 2 ^ 20 }'
	[ "$all" -le $((MOST_MIB << 20)) ] || fail "that is larger than $MOST_MIB MiB"
}

build
if [ -e "$FOLDER" ] && [ ! -f "$FOLDER/bundle.txt" ] && [ -n "$(ls -A "$FOLDER")" ]; then
	fail "$FOLDER is not empty and no bundle"
fi
TEMP=$(mktemp -d)
trap 'rm -rf "$TEMP"' EXIT
rm -rf "$FOLDER"
read -ra NAMES -d '' <<<"$PROGRAMS" || true
NAMES=("${NAMES[@]/#/$B/}")
pack "$FOLDER/bin" "${NAMES[@]/%/_perf}" "$B/topology"
pack "$FOLDER/lib/busbench" "$GPU_B/backends/nccl.so" "$B/backends/topology.so"
pack "$FOLDER/tests" "$GPU_B/tests/gpu_speed" "$GPU_B/tests/gpu_kernels" "$GPU_B"/tests/device/*
pack_libraries "$FOLDER"/bin/* "$FOLDER"/lib/busbench/*.so "$FOLDER"/tests/*
pack_nccl_tests
mkdir "$FOLDER/ci"
cp ci/gpu_check.sh ci/gpu_record.sh ci/gpu_find.sh ci/gpu_plans.sh ci/gpu_checks.sh ci/gpu_like.awk "$FOLDER/ci"
describe >"$FOLDER/bundle.txt"
weigh
