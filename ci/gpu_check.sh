#!/usr/bin/env bash
# Checks busbench on a machine with a GPU and records each result as it comes. Builds and fetches nothing: it runs from
# a folder that ci/gpu_bundle.sh made, or from a build.
#
#   ci/gpu_check.sh [OPTION...] [PART...]
#
#   PART            machine hand kernels units algorithms features device pairs speed peers memory topology faults
#                   sanitizers: in this order, by default all
#   --plan PLAN     one-gpu or node: the checks that a borrowed machine of one GPU or of eight has time for, in the
#                   order in which they answer most (ci/gpu_plans.sh); 540 seconds
#   --again FILE    of the checks whose latest records in FILE failed, lacked time or found no working GPU or NCCL; 540
#                   seconds
#   -l              list the checks (part, tab, name) and end
#   -o FOLDER       where records.jsonl, log.txt and nccl.txt (NCCL's INFO log of commands that failed; with --again of
#                   all) are added to (the folder that OUT of the environment names, else gpu_check in the bundle or the
#                   build)
#   -k WORD         only checks with WORD in their name
#   -t SECONDS      for everything together; what does not begin within is skipped
#   -p SECONDS      for each part, in place of its own limit
#
# Each part has its own limit, and what it does not use goes to the next. Within a part a check may use twice its share
# of what is left, so that one that hangs leaves time to the others.
#
#   B=DIR                  the build (build), where this is no bundle
#   NCCL_HOME= CUDA_HOME=  where to look first for NCCL and for CUDA (/usr/local/cuda)
#   NCCL_TESTS_HOME=DIR    binaries of nccl-tests to compare with, in DIR or DIR/build
#   GPU_CHECK_PROBE=60     seconds for each of the programs that find out what works here
#   GPU_CHECK_BACKEND=DIR  the stand-ins there in place of the real libraries: it shows that this script works,
#                          nothing else
#
# Exit: 0 nothing failed, 1 something did or nothing was checked, 2 usage, 3 there is no GPU that can be used, or no
# program to run.
set -uo pipefail

HERE=$(cd "$(dirname "$0")/.." && pwd)
ALL_PARTS="machine hand kernels units algorithms features device pairs speed peers memory topology faults sanitizers"
declare -A PART_LIMIT=([machine]=15 [hand]=60 [kernels]=200 [units]=200 [algorithms]=300 [features]=240 [device]=120
	[pairs]=160 [speed]=150 [peers]=300 [memory]=100 [topology]=30 [faults]=60 [sanitizers]=400)

usage() {
	sed -n '2,/^# Exit/s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

# shellcheck source=ci/gpu_record.sh
. "$HERE/ci/gpu_record.sh"
# shellcheck source=ci/gpu_find.sh
. "$HERE/ci/gpu_find.sh"
# shellcheck source=ci/gpu_plans.sh
. "$HERE/ci/gpu_plans.sh"
# shellcheck source=ci/gpu_checks.sh
. "$HERE/ci/gpu_checks.sh"

read_arguments() {
	local word
	[ -d "${OUT:-}" ] || OUT=''
	ONLY='' TOTAL='' PART_SECONDS='' LISTING='' PLAN='' AGAIN=''
	while [[ ${1:-} == -* ]]; do
		case $1 in
		-l) LISTING=1 && shift && continue ;;
		-o | -k | -t | -p | --plan | --again) [ $# -gt 1 ] || usage ;;
		*) usage ;;
		esac
		case $1 in
		-o) OUT=$2 ;;
		-k) ONLY=$2 ;;
		-t) TOTAL=$2 ;;
		-p) PART_SECONDS=$2 ;;
		--plan) PLAN=$2 ;;
		--again) AGAIN=$2 ;;
		esac
		shift 2
	done
	[[ $TOTAL$PART_SECONDS =~ ^[0-9]*$ ]] || usage
	read_plan
	read_again
	[ -n "$TOTAL" ] || TOTAL=$([ -n "$PLAN$AGAIN" ] && echo 540 || echo 86400)
	for word in "$@"; do
		[[ " $ALL_PARTS " == *" $word "* ]] || {
			echo "gpu_check.sh: no part '$word'; the parts are $ALL_PARTS" >&2
			exit 2
		}
	done
	PARTS=
	for word in ${PLANNED_PARTS:-$ALL_PARTS}; do
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
	every_check listed
	exit 0
fi
find_busbench
TEMP=$(mktemp -d)
trap 'rm -rf "$TEMP"' EXIT
mkdir -p "$OUT" || exit 2
RECORDS=$OUT/records.jsonl LOG=$OUT/log.txt
DATE=$(date -u '+%Y-%m-%d %H:%M UTC')
RUN=$(date -u +%Y%m%dT%H%M%SZ)-$$
export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=$TEMP/nccl.%p.txt
KEEP_LOG=$AGAIN
SECONDS=0 END=$TOTAL PART_END=${PART_SECONDS:-${PART_LIMIT[machine]}}
[ -z "$STAND_IN" ] || take_stand_in
hold_gpus
find_tools
find_driver
find_libraries
probe
describe
choose_sizes
every_check counted
every_check made
summary
end
