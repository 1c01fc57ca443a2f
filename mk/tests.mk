# Unit tests, make check and its kin, mutants and fuzzers.

# Unit tests without those of missing libraries; under ThreadSanitizer only those that start threads.
UNIT_SOURCES := $(wildcard tests/unit/test_*.c)
LEFT_OUT     := $(if $(HAVE_JANSSON),,training_kernels/ models/ memory/ pipelines\.h) $(if $(HAVE_YAML),,acceptance/) \
                $(if $(HAVE_EXPAT),,topology/files/ topology_tool/)
UNITS        := $(patsubst tests/unit/%.c,$(B)/tests/%,$(filter-out \
                $(if $(strip $(LEFT_OUT)),$(shell grep -lE '"($(subst $(space),|,$(strip $(LEFT_OUT))))' $(UNIT_SOURCES))),\
                $(if $(filter thread,$(SAN)),$(shell grep -lE "pthread_create|(ranks|processes)\.h" $(UNIT_SOURCES)),$(UNIT_SOURCES))))
UNIT_LIB     := $(B)/tests/libunits.a
PLAYER       := $(B)/tests/player
PLAYER_OBJECTS := $(patsubst %.c,$(B)/%.o,$(wildcard tests/play/*.c))

UNIT_PROGRAMS := $(UNITS) $(FAKE_UNITS) $(DEVICE_UNITS)
PROGRAMS      += $(UNIT_PROGRAMS) $(PLAYER)
WHOLE         += $(PLAYER)
$(UNIT_LIB): $(patsubst %.c,$(B)/%.o,$(filter-out $(UNIT_SOURCES),$(wildcard tests/unit/*.c)))
$(UNITS): $(B)/tests/%: $(B)/tests/unit/%.o
$(UNIT_PROGRAMS): $(UNIT_LIB)
$(UNIT_PROGRAMS): LDLIBS := $(call link,cmocka) $(LDLIBS)
$(PLAYER): $(PLAYER_OBJECTS)

# This test replaces the allocator.
$(B)/tests/test_malloc: private LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free

units: $(UNITS) $(PLAYER) $(FAKE_UNITS) $(if $(HAVE_FAKE),$(B)/tests/fake/nccl.so) $(FAKE_CUBLAS) $(GPU_KERNELS) $(GPU_SPEED) $(B)/tests/nvml/libnvidia-ml.so.1

# ---- what runs them ------------------------------------------------------------------------------------

# They build in a make of their own, which must not run beside the goal all of this one.
check-build mutants: | $(filter all,$(MAKECMDGOALS))

SEED  ?= 1
DRAWS ?= 200
SANITIZED := address,undefined thread
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
	$(PYTHON) tests/mutants/mutants.py --seed '$(SEED)' -n $(DRAWS) $(B)

# libFuzzer against messages of other processes and against the readers of topology files, models, DeepSpeed's settings,
# profiles and logs. Inputs that break one are kept in B/fuzz, and make fails.
FUZZ_SECONDS ?= 60
FUZZERS      := wire topology model ds_config $(if $(HAVE_YAML),profile claims)
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

.PHONY: units check check-build check-full check-full-build mutants fuzz
