/*
 * How the library moves bytes between processes of one host. Open MPI decides when it starts and
 * closes unused components, which then have no control variables. The remaining variables therefore
 * show which mechanism carries messages, whatever was requested.
 */
#include "backends/mpi/mpi.h"

#include <stdio.h>
#include <string.h>

#define MECHANISM "btl_vader_single_copy_mechanism"
#define NAMES_BYTES 40

static const struct bb_library_state states[] = {
#ifdef OPEN_MPI
	{"single copy, from process to process", "OMPI_MCA_" MECHANISM "=cma", true},
	{"shared memory, two copies", "OMPI_MCA_" MECHANISM "=none", false},
	{"no shared memory, but TCP", "OMPI_MCA_btl=self,tcp", false},
#endif
	{NULL, NULL, false},
};

/* Is WORD one of LIST, "self,tcp"? */
static bool lists(const char *list, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
		if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == '\0'))
			return true;
	return false;
}

/* *FOUND = the mechanism that this process sees. */
static void detect(struct bb_context *context, struct bb_mpi_found *found)
{
	struct bb_mpi_controls *controls = &context->controls;
	char pml[NAMES_BYTES], btl[NAMES_BYTES], mechanism[NAMES_BYTES] = "";

	bb_mpi_controls_open(controls);
	bb_mpi_components(controls, "pml_", "_priority", pml, sizeof(pml));
	bb_mpi_components(controls, "btl_", "_exclusivity", btl, sizeof(btl));
	found->p2p = true;
	if (strcmp(pml, "ob1") != 0) {
		snprintf(found->text, sizeof(found->text), "not known: pml=%s", pml);
	} else if (!lists(btl, "vader") && !lists(btl, "sm")) {
		found->p2p = false;
		snprintf(found->text, sizeof(found->text), "no shared memory: pml=ob1 btl=%s", btl);
	} else if (!bb_mpi_control_read(controls, MECHANISM, mechanism, sizeof(mechanism))) {
		snprintf(found->text, sizeof(found->text), "not known: pml=ob1 btl=%s", btl);
	} else {
		found->p2p = strcmp(mechanism, "none") != 0;
		snprintf(found->text, sizeof(found->text), "%s: pml=ob1 btl=%s " MECHANISM "=%s",
			 found->p2p ? "single copy" : "shared memory, two copies", btl, mechanism);
	}
}

/* The lowest rank that shares its host, else 0: a rank alone opens no shared memory. */
static int speaker(const struct bb_context *context)
{
	for (int r = 0; r < context->cpu.world.nranks; r++)
		if (context->hosts[r] != r)
			return context->hosts[r];
	return 0;
}

static bb_status library_p2p(struct bb_context *context, bool *p2p, char text[BB_SWITCH_TEXT])
{
	struct bb_mpi_found *found = &context->found;
	bb_status status = BB_OK;

	*found = (struct bb_mpi_found){.p2p = true};
	if (!states[0].name)
		snprintf(found->text, sizeof(found->text),
			 "unknown: the library has no known switch");
	else
		detect(context, found);
	BB_TRY(status,
	       bb_mpi_check(context, "MPI_Bcast",
			    MPI_Bcast(found, (int)sizeof(*found), MPI_BYTE, speaker(context),
				      context->comm)),
	       out);
	snprintf(found->why, sizeof(found->why),
		 "the library does not copy from process to process (%s)", found->text);
	*p2p = found->p2p;
	memcpy(text, found->text, BB_SWITCH_TEXT);
out:
	return status;
}

const struct bb_route_switch bb_mpi_route_switch = {.states = states, .p2p = library_p2p};
