# shellcheck shell=bash
# Sourced by gpu_check.sh: the list of its checks, and how each is made. docs/gpu.md has a row for each.

COLLECTIVES="all_reduce all_gather reduce_scatter broadcast reduce gather scatter alltoall alltoallv sendrecv hypercube"

# ---- how -----------------------------------------------------------------------------------

# Sizes of sweeps; odd ones do not divide by anything. Stand-ins are given small ones.
choose_sizes() {
	SIZES=(-b 8 -e 64M -f 16) ONE=(-b 4M -e 4M) ODD=(-b 1003 -e 1000003 -f 997 -n 3) LIKE=(-b 16 -e 256M -f 16)
	LIKE_N=$([ "$GPUS" = 1 ] && echo 100 || echo 400)
	HAND=(-b 8 -e 256M -f 32) SPEEDS=(16M 1G 4) MEMORY_SIZES=() PAIRS=() PINGS=() SHARED=(-b 8 -e 4M -f 64 -n 3 -w 1) MODEL=() RANK_MODEL=7.5B
	# Each hop of processes that share a GPU waits for the time slices of the others, some milliseconds.
	FORCED=(-b 8 -e 512K -f 256 -n 2 -w 1)
	if [ -n "$STAND_IN" ]; then
		SIZES=(-b 8 -e 8K -f 32) ONE=(-b 2K -e 2K) ODD=(-b 1003 -e 1003) LIKE=(-b 1K -e 4K -f 4) LIKE_N=5
		HAND=("${SIZES[@]}") SPEEDS=(1K 4K 4) MEMORY_SIZES=(-b 64K -e 64K -n 3) PAIRS=(-b 4K -e 4K -n 5) PINGS=(-n 50)
		SHARED=(-b 8 -e 8K -f 64 -n 2) FORCED=("${SHARED[@]}") MODEL=(--model 1001 -n 2) RANK_MODEL=75K
	fi
}

