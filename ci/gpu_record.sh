# shellcheck shell=bash
# Sourced by gpu_check.sh: runs one check under its limits and writes its record.
#
# Reads RECORDS and LOG (files), RUN (names this run), OUT and TEMP (folders), ONLY, PARTS, HAVE, STAND_IN, GPUS.
# A record is one line of JSON, on the disk before the next check begins:
#   kind "machine"  what was found, once a run
#   kind "check"    part, name, status (passed, failed, skipped or timeout), seconds, reason, commands, numbers
#   kind "end"      how many of each status

SCHEMA=1

# ---- JSON ----------------------------------------------------------------------------------

# json_text WORDS: a JSON string; what is neither printable nor a tab or line end is dropped.
json_text() {
	local text=$*
	text=${text//\\/\\\\}
	text=${text//\"/\\\"}
	text=${text//$'\n'/\\n}
	text=${text//$'\t'/\\t}
	printf '"%s"' "${text//[[:cntrl:]]/}"
}

# json_list WORD...: a JSON array of strings.
json_list() {
	local word list=
	for word in "$@"; do
		list+=${list:+,}$(json_text "$word")
	done
	printf '[%s]' "$list"
}

# put KIND FIELD VALUE [FIELD VALUE...]: writes a record; each VALUE is JSON. Where the disk is full it goes to the output.
LOST=0
put() {
	local line
	line="{\"schema\":$SCHEMA,\"kind\":\"$1\",\"run\":\"$RUN\""
	shift
	while [ $# -gt 0 ]; do
		line+=",\"$1\":$2"
		shift 2
	done
	printf '%s}\n' "$line" 2>/dev/null >>"$RECORDS" || {
		LOST=$((LOST + 1))
		printf 'record %s}\n' "$line"
	}
}

# ---- limits --------------------------------------------------------------------------------

say() {
	printf '%s\n' "$*" | tee -a "$LOG" 2>/dev/null
}

# log WORDS: a line of the log alone.
log() {
	printf '%s\n' "$*" >>"$LOG"
} 2>/dev/null

now_ms() {
	local now=$EPOCHREALTIME
	now=${now/[.,]/}
	echo $((now / 1000))
}

# Seconds that a command may take: those that its check has left, 1 at least.
limit() {
	local left=$((CHECK_END - SECONDS))
	echo $((left > 0 ? left : 1))
}

# -T of a command: two thirds of its time, so that a run that hangs still has the time to name the ranks that it awaits.
patience() {
	local seconds=$(($(limit) * 2 / 3))
	seconds=$((seconds < 120 ? seconds : 120))
	echo $((seconds > 5 ? seconds : 5))
}

# Programs buffer what they write to a pipe, which would be lost when they run out of time.
by_line() {
	timeout -k 2 "$(limit)" ${BY_LINE:+"$BY_LINE" -oL} "$@" 2>&1 </dev/null
}
BY_LINE=$(command -v stdbuf)

# Of the output of one command the log has this much, so that one that floods it does not make it too large to send.
LOG_BYTES=524288
logged() {
	head -c $LOG_BYTES 2>/dev/null >>"$LOG"
}

# keep_nccl_log STATUS: what NCCL logged during a command that did not pass goes to nccl.txt beside the records; under
# KEEP_LOG, of every command. All of it is one file, as some machines send back only a few.
keep_nccl_log() {
	local file
	for file in "$TEMP"/nccl.*.txt; do
		[ -f "$file" ] || continue
		if [ "$1" -ne 0 ] || [ -n "${KEEP_LOG:-}" ]; then
			{
				printf '\n$ %s\n' "${COMMANDS[*]: -1}"
				head -c $((LOG_BYTES / 2)) "$file"
			} 2>/dev/null >>"$OUT/nccl.txt"
		fi
		rm -f "$file"
	done
}

# limited WORD...: runs it; its output is $TEMP/out and goes to the log as it comes. 124 or 137: it ran out of time.
limited() {
	local status
	COMMANDS+=("$*")
	log $'\n$' "$*"
	by_line "$@" | tee -p "$TEMP/out" 2>/dev/null | logged
	status=${PIPESTATUS[0]}
	log "exit status $status"
	keep_nccl_log "$status"
	return "$status"
}

# processes N PROGRAM WORD...: N of them that find each other, all on GPU 0; NCCL takes each for a host of its own. The
# output of the first is $TEMP/out. Returns the first status that is not 0.
processes() {
	local n=$1 rank pid status=0 pids=() port=$((20000 + RANDOM % 10000))
	shift
	set -- "$1" -T "$(patience)" "${@:2}"
	COMMANDS+=("$n processes: $*")
	log $'\n$' "$n processes: $*"
	[ -z "$STAND_IN" ] || export BUSBENCH_FAKE_REGION=$TEMP/region.$port
	for ((rank = 0; rank < n; rank++)); do
		RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
			NCCL_HOSTID=busbench-$rank NCCL_TESTS_DEVICE=0 NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 \
			NCCL_MNNVL_ENABLE=0 by_line "$@" >"$TEMP/out.$rank" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=$((status ? status : $?))
	done
	for ((rank = 0; rank < n; rank++)); do
		log "process $rank:"
		logged <"$TEMP/out.$rank"
	done
	cp "$TEMP/out.0" "$TEMP/out"
	[ $status -eq 0 ] || cat "$TEMP"/out.* >"$TEMP/out"
	rm -f "$TEMP"/out.* "$TEMP"/region.*
	unset BUSBENCH_FAKE_REGION
	log "exit status $status"
	keep_nccl_log "$status"
	return "$status"
}

# perf NAME WORD...: a benchmark of busbench on GPUs.
perf() {
	limited "$BIN/$1_perf" --backend nccl -T "$(patience)" "${@:2}"
}

# The last line of a program's output.
last_words() {
	grep -v '^[[:space:]]*$' "$TEMP/out" | tail -n 1 | cut -c 1-400
}

# Why a program skipped something, in its records or its text; nothing if it did not.
skip_reason() {
	sed -n -e '/"kind":"skip"/s/.*"reason":"\([^"]*\)".*/\1/p' -e 's/^# skipped[^:]*: //p' "$TEMP/out" | head -n 1
}

# because WORDS: the check's reason, in place of the program's last words.
because() {
	REASON=$*
}

# number NAME VALUE: a measured number of the check's record.
number() {
	NUMBERS+=${NUMBERS:+,}$(json_text "$1"):$2
}

# ---- one check -----------------------------------------------------------------------------

declare -A COUNT=() # by status, and by "PART STATUS"
declare -A SKIPS=() # checks by reason
BAD=()              # lines about what failed
declare -A SHOWN=([passed]=passed [failed]=FAILED [timeout]=TIMEOUT [skipped]=skipped)

# judged PART NAME STATUS MILLISECONDS REASON
judged() {
	local part=$1 name=$2 status=$3 seconds
	seconds=$(printf '%d.%03d' $(($4 / 1000)) $(($4 % 1000)))
	COUNT[$status]=$((${COUNT[$status]:-0} + 1))
	COUNT["$part $status"]=$((${COUNT["$part $status"]:-0} + 1))
	COUNT["$part ms"]=$((${COUNT["$part ms"]:-0} + $4))
	put check part "$(json_text "$part")" name "$(json_text "$name")" status "\"$status\"" seconds "$seconds" \
		reason "$([ -n "$5" ] && json_text "$5" || echo null)" commands "$(json_list "${COMMANDS[@]}")" \
		numbers "{$NUMBERS}"
	say "$(printf '%-8s %s: %s' "${SHOWN[$status]}" "$part" "$name")"
	if [ "$status" = skipped ]; then
		SKIPS[$5]=$((${SKIPS[$5]:-0} + 1))
	elif [ -n "$5" ]; then
		say "$(fold -s -w 70 <<<"$5" | sed 's/^/         /')"
		[ "$status" = passed ] || BAD+=("$part: $name: $5")
	fi
}

# verdict STATUS: the check's status from that of its command, into VERDICT; and REASON.
verdict() {
	case $1 in
	0) VERDICT=passed ;;
	5)
		VERDICT=skipped REASON=${REASON:-$(skip_reason)}
		REASON=${REASON:-$(last_words)}
		;;
	124 | 137)
		VERDICT=timeout REASON="it did not end in time: ${COMMANDS[*]: -1}"
		REASON+="; last line: $(last_words)"
		;;
	*) VERDICT=failed REASON=${REASON:-"exit status $1: $(last_words)"} ;;
	esac
}

# unmet NEEDS: why one of these words of HAVE is missing; nothing if all are there.
unmet() {
	local need
	for need in $1; do
		[[ " $HAVE " == *" $need "* ]] || {
			why_not "$need"
			return
		}
	done
}

# check PART NAME NEEDS COMMAND...: one row of the list of checks, which is listed, counted or made (MODE). NEEDS: ""
# or words of HAVE. COMMAND ends with 0 where it passes, 5 where it is not supported or cannot be judged; it may call
# because and number.
check() {
	local part=$1 name=$2 needs=$3 status began
	shift 3
	is_chosen "$part" "$name" || return 0
	[ "$MODE" != listed ] || printf '%s\t%s\n' "$part" "$name"
	[ "$MODE" = counted ] && [ -z "$(unmet "$needs")" ] && TODO[$part]=$((${TODO[$part]:-0} + 1))
	[ "$MODE" = made ] || return 0
	begin_part "$part"
	COMMANDS=() NUMBERS='' REASON=''
	REASON=$(unmet "$needs")
	if [ -n "$REASON" ]; then
		judged "$part" "$name" skipped 0 "$REASON"
		return
	fi
	if [ "$SECONDS" -ge "$PART_END" ]; then
		judged "$part" "$name" skipped 0 "the time of the part $part is used up"
	else
		began=$(now_ms)
		begin_check "$part"
		"$@"
		status=$?
		verdict "$status"
		judged "$part" "$name" "$VERDICT" $(($(now_ms) - began)) "$REASON"
	fi
	TODO[$part]=$((TODO[$part] - 1))
}

# A part's time begins with its first check: its limit, and what the part before did not use.
begin_part() {
	local spare=$((PART_END - SECONDS))
	[ "$PART" != "$1" ] || return
	PART=$1
	PART_END=$((SECONDS + ${PART_SECONDS:-${PART_LIMIT[$PART]} + (spare > 0 ? spare : 0)}))
	PART_END=$((PART_END < END ? PART_END : END))
}

# A check may use twice its share of what its part has left, and 5 seconds at least.
begin_check() {
	local most=$((2 * (PART_END - SECONDS) / (TODO[$1] + 1)))
	CHECK_END=$((SECONDS + (most > 5 ? most : 5)))
	CHECK_END=$((CHECK_END < PART_END ? CHECK_END : PART_END))
}
declare -A TODO=() # checks of a part that are still to be made
PART='' PART_END=0 CHECK_END=0

# ---- the end -------------------------------------------------------------------------------

# end: leaves with the exit status.
end() {
	[ $LOST -eq 0 ] || {
		echo "gpu_check.sh: $LOST records could not be written to $RECORDS; the output has them" >&2
		exit 1
	}
	[ $((${COUNT[failed]:-0} + ${COUNT[timeout]:-0})) -eq 0 ] || exit 1
	if [[ " $HAVE " != *" gpu "* ]]; then
		echo "gpu_check.sh: $(why_not gpu)" >&2
		exit 3
	fi
	[ "${COUNT[passed]:-0}" -gt 0 ]
}

# summary: the table.
summary() {
	local part line reason
	say ''
	say "$(printf '%-12s %8s %8s %8s %8s %8s' part passed failed timeout skipped seconds)"
	for part in $PARTS; do
		say "$(printf '%-12s %8d %8d %8d %8d %8d' "$part" "${COUNT["$part passed"]:-0}" "${COUNT["$part failed"]:-0}" \
			"${COUNT["$part timeout"]:-0}" "${COUNT["$part skipped"]:-0}" $((${COUNT["$part ms"]:-0} / 1000)))"
	done
	say "$(printf '%-12s %8d %8d %8d %8d %8d' all "${COUNT[passed]:-0}" "${COUNT[failed]:-0}" "${COUNT[timeout]:-0}" \
		"${COUNT[skipped]:-0}" "$SECONDS")"
	for reason in "${!SKIPS[@]}"; do
		say "$(fold -s -w 76 <<<"skipped ${SKIPS[$reason]}: $reason" | sed '2,$s/^/    /')"
	done
	for line in "${BAD[@]}"; do
		say "$(fold -s -w 76 <<<"FAILED: $line" | sed '2,$s/^/    /')"
	done
	put end passed "${COUNT[passed]:-0}" failed "${COUNT[failed]:-0}" timeout "${COUNT[timeout]:-0}" \
		skipped "${COUNT[skipped]:-0}" seconds "$SECONDS" clocks "$(json_text "$(clocks)")"
}
