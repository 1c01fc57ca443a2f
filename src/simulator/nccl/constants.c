/*
 * constants.c - the constants of nccl.txt, which is compiled in.
 */
#include "simulator/nccl/model.h"

#include "core/embed.h"
#include "core/settings.h"

#include <stdio.h>
#include <string.h>

BB_EMBED(bb_nccl_data, "src/simulator/nccl/nccl.txt");

struct row {
	const char *key;
	size_t offset;
	enum bb_setting_unit unit;
	int values; /* fewer channel rates are allowed; the others are 0 */
};

#define ROW(name, field, of, n)                                                                    \
	{                                                                                          \
		name, offsetof(struct bb_nccl_constants, field), BB_SETTING_##of, n                \
	}
#define BY_PROTOCOL(name, field) ROW(name, field, TIME, BB_NCCL_PROTOCOLS)
#define BY_SIZE(name, protocol) ROW(name, tree_share[protocol], SHARE, BB_NCCL_TREE_SIZES)
#define SIMPLE(name, field) ROW(name, field[BB_NCCL_SIMPLE], TIME, 1)
#define ONE(name, unit) ROW(#name, name, unit, 1),
#define SOME(name, n, unit) ROW(#name, name, unit, n),

static const struct row rows[] = {
	BY_PROTOCOL("ring_base", base[BB_NCCL_RING]),
	BY_PROTOCOL("tree_base", base[BB_NCCL_TREE]),
	SIMPLE("pat_base", base[BB_NCCL_PAT]),
	BY_PROTOCOL("ring_nvlink_hop", hop[BB_NCCL_OVER_NVLINK][BB_NCCL_RING]),
	BY_PROTOCOL("tree_nvlink_hop", hop[BB_NCCL_OVER_NVLINK][BB_NCCL_TREE]),
	SIMPLE("nvls_nvlink_hop", hop[BB_NCCL_OVER_NVLINK][BB_NCCL_NVLS]),
	SIMPLE("nvlstree_nvlink_hop", hop[BB_NCCL_OVER_NVLINK][BB_NCCL_NVLSTREE]),
	BY_PROTOCOL("ring_pcie_hop", hop[BB_NCCL_OVER_PCIE][BB_NCCL_RING]),
	BY_PROTOCOL("tree_pcie_hop", hop[BB_NCCL_OVER_PCIE][BB_NCCL_TREE]),
	BY_PROTOCOL("ring_net_hop", hop[BB_NCCL_OVER_NET][BB_NCCL_RING]),
	BY_PROTOCOL("tree_net_hop", hop[BB_NCCL_OVER_NET][BB_NCCL_TREE]),
	SIMPLE("nvlstree_net_hop", hop[BB_NCCL_OVER_NET][BB_NCCL_NVLSTREE]),
	BY_SIZE("tree_share_ll", BB_NCCL_LL),
	BY_SIZE("tree_share_ll128", BB_NCCL_LL128),
	BY_SIZE("tree_share_simple", BB_NCCL_SIMPLE),
	BY_PROTOCOL("ring_net_least", ring_net_least[0]),
	BY_PROTOCOL("ring_net_least_amd", ring_net_least[1]),
	ROW("ll_most_net", ll_most_net[0], RATE, BB_NCCL_SPANS - 1),
	ROW("ll_most_net_amd", ll_most_net[1], RATE, BB_NCCL_SPANS - 1),
	BB_NCCL_NUMBERS(ONE, SOME)};