# The copy's speed, and the slowest kernel beside it: 80 percent of the copy from 64 MiB on.
kernel_speed() {
	local slow
	limited "$TESTS/gpu_speed" "${SPEEDS[@]}" || return
	slow=$(awk '!/^#/ && $1 >= 67108864 && (!n++ || $7 < least) { least = $7; name = $2 " " $3 " " $4 }
		END { if (n) print least, name }' "$TEMP/out")
	if [ -n "$STAND_IN" ]; then
		because "stand-ins have no speed"
		return 5
	fi
	[ -n "$slow" ] || { because "no size was measured from 64 MiB on"; return 1; }
	number least_percent_of_copy "${slow%% *}"
	because "the slowest reaches ${slow%% *} percent: ${slow#* }"
	[ "${slow%% *}" -ge 80 ]
}

# The most of all sizes in GB/s, of each kind of work with each memory; all_: of all GPUs at once.
memory_speed() {
	local name value
	perf mem_bandwidth -g "$1" "${MEMORY_SIZES[@]}" --csv "$TEMP/memory.csv" || return
	while read -r name value; do
		number "$name" "$value"
	done < <(awk -F , 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
		$at["quantity"] == "bandwidth" {
			from = $at["memory_from"]; to = $at["memory_to"]
			key = $at["route"] "_" from (from != "" && to != "" && from != to ? "_" to : from == "" ? to : "") "_GBps"
			if ($at["workers"] > 1) key = "all_" key
			gsub(" ", "", key); if ($at["GBps"] + 0 > most[key]) most[key] = $at["GBps"] }
		END { for (key in most) printf "%s %.4g\n", key, most[key] }' "$TEMP/memory.csv" | sort)
}

# like COLLECTIVE: both harnesses take turns; nccl-tests with a thread for each GPU, as busbench has it. Its barrier lets
# threads begin microseconds apart, which 400 iterations make small beside a small message; one GPU has no barrier. One size
# is 1 MiB, where caches of the second level hold a few sets of buffers. Turns for which no time is left are not begun.
like() {
	local turn turns=3 ours=$TEMP/ours theirs=$TEMP/theirs name value status began longest=0
	local words=("${LIKE[@]}" -n "$LIKE_N" -w 10 -c 0)
	if [ "$1" = all_reduce ] && [ "$GPUS" -gt 1 ]; then
		turns=5
		[ -n "$STAND_IN" ] || words[3]=1G words[5]=4
	fi
	: >"$ours" && : >"$theirs"
	for ((turn = 1; turn <= turns; turn++)); do
		began=$SECONDS
		if [ $((CHECK_END - SECONDS)) -lt $longest ]; then
			turns=$((turn - 1))
			break
		fi
		limited "$PEERS/$1_perf" -t "$GPUS" -g 1 "${words[@]}" || return
		sed "s/^/$turn /" "$TEMP/out" >>"$theirs"
		perf "$1" -g "$GPUS" "${words[@]}" || return
		sed "s/^/$turn /" "$TEMP/out" >>"$ours"
		longest=$((SECONDS - began + 1))
	done
	awk -f "$HERE/ci/gpu_like.awk" "$theirs" "$ours" >"$TEMP/like"
	status=$?
	say "$(sed '/^number /d; $d' "$TEMP/like")"
	number iterations "$LIKE_N" && number turns "$turns"
	while read -r _ name value; do
		number "$name" "$value"
	done < <(grep '^number ' "$TEMP/like")
	because "$([ "$1$GPUS" != all_reduce1 ] || echo "a copy, as of one rank: ")$(tail -n 1 "$TEMP/like")"
	[ "$turns" -gt 1 ] || { because "no time for a second turn, so not judged: ${REASON}"; return 5; }
	[ -z "$STAND_IN" ] || { because "stand-ins have no speed"; return 5; }
	return $status
}

# headers_fit: the kernels on NCCL's device API were compiled for this library: as in native.c, headers before 2.29
# go with a library of their own 2.xx, later ones with one at least as new.
headers_fit() {
	[ -n "$NCCL_PATH" ] || { because "NCCL was not found"; return 5; }
	because "headers of NCCL ${HEADERS:-unknown}, library ${NCCL_VERSION:-unknown}"
	awk -v h="$HEADERS" -v l="$NCCL_VERSION" 'BEGIN {
		split(h, x, "."); split(l, y, ".")
		if (x[1] * 100 + x[2] < 229) exit !(x[1] == y[1] && x[2] == y[2])
		exit x[1] * 10000 + x[2] * 100 + x[3] > y[1] * 10000 + y[2] * 100 + y[3]
	}'
}

# take_collectives: collectives work although their probe failed, as one that was cold and ran out of time: the checks that
# need them are made.
take_collectives() {
	local need
	for need in memory collectives; do
		[[ " $HAVE " == *" $need "* ]] || HAVE+=" $need"
	done
	TODO=()
	every_check counted
	MODE=made
}

# by_hand: what a user would run first, with NCCL's own log beside the records: also where the probe of collectives
# failed, as that log then says why.
by_hand() {
	local status
	KEEP_LOG=1 perf all_reduce -g "$GPUS" "${HAND[@]}"
	status=$?
	[ -n "$NCCL_PATH" ] || { because "NCCL was not found"; return 5; }
	[ $status -eq 0 ] || return $status
	take_collectives
	number busbw_GBps "$(sed -n 's/^# Avg bus bandwidth *: *\([0-9.]*\).*/\1/p' "$TEMP/out")"
}

# under_mpirun: a process for each GPU.
under_mpirun() {
	limited mpirun --allow-run-as-root --oversubscribe -np "$GPUS" "$BIN/all_reduce_perf" --backend nccl "${SIZES[@]}"
}

# kernels WORD [--large]: the cases of gpu_kernels with WORD in their name.
kernels() {
	local status passed
	limited "$TESTS/gpu_kernels" --only "$@"
	status=$?
	passed=$(grep -c '^passed ' "$TEMP/out")
	number cases "$passed"
	case $status in
	0) [ "$passed" -gt 0 ] || { because "$(sed -n 's/^skipped //p' "$TEMP/out" | head -n 1)"; return 5; } ;;
	1) because "$(grep '^FAILED ' "$TEMP/out" | head -n 3)" ;;
	esac
	return $status
}

