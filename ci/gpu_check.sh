#!/usr/bin/env bash
# Checks busbench on a machine with a GPU: builds it, runs everything that one GPU can show, and writes
# one log. Each check passes, fails, or is skipped with its reason; the last line counts them.
#
#   ci/gpu_check.sh [LOG]       (gpu_check.log in B)
#
#   B=DIR                  the build (build-gpu)
#   CUDA_HOME= NCCL_HOME= NVCC_GENCODE=   as make takes them; by default for the GPU that is there
#   GPU_CHECK_BUILT=1      B is built already, on another machine perhaps
#   GPU_CHECK_DEPS=DIR     packages unpacked below DIR/usr: hwloc and libnuma, where the machine lacks them
#   GPU_CHECK_SECONDS=N    what does not begin within is skipped (570)
#   GPU_CHECK_ONLY=WORD    only checks whose name has WORD
#   GPU_CHECK_BACKEND=DIR  the stand-ins there in place of the real libraries: it shows that this script
#                          works, nothing else; needs GPU_CHECK_BUILT=1
#   NCCL_TESTS_HOME=DIR    binaries of nccl-tests to compare with, in DIR or DIR/build
#
# Exit: 0 nothing failed, 1 something did or nothing was checked, 2 usage, 3 there is no GPU that busbench can use.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

if [ $# -gt 1 ] || { [ -n "${GPU_CHECK_BACKEND:-}" ] && [ -z "${GPU_CHECK_BUILT:-}" ]; }; then
	sed -n '2,/^# Exit/s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
B=${B:-build-gpu}
LOG=${1:-$B/gpu_check.log}
STAND_IN=${GPU_CHECK_BACKEND:-}
DEPS=${GPU_CHECK_DEPS:-}
CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
SECONDS=0
END=${GPU_CHECK_SECONDS:-570}
PASSED=0 FAILED=0 SKIPPED=0
COLLECTIVES="all_reduce all_gather reduce_scatter broadcast reduce gather scatter alltoall alltoallv
	sendrecv hypercube"
SHARED_PORT=$((20000 + RANDOM % 10000))

TEMP=$(mktemp -d)
trap 'rm -rf "$TEMP"' EXIT
mkdir -p "$(dirname "$LOG")" && : >"$LOG" || exit 2

say() {
	printf '%s\n' "$*" | tee -a "$LOG"
}

# ---- one check ------------------------------------------------------------------------------

passed() {
	PASSED=$((PASSED + 1))
	say "passed   $1"
}

failed() { # NAME WHY
	FAILED=$((FAILED + 1))
	say "FAILED   $1: $2"
}

skipped() { # NAME REASON
	SKIPPED=$((SKIPPED + 1))
	say "skipped  $1: $2"
}

# Seconds that a check may take, MOST at most: no longer than those that are left and some, in which what
# is nearly done may end.
MOST=150
limit() {
	local left=$((END - SECONDS + 15))
	echo $((left < MOST ? left : MOST))
}

alone() {
	timeout -k 5 "$(limit)" "$@"
}

# RANKS processes that find each other, all on GPU 0; NCCL takes them for as many hosts.
processes() {
	local ranks=$1 rank pid status=0 pids=()
	shift
	SHARED_PORT=$((SHARED_PORT + 2))
	for ((rank = 0; rank < ranks; rank++)); do
		RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$SHARED_PORT \
			NCCL_HOSTID=busbench-$rank NCCL_TESTS_DEVICE=0 NCCL_SOCKET_IFNAME=lo \
			NCCL_IB_DISABLE=1 NCCL_MNNVL_ENABLE=0 timeout -k 5 "$(limit)" "$@" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=$?
	done
	return "$status"
}

count() {
	say "$PASSED passed, $FAILED failed, $SKIPPED skipped"
}

# What a failed or skipped program said last.
last_words() {
	grep -v '^[[:space:]]*$' "$TEMP/out" | tail -n 1
}

# check STATUS NAME HOW WORDS...: HOW WORDS ends with STATUS. Status 5 says that nothing of it is
# supported here: a skip.
check() {
	local wanted=$1 name=$2 began=$SECONDS status
	shift 2
	[[ $name == *"${GPU_CHECK_ONLY:-}"* ]] || return 1
	if [ "$SECONDS" -ge "$END" ]; then
		skipped "$name" "the time is used up"
		return 1
	fi
	"$@" >"$TEMP/out" 2>&1
	status=$?
	{
		echo
		echo "\$ $*"
		cat "$TEMP/out"
		echo "exit status $status, $((SECONDS - began)) s"
	} >>"$LOG"
	case $status in
	"$wanted") passed "$name" ;;
	5) skipped "$name" "$(last_words)" ;;
	124 | 137) failed "$name" "it did not end in time" ;;
	*) failed "$name" "exit status $status, not $wanted: $(last_words)" ;;
	esac
	[ "$status" -eq "$wanted" ]
}

