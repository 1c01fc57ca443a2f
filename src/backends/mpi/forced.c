/*
 * Algorithms that the library names. Open MPI exposes them through MPI's tool interface: a control
 * variable per collective, whose values are an enumeration of names. Its component reads the
 * variable when a communicator is created, so a duplicate created while the variable is set keeps
 * that algorithm, and all other communicators keep theirs.
 */
#include "backends/mpi/mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMPONENT "tuned" /* of Open MPI, whose algorithms these are */
#define NAME_BYTES 64
#define MOST_NAMES 64

static const char *const functions[] = {
	[BB_MPI_ALLREDUCE] = "allreduce",
	[BB_MPI_ALLGATHER] = "allgather",
	[BB_MPI_REDUCE_SCATTER_BLOCK] = "reduce_scatter_block",
	[BB_MPI_REDUCE_SCATTER] = "reduce_scatter",
	[BB_MPI_BCAST] = "bcast",
	[BB_MPI_REDUCE] = "reduce",
	[BB_MPI_GATHER] = "gather",
	[BB_MPI_SCATTER] = "scatter",
	[BB_MPI_ALLTOALL] = "alltoall",
	[BB_MPI_ALLTOALLV] = "alltoallv",
};

/* ---- control variables ------------------------------------------------------------------ */

struct variable {
	int index;
	int scope;
	MPI_T_enum names;
};

static bool find_variable(const char *name, struct variable *v)
{
	int verbosity, bind, none = 0;
	MPI_Datatype type;

	return MPI_T_cvar_get_index(name, &v->index) == MPI_SUCCESS &&
	       MPI_T_cvar_get_info(v->index, NULL, &none, &verbosity, &type, &v->names, NULL, NULL,
				   &bind, &v->scope) == MPI_SUCCESS;
}

static bool find_choice(enum bb_mpi_function function, struct variable *v)
{
	char name[2 * NAME_BYTES];

	snprintf(name, sizeof(name), "coll_" COMPONENT "_%s_algorithm", functions[function]);
	return find_variable(name, v) && v->scope != MPI_T_SCOPE_CONSTANT &&
	       v->scope != MPI_T_SCOPE_READONLY && v->names != MPI_T_ENUM_NULL;
}

/* Read VALUE, whose BYTES are more than the variable's number has, with zeros behind it; or, BYTES
   0, write it, an int. */
static bool pass_variable(const struct variable *v, void *value, size_t bytes)
{
	MPI_T_cvar_handle handle;
	int count, code = MPI_ERR_COUNT;

	memset(value, 0, bytes);
	if (MPI_T_cvar_handle_alloc(v->index, NULL, &handle, &count) != MPI_SUCCESS)
		return false;
	if (bytes == 0)
		code = MPI_T_cvar_write(handle, value);
	else if (count == 1)
		code = MPI_T_cvar_read(handle, value);
	MPI_T_cvar_handle_free(&handle);
	return code == MPI_SUCCESS;
}

/* ---- names ------------------------------------------------------------------------------ */

#define PREFIX "native:"

/* What bb_mpi_discover returns: plain `native`, then all names over all functions. */
struct discovered {
	struct bb_native natives[1 + MOST_NAMES + 1];
	struct bb_mpi_forced forced[MOST_NAMES];
	char names[MOST_NAMES][sizeof(PREFIX) + NAME_BYTES];
};

static void read_names(struct discovered *d)
{
	int n = 0;

	for (enum bb_mpi_function f = 0; f < BB_MPI_FUNCTIONS; f++) {
		struct variable v;
		int items = 0, none = 0;

		if (!find_choice(f, &v) ||
		    MPI_T_enum_get_info(v.names, &items, NULL, &none) != MPI_SUCCESS)
			continue;
		for (int i = 0; i < items; i++) {
			char name[NAME_BYTES];
			int value, length = sizeof(name), k = 0;

			/* Value 0 lets the library choose. */
			if (MPI_T_enum_get_item(v.names, i, &value, name, &length) != MPI_SUCCESS ||
			    value == 0)
				continue;
			while (k < n && strcmp(d->names[k] + strlen(PREFIX), name) != 0)
				k++;
			if (k == MOST_NAMES)
				continue;
			n = k == n ? n + 1 : n;
			d->forced[k].value[f] = value;
			d->forced[k].only_pairs = strcmp(name, "two_proc") == 0;
			snprintf(d->names[k], sizeof(d->names[k]), PREFIX "%s", name);
			d->natives[1 + k] = bb_mpi_natives[0];
			d->natives[1 + k].name = d->names[k];
			d->natives[1 + k].brief = "the MPI library's algorithm of that name";
			d->natives[1 + k].own = &d->forced[k];
			d->natives[1 + k].discover = NULL;
		}
	}
}