# unit NAME: the cases of a test program of the backend; those that need more GPUs skip themselves.
unit() {
	local status passed said
	BUSBENCH_TEST_GPUS=$GPUS limited "$UNITS/$1"
	status=$?
	case $status in
	0) ;;
	124 | 137) return $status ;;
	*)
		said=$(grep -E '^tests/|FAILED' "$TEMP/out" | head -n 3)
		because "exit status $status: ${said:-$(last_words)}"
		return 1
		;;
	esac
	passed=$(sed -n 's/^.*PASSED *\] \([0-9]*\) test.*/\1/p' "$TEMP/out" | head -n 1)
	number cases "${passed:-0}"
	[ "${passed:-0}" -gt 0 ] || { because "needs several GPUs; this machine has $GPUS"; return 5; }
}

# Every GPU that the driver knows is in the topology.
topology_sees() {
	local wanted found
	limited "$BIN/topology" || return
	found=$(sed -n 's/^\([0-9]*\) GPUs\{0,1\},.*/\1/p' "$TEMP/out" | head -n 1)
	wanted=$(smi -L | grep -c '^GPU ')
	because "GPUs in the topology: ${found:-0}, of nvidia-smi: $wanted"
	[ "${found:-0}" = "$wanted" ]
}

# copied N COMMAND...: NCCL gives a communicator of one rank to a copy before it chooses an algorithm, a protocol, thread
# blocks or windows, so what passes with one rank shows nothing about these. Messages are a kernel with one rank too.
copied() {
	"${@:2}" || return
	[ "$1" -gt 1 ] || { because "a copy: not shown"; return 5; }
}

# every COLLECTIVE N: all algorithms on N GPUs, sizes that divide and sizes that do not.
every() {
	perf "$1" -g "$2" --algo all "${SIZES[@]}" && perf "$1" -g "$2" --algo all "${ODD[@]}"
}

# all_types N: every datatype under every operation, and where data is only moved.
all_types() {
	local c
	for c in all_reduce reduce reduce_scatter; do
		perf "$c" -g "$1" -d all -o all -n 2 "${ONE[@]}" || return
	done
	for c in all_gather alltoall; do
		perf "$c" -g "$1" -d all -n 2 "${ONE[@]}" || return
	done
}

# flags N FLAGS...: a collective that reduces and one that does not, under each of these flags.
flags() {
	local n=$1 given c words
	shift
	for given in "$@"; do
		read -ra words <<<"$given"
		for c in all_reduce alltoall; do
			perf "$c" -g "$n" "${ONE[@]}" "${words[@]}" || return
		done
	done
}

# The driver's library answers for the GPU of each rank.
states() {
	local gpus known
	perf all_reduce -g "$1" "${ONE[@]}" --json - || return
	gpus=$(grep -c '"kind":"gpu"' "$TEMP/out")
	known=$(grep -c '"kind":"gpu".*"sm_MHz":[1-9]' "$TEMP/out")
	[ -z "$STAND_IN" ] || { because "stand-ins have no driver"; return 5; }
	[ "$known" = "$1" ] || {
		because "records of GPUs: $gpus of $1, with a clock: $known"
		return 1
	}
}

# The comparison ends in rows for NCCL's tuner.
tuned() {
	perf all_reduce -g "$1" --algo all "${SIZES[@]}" --tuner-conf "$TEMP/tuner" || return
	number rows "$(grep -c '^allreduce,' "$TEMP/tuner")"
	grep -q '^allreduce,' "$TEMP/tuner" || {
		because "$(grep -m 1 'Warning: --tuner-conf' "$TEMP/out" || echo "rows of the tuner are missing")"
		return 1
	}
}

