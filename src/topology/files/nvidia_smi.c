/*
 * nvidia_smi.c - what nvidia-smi prints: the matrix of topo -m, and in the same text, before or
 * after it, nvlink -s or -L, whose models give the NVLinks their rates.
 *
 * A matrix has classes of paths, no buses: a tree of switches is made up that has these paths.
 * Prompts and other lines between are passed over.
 */
#include "topology/build.h"
#include "topology/files/formats.h"
#include "topology/rates.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 256 /* devices of a matrix */
#define WORDS (MOST + 8)
#define MOST_CPU 65536 /* hardware threads, by number */
#define MOST_DIRECT 18 /* NVLinks of a GPU; more between pairs in all lead through NVSwitches */

struct column {
	char name[32], affinity[256];
	int numa;   /* -1 unknown */
	int number; /* of a GPU */
	bool seen, gpu;
};

/* Devices joined by paths up to a class have the same number at its level. */
enum level { LEVEL_PIX, LEVEL_PXB, LEVEL_PHB, LEVEL_NODE, LEVELS };

struct smi {
	struct bb_topology *t;
	struct bb_error *error;
	int line, n; /* columns of the matrix; 0: not there yet */
	bool ended;  /* a line after the matrix has been read */
	bool listed; /* a GPU has been listed by -L or nvlink -s */
	struct column columns[MOST];
	short links[MOST][MOST]; /* NVLinks */
	short groups[LEVELS][MOST];
	char models[BB_MOST_GPUS][BB_TEXT];
	int up[BB_MOST_GPUS], down[BB_MOST_GPUS]; /* links by nvlink -s */
	int gpu;                                  /* the one whose links are listed; -1: none */
	int ports[2][MOST]; /* by level and group: index + 1 of a switch; 0: none yet */
};

/* ---- lines and words ------------------------------------------------------------------------- */

/* The number in "GPU12"; -1: WORD is no GPU. */
static int gpu_number(const char *word)
{
	const bool is = strncmp(word, "GPU", 3) == 0 && word[3] &&
			word[3 + strspn(word + 3, "0123456789")] == '\0' && strlen(word) < 8;

	return is ? (int)strtol(word + 3, NULL, 10) : -1;
}

static int level_of(const char *word)
{
	static const char *const names[] = {"PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "X", "N/A"};

	for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++)
		if (strcmp(word, names[i]) == 0)
			return i < LEVELS ? i : LEVELS;
	return -1;
}

/* ---- the matrix ------------------------------------------------------------------------------ */

static int find_column(const struct smi *s, const char *name)
{
	for (int i = 0; i < s->n; i++)
		if (strcmp(s->columns[i].name, name) == 0)
			return i;
	return -1;
}

static void join(struct smi *s, int level, int a, int b)
{
	for (; level < LEVELS; level++) {
		const short from = s->groups[level][a], to = s->groups[level][b];

		for (int i = 0; i < s->n; i++)
			if (s->groups[level][i] == from)
				s->groups[level][i] = to;
	}
}

/* Whether TEXT is a list such as "0-47,96-143" with possible numbers. */
static bool is_cpu_list(const char *text)
{
	for (char *end;; text = end + 1) {
		if (!isdigit((unsigned char)*text) || strtol(text, &end, 10) >= MOST_CPU)
			return false;
		if (*end != ',' && *end != '-')
			return !*end;
	}
}

static bb_status read_row(struct smi *s, int row, char *const *words, int n)
{
	struct column *c = &s->columns[row];

	if (n <= s->n)
		return bb_fail(
			s->error, BB_EUSAGE,
			"line %d: the row of %s has %d of %d paths; the output of nvidia-smi "
			"topo -m is cut off",
			s->line, c->name, n - 1, s->n);
	for (int i = 0; i < s->n; i++) {
		const char *const word = words[1 + i];
		const int level = level_of(word);
		const bool links = strncmp(word, "NV", 2) == 0;
		char *end = NULL;
		const long count = links ? strtol(word + 2, &end, 10) : 0;

		if (links && end > word + 2 && !*end && count > 0 && count < 100 && row != i)
			s->links[row][i] = s->links[i][row] = (short)count;
		else if (level < 0)
			return bb_fail(s->error, BB_EUSAGE,
				       "line %d: \"%.16s\" in the row of %s is no path of "
				       "nvidia-smi topo -m",
				       s->line, word, c->name);
		else if (level < LEVELS)
			join(s, level, row, i);
	}
	c->seen = true;
	if (n > 1 + s->n && is_cpu_list(words[1 + s->n]))
		snprintf(c->affinity, sizeof(c->affinity), "%s", words[1 + s->n]);
	if (n > 2 + s->n && is_cpu_list(words[2 + s->n]) && strlen(words[2 + s->n]) < 6)
		c->numa = (int)strtol(words[2 + s->n], NULL, 10);
	return BB_OK;
}

/* ---- models and links ------------------------------------------------------------------------ */