# ---- building -------------------------------------------------------------------------------

find_tools() {
	PATH=$PATH:$CUDA_HOME/bin
	if [ -n "$DEPS" ]; then
		local machine
		machine=$(uname -m)-linux-gnu
		export CPPFLAGS="-isystem $DEPS/usr/include ${CPPFLAGS:-}"
		export LDFLAGS="-L$DEPS/usr/lib/$machine -Wl,-rpath-link,$DEPS/usr/lib/$machine ${LDFLAGS:-}"
		export LD_LIBRARY_PATH="$DEPS/usr/lib/$machine${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
	fi
	if [ -n "${NCCL_HOME:-}" ]; then # B may have been built where it is elsewhere
		export LD_LIBRARY_PATH="$NCCL_HOME/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
	fi
	export CUDA_HOME NCCL_HOME="${NCCL_HOME:-}"
}

# Machine code for the GPU that is there; make's own choice where nobody tells.
architecture() {
	local capability
	capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
	if [[ $capability =~ ^[0-9]+$ ]]; then
		echo "-gencode arch=compute_$capability,code=sm_$capability"
	fi
}

build() {
	local gencode=${NVCC_GENCODE:-$(architecture)} MOST=400
	check 0 "make CUDA=1" alone make -j"$(nproc)" B="$B" CUDA=1 MPI=0 NCCL_HOME="$NCCL_HOME" \
		CUDA_HOME="$CUDA_HOME" ${gencode:+NVCC_GENCODE="$gencode"} all "$B/tests/gpu_speed"
}

# A backend beside the binaries would come before the stand-ins.
take_stand_in() {
	mkdir "$TEMP/bin"
	cp "$B"/*_perf "$TEMP/bin"
	BIN=$TEMP/bin
	SPEED=$STAND_IN/gpu_speed
	BUSBENCH_BACKEND_DIR=$(realpath "$STAND_IN")
	export BUSBENCH_BACKEND_DIR
}

# ---- what there is --------------------------------------------------------------------------

perf() { # COLLECTIVE WORDS...
	local collective=$1
	shift
	echo "$BIN/${collective}_perf" --backend nccl "$@"
}

describe() {
	say "date     $(date -u '+%Y-%m-%d %H:%M UTC')"
	say "machine  $(uname -srm), $(nproc) processors"
	say "commit   $(git log -1 --format=%h 2>/dev/null || echo 'not told')"
	say "compiler $(nvcc --version 2>/dev/null | tail -n 1 || true)"
	if [ -n "$STAND_IN" ]; then
		say "GPU      none: stand-ins, so nothing here is about a GPU"
	else
		say "GPU      $(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2>/dev/null ||
			echo 'nvidia-smi does not tell')"
	fi
}

# The library's name and versions, its version as a number, and how many GPUs there are.
look_at_backend() {
	if ! alone "$BIN/all_reduce_perf" --backend nccl -b 8 -e 8 --json - >"$TEMP/out" 2>&1; then
		say "there is no GPU that busbench can use: $(last_words)"
		cat "$TEMP/out" >>"$LOG"
		return 1
	fi
	LIBRARY=$(sed -n 's/.*"library": *"\([^"]*\)".*/\1/p' "$TEMP/out" | head -n 1)
	VERSION=$(sed -n 's/NCCL \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' <<<"$LIBRARY" | awk '{print 100 * $1 + $2}')
	GPUS=$("$BIN/all_reduce_perf" --backend nccl -g 64 -b 8 -e 8 2>&1 |
		sed -n 's/.* \([0-9]*\) are there.*/\1/p' | head -n 1)
	GPUS=${GPUS:-64}
	say "library  $LIBRARY"
	say "GPUs     $GPUS"
}

