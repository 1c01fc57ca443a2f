#!/usr/bin/env bash
# Tests busbench on a fresh machine: a Debian root with git and make, and a clean clone of the committed tree.
#
#   tests/fresh/run.sh [-s SUITE] [-k] [-l FILE] [STAGE...]
#
#   bench     `make bench` up to 4 MiB: set-up, build, measurement, report
#   check     `make check`: set-up, build and tests; -l FILE keeps what they printed
#   clang     a machine with clang as its only compiler: set-up, build, a measurement
#   aarch64   a cross-build, its unit tests and a measurement under qemu-user
#   gloo      a machine without MPI: set-up, build, four processes by torchrun's variables, and the tests of gloo
#   install   `make deb`, its packages, and the README's commands without the sources: man pages, completions, report
#
# Without a STAGE bench and check run in one root. SUITE is a suite of this machine's mirror, such as trixie (default: this
# machine's). -k keeps the root and its logs. Needs root privileges, the network, and 3 GB in $TMPDIR. The last line is
# "N passed, N failed, N skipped"; a root that cannot be made is skipped.
# Exit: 0 nothing failed, 1 a stage failed, 2 usage.
set -uo pipefail

PROJECT=$(cd "$(dirname "$0")/../.." && pwd)
STAGES='bench check clang aarch64 gloo install'
PASSED=0 FAILED=0 SKIPPED=0

usage() {
	sed -n 's/^# \{0,1\}//; 2,16p' "$0" >&2
	exit 2
}

# ---- the root ------------------------------------------------------------------------------

# why_not: prints the reason why no root can be made here, if any.
why_not() {
	local free
	free=$(df -Pk "$FOLDER" | awk 'NR == 2 { print int($4 / 1048576) }')
	if [ "$(id -u)" -ne 0 ]; then
		echo "only root may make one"
	elif ! unshare --mount --pid --fork true 2>/dev/null; then
		echo "mount namespaces are not allowed"
	elif [ "$free" -lt 4 ]; then
		echo "$FOLDER has $free GB free, and 4 are needed"
	elif [ -z "$MIRROR" ]; then
		echo "apt names no mirror"
	elif ! "$PROJECT/scripts/setup.sh" fresh >"$FOLDER/setup.log" 2>&1; then
		tail -n 1 "$FOLDER/setup.log"
	fi
}

# Apt's first mirror, in either format of its lists.
mirror() {
	cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list 2>/dev/null |
		awk '$1 == "URIs:" { print $2; exit } $1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /:\/\//) { print $i; exit } }'
}

# make_root ROOT: a minimal Debian with this machine's package sources.
make_root() {
	local root=$1
	debootstrap --variant=minbase --include=git,make,ca-certificates "$SUITE" "$root" "$MIRROR" || return
	cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/" &&
		cp /etc/resolv.conf "$root/etc/" &&
		echo "127.0.0.1 localhost $(hostname)" >"$root/etc/hosts"
}

# within ROOT SCRIPT: runs a shell script in the clone inside the root, as on a machine of its own; its processes and
# mounts end with it. It is the root of a mount namespace, so that tests can make hosts in it.
within() {
	# shellcheck disable=SC2016 # the inner shell expands these
	unshare --mount --pid --fork --kill-child bash -c '
		mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
		mount -t tmpfs shm "$1/dev/shm" && cd "$1" && mkdir -p mnt && pivot_root . mnt && umount -l /mnt || exit 3
		exec /usr/bin/env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			bash -euc "cd /root/busbench; $2" </dev/null' bash "$1" "$2"
}

# new_root NAME: makes a copy of the first root with a clean clone, and prints its folder.
new_root() {
	local root=$FOLDER/$1
	if [ ! -d "$FOLDER/base" ]; then
		make_root "$FOLDER/base" >"$FOLDER/base.log" 2>&1 || return
	fi
	cp -a "$FOLDER/base" "$root" &&
		git clone -q "$PROJECT" "$root/root/busbench" &&
		echo "$root"
}

# ---- stages: each has its own root, except that check continues in that of bench -----------------------------------

root_of() {
	case $1 in
	bench | check) echo default ;;
	*) echo "$1" ;;
	esac
}

stage_bench() {
	cat <<-'END'
		make bench BENCH_MAX=4M
		grep -q '<svg' build/bench/report/index.html
		grep -q '"kind":"result"' build/bench/records.jsonl
	END
}

stage_check() {
	echo 'make check'
}

