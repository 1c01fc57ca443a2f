# busbench - `make bench` and `make check` do all the set-up first, `make` alone builds.
#
#   all (default)     the binaries: B/*_perf
#   bench             the main job: all-reduce from 1M to 1G on 8 ranks, ring, tree and the default, and a report
#   check             the tests; check-full: all of them, also under sanitizers; check-build: only what check runs
#   mutants           plants small defects, one after the other: the tests must notice each of them
#   validate          docs/validation.md: the sim backend against published measurements
#   perf tune truth   measurements that print tables: speed, the tuning table, known truths
#   fuzz              what other processes send, and the readers of files; each target for FUZZ_SECONDS (60)
#   docs              docs/options.md, records.md and algorithms.md from the code, libraries.md from its list,
#                     gpu.md's table from the records of GPU checks
#   install clean help
#
#   B=DIR                            where to build; nothing is written anywhere else
#   SAN=address,undefined | thread   instrument with sanitizers
#   CC=gcc | clang   CFLAGS= LDFLAGS= CPPFLAGS=   V=1: show the commands
#   MPI=auto | 0 | 1                 the mpi backend: if MPICC is there, never, always
#   CUDA=auto | 0 | 1                the nccl backend: if nvcc and nccl.h are there, never, always
#   CUDA_HOME=DIR NCCL_HOME=DIR NVCC_GENCODE=   where they are; the devices that it is built for
#   REPORT=DIR BENCH_MAX=1G          where `make bench` puts its report; the largest size that it measures
#   PREFIX=DIR DESTDIR=DIR           where `make install` puts things

SAN    ?=
comma  := ,
B      ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
PREFIX ?= /usr/local
REPORT ?= $(B)/bench/report
BENCH_MAX ?= 1G
V      ?= 0
MPI    ?= auto
MPICC  ?= mpicc
CUDA   ?= auto
CUDA_HOME    ?= /usr/local/cuda
NCCL_HOME    ?=
NVCC         ?= $(CUDA_HOME)/bin/nvcc
NVCC_GENCODE ?= -gencode arch=compute_80,code=sm_80 \
                -gencode arch=compute_90,code=[sm_90,compute_90]
PYTHON ?= python3 -B

$(foreach v,MPI CUDA,$(if $(filter auto 0 1,$($v)),,$(error $v=$($v): expected auto, 0 or 1)))
# A folder that somebody names must be there, else another one's headers would be taken for its. Under
# `auto` the environment may name what this machine has not.
$(foreach v,$(if $(filter 0,$(CUDA)),,CUDA_HOME NCCL_HOME),$(if $(and $($v),\
  $(filter command $(if $(filter 1,$(CUDA)),environment),$(firstword $(origin $v)))),\
  $(if $(wildcard $($v)/include),,$(error $v=$($v): there is no folder $($v)/include))))

# `make -s` says nothing, V=1 says all.
silent := $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
Q      := $(if $(filter 1,$(V)),,@)
say     = @$(if $(silent)$(filter 1,$(V)),:,printf '  %-5s %s\n' $(1) '$(2)')
# For the targets that build and then run something: all cores, unless -j was given.
BUILD  := $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- flags -------------------------------------------------------------------------------

CFLAGS   ?= $(if $(SAN),-O1 -g1,-O2 -g)
BB_FLAGS := -std=gnu11 -Isrc -D_GNU_SOURCE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
            -Wmissing-prototypes -Wpointer-arith -Wvla -Wwrite-strings -Wno-unused-parameter \
            -ffp-contract=off -fno-strict-aliasing -pthread -MMD -MP
ifneq ($(SAN),)
SAN_FLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined
endif

# ---- libraries: scripts/libraries.txt lists them ----------------------------------------------

CUDA_INCLUDE := $(addprefix -isystem ,$(wildcard $(if $(NCCL_HOME),$(NCCL_HOME)/include) $(CUDA_HOME)/include))
# hwloc:-lhwloc and so on, of those that this compiler finds.
FOUND        := $(shell CC='$(CC)' CPPFLAGS='$(CPPFLAGS)' MPICC='$(MPICC)' CUDA_INCLUDE='$(CUDA_INCLUDE)' \
                scripts/libraries.sh found hwloc numa expat jansson cyaml yaml cmocka mpi nccl)
missing       = $(strip $(foreach l,$(1),$(if $(filter $(l):%,$(FOUND)),,$(l))))
have          = $(if $(call missing,$(1)),,1)
link          = $(strip $(foreach l,$(1),$(patsubst $(l):%,%,$(filter $(l):%,$(FOUND)))))
LDLIBS       := $(call link,hwloc numa) -lm -ldl

