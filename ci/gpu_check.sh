#!/usr/bin/env bash
# Checks busbench on a machine with a GPU and records each result as it comes. Builds and fetches nothing: it runs from
# a folder that ci/gpu_bundle.sh made, or from a build.
#
#   ci/gpu_check.sh [OPTION...] [PART...]
#
#   PART            speed copies memory pairs kernels units topology features device algorithms sanitizers: in this
#                   order, by default all
#   -l              list the checks (part, tab, name) and end
#   -o FOLDER       where records.jsonl and log.txt are added to (the folder that OUT of the environment names, else
#                   gpu_check in the bundle or the build)
#   -k WORD         only checks with WORD in their name
#   -t SECONDS      for everything together; what does not begin within is skipped (570)
#   -p SECONDS      for each part, in place of its own limit
#
#   B=DIR                  the build (build), where this is no bundle
#   NCCL_HOME= CUDA_HOME=  where to look first for NCCL and for CUDA (/usr/local/cuda)
#   NCCL_TESTS_HOME=DIR    binaries of nccl-tests to compare with, in DIR or DIR/build
#   GPU_CHECK_BACKEND=DIR  the stand-ins there in place of the real libraries: it shows that this script works,
#                          nothing else
#
# Exit: 0 nothing failed, 1 something did or nothing was checked, 2 usage, 3 there is no GPU that can be used, or no
# program to run.
set -uo pipefail

HERE=$(cd "$(dirname "$0")/.." && pwd)
ALL_PARTS="speed copies memory pairs kernels units topology features device algorithms sanitizers"
declare -A PART_LIMIT=([speed]=300 [copies]=60 [memory]=100 [pairs]=100 [kernels]=200 [units]=200 [topology]=30 [features]=240 [device]=120 [algorithms]=300 [sanitizers]=400)

usage() {
	sed -n '2,/^# Exit/s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

# shellcheck source=ci/gpu_record.sh
. "$HERE/ci/gpu_record.sh"
# shellcheck source=ci/gpu_find.sh
. "$HERE/ci/gpu_find.sh"
# shellcheck source=ci/gpu_checks.sh
. "$HERE/ci/gpu_checks.sh"

read_arguments() {
	local option word
	[ -d "${OUT:-}" ] || OUT=''
	ONLY='' TOTAL=570 PART_SECONDS='' LISTING=''
	while getopts lo:k:t:p: option; do
		case $option in
		l) LISTING=1 ;;
		o) OUT=$OPTARG ;;
		k) ONLY=$OPTARG ;;
		t) TOTAL=$OPTARG ;;
		p) PART_SECONDS=$OPTARG ;;
		*) usage ;;
		esac
	done
	shift $((OPTIND - 1))
	[[ $TOTAL$PART_SECONDS =~ ^[0-9]+$ ]] || usage
	for word in "$@"; do
		[[ " $ALL_PARTS " == *" $word "* ]] || {
			echo "gpu_check.sh: no part '$word'; the parts are $ALL_PARTS" >&2
			exit 2
		}
	done
	PARTS=
	for word in $ALL_PARTS; do
		[[ $# -gt 0 && " $* " != *" $word "* ]] || PARTS+=${PARTS:+ }$word
	done
	STAND_IN=${GPU_CHECK_BACKEND:-}
}

# BIN, TESTS and UNITS: where programs, tests of kernels and tests of the backend are.
find_busbench() {
	CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
	if [ -f "$HERE/bundle.txt" ]; then
		BIN=$HERE/bin TESTS=$HERE/tests UNITS=$HERE/tests OUT=${OUT:-$HERE/gpu_check}
	else
		B=$(realpath -m "${B:-$HERE/build}")
		BIN=$B TESTS=$B/tests UNITS=$B/tests/device OUT=${OUT:-$B/gpu_check}
	fi
	if [ ! -x "$BIN/all_reduce_perf" ]; then
		echo "gpu_check.sh: $BIN/all_reduce_perf is missing: run make CUDA=1 first, or ci/gpu_bundle.sh where CUDA's compiler is" >&2
		exit 3
	fi
}

# A backend beside the programs would come before the stand-ins: copies of the programs have none.
take_stand_in() {
	mkdir -p "$TEMP/bin" "$TEMP/lib/busbench"
	cp "$BIN"/*_perf "$BIN"/topology "$TEMP/bin"
	find "$HERE/lib/busbench" -name 'lib*.so*' -exec ln -s -t "$TEMP/lib/busbench" {} + 2>/dev/null
	BIN=$TEMP/bin TESTS=$STAND_IN UNITS=$STAND_IN
	BUSBENCH_BACKEND_DIR=$(realpath "$STAND_IN")
	export BUSBENCH_BACKEND_DIR
}

read_arguments "$@"
if [ -n "$LISTING" ]; then
	GPUS='' STAND_IN='' BIN='' TESTS='' UNITS=''
	choose_sizes
	every_check
	exit 0
fi
find_busbench
TEMP=$(mktemp -d)
trap 'rm -rf "$TEMP"' EXIT
mkdir -p "$OUT" || exit 2
RECORDS=$OUT/records.jsonl LOG=$OUT/log.txt
DATE=$(date -u '+%Y-%m-%d %H:%M UTC')
RUN=$(date -u +%Y%m%dT%H%M%SZ)-$$
SECONDS=0 END=$TOTAL
[ -z "$STAND_IN" ] || take_stand_in
find_tools
find_driver
find_libraries
probe
describe
choose_sizes
every_check
summary
end