# device_kernel COLLECTIVE N KERNEL: a kernel on NCCL's device API beside NCCL's own; -V changes its grid.
device_kernel() {
	perf "$1" -g "$2" -D "$3" -R 2 "${SIZES[@]}" && perf "$1" -g "$2" -D "$3" -R 2 -V 3 "${ODD[@]}" &&
		perf "$1" -g "$2" -D "$3" -R 2 -G 2 "${ONE[@]}"
}

# A byte that is made wrong is found: exit status 7.
finds_wrong_byte() {
	local status
	perf all_reduce -g "$1" --fault corrupt:0 "${ONE[@]}"
	status=$?
	[ $status -eq 7 ] || {
		because "exit status $status, not 7: $(last_words)"
		return 1
	}
}

zero_all() {
	perf zero -g "$1" --accumulate 2 "${MODEL[@]}" && perf zero -g "$1" -d bfloat16 --offload "${MODEL[@]}" &&
		perf zero -g "$1" --compute spin --step-time 2ms "${MODEL[@]}"
}

shared() {
	processes 2 "$BIN/$1_perf" --backend nccl --algo ring,tree,auto,busbench:ring "${SHARED[@]}"
}

# Communicators from that of all ranks, and one of several IDs.
divided() {
	NCCL_TESTS_SPLIT="MOD 2" processes 4 "$BIN/all_reduce_perf" --backend nccl "${SHARED[@]}"
}
several_ids() {
	TORCH_NCCL_RANKS_PER_ROOT=2 processes 4 "$BIN/all_reduce_perf" --backend nccl "${SHARED[@]}"
}

# NCCL's own report on a run that hangs.
ras() {
	local status
	[ -z "$STAND_IN" ] || { because "stand-ins have no RAS"; return 5; }
	processes 2 "$BIN/all_reduce_perf" --backend nccl --fault slow:1:60s -T 15 "${ONE[@]}"
	status=$?
	[ $status -eq 4 ] || {
		because "exit status $status, not 4: $(last_words)"
		return 1
	}
	grep -q "NCCL's RAS" "$TEMP/out" || { because "NCCL before 2.24 has no RAS"; return 5; }
	grep -q "NCCL's RAS at [^ ]* \(reports\|finds\)" "$TEMP/out" || {
		because "$(grep -o -m 1 "NCCL's RAS.*" "$TEMP/out")"
		return 1
	}
}

shared_types() {
	local c
	for c in all_reduce reduce_scatter; do
		processes 2 "$BIN/${c}_perf" --backend nccl --algo auto,busbench:ring -d all -o all -b 64K -e 64K -n 2 || return
	done
}

multi_rank() {
	local gpu=${CUDA_VISIBLE_DEVICES:-0}
	NCCL_MULTI_RANK_GPU_ENABLE=1 CUDA_VISIBLE_DEVICES=${gpu%%,*} perf all_reduce -g 2 --algo ring,tree,auto "${SHARED[@]}"
}

