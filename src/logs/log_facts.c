/*
 * log_facts.c - what a log says of the machine and of the settings of NCCL.
 */
#include "logs/log.h"

#include "core/printable.h"
#include "topology/cards.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define QUOTE 150

/* ---- facts ---------------------------------------------------------------------------------- */

void bb_log_quote(struct bb_fact *fact, const char *text, size_t at)
{
	static const char dots[] = "\xe2\x80\xa6";
	const size_t length = strlen(text);
	size_t from = strspn(text, " \t"), used = 0, n;

	/* What matters is within the quote. */
	if (at + 40 > from + QUOTE)
		for (from = at - 20; from < at && text[from - 1] != ' '; from++)
			;
	if (from > strspn(text, " \t"))
		used = (size_t)snprintf(fact->quote, sizeof(fact->quote), "%s", dots);
	for (; from < length; from += n) {
		const size_t printable = bb_printable_character(text + from);
		const char *const shown = printable ? text + from : text[from] == '\t' ? " " : "?";

		n = printable ? printable : 1;
		if (used + n > QUOTE - strlen(dots)) {
			memcpy(fact->quote + used, dots, sizeof(dots));
			return;
		}
		memcpy(fact->quote + used, shown, n);
		used += n;
	}
	while (used > 0 && fact->quote[used - 1] == ' ')
		used--;
	fact->quote[used] = '\0';
}

/* A line that is read, and whose facts it adds to. */
struct reading {
	struct bb_log_facts *facts;
	const char *text;
	int number;
};

/* Notes NEW of KIND, stated AT a byte of the line: NCCL confirms or corrects what was asked for,
   and a later setting replaces it. */
static void fact_note(const struct reading *r, enum bb_fact_kind kind, struct bb_fact new,
		      const char *at)
{
	struct bb_fact *const old = &r->facts->of[kind];
	const bool is_later = new.by >= 0 && old->by == new.by &&
			      (old->value != new.value || strcmp(old->text, new.text) != 0);

	new.line = r->number;
	bb_log_quote(&new, r->text, (size_t)(at - r->text));
	if (old->line == 0 || (new.observed != old->observed ? new.observed : is_later))
		*old = new;
}

/* ---- variables ------------------------------------------------------------------------------ */

enum meaning { ON, OFF, LEVEL, TEXT, NUMBER, NICS, SOCKET, EFA };

/* ON: a number above 0 states the fact, OFF: 0 does, LEVEL: the path "LOC" does; SOCKET, EFA: the
   name of this network does. */
static const struct {
	const char *name;
	enum bb_fact_kind kind;
	enum meaning meaning;
} variables[] = {
	{"NCCL_P2P_DISABLE", BB_FACT_P2P_OFF, ON},
	{"NCCL_P2P_LEVEL", BB_FACT_P2P_OFF, LEVEL},
	{"NCCL_SHM_DISABLE", BB_FACT_SHM_OFF, ON},
	{"NCCL_NVLS_ENABLE", BB_FACT_NVLS_OFF, OFF},
	{"NCCL_MNNVL_ENABLE", BB_FACT_MNNVL_OFF, OFF},
	{"NCCL_COLLNET_ENABLE", BB_FACT_SHARP, ON},
	{"NCCL_NET_GDR_LEVEL", BB_FACT_GDR_OFF, LEVEL},
	{"NCCL_IB_DISABLE", BB_FACT_SOCKET, ON},
	{"NCCL_NET", BB_FACT_SOCKET, SOCKET},
	{"NCCL_ALGO", BB_FACT_ALGORITHM, TEXT},
	{"NCCL_PROTO", BB_FACT_PROTOCOL, TEXT},
	{"NCCL_MIN_NCHANNELS", BB_FACT_CHANNELS, NUMBER},
	{"NCCL_MAX_NCHANNELS", BB_FACT_CHANNELS, NUMBER},
	{"NCCL_IB_HCA", BB_FACT_NICS, NICS},
	{"FI_PROVIDER", BB_FACT_EFA, EFA},
};

#define VARIABLES (int)(sizeof(variables) / sizeof(variables[0]))

