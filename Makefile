# busbench - `make` builds build/*_perf; `make bench` and `make check` do all the set-up first.
#
#   B=DIR                            where to build (default: build, or build-SAN)
#   SAN=address,undefined | thread   instrument with sanitizers
#   CC=gcc | clang                   compiler
#   PREFIX=DIR DESTDIR=DIR           where `make install` puts things

SAN    ?=
comma  := ,
B      ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
PREFIX ?= /usr/local
V      ?= 0
Q      := $(if $(filter 1,$(V)),,@)

BACKENDS := host null

CFLAGS   ?= -O2 -g
BB_FLAGS := -std=gnu11 -Isrc -D_GNU_SOURCE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
            -Wmissing-prototypes -Wpointer-arith -Wvla -Wwrite-strings -Wno-unused-parameter \
            -ffp-contract=off -fno-strict-aliasing -pthread -MMD -MP
ifneq ($(SAN),)
SAN_FLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined
endif
LDLIBS   := -lhwloc -lnuma -lm -ldl

COLLECTIVES := $(patsubst src/collectives/%.c,%,$(wildcard src/collectives/*_perf.c))
ISAS        := plain $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),avx2 avx512)
ISA_plain   := -O3
ISA_avx2    := -O3 -mavx2 -mfma -mf16c -mprfchw
ISA_avx512  := -O3 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprfchw -mprefer-vector-width=512

SOURCES := $(filter-out %/kernels_isa.c,$(wildcard src/core/*.c src/schedules/*.c \
           src/topology/*.c src/launch/*.c src/backends/*.c src/backends/cpu/*.c \
           $(BACKENDS:%=src/backends/%/*.c) src/harness/*.c))
OBJECTS := $(SOURCES:%.c=$(B)/%.o) $(ISAS:%=$(B)/src/backends/cpu/kernels_%.o)
LIB     := $(B)/libbusbench.a
BINS    := $(COLLECTIVES:%=$(B)/%)
UNITS   := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c))
UNIT_BINS := $(UNITS:%=$(B)/tests/%)

all: $(BINS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	@[ $(V) = 1 ] || echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(BB_FLAGS) $(SAN_FLAGS) -c -o $@ $<

# The vector kernels: one source, several instruction sets, chosen when a backend opens.
$(B)/src/backends/cpu/kernels_%.o: src/backends/cpu/kernels_isa.c
	@mkdir -p $(@D)
	@[ $(V) = 1 ] || echo "  CC    $< ($*)"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(BB_FLAGS) $(SAN_FLAGS) $(ISA_$*) -DBB_ISA=$* -c -o $@ $<

$(B)/src/backends/cpu/kernels.o: BB_FLAGS += $(ISAS:%=-DBB_HAVE_ISA_%)

$(LIB): $(OBJECTS)
	@[ $(V) = 1 ] || echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BINS): $(B)/%: $(B)/src/collectives/%.o $(LIB)
	@[ $(V) = 1 ] || echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) $(SAN_FLAGS) -pthread -o $@ $^ $(LDLIBS)

$(UNIT_BINS): $(B)/tests/%: $(B)/tests/unit/%.o $(LIB)
	@mkdir -p $(@D)
	@[ $(V) = 1 ] || echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) $(SAN_FLAGS) -pthread -o $@ $^ -lcmocka $(LDLIBS)

# This test stands between busbench and its allocator.
$(B)/tests/test_malloc: LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free

units: $(UNIT_BINS)

clean:
	rm -rf $(B)

.PHONY: all units clean
.SECONDARY:
$(B)/%.d: ; # by-products of compiling; make must not look for a way to make them
-include $(shell find $(B) -name '*.d' 2>/dev/null)