# ran_as_forced: the records of $TEMP/out name, wherever NCCL ran by itself, the algorithm and protocol that was forced.
# The check's numbers are the results of each, 0 where it was skipped.
ran_as_forced() {
	local what asked said last=
	while IFS=$'\t' read -r what asked said; do
		case $what in
		ran) number "$asked" "$said" && last+=ran ;;
		skip) number "$asked" 0 && because "$asked did not run: $said" ;;
		silent) because "NCCL does not report what it chose" && return 5 ;;
		bad) because "$asked was forced, $said" && return 1 ;;
		esac
	done < <(awk '
		function field(name) {
			return match($0, "\"" name "\":\"[^\"]*\"") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5) : ""
		}
		/"kind":"skip"/ {
			reason = field("reason"); asked = field("algorithm")
			if (reason ~ /^the library ran /) bad[asked] = reason; else skip[asked] = reason
			next
		}
		!/"kind":"result"/ { next }
		{ asked = field("algorithm_asked"); ran = field("library_algorithm") }
		field("algorithm") ~ /^busbench:/ { skip[asked] = "a schedule of busbench ran"; next }
		ran == "" { silent = 1 }
		asked == "auto" && ran != "" { asked = "auto chose " ran }
		asked !~ /^auto/ && ran != "" && index(ran ":", asked ":") != 1 { bad[asked] = "NCCL ran " ran }
		{ n[asked]++ }
		END {
			for (asked in bad) print "bad\t" asked "\t" bad[asked]
			if (silent) print "silent"
			for (asked in skip) if (!(asked in n)) print "skip\t" asked "\t" skip[asked]
			for (asked in n) print "ran\t" asked "\t" n[asked]
		}' "$TEMP/out" | LC_ALL=C sort)
	[ -n "$last" ] || return 5
}

# forced COLLECTIVE ALGORITHMS [PROTOCOLS]: four processes on one GPU, each a node to NCCL. The numbers also say what ran
# before a failure or the end of the time.
forced() {
	local status
	processes 4 "$BIN/$1_perf" --backend nccl --algo "$2" ${3:+--proto "$3"} "${FORCED[@]}" --json -
	status=$?
	[ $status -ne 0 ] || { ran_as_forced; return; }
	ran_as_forced
	REASON=''
	return $status
}

# forced_on_all COLLECTIVE ALGORITHM: all GPUs of this machine.
forced_on_all() {
	perf "$1" -g "$GPUS" --algo "$2" "${SIZES[@]}" --json - && ran_as_forced
}

# handles KIND: two processes on one GPU copy from each other's memory through such handles of CUDA.
handles() {
	processes 2 "$BIN/p2p_bandwidth_perf" --backend nccl --handles "$1" --p2p on --direction unidirectional "${PAIRS[@]}" --json - || return
	grep -Eq '"kind":"pair".*("from":0,"to":1|"from":1,"to":0).*"route":"read".*"handle":"'"$1"'"' "$TEMP/out" && return
	because "no process read the other's memory: $(skip_reason)"
	return 5
}

# sanitized TOOL WORD...: NCCL and CUDA probe by calls that fail, so failing calls are no errors here. The tool preloads a
# library of its own into the program, so stdbuf does not.
sanitized() {
	BY_LINE='' limited "$SANITIZER" --tool "$1" --report-api-errors no --error-exitcode 9 --print-limit 20 "${@:2}"
}

# ---- the list ------------------------------------------------------------------------------

list_machine() {
	check machine "the headers of NCCL fit its library" "" headers_fit
}

list_hand() {
	check hand "all_reduce, 8 B to 256 MiB" gpu by_hand
}

KERNELS="fill verify reduce scale copy ping read write triad chase spin"
list_kernels() {
	local k
	for k in $KERNELS; do
		check kernels $k "gpu gpu_kernels" kernels $k
	done
	check kernels "beyond 2^32 bytes" "gpu gpu_kernels" kernels "beyond 2^32" --large
}

list_units() {
	check units "memory and patterns" "memory units" unit test_nccl_memory
	check units "collectives and algorithms against an oracle" "collectives units" unit test_nccl
	check units "batches, graphs, queues and groups" "collectives units" unit test_nccl_features
	check units "messages, and kernels that wait" "collectives units" unit test_nccl_work
}

list_topology() {
	check topology "every GPU of the driver" "topology driver" topology_sees
}