bb_status bb_mpi_discover(struct bb_native **natives, struct bb_error *error)
{
	struct discovered *d = calloc(1, sizeof(*d));
	int provided;

	if (!d)
		return bb_no_memory(error, "algorithms");
	d->natives[0] = bb_mpi_natives[0];
	if (BB_MPI_NAMES_ALGORITHMS &&
	    MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS) {
		read_names(d);
		MPI_T_finalize();
	}
	*natives = d->natives;
	return BB_OK;
}

/* ---- forcing ---------------------------------------------------------------------------- */

static void mpi_controls_open(struct bb_mpi_controls *controls)
{
	struct variable v;
	int provided;
	uint64_t on;

	if (controls->open || controls->reason)
		return;
	controls->open = MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS;
	if (!controls->open)
		controls->reason = "the MPI library has no tool interface";
	else if (!find_variable("coll_" COMPONENT "_use_dynamic_rules", &v) ||
		 !pass_variable(&v, &on, sizeof(on)))
		controls->reason = "this MPI library's algorithms cannot be chosen";
	else if (!on)
		controls->reason = "OMPI_MCA_coll_" COMPONENT
				   "_use_dynamic_rules is off, so the library ignores the choice";
}

void bb_mpi_controls_close(struct bb_mpi_controls *controls)
{
	if (controls->open)
		MPI_T_finalize();
	controls->open = false;
}

/* TEXT = name of the value of control variable NAME, cut at ROOM; false: there is none. */
static bool mpi_control_read(const struct bb_mpi_controls *controls, const char *name, char *text,
			     size_t room)
{
	struct variable v;
	int set, value, items = 0, none = 0;

	if (!controls->open || !find_variable(name, &v) || v.names == MPI_T_ENUM_NULL ||
	    !pass_variable(&v, &set, sizeof(set)) ||
	    MPI_T_enum_get_info(v.names, &items, NULL, &none) != MPI_SUCCESS)
		return false;
	for (int i = 0; i < items; i++) {
		int length = (int)room;

		if (MPI_T_enum_get_item(v.names, i, &value, text, &length) == MPI_SUCCESS &&
		    value == set)
			return true;
	}
	return false;
}

/*
 * TEXT = names of FRAMEWORK's open components, "self,tcp", cut at ROOM: for FRAMEWORK "btl_" those
 * with a control variable "btl_NAME" SUFFIX. "none": no component is open, or the library does not
 * report them.
 */
static void mpi_components(const struct bb_mpi_controls *controls, const char *framework,
			   const char *suffix, char *text, size_t room)
{
	const size_t before = strlen(framework), behind = strlen(suffix);
	size_t used = 0;
	int n = 0;

	snprintf(text, room, "none");
	if (!controls->open || MPI_T_cvar_get_num(&n) != MPI_SUCCESS)
		return;
	for (int i = 0; i < n && used < room; i++) {
		char name[2 * NAME_BYTES];
		int length = sizeof(name), none = 0, verbosity, bind, scope;
		MPI_Datatype type;

		/* Variables of closed components keep their numbers but cannot be read. */
		if (MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, NULL, NULL, &none,
					&bind, &scope) != MPI_SUCCESS)
			continue;
		const size_t bytes = strlen(name);
		if (bytes <= before + behind || strncmp(name, framework, before) != 0 ||
		    strcmp(name + bytes - behind, suffix) != 0)
			continue;
		used += (size_t)snprintf(text + used, room - used, "%s%.*s", used ? "," : "",
					 (int)(bytes - before - behind), name + before);
	}
}

