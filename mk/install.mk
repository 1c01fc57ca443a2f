# Generated pages, installation and packages.

PREFIX ?= /usr/local

docs: $(REFERENCE) $(patsubst src/collectives/%.c,$(B)/%,$(wildcard src/collectives/*_perf.c))
	$(Q)for page in options records algorithms; do \
		$(REFERENCE) $$page >$(B)/docs/$$page.md && \
		cp $(B)/docs/$$page.md docs/ || exit 1; \
	done
	$(Q)scripts/libraries.sh table >docs/libraries.md
	$(Q)$(PYTHON) scripts/gpu_table.py
	$(Q)$(PYTHON) scripts/rounds.py $(B) docs/algorithms

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

.PHONY: docs install install-strip install-pages dist deb
