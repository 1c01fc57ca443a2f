# shellcheck shell=bash
# Sourced by gpu_check.sh: finds the driver, CUDA, NCCL and the tools of this machine, without Python or a compiler.

# Without persistence mode the driver starts a GPU anew for each program, which takes a second or more: an open device
# keeps it started until this script ends. A driver that hangs does so in head.
hold_gpus() {
	local device
	[ -z "$STAND_IN" ] || return 0
	for device in /dev/nvidia[0-9]*; do
		if [ -r "$device" ] && timeout -k 2 20 head -c 0 "$device" >/dev/null; then
			exec {HELD}<"$device"
		fi
	done
} 2>/dev/null

smi() {
	timeout -k 2 20 nvidia-smi "$@" 2>/dev/null
}

# Of the first GPU: its clocks and what may lower them.
clocks() {
	smi --query-gpu=clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem,power.limit,persistence_mode --format=csv,noheader |
		awk -F ', ' 'NR == 1 && NF == 6 { printf "SM %s of %s, memory %s of %s, %s, persistence %s\n", $1, $2, $3, $4, $5, tolower($6) }'
}

# Each call of nvidia-smi may take a second: one for all values. It prints its errors in their place. The whole state goes
# into the log.
find_driver() {
	IFS=, read -r DRIVER GPU CAPABILITY MEMORY < <(
		smi --query-gpu=driver_version,name,compute_cap,memory.total --format=csv,noheader | sed 's/, /,/g'
	)
	[[ $DRIVER =~ ^[0-9] ]] || DRIVER=$(awk '/NVRM/ { for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+\.[0-9.]+$/) { print $i; exit } }' \
		/proc/driver/nvidia/version 2>/dev/null)
	CLOCKS=$(clocks)
	smi >>"$LOG"
	smi -q -i 0 -d CLOCK,POWER,PERFORMANCE >>"$LOG"
}

# beside LIBRARY: its path in CUDA's folders or, of Python's packages, beside NCCL's.
beside() {
	local path
	for path in "$CUDA_HOME"/{lib64,lib}/"$1" /usr/local/cuda*/lib64/"$1" "${NCCL_PATH%/*/lib/*}"/*/lib/"$1"; do
		[ ! -f "$path" ] || { echo "$path" && return; }
	done
	return 1
}

# NCCL is the one that busbench finds (--list). Its folder and those of CUDA's runtime and cuBLAS go into
# LD_LIBRARY_PATH, so that nccl-tests loads the same.
find_libraries() {
	local path listed
	CHECK_END=$((SECONDS + PROBE)) COMMANDS=()
	limited "$BIN/all_reduce_perf" --list
	listed=$(grep -m 1 '^  library: NCCL' "$TEMP/out")
	NCCL_VERSION=$(sed -n 's/.*library: NCCL \([0-9.]*\) .*/\1/p' <<<"$listed")
	NCCL_PATH=$(sed -n 's/.*library: NCCL [0-9.]* (\(.*\)), built with.*/\1/p' <<<"$listed")
	HEADERS=$(sed -n 's/.*built with the headers of \([0-9.]*\)$/\1/p' <<<"$listed")
	RUNTIME_PATH=$(beside libcudart.so.13 || beside libcudart.so.12)
	BLAS_PATH=$(beside libcublas.so.13 || beside libcublas.so.12)
	for path in "$BLAS_PATH" "$RUNTIME_PATH" "$NCCL_PATH"; do # the folder of CUDA may have another NCCL
		[[ -z $path || ${LD_LIBRARY_PATH:-}: == "${path%/*}":* ]] ||
			export LD_LIBRARY_PATH="${path%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
	done
}

find_tools() {
	local folder
	for folder in "$CUDA_HOME/bin" "$CUDA_HOME/compute-sanitizer" /usr/local/nvidia/bin; do
		PATH=$PATH:$folder
	done
	for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do # where containers have the driver, not always in the linker's cache
		[ ! -f "$folder/libcuda.so.1" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
	done
	SANITIZER=$(command -v "${STAND_IN:+$STAND_IN/}compute-sanitizer")
	PEERS=''
	[ ! -f "$HERE/nccl-tests.tar.gz" ] || tar -xzf "$HERE/nccl-tests.tar.gz" -C "$TEMP"
	for folder in ${NCCL_TESTS_HOME:+"$NCCL_TESTS_HOME" "$NCCL_TESTS_HOME/build"} "$TEMP/nccl-tests"; do
		if [ -x "$folder/all_reduce_perf" ]; then
			PEERS=$folder
			break
		fi
	done
}

# Debian's package of a library.
package_of() {
	case $1 in
	libhwloc.so.*) echo libhwloc15 ;;
	libnuma.so.*) echo libnuma1 ;;
	libjansson.so.*) echo libjansson4 ;;
	libexpat.so.*) echo libexpat1 ;;
	libudev.so.*) echo libudev1 ;;
	libstdc++.so.*) echo libstdc++6 ;;
	*) echo "$1" ;;
	esac
}