int bb_mpi_force(struct bb_mpi_controls *controls, MPI_Comm comm, enum bb_mpi_function function,
		 int value, MPI_Comm *forced, const char **reason)
{
	struct variable v;
	MPI_Info info;
	int before, mine, all = 0, code;

	*forced = MPI_COMM_NULL;
	mpi_controls_open(controls);
	*reason = controls->reason;
	mine = !*reason && find_choice(function, &v) &&
	       pass_variable(&v, &before, sizeof(before)) && pass_variable(&v, &value, 0);
	/* The environment of each rank is its own. */
	code = MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
	if (code == MPI_SUCCESS && all)
		code = MPI_Info_create(&info);
	if (code == MPI_SUCCESS && all) {
		/* The component whose variable is set is to serve the duplicate. */
		code = MPI_Info_set(info, "ompi_comm_coll_preference", COMPONENT);
		if (code == MPI_SUCCESS)
			code = MPI_Comm_dup_with_info(comm, info, forced);
		MPI_Info_free(&info);
	}
	if (mine && !pass_variable(&v, &before, 0) && code == MPI_SUCCESS)
		code = MPI_ERR_INTERN;
	if (!all && !*reason)
		*reason = mine ? "on another rank the library's algorithms cannot be chosen"
			       : "the MPI library does not let this algorithm be chosen";
	return code;
}

/* ---- how bytes move within a host ---------------------------------------------------- */

/*
 * How the library moves bytes between processes of one host. Open MPI decides when it starts and
 * closes unused components, which then have no control variables. The remaining variables therefore
 * show which mechanism carries messages, whatever was requested.
 */

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

static bb_status library_p2p(struct bb_context *context, bool *p2p, char text[BB_SWITCH_TEXT])
{
	struct bb_mpi_controls *controls = &context->controls;
	struct bb_mpi_found *found = &context->found;
	char pml[NAMES_BYTES] = "", btl[NAMES_BYTES] = "", mechanism[NAMES_BYTES] = "";
	/* The lowest rank that shares its host, else 0: a rank alone opens no shared memory. */
	int speaker = 0;
	bb_status status;

	for (int r = context->cpu.world.nranks - 1; r >= 0; r--)
		speaker = context->hosts[r] != r ? context->hosts[r] : speaker;
	*found = (struct bb_mpi_found){.p2p = true};
	if (states[0].name) {
		mpi_controls_open(controls);
		mpi_components(controls, "pml_", "_priority", pml, sizeof(pml));
		mpi_components(controls, "btl_", "_exclusivity", btl, sizeof(btl));
	}
	/* The mechanism that this process sees. */
	if (!states[0].name) {
		snprintf(found->text, sizeof(found->text),
			 "unknown: the library has no known switch");
	} else if (strcmp(pml, "ob1") != 0) {
		snprintf(found->text, sizeof(found->text), "not known: pml=%s", pml);
	} else if (!bb_list_has(btl, ',', "vader") && !bb_list_has(btl, ',', "sm")) {
		found->p2p = false;
		snprintf(found->text, sizeof(found->text), "no shared memory: pml=ob1 btl=%s", btl);
	} else if (!mpi_control_read(controls, MECHANISM, mechanism, sizeof(mechanism))) {
		snprintf(found->text, sizeof(found->text), "not known: pml=ob1 btl=%s", btl);
	} else {
		found->p2p = strcmp(mechanism, "none") != 0;
		snprintf(found->text, sizeof(found->text), "%s: pml=ob1 btl=%s " MECHANISM "=%s",
			 found->p2p ? "single copy" : "shared memory, two copies", btl, mechanism);
	}
	BB_TRY(status,
	       bb_mpi_check(
		       context, "MPI_Bcast",
		       MPI_Bcast(found, (int)sizeof(*found), MPI_BYTE, speaker, context->comm)),
	       out);
	snprintf(found->why, sizeof(found->why),
		 "the library does not copy from process to process (%s)", found->text);
	*p2p = found->p2p;
	memcpy(text, found->text, BB_SWITCH_TEXT);
out:
	return status;
}

const struct bb_route_switch bb_mpi_route_switch = {.states = states, .p2p = library_p2p};