stage_clang() {
	cat <<-'END'
		apt-get -qq update
		DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends clang >/dev/null
		scripts/setup.sh build
		if command -v gcc; then exit 1; fi
		make -j"$(nproc)"
		build/all_reduce_perf -b 8 -e 64K -f 8 -g 2 --algo ring,tree,auto
	END
}

# The libraries come from Debian's packages for arm64.
stage_aarch64() {
	local libraries
	libraries=$(awk -F'|' '$4 ~ /^ *library / { gsub(/ /, "", $3); printf "%s:arm64 ", $3 }' "$PROJECT/scripts/libraries.txt")
	cat <<-END
		dpkg --add-architecture arm64
		apt-get -qq update
		DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
			gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static python3 $libraries >/dev/null
		make -j"\$(nproc)" CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar MPI=0 CUDA=0 all units
		qemu-aarch64-static build/all_reduce_perf -b 8 -e 64K -f 8 -g 2 --algo ring,tree,auto
		python3 -B tests/run.py --under qemu-aarch64-static -k unit/ build
	END
}

# iproute2 and Python are for the tests, which also make hosts of network namespaces.
stage_gloo() {
	cat <<-'END'
		scripts/setup.sh bench
		DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends python3 iproute2 procps >/dev/null
		if command -v mpirun; then exit 1; fi
		make -j"$(nproc)" GLOO=1
		python3 -B scripts/processes.py 4 build/all_reduce_perf --algo ring,tree,native -b 8 -e 1M -f 16
		python3 -B tests/run.py -k cli/test_gloo build >gloo.log || { cat gloo.log; exit 1; }
		grep -A1 -e ^skipped -e passed gloo.log
		if grep "no hosts on this machine" gloo.log; then exit 1; fi
	END
}

# Nothing of the clone is left when the packages are tried.
stage_install() {
	cat <<-'END'
		make deb
		mv build/dist/*.deb /tmp
		cp tests/fresh/installed.py /tmp
		cd /tmp
		rm -rf /root/busbench
		DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
			./*.deb python3-matplotlib python3-jinja2 man-db mandoc bash-completion zsh fish openmpi-bin >/dev/null
		python3 -B installed.py
	END
}

skip() {
	echo "skipped: fresh/$1 ($SUITE): $2"
	SKIPPED=$((SKIPPED + 1))
}

run_stage() {
	local stage=$1 root name log=$FOLDER/$1.log begin=$SECONDS reason
	name=$(root_of "$stage")
	root=$FOLDER/$name
	if [ ! -d "$root" ] && ! new_root "$name" >/dev/null; then
		reason=$(tail -n 1 "$FOLDER/base.log")
		rm -rf --one-file-system "$root"
		skip "$stage" "debootstrap: ${reason:-failed}"
	elif within "$root" "$("stage_$stage")" >"$log" 2>&1; then
		printf '%-40s %-30s %6d s\n' "fresh/$stage ($SUITE)" passed $((SECONDS - begin))
		tail -n 3 "$log" | sed 's/^/    /'
		PASSED=$((PASSED + 1))
	else
		echo "FAILED: fresh/$stage ($SUITE), after $((SECONDS - begin)) s:"
		tail -n 40 "$log" | sed 's/^/    /'
		FAILED=$((FAILED + 1))
	fi
	[ "$stage" != check ] || [ -z "$CHECKED" ] || [ ! -f "$log" ] || cp "$log" "$CHECKED"
}

main() {
	local stage reason
	for stage in "$@"; do
		case " $STAGES " in
		*" $stage "*) ;;
		*)
			echo "run.sh: no stage '$stage'; the stages are $STAGES" >&2
			exit 2
			;;
		esac
	done
	reason=$(why_not)
	for stage in "$@"; do
		if [ -n "$reason" ]; then
			skip "$stage" "$reason"
		else
			run_stage "$stage"
		fi
	done
	echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
	[ "$FAILED" -eq 0 ]
}

SUITE=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
KEEP='' CHECKED=''
while getopts s:kl: option; do
	case $option in
	s) SUITE=$OPTARG ;;
	k) KEEP=1 ;;
	l) CHECKED=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- bench check
MIRROR=$(mirror)
FOLDER=$(mktemp -d "${TMPDIR:-/tmp}/busbench-fresh.XXXXXX")
trap '[ -n "$KEEP" ] && echo "kept: $FOLDER" || rm -rf --one-file-system "$FOLDER"' EXIT
main "$@"