/* "GPU 0: NVIDIA H100 80GB HBM3 (UUID: …)" and, below it, "Link 3: 26.562 GB/s" or "<inactive>". */
static void read_model(struct smi *s, const char *line)
{
	char model[BB_TEXT] = "";
	int gpu, link;

	line += strspn(line, " \t");
	if (sscanf(line, "GPU %3d: %63[^(\r]", &gpu, model) == 2) {
		s->listed = true;
		s->gpu = gpu >= 0 && gpu < BB_MOST_GPUS ? gpu : -1;
		if (s->gpu >= 0) {
			size_t length = strlen(model);

			while (length > 0 && model[length - 1] == ' ')
				model[--length] = '\0';
			snprintf(s->models[gpu], BB_TEXT, "%s",
				 strncmp(model, "NVIDIA ", 7) == 0 ? model + 7 : model);
			s->up[gpu] = s->down[gpu] = 0;
		}
	} else if (s->gpu >= 0 && sscanf(line, "Link %3d: %15s", &link, model) == 2) {
		if (isdigit((unsigned char)model[0]))
			s->up[s->gpu]++;
		else
			s->down[s->gpu]++;
	}
}

static bb_status read_line(struct smi *s, char *line)
{
	char *words[WORDS], *rest = NULL;
	int n = 0, column;

	read_model(s, line);
	for (char *w = strtok_r(line, " \t\r", &rest); w && n < WORDS;
	     w = strtok_r(NULL, " \t\r", &rest))
		words[n++] = w;
	if (n == 0)
		return BB_OK;
	/* A row has a path after its first name; the header names devices up to "CPU Affinity". */
	if (!s->ended && s->n == 0 && n > 1 && gpu_number(words[0]) >= 0 &&
	    level_of(words[1]) < 0 && strncmp(words[1], "NV", 2) != 0) {
		for (int i = 0; i < n && strcmp(words[i], "CPU") != 0; i++) {
			struct column *c = &s->columns[s->n];

			if (s->n == MOST)
				return bb_fail(s->error, BB_EUSAGE, "line %d: more than %d devices",
					       s->line, MOST);
			*c = (struct column){.numa = -1, .number = gpu_number(words[i])};
			c->gpu = c->number >= 0;
			if (c->number >= BB_MOST_GPUS)
				return bb_fail(s->error, BB_EUSAGE, "line %d: more than %d GPUs",
					       s->line, BB_MOST_GPUS);
			if (find_column(s, words[i]) >= 0)
				return bb_fail(s->error, BB_EUSAGE,
					       "line %d: two devices are called %.31s", s->line,
					       words[i]);
			snprintf(c->name, sizeof(c->name), "%s", words[i]);
			for (int l = 0; l < LEVELS; l++)
				s->groups[l][s->n] = (short)s->n;
			s->n++;
		}
		return BB_OK;
	}
	column = find_column(s, words[0]);
	if (column >= 0 && !s->ended && !s->columns[column].seen)
		return read_row(s, column, words, n);
	s->ended = s->ended || (s->n > 0 && s->columns[0].seen);
	/* The legend of NICs: "NIC0: mlx5_0". */
	words[0][strcspn(words[0], ":")] = '\0';
	column = find_column(s, words[0]);
	if (s->ended && n == 2 && column >= 0 && !s->columns[column].gpu)
		snprintf(s->columns[column].name, sizeof(s->columns[column].name), "%s", words[1]);
	return BB_OK;
}

/* ---- the model ------------------------------------------------------------------------------- */

static bb_status add_object(struct smi *s, int column, int numa, int parent, enum bb_pci_role role,
			    int *index)
{
	struct bb_pci p = {.class_code = 0x0604,
			   .role = role,
			   .parent = parent,
			   .root = s->groups[LEVEL_PHB][column],
			   .numa = numa};

	if (role == BB_PCI_ENDPOINT) {
		p.class_code = s->columns[column].gpu ? 0x0302 : 0x0200;
		p.vendor = s->columns[column].gpu ? 0x10de : 0;
	}
	snprintf(p.id, sizeof(p.id), "%04x:%02x:00.0", (s->t->npcis + 1) / 256 & 0xffff,
		 (s->t->npcis + 1) % 256);
	return bb_add_pci(s->t, &p, index, s->error);
}

