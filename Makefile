# busbench - `make bench` and `make check` install what they need first; `make` alone builds.
#
#   all (default)     programs and backends
#   bench             all-reduce from 1M to 1G on 8 ranks or all GPUs by ring, tree and the default, and a report
#   check             the tests; check-full: all tests, also under sanitizers; check-build: only builds what check runs
#   mutants           plants small defects, one after the other; a test must notice each
#   validate          docs/validation.md and docs/training_runs.md: models against published measurements
#   perf tune truth   measurements that print tables: speed, the tuning table, planted truths
#   fuzz              messages of other processes, and readers of files; each target for FUZZ_SECONDS (60)
#   docs              docs/options.md, records.md, algorithms.md with its pictures, libraries.md, and the table of gpu.md
#   install           programs, backends, profiles, clusters, report, docs, man pages, completions; install-strip: without
#                     debugging symbols
#   dist deb          a tarball, and packages for Debian, in B/dist
#   clean help
#
#   B=DIR                            build folder
#   SAN=address,undefined | thread   sanitizers
#   CC=gcc | clang   CFLAGS= LDFLAGS= CPPFLAGS=   V=1: show the commands
#   MPI=auto | 0 | 1                 mpi backend: if MPICC exists, never, always
#   GLOO=auto | 0 | 1                gloo backend: if CXX finds Gloo, never, always
#   CUDA=auto | 0 | 1                nccl backend: if nvcc and nccl.h exist, never, always
#   CUDA_HOME=DIR NCCL_HOME=DIR NVCC_GENCODE=   their folders; the devices to build for
#   TESTS='-k WORD'                  options of tests/run.py for check and check-full
#   REPORT=DIR BENCH_MAX=1G          folder of the report and largest size of `make bench`
#   PREFIX=DIR DESTDIR=DIR           folders of `make install`; ZSH_FOLDER: that of zsh's completion, below share

SAN    ?=
comma  := ,
space  := $() $()
B      ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
PREFIX ?= /usr/local
REPORT ?= $(B)/bench/report
BENCH_MAX ?= 1G
V      ?= 0
MPI    ?= auto
MPICC  ?= mpicc
GLOO   ?= auto
GLOO_HOME    ?=
GLOO_LIBS    ?= $(if $(GLOO_HOME),-L$(GLOO_HOME)/lib -Wl$(comma)-rpath$(comma)$(GLOO_HOME)/lib) -lgloo
CUDA   ?= auto
CUDA_HOME    ?= /usr/local/cuda
NCCL_HOME    ?=
NVCC         ?= $(CUDA_HOME)/bin/nvcc
PYTHON ?= python3 -B

$(foreach v,MPI GLOO CUDA,$(if $(filter auto 0 1,$($v)),,$(error $v=$($v): expected auto, 0 or 1)))
# A folder named on the command line must exist, or headers of another one would be used unnoticed. Under `auto` the
# environment may name folders that this machine lacks.
$(foreach v,$(if $(filter 0,$(CUDA)),,CUDA_HOME NCCL_HOME),$(if $(and $($v),\
  $(filter command $(if $(filter 1,$(CUDA)),environment),$(firstword $(origin $v)))),\
  $(if $(wildcard $($v)/include),,$(error $v=$($v): there is no folder $($v)/include))))

# `make -s` prints nothing, V=1 everything.
silent := $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
Q      := $(if $(filter 1,$(V)),,@)
say     = @$(if $(silent)$(filter 1,$(V)),:,printf '  %-5s %s\n' $(1) '$(2)')
# Targets that build and then run something build on all cores, unless -j was given.
BUILD  := $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- flags -------------------------------------------------------------------------------

CFLAGS   ?= $(if $(SAN),-O1 -g1,-O2 -g)
# Packagers build with other warnings and compilers: WERROR= lets these pass.
WERROR   ?= -Werror
BB_FLAGS := -std=gnu11 -Isrc -D_GNU_SOURCE -Wall -Wextra $(WERROR) -Wshadow -Wstrict-prototypes \
            -Wmissing-prototypes -Wpointer-arith -Wvla -Wwrite-strings -Wno-unused-parameter \
            -ffp-contract=off -fno-strict-aliasing -pthread -MMD -MP
ifneq ($(SAN),)
SAN_FLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined
endif

# ---- libraries: scripts/libraries.txt lists them ----------------------------------------------

CUDA_INCLUDE := $(addprefix -isystem ,$(wildcard $(if $(NCCL_HOME),$(NCCL_HOME)/include) $(CUDA_HOME)/include))
# The compiler of C++ that belongs to that of C, unless one is named.
ifeq ($(origin CXX),default)
CXX          := $(if $(findstring clang,$(CC)),$(subst clang,clang++,$(CC)),$(if $(findstring gcc,$(CC)),$(subst gcc,g++,$(CC)),g++))
endif
GLOO_FLAGS   := $(if $(GLOO_HOME),-isystem $(GLOO_HOME)/include)
# hwloc:-lhwloc and so on, for the libraries that this compiler finds.
FOUND        := $(shell CC='$(CC)' CXX='$(CXX)' CPPFLAGS='$(CPPFLAGS)' MPICC='$(MPICC)' CUDA_INCLUDE='$(CUDA_INCLUDE)' \
                GLOO_FLAGS='$(GLOO_FLAGS) $(GLOO_LIBS)' \
                scripts/libraries.sh found hwloc numa expat jansson cyaml yaml zlib cmocka mpi gloo nccl)