# list_features_of NAME NEEDS N: on N GPUs.
list_features_of() {
	check features "$1: datatypes and operations" "$2" all_types "$3"
	check features "$1: graphs (-G)" "$2" flags "$3" "-G 4" "-G 4 -m 3"
	check features "$1: times of each iteration (-I 1)" "$2" flags "$3" "-I 1"
	check features "$1: registered buffers (-R 1)" "$2" copied "$3" flags "$3" "-R 1"
	check features "$1: symmetric windows (-R 2)" "$2" copied "$3" flags "$3" "-R 2"
	check features "$1: few thread blocks (-x 1)" "$2" copied "$3" flags "$3" "-x 1" "-R 2 -x 1"
	check features "$1: no thread blocks (-x 2)" "$2" copied "$3" flags "$3" "-R 2 -x 2"
	check features "$1: waits (-z 1, 2, 3)" "$2" flags "$3" "-z 1" "-z 2" "-z 3"
	check features "$1: grouped operations (-m)" "$2" flags "$3" "-m 5"
	check features "$1: unaligned buffers (-u)" "$2" flags "$3" "-u 1"
	check features "$1: CPU time, memory (-C, -M)" "$2" flags "$3" "-C 1" "-M 1"
	check features "$1: default stream (-y 1)" "$2" flags "$3" "-y 1"
	check features "$1: rounds of verification (-c 3)" "$2" flags "$3" "-c 3"
	check features "$1: parallel start (-p 1)" "$2" flags "$3" "-t 1 -p 1"
	check features "$1: caches (--cache)" "$2" flags "$3" "--cache reuse" "--cache rewrite"
	check features "$1: precision (--precision)" "$2" flags "$3" "--precision 5% --max-time 2"
	check features "$1: protocols (--proto)" "$2" copied "$3" perf all_reduce -g "$3" --algo ring,tree,auto --proto LL,LL128,Simple "${ONE[@]}"
	check features "$1: state of each GPU" "$2" states "$3"
	check features "$1: a wrong byte is found" "$2" finds_wrong_byte "$3"
	# One rank alone calls no collective.
	check features "$1: ZeRO, all stages" "$([ "$3" = 1 ] && echo memory || echo "$2") zero" zero_all "$3"
}

list_features() {
	list_features_of "1 GPU" collectives 1
	check features "1 GPU: one rank of 64 under ZeRO" "memory zero" \
		perf zero --as-rank 0 --world 64 --model "$RANK_MODEL"
	list_features_of "several GPUs" "several collectives" "$GPUS"
}