/* Add the device of COLUMN below its switches. */
static bb_status add_column(struct smi *s, int column)
{
	const struct column *const c = &s->columns[column];
	struct bb_device d = {.kind = c->gpu ? BB_GPU : BB_NIC};
	int port = -1;
	bool shared = false, below = false;
	bb_status st = BB_OK;

	d.numa = bb_host_numa(&s->t->host, c->numa);
	if (d.numa < 0) {
		const struct bb_numa numa = {.os = c->numa, .package = -1};

		BB_TRY(st, bb_add_numa(s->t, &numa, c->affinity, &d.numa, s->error), out);
	}
	/* An outer switch, if some paths pass several; then each device is below an inner one. */
	for (int i = 0; i < s->n; i++) {
		const bool pix = s->groups[LEVEL_PIX][i] == s->groups[LEVEL_PIX][column];

		shared |= pix && i != column;
		below |= !pix && s->groups[LEVEL_PXB][i] == s->groups[LEVEL_PXB][column];
	}
	for (int level = LEVEL_PXB; level >= LEVEL_PIX; level--) {
		int *const up = &s->ports[level][s->groups[level][column]];

		if (!below && (level == LEVEL_PXB || !shared))
			continue;
		if (*up == 0) {
			BB_TRY(st, add_object(s, column, d.numa, port, BB_PCI_SWITCH_UP, up), out);
			++*up;
		}
		port = *up - 1;
	}
	BB_TRY(st, add_object(s, column, d.numa, port, BB_PCI_ENDPOINT, &d.pci), out);
	if (c->gpu) {
		snprintf(d.model, sizeof(d.model), "%s", s->models[c->number]);
		d.sm = bb_gpu_sm(d.model);
	} else {
		snprintf(d.name, sizeof(d.name), "%s", c->name);
	}
	st = bb_add_device(s->t, &d, NULL, s->error);
out:
	return st;
}

/* Add the NVLinks of GPU COLUMN: to switches if a GPU would have too many otherwise. */
static bb_status add_links(struct smi *s, int column, bool switched)
{
	const int number = s->columns[column].number;
	struct bb_link l = bb_gpu_links(s->t, column, BB_PEER_SWITCH, 0);
	int most = 0;
	bb_status st = BB_OK;

	l.down = s->up[number] > 0 ? s->down[number] : 0;
	for (int k = 0; k < s->n; k++) {
		l.count = s->columns[k].gpu ? s->links[column][k] : 0;
		l.peer = k;
		most = l.count > most ? l.count : most;
		if (!switched && l.count > 0) {
			BB_TRY(st, bb_add_link(s->t, &l, s->error), out);
			l.down = 0;
		}
	}
	l.peer = BB_PEER_SWITCH;
	l.count = most;
	if (switched && most > 0)
		st = bb_add_link(s->t, &l, s->error);
out:
	return st;
}

/* Device I of the model is column I. */
static bb_status build(struct smi *s)
{
	const short *const groups = s->groups[LEVEL_NODE];
	bool switched = false;
	bb_status st = BB_OK;

	/* Devices without the number of a NUMA node get that of a GPU in their group, or one that
	   none has. */
	for (int i = 0; i < s->n; i++) {
		int number = -1;

		for (int k = 0; k < s->n && number < 0; k++)
			number = groups[k] == groups[i] ? s->columns[k].numa : -1;
		for (int k = 0, unused = 0; k <= s->n && number < 0; k++)
			if (k == s->n) {
				number = unused;
			} else if (s->columns[k].numa == unused) {
				unused++;
				k = -1;
			}
		if (s->columns[i].numa < 0)
			s->columns[i].numa = number;
	}
	for (int i = 0; i < s->n; i++) {
		const struct column *const c = &s->columns[i];
		int links = 0;

		if (c->gpu && !c->seen)
			return bb_fail(s->error, BB_EUSAGE,
				       "the row of %s is missing; the output of nvidia-smi topo -m "
				       "is cut off",
				       c->name);
		BB_TRY(st, add_column(s, i), out);
		for (int k = 0; k < s->n && c->gpu; k++)
			links += s->columns[k].gpu ? s->links[i][k] : 0;
		switched = switched || links > MOST_DIRECT;
	}
	for (int i = 0; i < s->n; i++)
		if (s->columns[i].gpu)
			BB_TRY(st, add_links(s, i, switched), out);
out:
	return st;
}

bb_status bb_read_nvidia_smi(const char *text, size_t length, struct bb_topology *t, bool *found,
			     struct bb_error *error)
{
	const char *const end = text + length;
	struct smi *s = calloc(1, sizeof(*s));
	char line[8192];
	bb_status st = BB_OK;

	*found = true;
	if (!s)
		return bb_no_memory(error, "a matrix");
	s->t = t;
	s->error = error;
	s->gpu = -1;
	while (text < end) {
		size_t at = 0;

		/* Without escapes for colours. */
		for (; text < end && *text != '\n'; text++) {
			if (*text != '\x1b') {
				if (*text != '\0' && at + 1 < sizeof(line))
					line[at++] = *text;
				continue;
			}
			while (text + 1 < end && text[1] != '\n' && !isalpha((unsigned char)*text))
				text++;
		}
		line[at] = '\0';
		text += text < end;
		s->line++;
		BB_TRY(st, read_line(s, line), out);
	}
	*found = s->n > 0 || s->listed;
	if (s->n == 0 && s->listed)
		st = bb_fail(
			error, BB_EUSAGE,
			"nvidia-smi -L and nvlink -s do not show which GPUs the links join; add "
			"the output of nvidia-smi topo -m to the file, or give NCCL's dump "
			"(NCCL_TOPO_DUMP_FILE)");
	else if (s->n > 0)
		st = build(s);
	snprintf(t->source, sizeof(t->source), "nvidia-smi topo -m; it has no rates and no buses");
out:
	free(s);
	return st;
}