# The vector kernels: one source, several instruction sets, chosen when a backend opens. They take longest
# to build: two are enough for sanitizers, and one where only threads are watched.
ISAS        := plain $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),$(if $(filter thread,$(SAN)),,avx2) $(if $(SAN),,avx512))
ISA_O       := $(if $(SAN),-O1,-O3)
ISA_plain   := $(ISA_O)
ISA_avx2    := $(ISA_O) -mavx2 -mfma -mf16c
ISA_avx512  := $(ISA_O) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c \
               -mprefer-vector-width=512

COMPILE = $(CC) $(CPPFLAGS) $(CFLAGS) $(BB_FLAGS) $(SAN_FLAGS)
# Programs find libraries that lie beside the installed backends: ci/gpu_bundle.sh puts there what a bare machine
# lacks. An RPATH, unlike a RUNPATH, also serves what those libraries and the backends need.
BESIDE  = -Wl,--disable-new-dtags,-rpath,\$$ORIGIN/../lib/busbench
LINK    = $(CC) $(CFLAGS) $(LDFLAGS) $(SAN_FLAGS) $(BESIDE) -pthread

# ---- what there is -------------------------------------------------------------------------

BACKENDS := host sim null
SOURCES  := $(filter-out %/kernels_isa.c src/launch/mpi.c src/simulator/cluster_file.c src/core/json_file.c,$(wildcard $(foreach d,\
            core schedules programs topology topology/probes launch simulator backends backends/cpu \
            $(BACKENDS:%=backends/%) harness/run harness/measure harness/results,src/$(d)/*.c)))
OBJECTS  := $(SOURCES:%.c=$(B)/%.o) $(ISAS:%=$(B)/src/backends/cpu/kernels_%.o)
LIB      := $(B)/libbusbench.a
USES_LIB := $(LIB)

COLLECTIVES := $(patsubst src/collectives/%.c,%,$(wildcard src/collectives/*_perf.c))
PAIRS       := $(patsubst src/p2p/%.c,%,$(wildcard src/p2p/*_perf.c))
P2P_OBJECTS := $(patsubst %.c,$(B)/%.o,$(filter-out %_perf.c,$(wildcard src/p2p/*.c)))

# Training kernels read models, those in a config.json with jansson: left out without it.
HAVE_JANSSON     := $(call have,jansson)
TRAINING_MAINS   := $(wildcard src/training_kernels/*/*_perf.c)
TRAINING         := $(if $(HAVE_JANSSON),$(notdir $(TRAINING_MAINS:.c=)))
TRAINING_OBJECTS := $(patsubst %.c,$(B)/%.o,$(filter-out %_perf.c,$(wildcard src/training_kernels/*.c src/training_kernels/*/*.c \
                    src/models/*.c)) src/core/json_file.c)
TRAINING_UNITS   := $(addprefix $(B)/tests/,test_models test_buckets test_step_model test_pipeline test_pipeline_search test_pipeline_program test_ddp test_hybrid test_hybrid_program test_moe test_strategies test_train test_tensor)
# Who is to blame when something is slow.
DIAGNOSE         := $(B)/diagnose
DIAGNOSE_OBJECTS := $(patsubst %.c,$(B)/%.o,$(filter-out %/main.c,$(wildcard src/diagnose/*.c)))
DIAGNOSE_UNITS   := $(B)/tests/test_diagnose $(B)/tests/test_diagnose_score
ZERO             := $(if $(HAVE_JANSSON),$(B)/zero_perf)
BINS             := $(COLLECTIVES:%=$(B)/%) $(PAIRS:%=$(B)/%) $(TRAINING:%=$(B)/%) $(ZERO) $(DIAGNOSE)

# The memory that training and inference take, calculated; of models too.
MODEL_OBJECTS    := $(filter $(B)/src/models/% $(B)/src/core/%,$(TRAINING_OBJECTS))
MEMORY_OBJECTS   := $(patsubst %.c,$(B)/%.o,$(wildcard src/models/memory/*.c))
MEMORY_TOOL      := $(patsubst %.c,$(B)/%.o,$(wildcard src/memory/tool/*.c))
ZERO_OBJECTS     := $(patsubst %.c,$(B)/%.o,$(filter-out %_perf.c,$(wildcard src/memory/zero/*.c))) $(B)/src/models/memory/states.o
ZERO_UNITS       := $(B)/tests/test_zero
MODEL_MEMORY     := $(if $(HAVE_JANSSON),$(B)/model_memory)
MEMORY_UNITS     := $(addprefix $(B)/tests/,test_states test_memory test_training_memory)

# Acceptance tests: profiles are YAML, which only this binary reads; left out without libcyaml.
HAVE_CYAML         := $(call have,jansson cyaml yaml)
ACCEPTANCE_OBJECTS := $(patsubst %.c,$(B)/%.o,$(wildcard src/acceptance/*.c) src/core/json_file.c)
ACCEPTANCE_TOOL    := $(patsubst %.c,$(B)/%.o,$(wildcard src/acceptance/tool/*.c))
ACCEPTANCE         := $(if $(HAVE_CYAML),$(B)/acceptance)
ACCEPTANCE_UNITS   := $(addprefix $(B)/tests/,test_acceptance test_claims test_normal)
ACCEPTANCE_LIBS    := $(call link,cyaml yaml jansson)

# Under ThreadSanitizer only the tests that start threads.
UNITS       := $(filter-out $(if $(HAVE_JANSSON),,$(TRAINING_UNITS) $(MEMORY_UNITS) $(ZERO_UNITS)) $(if $(HAVE_CYAML),,$(ACCEPTANCE_UNITS)),$(patsubst tests/unit/%.c,$(B)/tests/%,$(if $(filter thread,$(SAN)),\
               $(shell grep -lE "pthread_create|(ranks|processes)\.h" tests/unit/test_*.c),$(wildcard tests/unit/test_*.c))))
REFERENCE   := $(B)/docs/reference

# The binary that reads XML files: the only one that needs expat, and left out without it.
HAVE_EXPAT       := $(call have,expat)
TOPOLOGY_SOURCES := $(wildcard src/topology/files/*.c src/topology_tool/*.c) src/simulator/cluster_file.c
TOPOLOGY_OBJECTS := $(TOPOLOGY_SOURCES:%.c=$(B)/%.o)
TOPOLOGY         := $(if $(HAVE_EXPAT),$(B)/topology)

# The same part of it, for collectives over clusters that files describe: loaded at run time.
READER_OBJECTS   := $(filter-out $(B)/src/topology_tool/%,$(TOPOLOGY_OBJECTS))

# Backends loaded at run time; what they need is needed by nothing else.
HAVE_MPI    := $(if $(filter auto,$(MPI)),$(call have,mpi),$(filter 1,$(MPI)))
MPI_SOURCES := $(wildcard src/backends/mpi/*.c) src/launch/mpi.c
MPI_OBJECTS := $(MPI_SOURCES:%.c=$(B)/%.o)
PLUGINS     := $(if $(HAVE_MPI),$(B)/backends/mpi.so) $(if $(HAVE_EXPAT),$(B)/backends/topology.so)

# The nccl backend, and for its tests the same with stand-ins for the libraries, whose headers suffice.
CUDA_LIBS    := $(foreach d,$(wildcard $(if $(NCCL_HOME),$(NCCL_HOME)/lib) $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib),-L$(d) -Wl,-rpath,$(d)) \
                -lcudart_static -lstdc++ -lrt -ldl -lpthread
HAVE_NCCL_H  := $(if $(filter auto,$(CUDA)),$(call have,nccl),$(filter 1,$(CUDA)))
HAVE_NVCC    := $(if $(filter auto,$(CUDA)),$(shell command -v $(NVCC) >/dev/null 2>&1 && echo 1),$(filter 1,$(CUDA)))
NCCL_OBJECTS := $(patsubst %.c,$(B)/%.o,$(wildcard src/backends/nccl/*.c))
# With a stand-in for NCCL, which nobody looks for.
FAKED_NCCL   := $(filter-out %/library.o,$(NCCL_OBJECTS))
CUDA_OBJECTS := $(patsubst %.cu,$(B)/%.o,$(wildcard src/backends/nccl/*.cu))
FAKE_OBJECTS := $(patsubst tests/%.c,$(B)/tests/%.o,$(wildcard tests/fake/*.c)) \
                $(patsubst tests/%.cc,$(B)/tests/%.o,$(wildcard tests/fake/*.cc)) \
                $(patsubst src/backends/nccl/%.cu,$(B)/tests/fake/%.o,$(wildcard src/backends/nccl/*.cu))
FAKE_CXX     := $(if $(findstring clang,$(CC)),$(subst clang,clang++,$(CC)),$(if $(findstring gcc,$(CC)),$(subst gcc,g++,$(CC)),g++))
HAVE_FAKE    := $(if $(HAVE_NCCL_H),$(shell command -v $(firstword $(FAKE_CXX)) >/dev/null 2>&1 && echo 1))
FAKE_UNITS   := $(if $(HAVE_FAKE),$(patsubst tests/gpu/%.c,$(B)/tests/%,$(wildcard tests/gpu/test_*.c)))
GPU_TEST_OBJECTS := $(patsubst %.c,$(B)/%.o,$(filter-out tests/gpu/test_% %_device.c,$(wildcard tests/gpu/*.c)))
HAVE_CUDA    := $(and $(HAVE_NCCL_H),$(HAVE_NVCC),$(if $(SAN),,1))
PLUGINS      += $(if $(HAVE_CUDA),$(B)/backends/nccl.so)
# The stand-in is called as the library of this CUDA is.
CUDART_CODE  := $(if $(HAVE_FAKE),$(shell printf '\043include <cuda_runtime_api.h>\nCUDART_VERSION\n' | \
                $(CC) $(CUDA_INCLUDE) -E -P - | tail -n 1))
FAKE_CUBLAS  := $(if $(HAVE_FAKE),$(B)/tests/cublas/libcublas.so.$(shell expr $(CUDART_CODE) / 1000))
PLAYER       := $(B)/tests/player
PLAYER_OBJECTS := $(patsubst %.c,$(B)/%.o,$(wildcard tests/play/*.c))
GPU_KERNELS_OBJECTS := $(patsubst %.c,$(B)/%.o,$(wildcard tests/gpu/kernels/*.c))
GPU_KERNELS  := $(if $(HAVE_CUDA),$(B)/tests/gpu_kernels) $(if $(HAVE_FAKE),$(B)/tests/fake/gpu_kernels)
# Those of them that hold on real GPUs, too, over the backend as it is installed.
DEVICE_UNITS := $(if $(and $(HAVE_CUDA),$(call have,cmocka)),$(addprefix $(B)/tests/device/,test_nccl test_nccl_features test_nccl_memory test_nccl_work))
GPU_SPEED    := $(if $(HAVE_CUDA),$(B)/tests/gpu_speed) $(if $(HAVE_FAKE),$(B)/tests/fake/gpu_speed)

# What is built without these is less, and nothing without hwloc and libnuma.
ABSENT := $(call missing,expat jansson cyaml yaml)
all: $(BINS) $(PLUGINS) $(TOPOLOGY) $(MODEL_MEMORY) $(ACCEPTANCE) $(if $(HAVE_MPI),,no-mpi) $(if $(HAVE_CUDA),,no-nccl)
	$(if $(ABSENT),@scripts/libraries.sh absent $(ABSENT))
# What an earlier build left would still be loaded.
no-mpi no-nccl: no-%:
	@rm -f $(B)/backends/$*.so
units: $(UNITS) $(PLAYER) $(FAKE_UNITS) $(if $(HAVE_FAKE),$(B)/tests/fake/nccl.so) $(FAKE_CUBLAS) $(GPU_KERNELS) $(GPU_SPEED) $(B)/tests/nvml/libnvidia-ml.so.1

# Tests that need a device, for ci/gpu_bundle.sh.
gpu-tests: $(filter-out $(B)/tests/fake/%,$(GPU_SPEED) $(GPU_KERNELS)) $(DEVICE_UNITS)

# ---- how it is built -----------------------------------------------------------------------

# Rewritten only when what they say changes: other flags or another compiler rebuild everything, a
# source that comes or goes the library, another MPI the mpi backend, another CUDA or NCCL what needs
# their headers.
$(B)/flags: SAYS = $(shell $(CC) --version | head -n 1) $(COMPILE) $(LINK) $(foreach i,$(ISAS),$(ISA_$(i)))
$(B)/objects: SAYS = $(SOURCES) $(ISAS)
$(B)/mpicc: SAYS = $(MPICC) $(shell command -v $(MPICC)) $(shell $(MPICC) -show 2>/dev/null)
$(B)/cuda: SAYS = $(NVCC) $(NVCC_GENCODE) $(CUDA_INCLUDE) $(CUDA_LIBS)
$(B)/flags $(B)/objects $(B)/mpicc $(B)/cuda: FORCE
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

# The figures of clusters are part of the program.
$(B)/src/simulator/cluster_figures.o: src/simulator/clusters.txt
$(B)/src/simulator/nccl_constants.o: src/simulator/nccl.txt

$(B)/src/backends/cpu/kernels.o: BB_FLAGS += $(ISAS:%=-DBB_HAVE_ISA_%)

$(LIB): $(OBJECTS) $(B)/objects
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(OBJECTS)

$(COLLECTIVES:%=$(B)/%): $(B)/%: $(B)/src/collectives/%.o
$(B)/barrier_perf $(REFERENCE): $(B)/src/collectives/barrier.o
$(PAIRS:%=$(B)/%): $(B)/%: $(B)/src/p2p/%.o $(P2P_OBJECTS)
$(foreach f,$(TRAINING_MAINS:.c=),$(eval $(B)/$(notdir $(f)): $(B)/$(f).o))
$(TRAINING:%=$(B)/%): $(TRAINING_OBJECTS) $(MEMORY_OBJECTS)
$(TRAINING:%=$(B)/%): LDLIBS := $(call link,jansson) $(LDLIBS)
$(DIAGNOSE): $(B)/src/diagnose/main.o $(DIAGNOSE_OBJECTS)
$(UNITS): $(B)/tests/%: $(B)/tests/unit/%.o
$(filter $(DIAGNOSE_UNITS),$(UNITS)) $(REFERENCE): $(DIAGNOSE_OBJECTS)
$(UNITS): LDLIBS := $(call link,cmocka) $(LDLIBS)
$(addprefix $(B)/tests/,test_collectives test_host test_host_memory test_messages test_queues test_routes): $(B)/tests/unit/ranks.o
$(B)/tests/test_collectives $(B)/tests/test_pieces: $(B)/tests/unit/oracle.o
$(B)/tests/test_pipeline $(B)/tests/test_pipeline_search: $(B)/tests/unit/pipelines.o
$(addprefix $(B)/tests/,test_evaluators test_performer test_ports test_program test_sim test_timeline_program): $(B)/tests/unit/script.o
$(B)/tests/test_topology_files: $(filter-out %/main.o,$(TOPOLOGY_OBJECTS))
$(B)/tests/test_topology_files: LDLIBS += $(call link,expat)
$(ZERO): $(B)/src/memory/zero/zero_perf.o
$(ZERO) $(filter $(ZERO_UNITS),$(UNITS)): $(ZERO_OBJECTS) $(MODEL_OBJECTS)
$(ZERO): LDLIBS := $(call link,jansson) $(LDLIBS)
$(filter $(TRAINING_UNITS),$(UNITS)): $(TRAINING_OBJECTS) $(MEMORY_OBJECTS)
$(filter $(MEMORY_UNITS),$(UNITS)): $(MEMORY_OBJECTS) $(MODEL_OBJECTS)
$(filter $(TRAINING_UNITS) $(MEMORY_UNITS) $(ZERO_UNITS),$(UNITS)): LDLIBS += $(call link,jansson)
$(filter $(ACCEPTANCE_UNITS),$(UNITS)): $(ACCEPTANCE_OBJECTS)
$(filter $(ACCEPTANCE_UNITS),$(UNITS)): LDLIBS += $(ACCEPTANCE_LIBS)
$(B)/tests/test_child $(B)/tests/test_findings $(REFERENCE): $(P2P_OBJECTS)
$(REFERENCE): $(TRAINING_OBJECTS) $(MEMORY_OBJECTS) $(ZERO_OBJECTS)
$(REFERENCE): LDLIBS += $(call link,jansson)
$(REFERENCE): $(B)/docs/reference.o
$(B)/tests/host_speed: $(B)/tests/perf/host_speed.o

# This test stands between busbench and its allocator.
$(B)/tests/test_malloc: LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free

# A backend loaded at run time finds in the binary what it is built on.
$(BINS) $(PLAYER) $(ACCEPTANCE) $(DEVICE_UNITS): USES_LIB := -rdynamic -Wl,--whole-archive $(LIB) -Wl,--no-whole-archive
$(PLAYER): $(PLAYER_OBJECTS)
$(BINS) $(UNITS) $(PLAYER) $(FAKE_UNITS) $(DEVICE_UNITS) $(REFERENCE) $(B)/tests/host_speed: $(LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(USES_LIB) $(LDLIBS)

$(B)/topology: $(TOPOLOGY_OBJECTS) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(call link,expat) $(LDLIBS)

$(READER_OBJECTS): private BB_FLAGS += -fPIC
$(B)/backends/topology.so: $(READER_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -shared -Wl,-Bsymbolic-functions -o $@ $^ $(call link,expat)

$(B)/model_memory: $(MEMORY_TOOL) $(MEMORY_OBJECTS) $(MODEL_OBJECTS) $(LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(call link,jansson) $(LDLIBS)

$(B)/acceptance: $(ACCEPTANCE_TOOL) $(ACCEPTANCE_OBJECTS) $(LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(USES_LIB) $(ACCEPTANCE_LIBS) $(LDLIBS)

# The table of published measurements is part of it.
$(B)/src/acceptance/reference.o: reports/reference/reference_busbw.csv

# The wrapper adds what its MPI needs to the compiler that all else is built with.
$(MPI_OBJECTS) $(B)/backends/mpi.so: $(B)/mpicc
$(MPI_OBJECTS): private COMPILE = OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPICC) $(CPPFLAGS) $(CFLAGS) $(BB_FLAGS) $(SAN_FLAGS) -fPIC

$(B)/backends/mpi.so: $(MPI_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPICC) $(CFLAGS) $(LDFLAGS) $(SAN_FLAGS) -shared -Wl,-Bsymbolic-functions -pthread -o $@ $(MPI_OBJECTS)

# The nccl backend: its C by the compiler of all else, its kernels by CUDA's. It opens NCCL when it runs, where it was
# built unless LD_LIBRARY_PATH names another (new dtags).
$(NCCL_OBJECTS): private BB_FLAGS += -fPIC $(CUDA_INCLUDE)
$(FAKE_OBJECTS): private BB_FLAGS += $(FAKE_PIC) $(CUDA_INCLUDE)
$(NCCL_OBJECTS) $(CUDA_OBJECTS) $(FAKE_OBJECTS) $(GPU_TEST_OBJECTS): $(B)/cuda
$(FAKE_UNITS:$(B)/tests/%=$(B)/tests/gpu/%.o) $(GPU_KERNELS_OBJECTS) $(B)/tests/perf/gpu_speed.o: $(B)/cuda

$(CUDA_OBJECTS): $(B)/%.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O3 -Isrc $(CUDA_INCLUDE) $(NVCC_GENCODE) -Werror all-warnings -Wno-deprecated-gpu-targets \
		-Xcompiler -fPIC,-Wall -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(B)/backends/nccl.so: $(NCCL_OBJECTS) $(CUDA_OBJECTS) $(B)/cuda
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -pthread -Wl,--enable-new-dtags -o $@ $(filter %.o,$^) $(CUDA_LIBS)

# For tests alone: no CUDA, no NCCL, the kernels compiled for the CPU. Nobody finds it who does not
# name its folder. What its threads have for themselves lies with their stacks: else the C library would
# allocate it, and let one thread free that of another that has ended, which is a race to
# ThreadSanitizer.
FAKE_PIC     := -fPIC -ftls-model=initial-exec
COMPILE_FAKE  = $(FAKE_CXX) $(CPPFLAGS) $(CFLAGS) -x c++ -std=c++17 -Isrc -Itests/fake $(CUDA_INCLUDE) $(FAKE_PIC) -Wall \
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

$(FAKE_UNITS): $(B)/tests/%: $(B)/tests/gpu/%.o $(GPU_TEST_OBJECTS) $(FAKED_NCCL) $(FAKE_OBJECTS) \
               $(B)/tests/unit/ranks.o $(B)/tests/unit/oracle.o
$(FAKE_UNITS): LDLIBS := $(call link,cmocka) $(LDLIBS)

$(B)/tests/gpu/gpus_device.o: private BB_FLAGS += -Itests/unit
$(DEVICE_UNITS): $(B)/tests/device/%: $(B)/tests/gpu/%.o $(subst gpus_fake,gpus_device,$(GPU_TEST_OBJECTS)) \
                 $(B)/tests/unit/ranks.o $(B)/tests/unit/oracle.o $(B)/backends/nccl.so
$(DEVICE_UNITS): LDLIBS := -L$(B)/backends -Wl,-rpath,\$$ORIGIN/../../backends -l:nccl.so $(call link,cmocka) $(LDLIBS)

# The speed of the kernels, and for tests the same with stand-ins.
$(B)/tests/perf/gpu_speed.o: private BB_FLAGS += $(CUDA_INCLUDE)

$(B)/tests/gpu_speed: $(B)/tests/perf/gpu_speed.o $(CUDA_OBJECTS) $(LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(CUDA_LIBS) -lm

$(B)/tests/fake/gpu_speed: $(B)/tests/perf/gpu_speed.o $(FAKE_OBJECTS) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ -lm

# The results of the kernels on a device, and the same on the CPU.
$(GPU_KERNELS_OBJECTS): private BB_FLAGS += $(CUDA_INCLUDE)

$(B)/tests/gpu_kernels: $(filter-out %/far_cpu.o,$(GPU_KERNELS_OBJECTS)) $(CUDA_OBJECTS) $(LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(CUDA_LIBS) -lm

$(B)/tests/fake/gpu_kernels: $(filter-out %/far_device.o,$(GPU_KERNELS_OBJECTS)) $(FAKE_OBJECTS) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ -lm

# What the driver's library would say of GPUs that are not here; tests name its folder in
# LD_LIBRARY_PATH.
$(B)/tests/nvml/libnvidia-ml.so.1: tests/topology/nvml.c src/topology/probes/nvml_api.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(COMPILE) $(LDFLAGS) -fPIC -shared -o $@ $<

# Likewise of cuBLAS.
$(FAKE_CUBLAS): tests/cublas/cublas.c src/backends/nccl/cublas_api.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(COMPILE) $(CUDA_INCLUDE) $(LDFLAGS) -fPIC -shared -o $@ $<

$(B)/tests/mpi_speed $(B)/tests/mpi_bare: $(B)/tests/%: tests/perf/%.c tests/perf/speed.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,MPICC,$<)
	$(Q)$(MPICC) $(CFLAGS) -std=gnu11 -D_GNU_SOURCE -o $@ $<

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

# The GPUs that the driver lists, where the nccl backend was built; else the CPU, which has to be asked for where there
# are GPUs.
BENCH_GPUS   = $(filter-out 0,$(if $(HAVE_CUDA),$(shell nvidia-smi -L 2>/dev/null | grep -c '^GPU ')))
BENCH_RANKS  = $(if $(BENCH_GPUS),-g $(BENCH_GPUS),-g 8 --backend host)
# Large sizes take a second an iteration: the fewest that give an interval. Small ones go on until it is narrow.
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
	case $$? in 0 | 3 | 127) exit $$status ;; *) exit 1 ;; esac # without a Python that can draw there is no report

check-build:
	scripts/setup.sh check
	+$(BUILD) all units $(REFERENCE)

check-full-build: check-build
	+$(foreach s,$(SANITIZED),$(BUILD) B=$(B)/$(subst $(comma),-,$(s)) SAN=$(s) all units &&) :

check check-full: %: %-build
	$(PYTHON) tests/run.py $(if $(filter %-full,$@),--full) $(B)

mutants:
	scripts/setup.sh check
	+$(BUILD) all units
	$(PYTHON) tests/mutants/run.py $(B)

validate:
	+$(BUILD) all
	$(PYTHON) scripts/validate_left_out.py $(B) >$(B)/left_out.csv
	cp $(B)/left_out.csv reports/reference/left_out.csv
	$(PYTHON) scripts/validate_sim.py $(B) >$(B)/validation.md
	@cmp -s $(B)/validation.md docs/validation.md || cp $(B)/validation.md docs/validation.md
	@sed -n 1,15p docs/validation.md

perf:
	scripts/setup.sh check
	scripts/setup.sh perf
	+$(BUILD) all $(B)/tests/host_speed $(B)/tests/mpi_speed $(B)/tests/mpi_bare $(B)/tests/stream \
		$(B)/tests/bare_pairs
	$(PYTHON) scripts/perf.py $(B)

tune truth:
	scripts/setup.sh check
	+$(BUILD) all $(B)/tests/host_speed $(if $(filter truth,$@),$(B)/tests/wire)
	$(PYTHON) scripts/$@.py $(B)

# What other processes send, and the readers of topology files, of models, of DeepSpeed's settings, of profiles and of
# logs against what libFuzzer thinks of,
# each for a while. What it finds is kept in B/fuzz and makes it fail.
FUZZ_SECONDS ?= 60
FUZZERS      := wire topology model ds_config $(if $(HAVE_CYAML),profile claims)
fuzz:
	scripts/setup.sh check
	+$(BUILD) CC=clang B=$(B)/fuzz SAN=address,undefined,fuzzer-no-link $(FUZZERS:%=$(B)/fuzz/%_fuzz) $(B)/fuzz/all_reduce_perf
	mkdir -p $(FUZZERS:%=$(B)/fuzz/%)
	cd $(B)/fuzz && $(foreach f,$(FUZZERS),./$(f)_fuzz -max_total_time=$(FUZZ_SECONDS) -timeout=20 -max_len=8192 \
		-print_final_stats=1 $(f) $(CURDIR)/tests/fuzz/seeds/$(f) &&) :
	$(PYTHON) tests/fuzz/proxy.py --seconds $(FUZZ_SECONDS) $(B)/fuzz

$(B)/topology_fuzz: $(filter-out %/main.o,$(TOPOLOGY_OBJECTS)) $(filter $(B)/src/topology/% $(B)/src/simulator/cluster%,$(OBJECTS))
$(B)/topology_fuzz: LDLIBS += $(call link,expat)
$(B)/model_fuzz: $(filter %/buckets.o,$(TRAINING_OBJECTS)) $(MODEL_OBJECTS)
$(B)/ds_config_fuzz: $(MEMORY_OBJECTS) $(MODEL_OBJECTS)
$(B)/model_fuzz $(B)/ds_config_fuzz: LDLIBS += $(call link,jansson)
$(B)/profile_fuzz $(B)/claims_fuzz: $(ACCEPTANCE_OBJECTS) $(LIB)
$(B)/profile_fuzz $(B)/claims_fuzz: LDLIBS += $(ACCEPTANCE_LIBS)
$(B)/wire_fuzz $(B)/tests/test_wire: LDFLAGS += -Wl,--wrap=connect
$(B)/wire_fuzz $(B)/tests/test_wire: $(B)/src/p2p/series.o
$(B)/wire_fuzz: $(LIB)
$(FUZZERS:%=$(B)/%_fuzz): $(B)/%_fuzz: $(B)/tests/fuzz/%.o $(filter $(B)/src/core/%,$(OBJECTS))
	$(call say,LINK,$@)
	$(Q)$(LINK) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

# ---- the rest ------------------------------------------------------------------------------

docs: $(REFERENCE)
	$(Q)for page in options records algorithms; do \
		$(REFERENCE) $$page >$(B)/docs/$$page.md && \
		cp $(B)/docs/$$page.md docs/ || exit 1; \
	done
	$(Q)scripts/libraries.sh table >docs/libraries.md
	$(Q)$(PYTHON) scripts/gpu_table.py

help:
	@sed -n 's/^# \{0,1\}//; /^ *[A-Z]* *?=/q; p' Makefile

install: all
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(BINS) $(TOPOLOGY) $(MODEL_MEMORY) $(ACCEPTANCE) $(DESTDIR)$(PREFIX)/bin
	$(if $(PLUGINS),install -d $(DESTDIR)$(PREFIX)/lib/busbench)
	$(if $(PLUGINS),install -m 755 $(PLUGINS) $(DESTDIR)$(PREFIX)/lib/busbench)

clean:
	rm -rf $(B)

.PHONY: all units gpu-tests bench check check-build check-full check-full-build mutants fuzz validate perf tune truth docs help install clean no-mpi no-nccl FORCE
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
-include $(OBJECTS:.o=.d) $(MPI_OBJECTS:.o=.d) $(TOPOLOGY_OBJECTS:.o=.d) $(TRAINING_OBJECTS:.o=.d) $(MEMORY_OBJECTS:.o=.d) $(MEMORY_TOOL:.o=.d) \
         $(ACCEPTANCE_OBJECTS:.o=.d) $(ACCEPTANCE_TOOL:.o=.d) \
         $(ZERO_OBJECTS:.o=.d) $(B)/src/memory/zero/zero_perf.d \
         $(TRAINING_MAINS:%.c=$(B)/%.d) $(FUZZERS:%=$(B)/tests/fuzz/%.d) $(COLLECTIVES:%=$(B)/src/collectives/%.d) $(B)/src/collectives/barrier.d \
         $(PAIRS:%=$(B)/src/p2p/%.d) $(P2P_OBJECTS:.o=.d) $(DIAGNOSE_OBJECTS:.o=.d) $(B)/src/diagnose/main.d \
         $(UNITS:$(B)/tests/%=$(B)/tests/unit/%.d) $(B)/tests/unit/ranks.d $(B)/tests/unit/oracle.d $(B)/tests/unit/pipelines.d \
         $(PLAYER_OBJECTS:.o=.d) $(B)/docs/reference.d $(B)/tests/perf/host_speed.d $(B)/tests/perf/gpu_speed.d $(NCCL_OBJECTS:.o=.d) $(CUDA_OBJECTS:.o=.d) \
         $(FAKE_OBJECTS:.o=.d) $(FAKE_UNITS:$(B)/tests/%=$(B)/tests/gpu/%.d) $(GPU_TEST_OBJECTS:.o=.d) $(GPU_KERNELS_OBJECTS:.o=.d)
