# Which libraries this machine has (scripts/libraries.txt lists them), and the flags that they need.

MPI    ?= auto
MPICC  ?= mpicc
GLOO   ?= auto
GLOO_HOME    ?=
GLOO_LIBS    ?= $(if $(GLOO_HOME),-L$(GLOO_HOME)/lib -Wl$(comma)-rpath$(comma)$(GLOO_HOME)/lib) -lgloo
CUDA   ?= auto
CUDA_HOME    ?= /usr/local/cuda
NCCL_HOME    ?=
NVCC         ?= $(CUDA_HOME)/bin/nvcc

$(foreach v,MPI GLOO CUDA,$(if $(filter auto 0 1,$($v)),,$(error $v=$($v): expected auto, 0 or 1)))
# A folder named on the command line must exist, or headers of another one would be used unnoticed. Under `auto` the
# environment may name folders that this machine lacks.
$(foreach v,$(if $(filter 0,$(CUDA)),,CUDA_HOME NCCL_HOME),$(if $(and $($v),\
  $(filter command $(if $(filter 1,$(CUDA)),environment),$(firstword $(origin $v)))),\
  $(if $(wildcard $($v)/include),,$(error $v=$($v): there is no folder $($v)/include))))

CUDA_INCLUDE := $(addprefix -isystem ,$(wildcard $(if $(NCCL_HOME),$(NCCL_HOME)/include) $(CUDA_HOME)/include))
# The compiler of C++ that belongs to that of C, unless one is named.
ifeq ($(origin CXX),default)
CXX          := $(if $(findstring clang,$(CC)),$(subst clang,clang++,$(CC)),$(if $(findstring gcc,$(CC)),$(subst gcc,g++,$(CC)),g++))
endif
GLOO_FLAGS   := $(if $(GLOO_HOME),-isystem $(GLOO_HOME)/include)
# hwloc:-lhwloc and so on, for the libraries that this compiler finds.
FOUND        := $(shell CC='$(CC)' CXX='$(CXX)' CPPFLAGS='$(CPPFLAGS)' MPICC='$(MPICC)' CUDA_INCLUDE='$(CUDA_INCLUDE)' \
                GLOO_FLAGS='$(GLOO_FLAGS) $(GLOO_LIBS)' \
                scripts/libraries.sh found hwloc numa expat jansson yaml zlib cmocka mpi gloo nccl)
missing       = $(strip $(foreach l,$(1),$(if $(filter $(l):%,$(FOUND)),,$(l))))
have          = $(if $(call missing,$(1)),,1)
link          = $(strip $(foreach l,$(1),$(patsubst $(l):%,%,$(filter $(l):%,$(FOUND)))))
LDLIBS       := -Wl,--as-needed $(call link,yaml zlib jansson expat hwloc numa) -lm -ldl
