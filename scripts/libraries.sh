#!/usr/bin/env bash
# Finds the libraries and programs of scripts/libraries.txt. A probe uses them, so those installed by hand count too.
#
#   scripts/libraries.sh found NAME...        the libraries among these that exist, each as NAME:-lNAME
#   scripts/libraries.sh absent NAME...       a sentence about each missing library
#   scripts/libraries.sh missing LEVEL        the rows that this level of setup.sh needs and lacks
#   scripts/libraries.sh table                docs/libraries.md
#
# Reads CC and CPPFLAGS, MPICC, CXX and GLOO_FLAGS, CUDA_INCLUDE (flags) and PYTHON from the environment.
# Exit: 0 done, 2 usage.
set -euo pipefail

# The NCCL that scripts/setup.sh installs and ci/gpu_bundle.sh packs for: that of PyTorch 2.11, as kernels on the device API
# run with a library of their headers' 2.xx alone. NCCL=2.xx.y names another.
# shellcheck disable=SC2034 # for those that source this
NCCL_WANTED=${NCCL:-2.28.9}

FOLDER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LIST=$(grep -v -e '^#' -e '^ *$' "$FOLDER/libraries.txt")
NAMES='name levels package probe what needed'

# each COMMAND [ARGUMENT...]: COMMAND for every row, whose columns are variables of these names.
each() {
	local $NAMES
	while IFS='|' read -r $NAMES; do
		read -r name <<<"$name"
		read -r levels <<<"$levels"
		read -r package <<<"$package"
		read -r probe <<<"$probe"
		read -r what <<<"$what"
		read -r needed <<<"$needed"
		"$@" </dev/null
	done <<<"$LIST"
}

# ---- probes --------------------------------------------------------------------------------

# The compiler of the probes: the user's, else the first that exists.
compiler() {
	local name
	for name in ${CC:+"${CC%% *}"} gcc clang cc; do
		if command -v "$name" >/dev/null; then
			echo "${CC:-$name}"
			return
		fi
	done
	return 1
}

# source_with HEADER...: an empty program that includes these.
source_with() {
	printf '#include <%s>\n' "$@"
	echo 'int main(void) { return 0; }'
}

# compiles "COMPILER FLAG..." WORD...: a program with the headers among the words compiles and links with the flags
# among them.
compiles() {
	local cc=$1 word headers=(stdio.h) flags=() folder status=0
	shift
	for word in "$@"; do
		case $word in
		-*) flags+=("$word") ;;
		*) headers+=("$word") ;;
		esac
	done
	folder=$(mktemp -d)
	source_with "${headers[@]}" |
		$cc -x "${LANGUAGE:-c}" -o "$folder/probe" - -x none "${flags[@]}" >/dev/null 2>&1 || status=1
	rm -rf "$folder"
	return $status
}

has_compiler() {
	local cc
	cc=$(compiler) && compiles "$cc"
}

# The ctags of Emacs and Exuberant Ctags have neither JSON nor ends of functions.
has_ctags() {
	ctags --version 2>/dev/null | grep -q 'Universal Ctags'
}

# Its header is not in the compiler's path; the library is loaded by name.
has_pmix() {
	ldconfig -p 2>/dev/null | grep -q 'libpmix\.so\.2'
}

# dpkg-buildpackage asks for the package itself.
has_build_essential() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' build-essential 2>/dev/null)" = installed ]
}

has_pip() {
	python3 -m pip --version >/dev/null 2>&1
}

# is_here PROBE...: as libraries.txt describes.
is_here() {
	local kind=$1 word cc
	shift
	cc=$(compiler) || cc=cc
	case $kind in
	library) compiles "$cc ${CPPFLAGS:-}" "$@" ;;
	mpi) OMPI_CC=$cc MPICH_CC=$cc compiles "${MPICC:-mpicc} ${CPPFLAGS:-}" "$@" ;;
	c++) LANGUAGE=c++ compiles "${CXX:-g++} ${CPPFLAGS:-} ${GLOO_FLAGS:--lgloo}" "$@" ;;
	cuda) source_with "$@" | $cc ${CUDA_INCLUDE:-} -E - >/dev/null 2>&1 ;;
	command)
		for word in "$@"; do
			command -v "$word" >/dev/null && return
		done
		return 1
		;;
	python) ${PYTHON:-python3 -B} "$FOLDER/report/python.py" "$@" >/dev/null 2>&1 ;;
	has_*) "$kind" ;;
	*) compiles "$kind" "$@" ;;
	esac
}

# ---- output ------------------------------------------------------------------

print_found() {
	case " $* " in
	*" $name "*) ;;
	*) return 0 ;;
	esac
	if is_here $probe; then
		printf '%s:%s\n' "$name" "$(grep -o -e '-l[^ ]*' <<<"$probe")"
	fi
}

print_absent() {
	case " $* " in
	*" $name "*) echo "make: no $what${package:+ (${package// /, })}, left out: $needed" ;;
	esac
}

# print_missing LEVEL: the row, with a ? before it if the level can do without.
print_missing() {
	local level=$1 mark
	for mark in '' '?'; do
		case " $levels " in
		*" build "* | *" $level$mark "*)
			is_here $probe || printf '%s%s|%s|%s|%s\n' "$mark" "$name" "$package" "$what" "$needed"
			return
			;;
		esac
	done
}

print_row() {
	local level=${levels// /, }
	printf '| %s | %s | %s | %s |\n' "$what" "${package:+\`${package// /\` \`}\`}" "$needed" "${level//\?/ (optional)}"
}

print_table() {
	cat <<-'END'
		# Libraries and programs

		`scripts/setup.sh LEVEL` installs what a level needs and this machine lacks; each level includes `build`. `make` leaves
		out programs whose libraries it does not find. `make docs` writes this page from
		[scripts/libraries.txt](../scripts/libraries.txt), which setup and Makefile read too.

		| what | Debian's package | needed by | level |
		| --- | --- | --- | --- |
	END
	each print_row
}

libraries() {
	local command=${1:-}
	case $command in
	found | absent)
		shift
		each "print_$command" "$@"
		;;
	missing) each print_missing "${2:?expected a level}" ;;
	table) print_table ;;
	*)
		sed -n '/^# *scripts/s/^# *//p' "$0" >&2
		exit 2
		;;
	esac
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	libraries "$@"
fi