# not_found PROGRAM...: libraries that they need and the dynamic linker does not find.
not_found() {
	ldd "$@" 2>/dev/null | awk '/not found/ { print $1 ": not found" }' | sort -u
}

# Those of the programs' libraries that were found.
found_libraries() {
	ldd "$BIN"/*_perf "$BIN/topology" 2>/dev/null | awk '$1 ~ /^lib(hwloc|numa|jansson|expat)\./ && $3 ~ /^\// { print $1 }' | sort -u
}

# missing_packages: what the programs need and the dynamic linker does not find, as Debian calls it.
missing_packages() {
	local library
	not_found "$BIN"/*_perf "$TESTS"/gpu_* | while IFS=: read -r library _; do package_of "$library"; done
}

# Where it was built and with what: bundle.txt of a bundle, git's word of a build.
built_from() {
	if [ -f "$HERE/bundle.txt" ]; then
		awk '{ printf "%s%s", n++ ? ", " : "", $0 }' "$HERE/bundle.txt"
	else
		echo "commit $(git -C "$HERE" log -1 --format=%h 2>/dev/null || echo unknown)"
	fi
}

# ---- what the programs find ----------------------------------------------------------------

# can WORD COMMAND...: WORD is part of HAVE if the command passes in its time, else WHY has its last line.
PROBE=${GPU_CHECK_PROBE:-60}
can() {
	local word=$1 VERDICT REASON=''
	shift
	COMMANDS=() CHECK_END=$((SECONDS + PROBE))
	if limited "$@"; then
		HAVE+=" $word"
	else
		verdict $?
		WHY[$word]=${REASON#exit status *: }
	fi
}

# As many as busbench may use: its refusal of more has their number.
count_gpus() {
	CHECK_END=$((SECONDS + PROBE)) GPUS=64
	limited "$BIN/mem_bandwidth_perf" --backend nccl -g 64 -b 4K -e 4K -n 1 -w 0 ||
		GPUS=$(sed -n 's/.* only \([0-9]*\) exist.*/\1/p' "$TEMP/out" | head -n 1)
}

# The library has 200 MB and more: from a slow disk, the first program to load it would look as if it hung.
read_once() {
	local began
	began=$(now_ms)
	[ -z "$NCCL_PATH" ] || timeout "$PROBE" cat "$NCCL_PATH" >/dev/null
	READ_MS=$(($(now_ms) - began))
}

# Fills HAVE with gpu (CUDA works), memory (the nccl backend works), collectives (with NCCL), several, multi-rank,
# nccl-tests, sanitizer, driver (nvidia-smi knows a GPU), real (no stand-ins) and programs that were built; LIBRARY,
# NCCL_NUMBER and GPUS as busbench reports them.
declare -A WHY=()
probe() {
	HAVE='' NCCL_NUMBER=0 LIBRARY=''
	read_once
	GPUS=$(smi -L | grep -c '^GPU ')
	[ "$GPUS" -eq 0 ] || HAVE+=" driver"
	can gpu "$TESTS/gpu_speed" 1K 1K 2 1
	can memory "$BIN/mem_bandwidth_perf" --backend nccl -b 4K -e 4K -n 1 -w 0 --json -
	if [[ $HAVE == *memory* ]]; then
		LIBRARY=$(sed -n 's/.*"library": *"\([^"]*\)".*/\1/p' "$TEMP/out" | head -n 1)
		GPU=${GPU:-$(sed -n 's/.*"ranks":\[{[^}]*"name": *"\([^"]*\)".*/\1/p' "$TEMP/out" | head -n 1)}
		NCCL_NUMBER=$(sed -n 's/NCCL \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' <<<"$LIBRARY" | awk '{ print 100 * $1 + $2 }')
		[ "$GPUS" -gt 0 ] && [ -z "$STAND_IN${CUDA_VISIBLE_DEVICES:-}" ] || count_gpus
		GPUS=${GPUS:-1}
	fi
	can collectives "$BIN/all_reduce_perf" --backend nccl -b 8 -e 8
	[ "$GPUS" -lt 2 ] || HAVE+=" several"
	[ "$NCCL_NUMBER" -lt 230 ] || HAVE+=" multi-rank"
	WHY[nccl-tests]=$([ -z "$PEERS" ] && echo "NCCL_TESTS_HOME names none" || not_found "$PEERS/all_reduce_perf" | paste -sd ' ' -)
	[ -n "${WHY[nccl-tests]}" ] || HAVE+=" nccl-tests"
	[ -z "$SANITIZER" ] || HAVE+=" sanitizer"
	[ -n "$STAND_IN" ] || HAVE+=" real"
	[ ! -x "$TESTS/gpu_kernels" ] || HAVE+=" gpu_kernels"
	[ ! -x "$UNITS/test_nccl" ] || HAVE+=" units"
	[ ! -x "$BIN/zero_perf" ] || HAVE+=" zero"
	[ ! -x "$BIN/topology" ] || HAVE+=" topology"
	[ -z "$(command -v mpirun)" ] || [ -z "$(ls "$BIN/backends/mpi.so" "$BIN/../lib/busbench/mpi.so" 2>/dev/null)" ] || HAVE+=" mpirun"
	[ -z "$(command -v nvbandwidth)" ] || HAVE+=" nvbandwidth"
}

