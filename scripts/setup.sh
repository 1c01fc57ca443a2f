#!/usr/bin/env bash
# Installs what busbench needs and is missing here.
#
#   scripts/setup.sh build   what `make` needs (the default)
#   scripts/setup.sh bench   and what reports are drawn with, if it can be had
#   scripts/setup.sh check   and what the tests and measurements need
#   scripts/setup.sh gpu     and what the nccl backend is built with: CUDA's compiler and NCCL
#
# CUDA and NCCL come from NVIDIA's Python packages (about 350 MB to fetch, 700 MB unpacked) and go into
# build/cuda, where no other place has them. The tests of the nccl backend need no GPU, but these; where
# they are missing `make check` leaves those tests out and says so.
#
# Presence is judged by use, by compiling two lines or by finding the command, so that anything
# installed by hand counts too. Where all is there, nothing is done and no network is used.
# What is only wanted is left out with a sentence where it cannot be installed.
# Exit: 0 all there, 2 usage, 3 something is missing and cannot be installed here.
set -euo pipefail

LEVEL=${1:-build}
case $#:$LEVEL in
[01]:build | [01]:bench | [01]:check | [01]:gpu) ;;
*)
	echo "usage: scripts/setup.sh [build|bench|check|gpu]" >&2
	exit 2
	;;
esac

TEMP=$(mktemp -d)
trap 'rm -rf "$TEMP"' EXIT

# The compiler for the probes: the user's, else whichever is there.
compiler() {
	local name
	for name in ${CC:+"${CC%% *}"} gcc clang cc; do
		if command -v "$name" >/dev/null; then
			echo "$name"
			return
		fi
	done
	return 1
}

has() {
	command -v "$1" >/dev/null
}

# compiles COMPILER HEADERS [FLAG...]: a program with these headers compiles and links.
compiles() {
	local cc=$1 header
	for header in $2; do
		echo "#include <$header>"
	done >"$TEMP/probe.c"
	echo 'int main(void) { return 0; }' >>"$TEMP/probe.c"
	shift 2
	has "$cc" && "$cc" -o "$TEMP/probe" "$TEMP/probe.c" "$@" >/dev/null 2>&1
}

# Debian keeps clang's sanitizers in a package of clang's version, whose name changed over time.
clang_runtime_package() {
	local version
	version=$(apt-cache depends clang 2>/dev/null |
		sed -n 's/.*Depends: clang-\([0-9][0-9]*\).*/\1/p' | head -n 1)
	if [ -z "$version" ]; then
		return
	elif [ -n "$(apt-cache show "libclang-rt-$version-dev" 2>/dev/null)" ]; then
		echo "libclang-rt-$version-dev"
	else
		echo "libclang-common-$version-dev"
	fi
}

MISSING=() # "Debian package: what it is called elsewhere"
WANTED=()  # likewise, of what can be done without

# need PACKAGE WHAT COMMAND...: PACKAGE is missing unless COMMAND succeeds. CLANG_RUNTIME stands for a
# package whose name is known only once the package lists are fresh.
need() {
	local package=$1 what=$2
	shift 2
	"$@" || MISSING+=("$package: $what")
}

# want PACKAGE WHAT COMMAND...: likewise, but nothing fails without it.
want() {
	local package=$1 what=$2
	shift 2
	"$@" || WANTED+=("$package: $what")
}

look() {
	local cc
	MISSING=()
	WANTED=()
	cc=$(compiler) || cc=gcc
	need gcc "a C compiler, gcc or clang" compiler >/dev/null
	need libc6-dev "the C library's headers" compiles "$cc" stdio.h
	need make "GNU make" has make
	need libhwloc-dev "hwloc with its headers" compiles "$cc" hwloc.h -lhwloc
	need libnuma-dev "libnuma with its headers" compiles "$cc" numa.h -lnuma
	need libexpat1-dev "expat, for the binary topology" compiles "$cc" expat.h -lexpat
	need libjansson-dev "jansson, for training kernels" compiles "$cc" jansson.h -ljansson
	need libcyaml-dev "libcyaml, for the binary acceptance" compiles "$cc" "cyaml/cyaml.h yaml.h" -lcyaml -lyaml
	if [ "$LEVEL" = gpu ]; then
		need g++ "g++" has g++
		need python3-pip "pip, of Python 3" python3 -m pip --version >/dev/null 2>&1
	fi
	if [ "$LEVEL" = bench ]; then
		want python3-matplotlib "matplotlib, for the report" has_module matplotlib
		want python3-jinja2 "Jinja2, for the report" has_module jinja2
	fi
	if [ "$LEVEL" != check ]; then
		return
	fi
	need gcc "gcc with its sanitizers" compiles gcc stdio.h -fsanitize=address,undefined
	need gcc "gcc with its sanitizers" compiles gcc stdio.h -fsanitize=thread
	need clang "clang" has clang
	need CLANG_RUNTIME "clang's sanitizer runtime" \
		compiles clang stdio.h -fsanitize=address,undefined
	need libcmocka-dev "cmocka with its headers" \
		compiles "$cc" "stdarg.h stddef.h stdint.h setjmp.h cmocka.h" -lcmocka
	need universal-ctags "Universal Ctags" has_ctags
	need python3 "Python 3" has python3
	need python3-matplotlib "matplotlib, for scripts/report.py" has_module matplotlib
	need python3-jinja2 "Jinja2, for scripts/report.py" has_module jinja2
	want chromium "Chromium, for the tests of reports" has_chromium
	need valgrind "Valgrind" has valgrind
	need libopenmpi-dev "an MPI with its headers and mpicc" compiles mpicc mpi.h
	need openmpi-bin "mpirun" has mpirun
	need iproute2 "ip, for tests with several hosts on one machine" has ip
}

