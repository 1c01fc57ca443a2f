# The nccl backend, and for its tests a copy with stand-ins for the libraries, which needs their headers alone.

CUDA_LIBS    := $(foreach d,$(wildcard $(if $(NCCL_HOME),$(NCCL_HOME)/lib) $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib),-L$(d) -Wl,-rpath,$(d)) \
                -lcudart_static -lstdc++ -lrt -ldl -lpthread
HAVE_NCCL_H  := $(if $(filter auto,$(CUDA)),$(call have,nccl),$(filter 1,$(CUDA)))
HAVE_NVCC    := $(if $(filter auto,$(CUDA)),$(shell command -v $(NVCC) >/dev/null 2>&1 && echo 1),$(filter 1,$(CUDA)))
NCCL_OBJECTS := $(patsubst %.c,$(B)/%.o,$(call within,backends/nccl))
# Where what has code of devices in it is built: ci/gpu_bundle.sh builds it for other devices beside the build.
GPU_B        ?= $(B)
CUDA_OBJECTS := $(patsubst %.cu,$(GPU_B)/%.o,$(wildcard src/backends/nccl/*.cu))
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

$(B)/headers: SAYS = $(CUDA_INCLUDE)
$(GPU_B)/devices: SAYS = $(NVCC) $(NVCC_GENCODE) $(NVCC_SMALL) $(CUDA_INCLUDE) $(CUDA_LIBS)
STAMPS       += $(B)/headers $(GPU_B)/devices

# C by the compiler of everything else, kernels by CUDA's. With a RUNPATH, LD_LIBRARY_PATH comes before the folders of
# the build.
$(NCCL_OBJECTS): private BB_FLAGS += -fPIC $(CUDA_INCLUDE)
$(NCCL_OBJECTS): $(B)/headers

$(CUDA_OBJECTS): $(GPU_B)/%.o: %.cu $(B)/flags $(GPU_B)/devices
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O3 -Isrc $(CUDA_INCLUDE) $(NVCC_GENCODE) $(NVCC_SMALL) --threads 2 -Werror all-warnings -Wno-deprecated-gpu-targets \
		-Xcompiler -fPIC,-Wall -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(GPU_B)/backends/nccl.so: $(NCCL_OBJECTS) $(CUDA_OBJECTS) $(GPU_B)/devices
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -pthread -Wl,--enable-new-dtags -o $@ $(filter %.o,$^) $(CUDA_LIBS)

# ---- tests: stand-ins, and what also runs on a device ------------------------------------------------

# A stand-in for NCCL is linked, not searched for.
FAKED_NCCL   := $(filter-out %/library.o,$(NCCL_OBJECTS))
FAKE_OBJECTS := $(patsubst tests/%.c,$(B)/tests/%.o,$(wildcard tests/fake/*.c)) \
                $(patsubst tests/%.cc,$(B)/tests/%.o,$(wildcard tests/fake/*.cc)) \
                $(patsubst src/backends/nccl/%.cu,$(B)/tests/fake/%.o,$(wildcard src/backends/nccl/*.cu))
HAVE_FAKE    := $(if $(HAVE_NCCL_H),$(shell command -v $(firstword $(CXX)) >/dev/null 2>&1 && echo 1))
FAKE_UNITS   := $(if $(HAVE_FAKE),$(patsubst tests/gpu/%.c,$(B)/tests/%,$(wildcard tests/gpu/test_*.c)))
GPU_TEST_OBJECTS := $(patsubst %.c,$(B)/%.o,$(filter-out tests/gpu/test_% %_device.c,$(wildcard tests/gpu/*.c)))
# The stand-in has the name of cuBLAS in this version of CUDA.
CUDART_CODE  := $(if $(HAVE_FAKE),$(shell printf '\043include <cuda_runtime_api.h>\nCUDART_VERSION\n' | \
                $(CC) $(CUDA_INCLUDE) -E -P - | tail -n 1))
FAKE_CUBLAS  := $(if $(HAVE_FAKE),$(B)/tests/cublas/libcublas.so.$(shell expr $(CUDART_CODE) / 1000))
GPU_KERNELS_OBJECTS := $(patsubst %.c,$(B)/%.o,$(wildcard tests/gpu/kernels/*.c))
GPU_KERNELS  := $(if $(HAVE_CUDA),$(GPU_B)/tests/gpu_kernels) $(if $(HAVE_FAKE),$(B)/tests/fake/gpu_kernels)
# Those that also hold on real GPUs, over the backend as it is installed.
DEVICE_UNITS := $(if $(and $(HAVE_CUDA),$(call have,cmocka)),$(addprefix $(GPU_B)/tests/device/,test_nccl test_nccl_features test_nccl_memory test_nccl_work))
GPU_SPEED    := $(if $(HAVE_CUDA),$(GPU_B)/tests/gpu_speed) $(if $(HAVE_FAKE),$(B)/tests/fake/gpu_speed)

$(FAKE_OBJECTS): private BB_FLAGS += $(FAKE_PIC) $(CUDA_INCLUDE)
$(FAKE_OBJECTS) $(GPU_TEST_OBJECTS) $(FAKE_UNITS:$(B)/tests/%=$(B)/tests/gpu/%.o) $(GPU_KERNELS_OBJECTS) $(B)/tests/perf/gpu_speed.o: $(B)/headers

# No CUDA, no NCCL, the kernels compiled for the CPU, in a folder that only tests name. Its
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
$(DEVICE_UNITS): LINK_LIB = $(WHOLE_LIB) -l:nccl.so

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

# Tests that need a device, for ci/gpu_bundle.sh.
gpu-tests: $(filter-out $(B)/tests/fake/%,$(GPU_SPEED) $(GPU_KERNELS)) $(DEVICE_UNITS)
.PHONY: gpu-tests