# why_not WORD: why HAVE lacks it.
why_not() {
	case $1 in
	gpu) echo "no GPU that CUDA can use: ${WHY[gpu]}" ;;
	memory) echo "the nccl backend does not run: ${WHY[memory]}" ;;
	collectives) echo "collectives do not run: ${WHY[collectives]}" ;;
	several) echo "needs several GPUs; this machine has $GPUS" ;;
	multi-rank) echo "needs NCCL 2.30" ;;
	nccl-tests) echo "nccl-tests does not run: ${WHY[nccl-tests]}" ;;
	mpirun) echo "mpirun, or busbench's mpi.so, is not here" ;;
	nvbandwidth) echo "nvbandwidth is not installed" ;;
	sanitizer) echo "compute-sanitizer is not installed" ;;
	driver) echo "nvidia-smi names no GPU" ;;
	real) echo "stand-ins have neither speed nor a device" ;;
	gpu_kernels | zero | topology) echo "$1 was not built" ;;
	units) echo "the tests of the backend were not built: that needs cmocka" ;;
	esac
}

# field NAME WORDS: a line of what was found, folded below 80 columns.
field() {
	say "$(fold -s -w 68 <<<"$2" | sed "1s/^/$(printf '%-11s' "$1")/; 2,\$s/^/           /")"
}

# The first lines, and the same as a record.
describe() {
	local missing gpu=$GPU${MEMORY:+, $MEMORY}${CAPABILITY:+, compute capability $CAPABILITY}
	missing=$(missing_packages | paste -sd ' ' -)
	[ -z "$STAND_IN" ] || gpu="none: stand-ins, so nothing here is about a GPU"
	field date "$DATE"
	field records "$OUT"
	field machine "$(uname -srm), $(nproc) processors"
	field busbench "$(built_from)"
	field GPU "${gpu:-not found}"
	field driver "${DRIVER:-not found}"
	field CUDA "${RUNTIME_PATH:-no runtime found; busbench brings its own}"
	field NCCL "${NCCL_VERSION:+$NCCL_VERSION, }${NCCL_PATH:-not found}${READ_MS:+, read in $READ_MS ms}"
	field headers "of NCCL ${HEADERS:-unknown}"
	field clocks "${CLOCKS:-not known}"
	field backend "${LIBRARY:-$(why_not memory)}"
	field GPUs "$GPUS"
	field nccl-tests "${PEERS:-not found}"
	field sanitizer "${SANITIZER:-not found}"
	field libraries "$(found_libraries | paste -sd ' ' -)"
	field missing "${missing:-nothing}"
	field "found in" "$SECONDS s"
	[ -z "$NCCL_PATH" ] || say "by hand    export LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
	put machine date "$(json_text "$DATE")" busbench "$(json_text "$(built_from)")" \
		stand_in "$([ -n "$STAND_IN" ] && echo true || echo false)" gpu "$(json_text "$GPU")" gpus "$GPUS" \
		memory "$(json_text "$MEMORY")" compute_capability "$(json_text "$CAPABILITY")" \
		driver "$(json_text "$DRIVER")" library "$(json_text "$LIBRARY")" nccl "$(json_text "$NCCL_VERSION")" \
		clocks "$(json_text "$CLOCKS")" headers "$(json_text "$HEADERS")" nccl_read_ms "${READ_MS:-0}" \
		nccl_path "$(json_text "$NCCL_PATH")" cuda_runtime "$(json_text "$RUNTIME_PATH")" \
		missing "$(json_text "$missing")" parts "$(json_text "$PARTS")"
}