/* Sets FACT from VALUE of variable V. Returns false if VALUE does not state the fact. */
static bool value_read(int v, const char *value, struct bb_fact *fact)
{
	char *end;
	const long number = strtol(value, &end, 10);
	const bool is_number = end != value && !*end;
	size_t n;

	snprintf(fact->text, sizeof(fact->text), "%.31s", value);
	switch (variables[v].meaning) {
	case ON:
		return is_number && number > 0;
	case OFF:
		return is_number && number == 0;
	case LEVEL:
		return (is_number && number == 0) || strcmp(value, "LOC") == 0;
	case SOCKET:
		return strcasecmp(value, "Socket") == 0;
	case EFA:
		return strcmp(value, "efa") == 0;
	case TEXT:
		return *value && *value != '$';
	case NUMBER:
		fact->value = number;
		return is_number && number > 0 && number < 1024;
	case NICS:
		break;
	}
	/* It may exclude some, or name a family. */
	fact->value = 0;
	for (value += *value == '='; *value; value += n + (value[n] == ',')) {
		const size_t name = strcspn(value, ",:");

		n = strcspn(value, ",");
		if (name == 0 || *value == '^' || !isdigit((unsigned char)value[name - 1]) ||
		    (name == 4 && strncmp(value, "mlx", 3) == 0))
			return false;
		fact->value++;
	}
	return fact->value > 0;
}

/* Notes that variable V has the value at VALUE, a part of the line that ends at one of ENDS. */
static void variable_note(const struct reading *r, int v, const char *value, const char *ends,
			  bool observed)
{
	const enum bb_fact_kind kind = variables[v].kind;
	struct bb_fact new = {.by = v, .observed = observed};
	char copy[256];

	snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(value, ends), value);
	size_t n = strlen(copy);
	/* The full stop of NCCL's sentence. */
	while (n > 0 && strchr(".:;)`'\"", copy[n - 1]))
		copy[--n] = '\0';
	if (!value_read(v, copy, &new)) {
		if (r->facts->of[kind].by == v)
			r->facts->of[kind].line = 0;
		return;
	}
	if (strncasecmp(new.text, "CollNet", 7) == 0)
		fact_note(r, BB_FACT_SHARP, new, value);
	fact_note(r, kind, new, value);
}

/* Returns the first name at or behind TEXT that may be a variable's; NULL: none. */
static const char *name_find(const char *text)
{
	const char *const nccl = strstr(text, "NCCL_"), *const fi = strstr(text, "FI_");

	return nccl && (!fi || nccl < fi) ? nccl : fi;
}

/* Returns where the value of YAML's "value: VALUE" begins in TEXT; NULL: there is none. */
static const char *yaml_value(const char *text)
{
	const char *const key = strstr(text, "value:");

	return key ? key + 6 + strspn(key + 6, " \"'") : NULL;
}

/* Reads "NAME=VALUE", "NAME set by environment to VALUE", "NAME set to VALUE", and of YAML
   "name: NAME", "value: VALUE" in two lines. */
static void variables_read(const struct reading *r, bool settings)
{
	static const char *const says[] = {" set by environment to ", " set to "};
	static const char of_yaml[] = " \"'},";
	const int pending = r->facts->pending;
	const char *value = pending ? yaml_value(r->text) : NULL;

	if (value)
		variable_note(r, pending - 1, value, of_yaml, false);
	r->facts->pending = 0;
	for (const char *at = r->text; (at = name_find(at)); at += 3) {
		const size_t n = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
		const char before = at > r->text ? at[-1] : ' ', *const after = at + n;
		int v = 0;

		while (v < VARIABLES &&
		       (strlen(variables[v].name) != n || strncmp(at, variables[v].name, n) != 0))
			v++;
		if (v == VARIABLES || isalnum((unsigned char)before) || before == '_')
			continue;
		if (settings && *after == '=') {
			variable_note(r, v, after + 1 + strspn(after + 1, "\"'"),
				      before == ',' ? " \t\"',;" : " \t\"';", false);
		} else if (memmem(r->text, (size_t)(at - r->text), "name:", 5)) {
			value = yaml_value(after);
			r->facts->pending = value ? 0 : v + 1;
			if (value)
				variable_note(r, v, value, of_yaml, false);
		}
		for (size_t i = 0; i < 2; i++)
			if (strncmp(after, says[i], strlen(says[i])) == 0)
				variable_note(r, v, after + strlen(says[i]), " \t", true);
	}
}

/* ---- messages -------------------------------------------------------------------------------- */