# ---- the checks -----------------------------------------------------------------------------

# SIZES: those of a sweep. ONE: a single one. Odd ones do not divide by anything. MEMORY: of the memory's speed,
# by default as caches are large. PAIRS, PINGS: of pairs
# of GPUs, by default large and small, and many.
choose_sizes() {
	MEMORY="" PAIRS="" PINGS="" SIZES="-b 8 -e 64M -f 16" ONE="-b 4M -e 4M" ODD="-b 1003 -e 1000003 -f 997" SPEEDS="16M 1G 4"
	if [ -n "$STAND_IN" ]; then
		MEMORY="-b 64K -e 64K -n 3" PAIRS="-b 4K -e 4K -n 5" PINGS="-n 50" SIZES="-b 8 -e 8K -f 32" ONE="-b 2K -e 2K" ODD="-b 1003 -e 1003" SPEEDS="1K 4K 4"
	fi
}

# COUNT GPUs: every collective and algorithm, and all datatypes and operations.
every_collective() {
	local n=$1 c
	# shellcheck disable=SC2046,SC2086  # words, as wanted
	for c in $COLLECTIVES; do
		check 0 "$c, all algorithms, $n GPU" alone $(perf "$c" -g "$n" --algo all $SIZES)
		check 0 "$c, odd sizes, $n GPU" alone $(perf "$c" -g "$n" --algo all -n 3 $ODD)
	done
	# shellcheck disable=SC2046,SC2086
	for c in all_reduce reduce reduce_scatter; do
		check 0 "$c, all datatypes and operations, $n GPU" \
			alone $(perf "$c" -g "$n" -d all -o all -n 2 $ONE)
	done
	# shellcheck disable=SC2046,SC2086
	for c in all_gather alltoall; do
		check 0 "$c, all datatypes, $n GPU" alone $(perf "$c" -g "$n" -d all -n 2 $ONE)
	done
}

every_feature() {
	local n=$1 flags c
	# shellcheck disable=SC2046,SC2086
	while read -r flags; do
		for c in all_reduce alltoall; do
			check 0 "$c $flags, $n GPU" alone $(perf "$c" -g "$n" $ONE $flags)
		done
	done <<-'FLAGS'
		-G 4
		-G 4 -m 3
		-I 1
		-R 1
		-R 2
		-R 2 -x 1
		-R 2 -x 2
		-x 1
		-z 1
		-z 2
		-z 3
		-m 5
		-u 1
		-C 1
		-M 1
		-y 1
		-c 3
		-t 1 -p 1
		--cache reuse
		--cache rewrite
		--precision 5% --max-time 2
	FLAGS
	# shellcheck disable=SC2046,SC2086
	check 0 "all_reduce --proto, $n GPU" alone $(perf all_reduce -g "$n" --algo ring,tree,auto --proto LL,LL128,Simple $ONE)
	# shellcheck disable=SC2046,SC2086
	check 7 "a wrong byte is found, $n GPU" alone $(perf all_reduce -g "$n" --fault corrupt:0 $ONE)
}

