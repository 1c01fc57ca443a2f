/*
 * A client of NCCL's RAS, which reports on a run that hangs. From 2.24 on NCCL has a RAS thread in
 * each process that answers lines of text over TCP (src/ras/client.cc of NCCL). NCCL's own client,
 * ncclras, prints the same text, but the packages of NCCL that pip and PyTorch install have none.
 * Nothing here blocks: each call continues the inquiry as far as it can, until its time is over.
 */
#include "backends/nccl/nccl.h"

#include "core/clock.h"
#include "core/printable.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEFAULT_ADDRESS "localhost:28028"
/* TIMEOUT: seconds that RAS waits for processes that do not respond. */
#define REQUEST "CLIENT PROTOCOL 2\nTIMEOUT 1\nSTATUS\n"
#define GREETING_S 0.4 /* then a new connection may reach another process than the stuck one */
#define MOST_BYTES ((size_t)1 << 16)

struct bb_nccl_ras {
	double begun, connected; /* times of the inquiry and of the present connection */
	int socket;              /* -1: none */
	bool requested;          /* on the present connection */
	int next_address;        /* index of the next address of localhost */
	int error;               /* errno of the last connection */
	char host[64];           /* without brackets */
	const char *address;     /* as given, with the port */
	struct bb_strbuf answer;
};

/* ---- connecting ---------------------------------------------------------------------------- */

static void disconnect(struct bb_nccl_ras *ras)
{
	if (ras->socket >= 0)
		close(ras->socket);
	ras->socket = -1;
	ras->requested = false;
	bb_strbuf_clear(&ras->answer);
}

/* False: no address accepts a connection. */
static bool connect_next(struct bb_nccl_ras *ras)
{
	static const char *const loopback[] = {"127.0.0.1", "::1"};
	const bool local = strcmp(ras->host, "localhost") == 0;
	/* Numeric addresses only: a look-up of names may block. */
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				       .ai_socktype = SOCK_STREAM};
	struct addrinfo *at;

	for (disconnect(ras); ras->next_address < 1 + local; ras->next_address++) {
		ras->error = EDESTADDRREQ;
		if (getaddrinfo(local ? loopback[ras->next_address] : ras->host,
				strrchr(ras->address, ':') + 1, &hints, &at) != 0)
			continue;
		ras->error = 0;
		ras->socket = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (ras->socket < 0 || (connect(ras->socket, at->ai_addr, at->ai_addrlen) != 0 &&
					errno != EINPROGRESS))
			ras->error = errno;
		freeaddrinfo(at);
		if (!ras->error) {
			ras->connected = bb_clock_now();
			return true;
		}
		disconnect(ras);
	}
	return false;
}

/* ---- the answer -------------------------------------------------------------------------- */

/* Append what stands under Errors and Warnings, on one line. */
static void quote_findings(const char *text, struct bb_strbuf *out)
{
	const char *const start = strstr(text, "\nErrors\n");
	const char *before = "reports ";
	bool finds = false;

	if (!start) {
		bb_strbuf_add(out, "sent no status");
		return;
	}
	for (const char *line = start + strlen("\nErrors\n"); *line;) {
		const size_t length = strcspn(line, "\n");
		const size_t indent = strspn(line, " ");

		if (indent < length && strspn(line, "=") < length &&
		    strncmp(line, "Warnings\n", strlen("Warnings\n")) != 0) {
			/* An indented line belongs to the heading before it. */
			bb_strbuf_addf(out, "%s%.*s", before, (int)(length - indent),
				       line + indent);
			before = indent == 0 ? ": " : "; ";
			finds = true;
		}
		line += length + (line[length] == '\n');
	}
	if (finds)
		return;
	if (!strstr(start, "\nWarnings\n"))
		bb_strbuf_add(out, "sent an incomplete status");
	else if (strstr(text, "No communicator data"))
		bb_strbuf_add(out, "has no communicator");
	else
		bb_strbuf_add(out, "finds no error");
}

