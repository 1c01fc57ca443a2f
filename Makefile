# busbench - `make bench` and `make check` install what they need first; `make` alone builds.
#
#   all (default)     programs and backends
#   bench             all-reduce from 1M to 1G on 8 ranks or all GPUs by ring, tree and the default, and a report
#   check             the tests; check-full: all tests, also under sanitizers; check-build: only builds what check runs
#   mutants           plants DRAWS (200) small defects, drawn with SEED (1); the tests must notice 85% of them
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

.DEFAULT_GOAL := all
SAN    ?=
comma  := ,
space  := $() $()
B      ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
V      ?= 0
PYTHON ?= python3 -B

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
COMPILE = $(CC) $(CPPFLAGS) $(CFLAGS) $(BB_FLAGS) $(SAN_FLAGS)
# Programs find libraries beside the installed backends, where ci/gpu_bundle.sh puts those that a bare machine lacks.
# An RPATH, unlike a RUNPATH, also serves the libraries of those libraries and of the backends.
BESIDE  = -Wl,--disable-new-dtags,-rpath,\$$ORIGIN/../lib/busbench
LINK    = $(CC) $(CFLAGS) $(LDFLAGS) $(SAN_FLAGS) $(BESIDE) -pthread

include mk/libraries.mk

# ---- sources and targets -------------------------------------------------------------------------

# What a file needs follows from its folder in src. LIB needs hwloc and libnuma alone, and every program has all of it.
# The folders of loadable backends (backends/mpi, gloo, nccl) are in mk/backends.mk and mk/gpu.mk.
within       = $(wildcard $(1:%=src/%/*.c))
HAVE_JANSSON := $(call have,jansson)
HAVE_YAML    := $(call have,jansson yaml zlib)
HAVE_EXPAT   := $(call have,expat)
BACKENDS     := host sim null
SOURCES      := $(call within,core schedules suspects codes programs logs topology topology/probes launch simulator \
                simulator/cluster simulator/timeline simulator/nccl simulator/openmpi simulator/calibration backends \
                backends/cpu $(BACKENDS:%=backends/%) harness harness/run harness/measure harness/results)
OBJECTS      := $(SOURCES:%.c=$(B)/%.o)
LIB          := $(B)/libbusbench.a

# Programs and tests take the objects that they need from UPPER_LIB, and with them their libraries: jansson reads
# models, expat XML, and acceptance needs libyaml and zlib, too. Files named *_perf.c and main.c are programs.
READER       := $(if $(HAVE_EXPAT),$(call within,topology/files simulator/cluster/files))
ABOVE        := $(READER) $(call within,collectives p2p diagnose memory/bandwidth $(if $(HAVE_EXPAT),topology_tool) \
                $(if $(HAVE_JANSSON),core/jansson models models/memory memory/tool training_kernels training_kernels/*) \
                $(if $(HAVE_YAML),acceptance acceptance/tool))
UPPER        := $(filter-out %_perf.c %/main.c,$(ABOVE))
UPPER_LIB    := $(B)/libbenchmarks.a

PERFS        := $(filter %_perf.c,$(ABOVE))
BINS         := $(patsubst %.c,$(B)/%,$(notdir $(PERFS))) $(B)/diagnose
FRONT        := $(B)/busbench
TOPOLOGY     := $(if $(HAVE_EXPAT),$(B)/topology)
MODEL_MEMORY := $(if $(HAVE_JANSSON),$(B)/model_memory)
ACCEPTANCE   := $(if $(HAVE_YAML),$(B)/acceptance)
REFERENCE    := $(B)/docs/reference

include mk/backends.mk mk/gpu.mk mk/tests.mk mk/studies.mk mk/install.mk mk/stamps.mk

# Without one of these, programs are left out; nothing is built without hwloc and libnuma.
ABSENT := $(call missing,expat jansson yaml zlib)
all: $(FRONT) $(BINS) $(PLUGINS) $(TOPOLOGY) $(MODEL_MEMORY) $(ACCEPTANCE) $(if $(HAVE_MPI),,no-mpi) $(if $(HAVE_GLOO),,no-gloo) $(if $(HAVE_CUDA),,no-nccl)
	$(if $(ABSENT),@scripts/libraries.sh absent $(ABSENT))

# ---- build rules -------------------------------------------------------------------------------------

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c -o $@ $<

# Its plain loops become vector code.
$(B)/src/codes/codes.o: private CFLAGS += $(if $(SAN),,-O3)

# Compiled into the program.
$(B)/src/simulator/cluster/open.o: src/simulator/cluster/clusters.txt
$(B)/src/simulator/nccl/constants.o: src/simulator/nccl/nccl.txt
$(B)/src/simulator/openmpi/openmpi.o: src/simulator/openmpi/openmpi.txt
$(B)/src/acceptance/reference.o: reports/reference/reference_busbw.csv

$(LIB): $(OBJECTS)
$(UPPER_LIB): $(UPPER:%.c=$(B)/%.o)
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

# Backends loaded at run time use functions of the program, so it exports the whole archive.
PROGRAMS += $(FRONT) $(BINS) $(TOPOLOGY) $(MODEL_MEMORY) $(ACCEPTANCE) $(REFERENCE)
WHOLE    += $(BINS) $(ACCEPTANCE)
LINK_LIB  = $(LIB)
WHOLE_LIB = -rdynamic -Wl,--whole-archive $(LIB) -Wl,--no-whole-archive
$(WHOLE): LINK_LIB = $(WHOLE_LIB)
$(PROGRAMS): $(UPPER_LIB) $(LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(filter $(UNIT_LIB),$^) $(filter $(UPPER_LIB),$^) $(LINK_LIB) $(LDLIBS)

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile

clean:
	rm -rf $(B)

.PHONY: all help clean FORCE
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
-include $(shell find $(sort $(B)/src $(B)/tests $(B)/docs $(GPU_B)/src) -name '*.d' 2>/dev/null)
