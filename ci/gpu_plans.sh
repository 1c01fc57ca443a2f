# shellcheck shell=bash
# Sourced by gpu_check.sh: what to check where time is short, and what to check again.
#
# A row of a plan: PART SECONDS NAMES, in the order in which the parts are made. NAMES are patterns of names of checks
# with | between them. SECONDS is -: all that is left.

plan_of() {
	case $1 in
	one-gpu) cat <<-'END' ;;
		machine 15 *
		hand 30 *
		kernels 65 fill|verify|reduce|copy|beyond*
		units 90 *
		algorithms 60 4 processes on 1 GPU: * runs *
		features 90 1 GPU: graphs*|1 GPU: symmetric*|1 GPU: a wrong byte*|1 GPU: datatypes*|1 GPU: state*
		device 40 1 GPU: * by kernel [12] *
		pairs 60 2 processes on 1 GPU: CUDA IPC|a GPU and its host|nvbandwidth*
		speed 50 *
		peers 40 sendrecv: *|all_reduce: *
		sanitizers - memcheck: results*
	END
	node) cat <<-'END' ;;
		machine 15 *
		hand 30 *
		peers 200 *
		algorithms 60 several GPUs: all_reduce runs *
		device 50 several GPUs: *
		features 60 several GPUs: @(graphs|symmetric|few|no thread|a wrong byte|state)*
		units 50 *
		pairs 40 several GPUs: *|nvbandwidth*
		faults 35 *
	END
	*) return 1 ;;
	esac
}

# read_plan: PLANNED_PARTS in their order, their limits, and PLANNED (names by part), from PLAN.
declare -A PLANNED=()
read_plan() {
	local part seconds names rows
	PLANNED_PARTS=''
	[ -n "$PLAN" ] || return 0
	rows=$(plan_of "$PLAN") || {
		echo "gpu_check.sh: no plan '$PLAN'; the plans are one-gpu and node" >&2
		exit 2
	}
	while read -r part seconds names; do
		PLANNED_PARTS+=${PLANNED_PARTS:+ }$part
		PLANNED[$part]=$names
		PART_LIMIT[$part]=${seconds/-/86400}
	done <<<"$rows"
}

# read_again: REDO has the checks ("PART NAME") whose latest record in AGAIN failed, lacked time, or was skipped because
# CUDA, the backend or NCCL did not work.
declare -A REDO=()
read_again() {
	local check
	[ -n "$AGAIN" ] || return 0
	[ -r "$AGAIN" ] || {
		echo "gpu_check.sh: --again: $AGAIN cannot be read" >&2
		exit 2
	}
	while IFS= read -r check; do
		REDO[$check]=1
	done < <(awk '
		function field(name) {
			return match($0, "\"" name "\":\"[^\"]*\"") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5) : ""
		}
		/"kind":"check"/ {
			redo[field("part") " " field("name")] = field("status") ~ /^(failed|timeout)$/ || field("reason") ~ /^(the time of |no GPU that CUDA can use|the nccl backend does not run|collectives do not run|no time for )/
		}
		END { for (check in redo) if (redo[check]) print check }' "$AGAIN")
	[ ${#REDO[@]} -gt 0 ] || {
		echo "gpu_check.sh: --again: no check of $AGAIN failed or lacked time"
		exit 0
	}
}

# is_chosen PART NAME: by the parts, -k, the plan and what is to be made again.
is_chosen() {
	[[ " $PARTS " == *" $1 "* && $2 == *"$ONLY"* ]] || return
	# shellcheck disable=SC2053 # a pattern
	[[ -z $PLAN || $2 == @(${PLANNED[$1]}) ]] || return
	[[ -z $AGAIN || -n ${REDO["$1 $2"]:-} ]]
}