missing       = $(strip $(foreach l,$(1),$(if $(filter $(l):%,$(FOUND)),,$(l))))
have          = $(if $(call missing,$(1)),,1)
link          = $(strip $(foreach l,$(1),$(patsubst $(l):%,%,$(filter $(l):%,$(FOUND)))))
LDLIBS       := -Wl,--as-needed $(call link,cyaml yaml zlib jansson expat hwloc numa) -lm -ldl

# The vector kernels: one source for several instruction sets, chosen when a backend opens. They take longest to
# build, so sanitizers get two sets, and ThreadSanitizer one.
ISAS        := plain $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),$(if $(filter thread,$(SAN)),,avx2) $(if $(SAN),,avx512))
ISA_O       := $(if $(SAN),-O1,-O3)
ISA_plain   := $(ISA_O)
ISA_avx2    := $(ISA_O) -mavx2 -mfma -mf16c
ISA_avx512  := $(ISA_O) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c \
               -mprefer-vector-width=512

COMPILE = $(CC) $(CPPFLAGS) $(CFLAGS) $(BB_FLAGS) $(SAN_FLAGS)
# Programs find libraries beside the installed backends, where ci/gpu_bundle.sh puts those that a bare machine lacks.
# An RPATH, unlike a RUNPATH, also serves the libraries of those libraries and of the backends.
BESIDE  = -Wl,--disable-new-dtags,-rpath,\$$ORIGIN/../lib/busbench
LINK    = $(CC) $(CFLAGS) $(LDFLAGS) $(SAN_FLAGS) $(BESIDE) -pthread

# ---- sources and targets -------------------------------------------------------------------------