memory_speed() {
	# shellcheck disable=SC2046,SC2086
	check 0 "the memory's speed, $1 GPU" alone $(perf mem_bandwidth -g "$1" $MEMORY)
}

# Training under the stages of ZeRO: the same bits from all, and one rank of 64 with 7.5 billion parameters.
zero() {
	local model="" many=7.5B
	if [ ! -x "$BIN/zero_perf" ]; then
		skipped "ZeRO, $1 GPU" "zero_perf was not built: no jansson.h"
		return
	fi
	if [ -n "$STAND_IN" ]; then
		model="--model 1001 -n 2" many=75K
	fi
	# shellcheck disable=SC2046,SC2086
	check 0 "ZeRO, all stages, $1 GPU" alone $(perf zero -g "$1" --accumulate 2 $model)
	# shellcheck disable=SC2046,SC2086
	check 0 "ZeRO, offloaded, $1 GPU" alone $(perf zero -g "$1" -d bfloat16 --offload $model)
	# shellcheck disable=SC2046,SC2086
	check 0 "ZeRO, passes that spin, $1 GPU" alone $(perf zero -g "$1" --compute spin --step-time 2ms $model)
	# shellcheck disable=SC2046
	[ "$1" -gt 1 ] || check 0 "ZeRO, one rank of 64" alone $(perf zero --as-rank 0 --world 64 --model "$many")
}

pairs() {
	# shellcheck disable=SC2046,SC2086
	check 0 "pairs of GPUs, bandwidth" alone $(perf p2p_bandwidth -g "$GPUS" $PAIRS)
	# shellcheck disable=SC2046,SC2086
	check 0 "pairs of GPUs, latency" alone $(perf p2p_latency -g "$GPUS" $PINGS)
}

# Ranks that share a GPU take turns on it: their results count, their times do not.
shared_gpu() {
	local ranks=2 c gpu how=(processes 2) flags=
	if [ -n "$STAND_IN" ]; then
		skipped "$ranks ranks on one GPU" "stand-ins need no sharing"
		return
	fi
	if [ "$VERSION" -ge 230 ]; then
		gpu=${CUDA_VISIBLE_DEVICES:-0}
		how=(env NCCL_MULTI_RANK_GPU_ENABLE=1 CUDA_VISIBLE_DEVICES="${gpu%%,*}" timeout -k 5 120)
		flags="-g $ranks"
	fi
	# shellcheck disable=SC2046,SC2086
	for c in $COLLECTIVES; do
		check 0 "$c, $ranks ranks on one GPU" "${how[@]}" \
			$(perf "$c" $flags --algo ring,tree,auto,busbench:ring -b 8 -e 4M -f 64 -n 3)
	done
	# shellcheck disable=SC2046,SC2086
	for c in all_reduce reduce_scatter; do
		check 0 "$c, all datatypes and operations, $ranks ranks on one GPU" "${how[@]}" \
			$(perf "$c" $flags --algo auto,busbench:ring -d all -o all -b 64K -e 64K -n 2)
	done
}

sanitize() {
	local tool MOST=240
	if [ -n "$STAND_IN" ] || ! command -v compute-sanitizer >/dev/null; then
		skipped "compute-sanitizer" "it is not here"
		return
	fi
	for tool in memcheck racecheck initcheck synccheck; do
		check 0 "compute-sanitizer $tool, the kernels" \
			alone compute-sanitizer --tool "$tool" --error-exitcode 9 "$SPEED" 64K 64K 2 1
	done
	# shellcheck disable=SC2046
	check 0 "compute-sanitizer memcheck, all_reduce" alone compute-sanitizer --tool memcheck --error-exitcode 9 \
		$(perf all_reduce -g 1 -d all -o all -b 1003 -e 1003 -u 1 -n 1 -w 0)
}