/* ---- the inquiry ---------------------------------------------------------------------------- */

const char *bb_nccl_ras_address(const struct bb_nccl_library *library)
{
	const char *const enabled = getenv("NCCL_RAS_ENABLE");
	const char *const given = getenv("NCCL_RAS_ADDR");

	if (library->version < BB_NCCL_SINCE_RAS || (enabled && strcmp(enabled, "0") == 0))
		return NULL;
	return given && strchr(given, ':') ? given : DEFAULT_ADDRESS;
}

/* True: the inquiry has ended, with or without an answer; it may be too long to be one. */
static bool inquiry_step(struct bb_nccl_ras *ras)
{
	const double now = bb_clock_now();
	struct pollfd ready = {.events = POLLOUT};
	socklen_t size = sizeof(ras->error);
	char part[4096];
	ssize_t bytes;

	if (now > ras->begun + BB_DIAGNOSIS_S)
		return true;
	if (ras->socket >= 0 && !ras->answer.length && now > ras->connected + GREETING_S)
		disconnect(ras);
	if (ras->socket < 0 && !connect_next(ras))
		return true;
	ready.fd = ras->socket;
	if (!ras->requested && poll(&ready, 1, 0) <= 0)
		return false;
	if (!ras->requested &&
	    getsockopt(ras->socket, SOL_SOCKET, SO_ERROR, &ras->error, &size) == 0 && !ras->error) {
		/* It fits into the empty send buffer of a new connection. */
		ras->requested = send(ras->socket, REQUEST, strlen(REQUEST), MSG_NOSIGNAL) ==
				 (ssize_t)strlen(REQUEST);
		ras->error = ras->requested ? 0 : EPIPE;
	}
	if (!ras->requested) { /* the connection has failed */
		ras->next_address++;
		disconnect(ras);
		return false;
	}
	while (ras->requested && ras->answer.length < MOST_BYTES) {
		bytes = recv(ras->socket, part, sizeof(part), 0);
		if (bytes <= 0)
			return bytes == 0 || (errno != EAGAIN && errno != EINTR);
		bb_strbuf_add_bytes(&ras->answer, part, (size_t)bytes);
	}
	return ras->requested;
}

bool bb_nccl_diagnose(struct bb_context *context, struct bb_strbuf *out)
{
	const char *const address = context->ras_address;
	struct bb_nccl_ras *ras = context->ras;
	struct bb_strbuf text = {0};

	if (address && !ras) {
		const bool ipv6 = address[0] == '[';
		const int port = (int)(strrchr(address, ':') - address);

		ras = context->ras = calloc(1, sizeof(*ras));
		if (!ras)
			return true;
		*ras = (struct bb_nccl_ras){
			.address = address, .socket = -1, .begun = bb_clock_now()};
		snprintf(ras->host, sizeof(ras->host), "%.*s", port - ipv6, address + ipv6);
		ras->host[strcspn(ras->host, "]")] = '\0';
	}
	if (!ras)
		return true;
	if (!inquiry_step(ras))
		return false;
	bb_strbuf_addf(&text, "NCCL's RAS at %s ", ras->address);
	if (ras->error == EDESTADDRREQ)
		bb_strbuf_add(&text, "was not asked: NCCL_RAS_ADDR needs a numeric address");
	else if (ras->error)
		bb_strbuf_addf(&text, "was not reached: %s", strerror(ras->error));
	else if (!ras->answer.length)
		bb_strbuf_add(&text, "did not answer");
	else
		quote_findings(bb_strbuf_text(&ras->answer), &text);
	bb_printable_add(out, bb_strbuf_text(&text));
	bb_strbuf_free(&text);
	return true;
}

void bb_nccl_diagnose_end(struct bb_context *context)
{
	if (!context->ras)
		return;
	disconnect(context->ras);
	bb_strbuf_free(&context->ras->answer);
	free(context->ras);
}