BACKENDS := host sim null
SOURCES  := $(filter-out %/kernels_isa.c src/launch/mpi.c src/simulator/cluster_file.c src/core/json_file.c,$(wildcard $(foreach d,\
            core schedules programs logs topology topology/probes launch simulator backends backends/cpu \
            $(BACKENDS:%=backends/%) harness/run harness/measure harness/results,src/$(d)/*.c)))
OBJECTS  := $(SOURCES:%.c=$(B)/%.o) $(ISAS:%=$(B)/src/backends/cpu/kernels_%.o)
LIB      := $(B)/libbusbench.a

# Everything above it. Programs and tests take the objects that they need from this archive, and with them their
# libraries. Training kernels and models need jansson, acceptance libcyaml (profiles are YAML) and zlib, readers of XML expat.
HAVE_JANSSON := $(call have,jansson)
HAVE_CYAML   := $(call have,jansson cyaml yaml zlib)
HAVE_EXPAT   := $(call have,expat)
READER       := $(if $(HAVE_EXPAT),$(wildcard src/topology/files/*.c) src/simulator/cluster_file.c)
UPPER        := $(filter-out %_perf.c %/main.c,$(READER) $(wildcard src/collectives/*.c src/p2p/*.c src/diagnose/*.c \
                $(if $(HAVE_JANSSON),src/core/json_file.c src/models/*.c src/models/memory/*.c src/memory/*/*.c \
                src/training_kernels/*.c src/training_kernels/*/*.c) $(if $(HAVE_CYAML),src/acceptance/*.c src/acceptance/tool/*.c) \
                $(if $(HAVE_EXPAT),src/topology_tool/*.c)))
UPPER_LIB    := $(B)/libbenchmarks.a

PERFS        := $(wildcard src/collectives/*_perf.c src/p2p/*_perf.c \
                $(if $(HAVE_JANSSON),src/training_kernels/*/*_perf.c src/memory/*/*_perf.c))
BINS         := $(patsubst %.c,$(B)/%,$(notdir $(PERFS))) $(B)/diagnose
FRONT        := $(B)/busbench
TOPOLOGY     := $(if $(HAVE_EXPAT),$(B)/topology)
MODEL_MEMORY := $(if $(HAVE_JANSSON),$(B)/model_memory)
ACCEPTANCE   := $(if $(HAVE_CYAML),$(B)/acceptance)
REFERENCE    := $(B)/docs/reference

# Unit tests without those of missing libraries; under ThreadSanitizer only those that start threads.
UNIT_SOURCES := $(wildcard tests/unit/test_*.c)
LEFT_OUT     := $(if $(HAVE_JANSSON),,training_kernels/ models/ memory/ pipelines\.h) $(if $(HAVE_CYAML),,acceptance/) \
                $(if $(HAVE_EXPAT),,topology/files/)
UNITS        := $(patsubst tests/unit/%.c,$(B)/tests/%,$(filter-out \
                $(if $(strip $(LEFT_OUT)),$(shell grep -lE '"($(subst $(space),|,$(strip $(LEFT_OUT))))' $(UNIT_SOURCES))),\
                $(if $(filter thread,$(SAN)),$(shell grep -lE "pthread_create|(ranks|processes)\.h" $(UNIT_SOURCES)),$(UNIT_SOURCES))))
UNIT_LIB     := $(B)/tests/libunits.a

# Backends loaded at run time. Nothing else needs their libraries.
HAVE_MPI    := $(if $(filter auto,$(MPI)),$(call have,mpi),$(filter 1,$(MPI)))
MPI_SOURCES := $(wildcard src/backends/mpi/*.c) src/launch/mpi.c
MPI_OBJECTS := $(MPI_SOURCES:%.c=$(B)/%.o)
HAVE_GLOO   := $(if $(filter auto,$(GLOO)),$(call have,gloo),$(filter 1,$(GLOO)))
GLOO_OBJECTS := $(patsubst %.c,$(B)/%.o,$(wildcard src/backends/gloo/*.c)) $(B)/src/backends/gloo/wrapper.o
PLUGINS     := $(if $(HAVE_MPI),$(B)/backends/mpi.so) $(if $(HAVE_GLOO),$(B)/backends/gloo.so) $(if $(HAVE_EXPAT),$(B)/backends/topology.so)

# The nccl backend, and for its tests a copy with stand-ins for the libraries, which needs their headers alone.
CUDA_LIBS    := $(foreach d,$(wildcard $(if $(NCCL_HOME),$(NCCL_HOME)/lib) $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib),-L$(d) -Wl,-rpath,$(d)) \
                -lcudart_static -lstdc++ -lrt -ldl -lpthread
HAVE_NCCL_H  := $(if $(filter auto,$(CUDA)),$(call have,nccl),$(filter 1,$(CUDA)))
HAVE_NVCC    := $(if $(filter auto,$(CUDA)),$(shell command -v $(NVCC) >/dev/null 2>&1 && echo 1),$(filter 1,$(CUDA)))
NCCL_OBJECTS := $(patsubst %.c,$(B)/%.o,$(wildcard src/backends/nccl/*.c))
# A stand-in for NCCL is linked, not searched for.
FAKED_NCCL   := $(filter-out %/library.o,$(NCCL_OBJECTS))
# Where what has code of devices in it is built: ci/gpu_bundle.sh builds it for other devices beside the build.
GPU_B        ?= $(B)
CUDA_OBJECTS := $(patsubst %.cu,$(GPU_B)/%.o,$(wildcard src/backends/nccl/*.cu))
FAKE_OBJECTS := $(patsubst tests/%.c,$(B)/tests/%.o,$(wildcard tests/fake/*.c)) \
                $(patsubst tests/%.cc,$(B)/tests/%.o,$(wildcard tests/fake/*.cc)) \
                $(patsubst src/backends/nccl/%.cu,$(B)/tests/fake/%.o,$(wildcard src/backends/nccl/*.cu))
HAVE_FAKE    := $(if $(HAVE_NCCL_H),$(shell command -v $(firstword $(CXX)) >/dev/null 2>&1 && echo 1))
FAKE_UNITS   := $(if $(HAVE_FAKE),$(patsubst tests/gpu/%.c,$(B)/tests/%,$(wildcard tests/gpu/test_*.c)))
GPU_TEST_OBJECTS := $(patsubst %.c,$(B)/%.o,$(filter-out tests/gpu/test_% %_device.c,$(wildcard tests/gpu/*.c)))
# Native code for the devices that this compiler knows of these; what is newer translates the code of the last one.
DEVICES      := $(if $(HAVE_NVCC),$(filter 75 80 86 89 90 100 120,$(patsubst sm_%,%,$(shell $(NVCC) --list-gpu-code 2>/dev/null))))
NEWEST       := $(lastword $(DEVICES))
NVCC_GENCODE ?= $(foreach d,$(filter-out $(NEWEST),$(DEVICES)),-gencode arch=compute_$(d),code=sm_$(d)) \
                -gencode arch=compute_$(NEWEST),code=[sm_$(NEWEST),compute_$(NEWEST)]
# Compressed, code for all of them is smaller than for two; what drivers of CUDA 13 read is smallest.
NVCC_MAJOR   := $(if $(HAVE_NVCC),$(shell $(NVCC) --version 2>/dev/null | sed -n 's/.*release \([0-9]*\).*/\1/p'))
NVCC_SMALL   := $(if $(filter-out 11 12,$(NVCC_MAJOR)),--compress-mode=size,-Xfatbin=-compress-all)
HAVE_CUDA    := $(and $(HAVE_NCCL_H),$(HAVE_NVCC),$(if $(SAN),,1))
PLUGINS      += $(if $(HAVE_CUDA),$(GPU_B)/backends/nccl.so)
# The stand-in has the name of cuBLAS in this version of CUDA.
CUDART_CODE  := $(if $(HAVE_FAKE),$(shell printf '\043include <cuda_runtime_api.h>\nCUDART_VERSION\n' | \
                $(CC) $(CUDA_INCLUDE) -E -P - | tail -n 1))
FAKE_CUBLAS  := $(if $(HAVE_FAKE),$(B)/tests/cublas/libcublas.so.$(shell expr $(CUDART_CODE) / 1000))
PLAYER       := $(B)/tests/player
PLAYER_OBJECTS := $(patsubst %.c,$(B)/%.o,$(wildcard tests/play/*.c))
GPU_KERNELS_OBJECTS := $(patsubst %.c,$(B)/%.o,$(wildcard tests/gpu/kernels/*.c))
GPU_KERNELS  := $(if $(HAVE_CUDA),$(GPU_B)/tests/gpu_kernels) $(if $(HAVE_FAKE),$(B)/tests/fake/gpu_kernels)
# Those that also hold on real GPUs, over the backend as it is installed.
DEVICE_UNITS := $(if $(and $(HAVE_CUDA),$(call have,cmocka)),$(addprefix $(GPU_B)/tests/device/,test_nccl test_nccl_features test_nccl_memory test_nccl_work))
GPU_SPEED    := $(if $(HAVE_CUDA),$(GPU_B)/tests/gpu_speed) $(if $(HAVE_FAKE),$(B)/tests/fake/gpu_speed)

# Without one of these, programs are left out; nothing is built without hwloc and libnuma.
ABSENT := $(call missing,expat jansson cyaml yaml zlib)
all: $(FRONT) $(BINS) $(PLUGINS) $(TOPOLOGY) $(MODEL_MEMORY) $(ACCEPTANCE) $(if $(HAVE_MPI),,no-mpi) $(if $(HAVE_GLOO),,no-gloo) $(if $(HAVE_CUDA),,no-nccl)
	$(if $(ABSENT),@scripts/libraries.sh absent $(ABSENT))
# A backend of an earlier build would still be loaded.
no-mpi no-gloo no-nccl: no-%:
	@rm -f $(B)/backends/$*.so
units: $(UNITS) $(PLAYER) $(FAKE_UNITS) $(if $(HAVE_FAKE),$(B)/tests/fake/nccl.so) $(FAKE_CUBLAS) $(GPU_KERNELS) $(GPU_SPEED) $(B)/tests/nvml/libnvidia-ml.so.1

# Tests that need a device, for ci/gpu_bundle.sh.
gpu-tests: $(filter-out $(B)/tests/fake/%,$(GPU_SPEED) $(GPU_KERNELS)) $(DEVICE_UNITS)

# ---- build rules -----------------------------------------------------------------------

# Rewritten only when their content changes: other flags or another compiler rebuild everything, a new or deleted
# source the archives, another MPI the mpi backend, another CUDA or NCCL the files that need their headers, another
# commit what --version prints.
$(B)/flags: SAYS = $(shell $(CC) --version | head -n 1) $(COMPILE) $(LINK) $(foreach i,$(ISAS),$(ISA_$(i)))
$(B)/objects: SAYS = $(SOURCES) $(ISAS) $(UPPER)
$(B)/mpicc: SAYS = $(MPICC) $(shell command -v $(MPICC)) $(shell $(MPICC) -show 2>/dev/null)
$(B)/gloo: SAYS = $(CXX) $(shell $(CXX) --version 2>/dev/null | head -n 1) $(GLOO_FLAGS) $(GLOO_LIBS)
$(B)/facts: SAYS = $(FACTS)
$(B)/headers: SAYS = $(CUDA_INCLUDE)
$(GPU_B)/devices: SAYS = $(NVCC) $(NVCC_GENCODE) $(NVCC_SMALL) $(CUDA_INCLUDE) $(CUDA_LIBS)
$(B)/flags $(B)/objects $(B)/mpicc $(B)/gloo $(B)/facts $(B)/headers $(GPU_B)/devices: FORCE
	$(if $(call missing,hwloc numa),@scripts/libraries.sh absent $(call missing,hwloc numa) >&2; \
		echo 'make: scripts/setup.sh build installs what is needed' >&2; exit 1)
	@mkdir -p $(@D)
	@echo '$(SAYS)' | cmp -s - $@ || echo '$(SAYS)' >$@

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c -o $@ $<

$(B)/src/backends/cpu/kernels_%.o: src/backends/cpu/kernels_isa.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$< ($*))
	$(Q)$(COMPILE) $(ISA_$*) -DBB_ISA=$* -c -o $@ $<

# What --version prints. An archive of git has its commit in scripts/commit.txt.
COMMIT := $(or $(shell grep -v Format scripts/commit.txt),$(shell git rev-parse --short HEAD 2>/dev/null),unknown)
LINKED := $(filter hwloc numa expat jansson cyaml yaml zlib,$(subst :, ,$(FOUND)))
LOADED  = $(strip $(if $(HAVE_MPI),mpi) $(if $(HAVE_GLOO),gloo) $(if $(HAVE_CUDA),nccl))
FACTS   = flags: $(strip $(subst ",,$(filter-out -f%-map=%,$(CFLAGS)) $(SAN_FLAGS)))\ntarget: $(shell $(CC) -dumpmachine)\n$(strip \
          )vector kernels: $(ISAS)\nlibraries: $(LINKED)\nbackends: $(BACKENDS), loadable: $(or $(LOADED),none)\ncommit: $(COMMIT)\n
$(B)/src/core/version.o: $(B)/facts
$(B)/src/core/version.o: private BB_FLAGS += -DBB_BUILT='"$(FACTS)"'

# Compiled into the program.
$(B)/src/simulator/cluster_figures.o: src/simulator/clusters.txt
$(B)/src/simulator/nccl_constants.o: src/simulator/nccl.txt
$(B)/src/simulator/openmpi.o: src/simulator/openmpi.txt

$(B)/src/backends/cpu/kernels.o: private BB_FLAGS += $(ISAS:%=-DBB_HAVE_ISA_%)

$(LIB): $(OBJECTS)
$(UPPER_LIB): $(UPPER:%.c=$(B)/%.o)
$(UNIT_LIB): $(patsubst %.c,$(B)/%.o,$(filter-out $(UNIT_SOURCES),$(wildcard tests/unit/*.c)))
$(LIB) $(UPPER_LIB) $(UNIT_LIB): $(B)/objects
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(foreach f,$(PERFS:.c=),$(eval $(B)/$(notdir $(f)): $(B)/$(f).o))
$(FRONT): $(B)/src/front/main.o
$(B)/diagnose: $(B)/src/diagnose/main.o
$(B)/topology: $(B)/src/topology_tool/main.o
$(B)/model_memory: $(B)/src/memory/tool/main.o
$(B)/acceptance: $(B)/src/acceptance/tool/main.o
$(REFERENCE): $(B)/docs/reference.o
$(PLAYER): $(PLAYER_OBJECTS)
$(B)/tests/host_speed: $(B)/tests/perf/host_speed.o
$(B)/tests/predict: $(B)/tests/perf/predict.o
$(UNITS): $(B)/tests/%: $(B)/tests/unit/%.o
$(UNITS) $(FAKE_UNITS) $(DEVICE_UNITS): $(UNIT_LIB)
$(UNITS) $(FAKE_UNITS) $(DEVICE_UNITS): LDLIBS := $(call link,cmocka) $(LDLIBS)

# This test replaces the allocator.
$(B)/tests/test_malloc: private LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free

# Backends loaded at run time use functions of the program, so it exports the whole archive.
LINK_LIB = $(LIB)
$(BINS) $(PLAYER) $(ACCEPTANCE) $(DEVICE_UNITS) $(B)/tests/predict: LINK_LIB = -rdynamic -Wl,--whole-archive $(LIB) -Wl,--no-whole-archive
$(FRONT) $(BINS) $(TOPOLOGY) $(MODEL_MEMORY) $(ACCEPTANCE) $(UNITS) $(PLAYER) $(FAKE_UNITS) $(DEVICE_UNITS) $(REFERENCE) $(B)/tests/host_speed $(B)/tests/predict: \
		$(UPPER_LIB) $(LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(filter $(UNIT_LIB) $(UPPER_LIB),$^) $(LINK_LIB) $(LDLIBS)

# The readers of XML again, for collectives on clusters that files describe.
$(READER:%.c=$(B)/%.o): private BB_FLAGS += -fPIC
$(B)/backends/topology.so: $(READER:%.c=$(B)/%.o)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -shared -Wl,-Bsymbolic-functions -o $@ $^ $(call link,expat)

# Compiled into it: the table of published measurements.
$(B)/src/acceptance/reference.o: reports/reference/reference_busbw.csv

# The wrapper of MPI calls the compiler of everything else.
$(MPI_OBJECTS) $(B)/backends/mpi.so: $(B)/mpicc
$(MPI_OBJECTS): private COMPILE = OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPICC) $(CPPFLAGS) $(CFLAGS) $(BB_FLAGS) $(SAN_FLAGS) -fPIC

$(B)/backends/mpi.so: $(MPI_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPICC) $(CFLAGS) $(LDFLAGS) $(SAN_FLAGS) -shared -Wl,-Bsymbolic-functions -pthread -o $@ $(MPI_OBJECTS)

# The gloo backend: C by the compiler of everything else, the wrapper of Gloo by that of C++. What C++ brings
# along stays hidden.
COMPILE_GLOO = $(CXX) $(CPPFLAGS) $(CFLAGS) -std=c++17 -Isrc $(GLOO_FLAGS) -Wall -Wextra $(WERROR) -fPIC \
               -pthread -MMD -MP $(SAN_FLAGS)
$(GLOO_OBJECTS) $(B)/backends/gloo.so: $(B)/gloo
$(GLOO_OBJECTS): private BB_FLAGS += -fPIC

$(B)/src/backends/gloo/wrapper.o: src/backends/gloo/wrapper.cc $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(COMPILE_GLOO) -c -o $@ $<

$(B)/backends/gloo.so: $(GLOO_OBJECTS) src/backends/gloo/exports.map
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(CFLAGS) $(LDFLAGS) $(SAN_FLAGS) -shared -Wl,--version-script=src/backends/gloo/exports.map -pthread -o $@ $(GLOO_OBJECTS) $(GLOO_LIBS)

# The nccl backend: C by the compiler of everything else, kernels by CUDA's. With a RUNPATH, LD_LIBRARY_PATH comes before
# the folders of the build.
$(NCCL_OBJECTS): private BB_FLAGS += -fPIC $(CUDA_INCLUDE)
$(FAKE_OBJECTS): private BB_FLAGS += $(FAKE_PIC) $(CUDA_INCLUDE)
$(NCCL_OBJECTS) $(FAKE_OBJECTS) $(GPU_TEST_OBJECTS): $(B)/headers
$(FAKE_UNITS:$(B)/tests/%=$(B)/tests/gpu/%.o) $(GPU_KERNELS_OBJECTS) $(B)/tests/perf/gpu_speed.o: $(B)/headers

$(CUDA_OBJECTS): $(GPU_B)/%.o: %.cu $(B)/flags $(GPU_B)/devices
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O3 -Isrc $(CUDA_INCLUDE) $(NVCC_GENCODE) $(NVCC_SMALL) --threads 2 -Werror all-warnings -Wno-deprecated-gpu-targets \
		-Xcompiler -fPIC,-Wall -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(GPU_B)/backends/nccl.so: $(NCCL_OBJECTS) $(CUDA_OBJECTS) $(GPU_B)/devices
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -pthread -Wl,--enable-new-dtags -o $@ $(filter %.o,$^) $(CUDA_LIBS)

# For tests alone: no CUDA, no NCCL, the kernels compiled for the CPU, in a folder that only tests name. Its
# thread-local data lies with the stacks: otherwise the C library would allocate it and let one thread free that of
# another, which ThreadSanitizer reports as a race.
FAKE_PIC     := -fPIC -ftls-model=initial-exec
COMPILE_FAKE  = $(CXX) $(CPPFLAGS) $(CFLAGS) -x c++ -std=c++17 -Isrc -Itests/fake $(CUDA_INCLUDE) $(FAKE_PIC) -Wall \
                -Wextra -Werror -Wno-unused-parameter -Wno-unused-function -Wno-unknown-pragmas -fno-exceptions \
                -fno-rtti -ffp-contract=off -fno-strict-aliasing -pthread -MMD -MP $(SAN_FLAGS)

$(FAKE_OBJECTS) $(FAKE_UNITS:$(B)/tests/%=$(B)/tests/gpu/%.o) $(GPU_TEST_OBJECTS): private BB_FLAGS += -Itests/fake -Itests/unit $(CUDA_INCLUDE)

$(B)/tests/fake/%.o: tests/fake/%.cc $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(COMPILE_FAKE) -c -o $@ $<

$(B)/tests/fake/%.o: src/backends/nccl/%.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(COMPILE_FAKE) -include cuda_on_cpu.h -c -o $@ $<

$(B)/tests/fake/nccl.so: $(FAKED_NCCL) $(FAKE_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(SAN_FLAGS) -shared -Wl,-Bsymbolic -pthread -o $@ $^

$(FAKE_UNITS): $(B)/tests/%: $(B)/tests/gpu/%.o $(GPU_TEST_OBJECTS) $(FAKED_NCCL) $(FAKE_OBJECTS)

$(B)/tests/gpu/gpus_device.o: private BB_FLAGS += -Itests/unit
$(DEVICE_UNITS): $(GPU_B)/tests/device/%: $(B)/tests/gpu/%.o $(subst gpus_fake,gpus_device,$(GPU_TEST_OBJECTS)) $(GPU_B)/backends/nccl.so
$(DEVICE_UNITS): private LDFLAGS += -L$(GPU_B)/backends -Wl,-rpath,\$$ORIGIN/../../backends
$(DEVICE_UNITS): LINK_LIB += -l:nccl.so

# The speed of the kernels, on a device and with stand-ins.
$(B)/tests/perf/gpu_speed.o: private BB_FLAGS += $(CUDA_INCLUDE)

$(GPU_B)/tests/gpu_speed: $(B)/tests/perf/gpu_speed.o $(CUDA_OBJECTS) $(LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(CUDA_LIBS) -lm

$(B)/tests/fake/gpu_speed: $(B)/tests/perf/gpu_speed.o $(FAKE_OBJECTS) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ -lm

# The results of the kernels, on a device and on the CPU.
$(GPU_KERNELS_OBJECTS): private BB_FLAGS += $(CUDA_INCLUDE)

$(GPU_B)/tests/gpu_kernels: $(filter-out %/far_cpu.o,$(GPU_KERNELS_OBJECTS)) $(CUDA_OBJECTS) $(LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(CUDA_LIBS) -lm

$(B)/tests/fake/gpu_kernels: $(filter-out %/far_device.o,$(GPU_KERNELS_OBJECTS)) $(FAKE_OBJECTS) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ -lm

# A stand-in for the driver's library, with GPUs that do not exist; tests name its folder in LD_LIBRARY_PATH.
$(B)/tests/nvml/libnvidia-ml.so.1: tests/topology/nvml.c src/topology/probes/nvml_api.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(COMPILE) $(LDFLAGS) -fPIC -shared -o $@ $<

# A stand-in for cuBLAS.
$(FAKE_CUBLAS): tests/cublas/cublas.c src/backends/nccl/cublas_api.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(COMPILE) $(CUDA_INCLUDE) $(LDFLAGS) -fPIC -shared -o $@ $<

$(B)/tests/mpi_speed $(B)/tests/mpi_bare: $(B)/tests/%: tests/perf/%.c tests/perf/speed.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,MPICC,$<)
	$(Q)$(MPICC) $(CFLAGS) -std=gnu11 -D_GNU_SOURCE -o $@ $<

$(B)/tests/gloo_bare: tests/perf/gloo_bare.cc $(B)/gloo $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(COMPILE_GLOO) -o $@ $< $(GLOO_LIBS)

$(B)/tests/stream: tests/perf/stream.c tests/perf/speed.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -O3 -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wno-unused-parameter -Werror -pthread -o $@ $<

$(B)/tests/wire $(B)/tests/bare_pairs: $(B)/tests/%: tests/perf/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -o $@ $<

# ---- tests and measurements ----------------------------------------------------------------

SANITIZED := address,undefined thread

# All GPUs of the driver if the nccl backend was built; else the CPU, which must be named where there are GPUs.
BENCH_GPUS   = $(filter-out 0,$(if $(HAVE_CUDA),$(shell nvidia-smi -L 2>/dev/null | grep -c '^GPU ')))
BENCH_RANKS  = $(if $(BENCH_GPUS),-g $(BENCH_GPUS),-g 8 --backend host)
# Large sizes take a second per iteration: -n 8 suffices for an interval. Small ones continue until it is narrow.
bench:
	PYTHON='$(PYTHON)' scripts/setup.sh bench
	+$(BUILD) all
	@lscpu | grep -E '^(Architecture|CPU\(s\)|Model name|Thread|Core|Socket|L[123]|NUMA)' || true
	@grep -E '^Mem(Total|Available)' /proc/meminfo
	@mkdir -p $(B)/bench
	@echo '# $(if $(BENCH_GPUS),$(BENCH_GPUS) GPUs,8 ranks on the CPU; GPUs need CUDA and NCCL, make CUDA=1 says more)'
	status=0; $(B)/all_reduce_perf -b 1M -e $(BENCH_MAX) $(BENCH_RANKS) --algo ring,tree,auto -n 8 --precision 5% --max-time 1 -T 600 \
		--json $(B)/bench/records.jsonl || \
		status=$$?; \
	$(PYTHON) scripts/report.py $(B)/bench/records.jsonl -o $(REPORT)/; \
	case $$? in 0 | 3 | 127) exit $$status ;; *) exit 1 ;; esac # 3, 127: no Python that can draw, hence no report

# They build in a make of their own, which must not run beside the goal all of this one.
bench check-build mutants validate: | $(filter all,$(MAKECMDGOALS))

check-build:
	scripts/setup.sh check
	+$(BUILD) all units $(REFERENCE)

check-full-build: check-build
	+$(foreach s,$(SANITIZED),$(BUILD) B=$(B)/$(subst $(comma),-,$(s)) SAN=$(s) all units &&) :

check check-full: %: %-build
	$(PYTHON) tests/run.py $(if $(filter %-full,$@),--full) $(TESTS) $(B)

mutants:
	scripts/setup.sh check
	+$(BUILD) all units
	$(PYTHON) tests/mutants/run.py $(B)

validate:
	+$(BUILD) all $(B)/tests/predict
	$(PYTHON) studies/validate/left_out.py $(B)
	$(PYTHON) studies/validate/calibrated.py $(B)
	$(PYTHON) studies/validate/runs.py $(B) >$(B)/training_runs.md
	@cmp -s $(B)/training_runs.md docs/training_runs.md || cp $(B)/training_runs.md docs/training_runs.md
	$(PYTHON) studies/validate/page.py $(B) >$(B)/validation.md
	@cmp -s $(B)/validation.md docs/validation.md || cp $(B)/validation.md docs/validation.md
	@sed -n 1,15p docs/validation.md

perf:
	scripts/setup.sh check
	scripts/setup.sh perf
	+$(BUILD) all $(B)/tests/host_speed $(B)/tests/mpi_speed $(B)/tests/mpi_bare $(B)/tests/stream \
		$(B)/tests/bare_pairs $(if $(HAVE_GLOO),$(B)/tests/gloo_bare)
	$(PYTHON) studies/perf $(B)

tune truth:
	scripts/setup.sh check
	+$(BUILD) all $(B)/tests/host_speed $(if $(filter truth,$@),$(B)/tests/wire)
	$(PYTHON) studies/$(if $(filter tune,$@),tune.py,truth) $(B)

# libFuzzer against messages of other processes and against the readers of topology files, models, DeepSpeed's settings,
# profiles and logs. Inputs that break one are kept in B/fuzz, and make fails.
FUZZ_SECONDS ?= 60
FUZZERS      := wire topology model ds_config $(if $(HAVE_CYAML),profile claims)
fuzz:
	scripts/setup.sh check
	+$(BUILD) CC=clang B=$(B)/fuzz SAN=address,undefined,fuzzer-no-link $(FUZZERS:%=$(B)/fuzz/%_fuzz) $(B)/fuzz/all_reduce_perf
	mkdir -p $(FUZZERS:%=$(B)/fuzz/%)
	cd $(B)/fuzz && $(foreach f,$(FUZZERS),./$(f)_fuzz -max_total_time=$(FUZZ_SECONDS) -timeout=20 -max_len=8192 \
		-print_final_stats=1 $(f) $(CURDIR)/tests/fuzz/seeds/$(f) &&) :
	$(PYTHON) tests/fuzz/proxy.py --seconds $(FUZZ_SECONDS) $(B)/fuzz

$(B)/wire_fuzz $(B)/tests/test_wire: private LDFLAGS += -Wl,--wrap=connect
$(FUZZERS:%=$(B)/%_fuzz): $(B)/%_fuzz: $(B)/tests/fuzz/%.o $(UPPER_LIB) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(LINK) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

# ---- the rest ------------------------------------------------------------------------------

docs: $(REFERENCE) $(patsubst src/collectives/%.c,$(B)/%,$(wildcard src/collectives/*_perf.c))
	$(Q)for page in options records algorithms; do \
		$(REFERENCE) $$page >$(B)/docs/$$page.md && \
		cp $(B)/docs/$$page.md docs/ || exit 1; \
	done
	$(Q)scripts/libraries.sh table >docs/libraries.md
	$(Q)$(PYTHON) scripts/gpu_table.py
	$(Q)$(PYTHON) scripts/rounds.py $(B) docs/algorithms

help:
	@sed -n 's/^# \{0,1\}//; /^ *[A-Z]* *?=/q; p' Makefile

# FOLDER:FILES below share. The report finds its template as in the source tree.
INSTALLED := busbench/profiles:ci/profiles/*.yaml busbench/clusters:reports/reference/clusters/*.txt busbench/clusters:reports/reference/clusters/*.xml \
             busbench/scripts/report:scripts/report/*.py busbench/scripts/report/page:scripts/report/page/*.py \
             busbench/reports/template:reports/template/* busbench/reports/reference:reports/reference/*.csv \
             doc/busbench:README.md doc/busbench:CHANGELOG.md doc/busbench:SECURITY.md \
             doc/busbench/docs:docs/*.md doc/busbench/docs:docs/*.svg doc/busbench/docs/algorithms:docs/algorithms/*.svg doc/busbench/docs:docs/*.png doc/busbench/docs:docs/*.txt doc/busbench/examples:ci/examples/*
folder     = $(firstword $(subst :, ,$(1)))
files      = $(wildcard $(lastword $(subst :, ,$(1))))

# Man pages and completions are printed by the programs just built; Python writes them.
HAVE_PYTHON := $(shell command -v $(firstword $(PYTHON)))
PAGES       := $(B)/pages
SHARE        = $(DESTDIR)$(PREFIX)/share
ZSH_FOLDER  ?= zsh/site-functions
COMPLETIONS  = bash-completion/completions $(ZSH_FOLDER) fish/vendor_completions.d
TOOLS        = $(notdir $(BINS) $(TOPOLOGY) $(MODEL_MEMORY) $(ACCEPTANCE))

INSTALL_PROGRAM = install -m 755

install-strip: INSTALL_PROGRAM += -s
install-strip: install
install: all $(if $(HAVE_PYTHON),install-pages)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/busbench
	$(INSTALL_PROGRAM) $(FRONT) $(BINS) $(TOPOLOGY) $(MODEL_MEMORY) $(ACCEPTANCE) $(DESTDIR)$(PREFIX)/bin
	$(if $(PLUGINS),$(INSTALL_PROGRAM) $(PLUGINS) $(DESTDIR)$(PREFIX)/lib/busbench)
	@$(foreach i,$(INSTALLED),install -d $(SHARE)/$(call folder,$(i)) && \
		install -m 644 $(call files,$(i)) $(SHARE)/$(call folder,$(i)) &&) :
	install -m 755 scripts/report.py $(SHARE)/busbench/scripts
	$(if $(HAVE_PYTHON),,@scripts/libraries.sh absent python3)

install-pages: all
	rm -rf $(PAGES)
	$(PYTHON) scripts/man.py $(B) $(PAGES)/man $(PREFIX)
	$(PYTHON) scripts/completions.py $(B) $(PAGES)
	install -d $(COMPLETIONS:%=$(SHARE)/%) $(SHARE)/man/man1
	install -m 644 $(PAGES)/man/*.1 $(SHARE)/man/man1
	install -m 644 $(PAGES)/bash/busbench $(SHARE)/bash-completion/completions
	for tool in $(TOOLS); do ln -sf busbench $(SHARE)/bash-completion/completions/$$tool; done
	install -m 644 $(PAGES)/zsh/_busbench $(SHARE)/$(ZSH_FOLDER)
	install -m 644 $(PAGES)/fish/*.fish $(SHARE)/fish/vendor_completions.d

# Of the commit, not of the working tree.
VERSION := $(shell sed -n 's/^.define BB_VERSION "\(.*\)"/\1/p' src/core/version.h)
TARBALL  = $(B)/dist/busbench-$(VERSION).tar.gz
dist:
	@git rev-parse --git-dir >/dev/null || { echo 'make: dist packs a commit of a git clone, and this is none' >&2; exit 1; }
	@mkdir -p $(B)/dist
	git archive --prefix=busbench-$(VERSION)/ HEAD | gzip -n -9 >$(TARBALL)
	@echo $(TARBALL)

# Built from the tarball, as anyone would build it.
deb: dist
	scripts/setup.sh deb
	rm -rf $(B)/dist/busbench-$(VERSION)
	tar -xzf $(TARBALL) -C $(B)/dist
	cd $(B)/dist/busbench-$(VERSION) && DEB_BUILD_OPTIONS="noautodbgsym $$DEB_BUILD_OPTIONS" dpkg-buildpackage -b -us -uc
	cd $(B)/dist && lintian --fail-on error --allow-root $(notdir busbench_$(VERSION)_*.changes)
	@ls $(B)/dist/*.deb

clean:
	rm -rf $(B)

.PHONY: all units gpu-tests bench check check-build check-full check-full-build mutants fuzz validate perf tune truth docs help install install-strip install-pages dist deb clean no-mpi no-gloo no-nccl FORCE
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
-include $(shell find $(sort $(B)/src $(B)/tests $(B)/docs $(GPU_B)/src) -name '*.d' 2>/dev/null)
