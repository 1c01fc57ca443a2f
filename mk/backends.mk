# The vector kernels of the CPU's backends, and the backends that are loaded at run time because nothing else needs their
# libraries: mpi, gloo, and the readers of XML. The nccl backend is in gpu.mk.

# The vector kernels: one source for several instruction sets, chosen when a backend opens. They take longest to
# build, so sanitizers get two sets, and ThreadSanitizer one.
ISAS        := plain $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),$(if $(filter thread,$(SAN)),,avx2) $(if $(SAN),,avx512))
ISA_O       := $(if $(SAN),-O1,-O3)
ISA_plain   := $(ISA_O)
ISA_avx2    := $(ISA_O) -mavx2 -mfma -mf16c
ISA_avx512  := $(ISA_O) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c \
               -mprefer-vector-width=512
ISA_OBJECTS := $(ISAS:%=$(B)/src/backends/cpu/isa/%.o)
OBJECTS     += $(ISA_OBJECTS)
$(B)/src/backends/cpu/kernels.o: private BB_FLAGS += $(ISAS:%=-DBB_HAVE_ISA_%)

$(ISA_OBJECTS): $(B)/src/backends/cpu/isa/%.o: src/backends/cpu/isa/kernels.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$< ($*))
	$(Q)$(COMPILE) $(ISA_$*) -DBB_ISA=$* -c -o $@ $<

HAVE_MPI    := $(if $(filter auto,$(MPI)),$(call have,mpi),$(filter 1,$(MPI)))
MPI_OBJECTS := $(patsubst %.c,$(B)/%.o,$(call within,backends/mpi))
HAVE_GLOO   := $(if $(filter auto,$(GLOO)),$(call have,gloo),$(filter 1,$(GLOO)))
GLOO_OBJECTS := $(patsubst %.c,$(B)/%.o,$(call within,backends/gloo)) $(B)/src/backends/gloo/wrapper.o
PLUGINS     := $(if $(HAVE_MPI),$(B)/backends/mpi.so) $(if $(HAVE_GLOO),$(B)/backends/gloo.so) $(if $(HAVE_EXPAT),$(B)/backends/topology.so)

$(B)/mpicc: SAYS = $(MPICC) $(shell command -v $(MPICC)) $(shell $(MPICC) -show 2>/dev/null)
$(B)/gloo: SAYS = $(CXX) $(shell $(CXX) --version 2>/dev/null | head -n 1) $(GLOO_FLAGS) $(GLOO_LIBS)
STAMPS      += $(B)/mpicc $(B)/gloo

# The readers of XML again, for collectives on clusters that files describe.
$(READER:%.c=$(B)/%.o): private BB_FLAGS += -fPIC
$(B)/backends/topology.so: $(READER:%.c=$(B)/%.o)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -shared -Wl,-Bsymbolic-functions -o $@ $^ $(call link,expat)

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

# A backend of an earlier build would still be loaded.
no-mpi no-gloo no-nccl: no-%:
	@rm -f $(B)/backends/$*.so
.PHONY: no-mpi no-gloo no-nccl