# Emacs and Exuberant install a ctags of their own, without JSON and line ends.
has_ctags() {
	has ctags && ctags --version 2>/dev/null | grep -q 'Universal Ctags'
}

# Of the Python that comes first in PATH, or of the distribution's, which its package is for.
has_module() {
	local python
	for python in python3 /usr/bin/python3; do
		"$python" -c "import importlib.util as u; exit(not u.find_spec('$1'))" 2>/dev/null && return
	done
	return 1
}

# Ubuntu's package is a stand-in for a snap; any of these will do.
has_chromium() {
	has chromium || has chromium-browser || has google-chrome
}

report() {
	echo "missing for 'setup.sh $LEVEL' (Debian package: what it is):"
	printf '%s\n' "${MISSING[@]/#CLANG_RUNTIME:/libclang-rt-dev:}" "${WANTED[@]}" |
		sed '/^$/d; s/^/  /' | sort -u
}

# give_up REASON
give_up() {
	if [ ${#MISSING[@]} -eq 0 ] && [ ${#WANTED[@]} -gt 0 ]; then
		report
		finish "done without these: $1"
	fi
	echo "setup.sh: $1" >&2
	[ ${#MISSING[@]} -eq 0 ] || report >&2
	exit 3
}

# has_cuda CUDA_HOME NCCL_HOME: nvcc runs, and a program with NCCL's header compiles.
has_cuda() {
	"$1/bin/nvcc" --version >/dev/null 2>&1 &&
		echo '#include <nccl.h>' | "$(compiler)" -I"$2/include" -I"$1/include" -E - >/dev/null 2>&1
}

WHEELS=(nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl)

get_cuda() {
	local home=${CUDA_HOME:-/usr/local/cuda} folder
	has_cuda "$home" "${NCCL_HOME:-$home}" && return
	folder=$(cd "$(dirname "$0")/.." && pwd)/build/cuda
	home=$folder/nvidia/cu13
	has_cuda "$home" "$folder/nvidia/nccl" || {
		echo "installing into $folder: ${WHEELS[*]} nvidia-nccl-cu13"
		python3 -m pip install --quiet --no-deps --upgrade --target "$folder" \
			"${WHEELS[@]/%/==13.*}" nvidia-nccl-cu13 >"$TEMP/log" 2>&1 || {
			tail -n 20 "$TEMP/log" >&2
			give_up "pip could not install them; please install CUDA's toolkit (13, or 11.8 or newer) and NCCL (2.18 or newer)"
		}
		has_cuda "$home" "$folder/nvidia/nccl" || give_up "what pip installed in $folder does not work"
	}
	echo "build with: make CUDA=1 CUDA_HOME=$home NCCL_HOME=$folder/nvidia/nccl"
}

# finish WORDS
finish() {
	if [ "$LEVEL" = gpu ]; then
		get_cuda
	fi
	echo "setup.sh $LEVEL: $1"
	exit 0
}

look
[ $((${#MISSING[@]} + ${#WANTED[@]})) -gt 0 ] || finish "all there"

has apt-get || give_up "no apt-get here; please install these with your package manager"
ROOT=()
if [ "$(id -u)" -ne 0 ]; then
	{ has sudo && sudo -n true 2>/dev/null; } ||
		give_up "neither root nor sudo without a password; please have these installed"
	ROOT=(sudo -n)
fi
APT=("${ROOT[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq
	-o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=120)

report
"${APT[@]}" update </dev/null || echo "setup.sh: could not refresh the package lists" >&2
PACKAGES=()
for entry in "${MISSING[@]}"; do
	package=${entry%%:*}
	if [ "$package" = CLANG_RUNTIME ]; then
		package=$(clang_runtime_package)
	fi
	case " ${PACKAGES[*]} " in
	*" $package "*) ;;
	*) PACKAGES+=(${package:+"$package"}) ;;
	esac
done
install() {
	echo "installing: $*"
	"${APT[@]}" install -y --no-install-recommends "$@" </dev/null >"$TEMP/log" 2>&1 || {
		tail -n 20 "$TEMP/log" >&2
		return 1
	}
}
if [ ${#PACKAGES[@]} -gt 0 ]; then
	install "${PACKAGES[@]}" || give_up "apt-get could not install them"
fi
if [ ${#WANTED[@]} -gt 0 ]; then
	install "${WANTED[@]%%:*}" || echo "setup.sh: going on without them" >&2
fi
look
[ $((${#MISSING[@]} + ${#WANTED[@]})) -eq 0 ] || give_up "still missing after the installation"
finish "done"