# Percent of the copy's speed that each kernel is to reach, from this size on.
kernel_speed() {
	local name="the kernels' speed, 80 percent of a copy's from 64M on" slow
	# shellcheck disable=SC2086
	check 0 "the kernels run" alone "$SPEED" $SPEEDS || return
	if [ -n "$STAND_IN" ]; then
		skipped "$name" "stand-ins have no speed"
		return
	fi
	slow=$(awk '!/^#/ && $1 >= 67108864 { n++; if ($7 < 80) { slow++; print } }
		END { exit !(n > 0) }' "$TEMP/out") || slow="nothing was measured"
	if [ -z "$slow" ]; then
		passed "$name"
	else
		failed "$name" "these do not"
		say "$slow"
	fi
}

# "SIZE TIME" of each row of standard input: nccl-tests' columns.
out_of_place_times() {
	awk '!/^#/ && NF >= 13 && $1 ~ /^[0-9]+$/ { print $1, $6 }'
}

compare_with_nccl_tests() {
	local name="times within 1 percent of nccl-tests'" home=${NCCL_TESTS_HOME:-} i flags peer
	if [ -z "$home" ]; then
		skipped "$name" "NCCL_TESTS_HOME is not given"
		return
	fi
	peer=$home/all_reduce_perf
	[ -x "$peer" ] || peer=$home/build/all_reduce_perf
	flags="-g $GPUS -b 1M -e 256M -f 4 -n 50 -w 10 -c 0"
	[ -z "$STAND_IN" ] || flags="-g 2 -b 1K -e 4K -f 4 -n 5 -w 1 -c 0"
	# shellcheck disable=SC2046,SC2086
	for i in 1 2 3; do
		check 0 "nccl-tests, turn $i" alone "$peer" $flags || return
		out_of_place_times <"$TEMP/out" >>"$TEMP/theirs"
		check 0 "busbench, turn $i" alone $(perf all_reduce $flags) || return
		out_of_place_times <"$TEMP/out" >>"$TEMP/ours"
	done
	if awk 'function middle(a, b, c) { return a > b ? (b > c ? b : a > c ? c : a) : (a > c ? a : b > c ? c : b) }
		{ t[FILENAME == ARGV[1], $1, ++n[FILENAME, $1]] = $2; sizes[$1] }
		END {
			for (s in sizes) {
				p = middle(t[1, s, 1], t[1, s, 2], t[1, s, 3])
				q = middle(t[0, s, 1], t[0, s, 2], t[0, s, 3])
				printf "%12d B  nccl-tests %10.2f us  busbench %10.2f us  %+.1f%%\n", s, p, q, 100 * (q / p - 1)
				bad += q / p - 1 > 0.01 || p / q - 1 > 0.01
			}
			exit bad > 0
		}' "$TEMP/theirs" "$TEMP/ours" >"$TEMP/table"; then
		passed "$name"
	elif [ -n "$STAND_IN" ]; then
		skipped "$name" "stand-ins have no speed"
	else
		failed "$name" "these are not"
	fi
	say "$(sort -n "$TEMP/table")"
}

# ---- all of it ------------------------------------------------------------------------------

find_tools
describe
if [ -z "${GPU_CHECK_BUILT:-}" ] && ! build; then
	say "$(tail -n 15 "$TEMP/out")"
	count
	exit 1
fi
BIN=$B SPEED=$B/tests/gpu_speed
[ -z "$STAND_IN" ] || take_stand_in
if ! look_at_backend; then
	count
	exit 3
fi
choose_sizes
every_collective 1
every_feature 1
memory_speed 1
zero 1
kernel_speed
shared_gpu
sanitize
if [ "$GPUS" -gt 1 ]; then
	SIZES="$SIZES -n 5"
	every_collective "$GPUS"
	every_feature "$GPUS"
	memory_speed "$GPUS"
	zero "$GPUS"
	pairs
else
	skipped "several GPUs" "there is one"
fi
compare_with_nccl_tests
count
[ "$FAILED" -eq 0 ] && [ "$PASSED" -gt 0 ]