bool bb_nccl_constants_set(struct bb_nccl_constants *c, const char *key, char *value)
{
	const struct row *row = rows, *end = rows + sizeof(rows) / sizeof(rows[0]);
	char *rest = value;
	int n = 0;

	while (row < end && strcmp(row->key, key) != 0)
		row++;
	if (row == end)
		return false;
	double *values = (double *)((char *)c + row->offset);
	memset(values, 0, (size_t)row->values * sizeof(*values));
	for (char *word = strsep(&rest, " "); word; word = strsep(&rest, " ")) {
		if (!*word || strcmp(word, "/") == 0)
			continue;
		if (n == row->values || !bb_setting_read(row->unit, word, &values[n]))
			return false;
		n++;
	}
	return n == row->values || (row->values == BB_NCCL_CHANNEL_RATES && n > 0);
}

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Read "4 / 13 412 / 12 250 / 11 90 / 0 0": the most nodes; machines and rows of each class. */
static bool read_likeness(const struct bb_settings *s, struct bb_nccl_constants *c)
{
	char known[BB_NCCL_KIND_TEXT] = "";
	struct bb_nccl_likeness *like = c->likeness;

	for (int kind = 0; kind < BB_NCCL_KINDS && strcmp(known, s->key) != 0; kind++) {
		like = &c->likeness[kind];
		bb_nccl_kind_name(kind, known);
	}
	struct bb_nccl_basis *b = like->basis;
	return strcmp(known, s->key) == 0 &&
	       sscanf(s->value, "%d / %d %d / %d %d / %d %d / %d %d", &like->nodes, &b[0].machines,
		      &b[0].rows, &b[1].machines, &b[1].rows, &b[2].machines, &b[2].rows,
		      &b[3].machines, &b[3].rows) == 1 + 2 * BB_NCCL_INTERVAL_CLASSES;
}

static bool read_setting(const struct bb_settings *s, struct bb_nccl_constants *c)
{
	if (!s->source || !bb_nccl_constants_set(c, s->key, s->value))
		return false;
	if (starts(s->source, "left out:"))
		return true;
	if (starts(s->source, "fitted:"))
		c->fitted++;
	else if (starts(s->source, "assumed:"))
		c->assumed++;
	else
		c->published++;
	return true;
}

typedef bool read_line(const struct bb_settings *s, struct bb_nccl_constants *c);

static bb_status read_section(struct bb_nccl_constants *c, const char *section, read_line *read,
			      struct bb_error *error)
{
	struct bb_settings s = {.name = "nccl.txt", .rest = bb_nccl_data, .section = section};
	bool more = true;
	bb_status st = BB_OK;

	while (st == BB_OK && (st = bb_settings_next(&s, &more, error)) == BB_OK && more)
		if (!read(&s, c))
			st = bb_fail(error, BB_EINTERNAL,
				     "%s: line %d: %s: unknown constant or malformed value", s.name,
				     s.line, s.key);
	return st;
}

bb_status bb_nccl_constants_find(struct bb_nccl_constants *c, int sm, struct bb_error *error)
{
	bb_status st;

	*c = (struct bb_nccl_constants){.generation = NULL};
	if (sm < 70)
		return BB_OK;
	c->generation = sm >= 100  ? "blackwell"
			: sm >= 90 ? "hopper"
			: sm >= 80 ? "ampere"
				   : "volta";
	c->versions = "2.30.7";
	BB_TRY(st, read_section(c, "nccl", read_setting, error), out);
	BB_TRY(st, read_section(c, "likeness", read_likeness, error), out);
	st = read_section(c, c->generation, read_setting, error);
out:
	return st;
}

bb_status bb_nccl_constants_other(struct bb_nccl_constants *other,
				  const struct bb_nccl_constants *c, int index, bool *more,
				  struct bb_error *error)
{
	static const char *const sections[] = {
		"volta 2.32",  "ampere 2.32",    "hopper 2.20 to 2.27",
		"hopper 2.32", "blackwell 2.27", "blackwell 2.32",
	};
	const size_t length = c->generation ? strlen(c->generation) : 0;

	*more = false;
	for (size_t i = 0; length > 0 && i < sizeof(sections) / sizeof(sections[0]); i++) {
		if (!starts(sections[i], c->generation) || index-- > 0)
			continue;
		*more = true;
		*other = *c;
		other->versions = sections[i] + length + 1;
		return read_section(other, sections[i], read_setting, error);
	}
	return BB_OK;
}