/* A line that contains SAYS, and not UNLESS, reports a fact of KIND. NUMBER reads the fact's value,
   then the number of characters that it consumed. The messages of errors come first, because a
   warning adds nothing to a message that explains it. */
static const struct {
	const char *says;
	enum bb_fact_kind kind;
	const char *unless, *number;
} messages[] = {
	{"Test NCCL failure", BB_FACT_ERROR, NULL, NULL},
	{"Test CUDA failure", BB_FACT_ERROR, NULL, NULL},
	{"NVLS multicast support is not available", BB_FACT_NVLS_OFF, NULL, NULL},
	{"P2P is disabled between connected GPUs", BB_FACT_P2P_OFF, NULL, NULL},
	/* CUDA's sample p2pBandwidthLatencyTest. */
	{" CANNOT Access Peer Device=", BB_FACT_P2P_OFF, NULL, NULL},
	{"Using network Socket", BB_FACT_SOCKET, NULL, NULL},
	{"via NET/Socket", BB_FACT_SOCKET, NULL, NULL},
	{"NET/Socket : Using [", BB_FACT_SOCKET, NULL, NULL},
	{"Using network AWS Libfabric", BB_FACT_EFA, NULL, NULL},
	{"elected provider is efa", BB_FACT_EFA, NULL, NULL},
	{"elected Provider is efa", BB_FACT_EFA, NULL, NULL},
	{"Using network SHARP", BB_FACT_SHARP, NULL, NULL},
	{"via COLLNET/", BB_FACT_SHARP, NULL, NULL},
	{"NCCL INFO ", BB_FACT_CHANNELS, NULL, "NCCL INFO %lf coll channels%n"},
	/* "Channel 00/24 :    0   1   2   3" is a ring, "Channel 00/0 : 3[3] -> 4[4]" no more
	   than a connection. */
	{"NCCL INFO Channel ", BB_FACT_CHANNELS, "->", "NCCL INFO Channel %*2d/%lf :%n"},
	/* "NET/OFI Selected provider is efa, fabric is efa (found 32 nics)" */
	{"NET/OFI Selected ", BB_FACT_NICS, NULL, "NET/OFI Selected %*[^(](found %lf nics%n"},
	{"+ NET[", BB_FACT_NIC_RATE, NULL, "+ NET[%lf]%n"}, /* GB/s of a port */
	{"NCCL WARN ", BB_FACT_ERROR, NULL, NULL},
	/* It is off for a NIC that is far from the GPU, and for sends of old GPUs. */
	{"GPU Direct RDMA Disabled", BB_FACT_GDR_OFF, "(distance ", NULL},
	{"[receive] via NET/IB/", BB_FACT_GDR_OFF, "GDRDMA", NULL},
};

#define MOST_COUNTED 1024 /* channels, NICs, GB/s: more are no such number */

static void messages_read(const struct reading *r)
{
	const char *const using = strstr(r->text, "NET/IB : Using [");
	const char *const list = using ? strchr(using, '[') : NULL;
	struct bb_fact new = {.by = -1, .observed = true};
	int nroce = 0, nib = 0;
	bool explained = false;

	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		const char *const at = strstr(r->text, messages[i].says);
		double value = 0;
		int n = 0;

		if (!at || (messages[i].unless && strstr(r->text, messages[i].unless)) ||
		    (messages[i].kind == BB_FACT_ERROR && explained))
			continue;
		if (messages[i].number && (sscanf(at, messages[i].number, &value, &n) != 1 ||
					   n == 0 || !(value > 0 && value < MOST_COUNTED)))
			continue;
		if (messages[i].kind == BB_FACT_NIC_RATE)
			value *= 8;
		new.value = (int64_t)lround(value);
		fact_note(r, messages[i].kind, new, at);
		explained |= !messages[i].number;
	}
	/* "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>" */
	for (const char *c = list; c && *c && *c != ';'; c++) {
		nroce += strncmp(c, "/RoCE", 5) == 0;
		nib += strncmp(c, "/IB", 3) == 0;
	}
	if (nroce + nib == 0)
		return;
	new.value = 0;
	fact_note(r, nroce > nib ? BB_FACT_ROCE : BB_FACT_INFINIBAND, new, list);
	for (const char *c = list; c; c = strchr(c + 1, '[')) {
		const size_t digits = strspn(c + 1, "0123456789");

		if (digits == 0 || c[1 + digits] != ']')
			break;
		new.value++;
	}
	/* The fewer of two kinds serve storage. */
	if (nroce > 0 && nib > 0)
		new.value = nroce > nib ? nroce : nib;
	fact_note(r, BB_FACT_NICS, new, list);
}