list_device() {
	local c k
	for c in "all_reduce 1" "all_reduce 2" "all_reduce 3" "all_reduce 4" "alltoall 1" "alltoall 2"; do
		k=${c#* } c=${c% *}
		check device "1 GPU: $c by kernel $k (-D $k)" collectives device_kernel "$c" 1 "$k"
		check device "several GPUs: $c by kernel $k (-D $k)" "several collectives" device_kernel "$c" "$GPUS" "$k"
	done
}

list_algorithms() {
	local c
	# Not LL128: forced between nodes without GPUDirect RDMA, its buffers are host memory, whose lines of 128 bytes a GPU does
	# not read at once, so NCCL's results may be wrong.
	check algorithms "4 processes on 1 GPU: all_reduce runs ring and tree" collectives forced all_reduce ring,tree LL,Simple
	for c in all_gather reduce_scatter; do
		check algorithms "4 processes on 1 GPU: $c runs ring and PAT" collectives forced $c ring,pat
	done
	for c in broadcast reduce; do
		check algorithms "4 processes on 1 GPU: $c runs ring" collectives forced $c ring
	done
	for c in $COLLECTIVES; do
		check algorithms "2 processes on 1 GPU: $c" collectives shared "$c"
	done
	check algorithms "2 processes on 1 GPU: datatypes and operations" collectives shared_types
	check algorithms "4 processes on 1 GPU: a split world" collectives divided
	check algorithms "4 processes on 1 GPU: a communicator of several IDs" collectives several_ids
	check algorithms "2 processes on 1 GPU: NCCL's RAS reports a hang" collectives ras
	for c in $COLLECTIVES; do
		if [[ $c == sendrecv || $c == alltoallv || $c == hypercube ]]; then
			check algorithms "1 GPU: $c" collectives every "$c" 1
		else
			check algorithms "1 GPU: $c" collectives copied 1 every "$c" 1
		fi
	done
	check algorithms "2 ranks of a process on 1 GPU" "multi-rank real collectives" multi_rank
	for c in $COLLECTIVES; do
		check algorithms "several GPUs: $c" "several collectives" every "$c" "$GPUS"
	done
	check algorithms "several GPUs: rows for NCCL's tuner" "several collectives" tuned "$GPUS"
	for c in auto ring tree nvls nvlstree collnet; do
		check algorithms "several GPUs: all_reduce runs $c" "several collectives" forced_on_all all_reduce $c
	done
}

list_sanitizers() {
	local tool k
	# Kernels without shared memory and without barriers have nothing for racecheck and synccheck to find.
	for tool in memcheck initcheck; do
		check sanitizers "$tool: speed of the kernels" "sanitizer gpu" sanitized $tool "$TESTS/gpu_speed" 64K 64K 2 1
	done
	for k in fill verify reduce copy; do
		check sanitizers "memcheck: results of $k" "sanitizer gpu gpu_kernels" sanitized memcheck "$TESTS/gpu_kernels" --only $k
	done
	check sanitizers "memcheck: all_reduce" "sanitizer collectives" sanitized memcheck \
		"$BIN/all_reduce_perf" --backend nccl -T 0 -g 1 -d float,bfloat16,int32 -o sum,max -b 1003 -e 1003 -u 1 -n 1 -w 0
}

list_pairs() {
	check pairs "2 processes on 1 GPU: CUDA IPC" memory handles ipc
	check pairs "2 processes on 1 GPU: fabric handles" memory handles fabric
	check pairs "a GPU and its host" memory perf p2p_bandwidth "${PAIRS[@]}"
	check pairs "nvbandwidth, to compare with" "real nvbandwidth" limited nvbandwidth
	check pairs "several GPUs: bandwidth" "several memory" perf p2p_bandwidth -g "$GPUS" "${PAIRS[@]}"
	check pairs "several GPUs: latency" "several memory" perf p2p_latency -g "$GPUS" "${PINGS[@]}"
}

list_speed() {
	check speed "kernels reach 80 percent of a copy" gpu kernel_speed
}

list_peers() {
	local c
	for c in sendrecv all_reduce; do
		check peers "$c: times are nccl-tests'" "nccl-tests collectives" like $c
	done
	check peers "all_reduce under mpirun" "several mpirun collectives" under_mpirun
	for c in all_gather reduce_scatter broadcast reduce alltoall; do # of one rank they are the copy that all_reduce is
		check peers "$c: times are nccl-tests'" "several nccl-tests collectives" like $c
	done
}

# ends STATUS FAULT: a rank that hangs or dies ends the run of all with this status.
ends() {
	local status
	perf all_reduce -g "$GPUS" --fault "$2" -T "$([ -n "$STAND_IN" ] && echo 2 || echo 10)" "${ONE[@]}"
	status=$?
	[ $status -eq "$1" ] || {
		because "exit status $status, not $1: $(last_words)"
		return 1
	}
}

list_faults() {
	check faults "several GPUs: a rank that hangs ends the run" "several collectives" ends 4 slow:1:60s
	check faults "several GPUs: a rank that dies ends the run" "several collectives" ends 3 die:1
}

list_memory() {
	check memory "1 GPU: bandwidth and latency" memory memory_speed 1
	check memory "several GPUs: bandwidth and latency" "several memory" memory_speed "$GPUS"
}

# every_check MODE: lists, counts or makes them.
every_check() {
	local part
	MODE=$1
	for part in $PARTS; do
		"list_$part"
	done
}
