# `make bench`, and what measures the suite itself and prints tables: studies/.

REPORT    ?= $(B)/bench/report
BENCH_MAX ?= 1G
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

PROGRAMS += $(B)/tests/host_speed $(B)/tests/predict
WHOLE    += $(B)/tests/predict
$(B)/tests/host_speed: $(B)/tests/perf/host_speed.o
$(B)/tests/predict: $(B)/tests/perf/predict.o

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

# They build in a make of its own, which must not run beside the goal all of this one.
bench validate: | $(filter all,$(MAKECMDGOALS))
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

systems:
	+$(BUILD) all
	$(PYTHON) studies/systems.py $(B) >$(B)/training_systems.md
	cp $(B)/training_systems.md docs/training_systems.md

.PHONY: bench validate perf tune truth systems