void bb_log_facts_read(struct bb_log_facts *facts, const char *text, int number, bool is_command)
{
	static const char *const begins[] = {"export ", "NCCL_",   "FI_", "env ",
					     "-x ",     "setenv ", "ENV "};
	const char *content = text + strspn(text, " \t$+>-");
	const struct reading r = {facts, text, number};
	bool settings = is_command;

	content -= content > text && content[-1] == '-' && *content == 'x';
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		settings |= strncmp(content, begins[i], strlen(begins[i])) == 0;
	if (facts->pending || name_find(text))
		variables_read(&r, settings);
	if (strstr(text, "NCCL ") || strstr(text, "NET/"))
		messages_read(&r);
}

/* ---- GPUs in prose -------------------------------------------------------------------------- */

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Returns the card that is named at TEXT, whose name has *N bytes; NULL: none. "H100 80GB PCIe" is
   not "H100": then *N is above 0. */
static const struct bb_card *card_at(const char *text, size_t *n)
{
	const struct bb_card *found = NULL;
	char name[64];

	*n = 0;
	for (int i = 0; bb_card_at(i); i++) {
		const struct bb_card *const card = bb_card_at(i);

		for (int k = -1; k < 0 || (card->also && card->also[k]); k++) {
			const char *const its = k < 0 ? card->name : card->also[k];
			const size_t length = strlen(its);

			if (length <= *n || strncasecmp(text, its, length) != 0 ||
			    (is_word(text[length]) &&
			     (text[length] != 's' || is_word(text[length + 1]))))
				continue;
			*n = length;
			found = card;
		}
	}
	if (!found)
		return NULL;
	/* "H100-node-1" is a host. */
	const char *kind = text + *n + strspn(text + *n, "-_.");
	if (kind > text + *n && isalpha((unsigned char)*kind) && strncasecmp(kind, "SXM", 3) != 0 &&
	    strncasecmp(kind, "PCI", 3) != 0 && strncasecmp(kind, "NVL", 3) != 0) {
		*n = 0;
		return NULL;
	}
	kind = text + *n + strspn(text + *n, " -_");
	if (isdigit((unsigned char)*kind))
		kind += strspn(kind, "0123456789GBgbi"), kind += strspn(kind, " -_");
	if (strncasecmp(kind, "PCI", 3) != 0 && strncasecmp(kind, "NVL", 3) != 0)
		return found;
	if (strncasecmp(kind, "NVLink", 6) == 0 ||
	    is_word(kind[3 + (kind[3] == 'e' || kind[3] == 'E')]))
		return found;
	snprintf(name, sizeof(name), "%s %s", found->name,
		 *kind == 'P' || *kind == 'p' ? "PCIe" : "NVL");
	return bb_card_find(name);
}

void bb_log_card_read(struct bb_fact *card, const char *text, int number)
{
	size_t n;

	for (size_t at = 0; card->line >= 0 && text[at]; at += n > 0 ? n : 1) {
		n = 0;
		/* A word begins here, which is no part of a host's name or a path: also in "8xH100"
		   and "DGX-A100". */
		if (!strchr("ABGHLMRVabghlmrv", text[at]) ||
		    (at > 0 && !strchr(" \t(,;:\"'*", text[at - 1]) &&
		     !(at >= 2 && strchr("xX", text[at - 1]) &&
		       isdigit((unsigned char)text[at - 2])) &&
		     !(at >= 4 && (strncmp(text + at - 4, "DGX-", 4) == 0 ||
				   strncmp(text + at - 4, "HGX-", 4) == 0))))
			continue;
		const struct bb_card *const found = card_at(text + at, &n);
		if (n == 0)
			continue;
		if (!found || (card->line > 0 && strcmp(card->text, found->name) != 0)) {
			card->line = -1;
		} else if (card->line == 0) {
			card->line = number;
			snprintf(card->text, sizeof(card->text), "%s", found->name);
			bb_log_quote(card, text, at);
		}
	}
}
