# Rewritten only when their content changes: other flags or another compiler rebuild everything, a new or deleted
# source the archives, another commit what --version prints; others stand beside what they are of.
$(B)/flags: SAYS = $(shell $(CC) --version | head -n 1) $(COMPILE) $(LINK) $(foreach i,$(ISAS),$(ISA_$(i)))
$(B)/objects: SAYS = $(SOURCES) $(ISAS) $(UPPER)
$(B)/facts: SAYS = $(FACTS)
STAMPS  += $(B)/flags $(B)/objects $(B)/facts
$(STAMPS): FORCE
	$(if $(call missing,hwloc numa),@scripts/libraries.sh absent $(call missing,hwloc numa) >&2; \
		echo 'make: scripts/setup.sh build installs what is needed' >&2; exit 1)
	@mkdir -p $(@D)
	@echo '$(SAYS)' | cmp -s - $@ || echo '$(SAYS)' >$@

# What --version prints. An archive of git has its commit in scripts/commit.txt.
COMMIT := $(or $(shell grep -v Format scripts/commit.txt),$(shell git rev-parse --short HEAD 2>/dev/null),unknown)
LINKED := $(filter hwloc numa expat jansson yaml zlib,$(subst :, ,$(FOUND)))
LOADED  = $(strip $(if $(HAVE_MPI),mpi) $(if $(HAVE_GLOO),gloo) $(if $(HAVE_CUDA),nccl))
FACTS   = flags: $(strip $(subst ",,$(filter-out -f%-map=%,$(CFLAGS)) $(SAN_FLAGS)))\ntarget: $(shell $(CC) -dumpmachine)\n$(strip \
          )vector kernels: $(ISAS)\nlibraries: $(LINKED)\nbackends: $(BACKENDS), loadable: $(or $(LOADED),none)\ncommit: $(COMMIT)\n
$(B)/src/core/version.o: $(B)/facts
$(B)/src/core/version.o: private BB_FLAGS += -DBB_BUILT='"$(FACTS)"'
