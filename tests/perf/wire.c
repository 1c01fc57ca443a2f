/*
 * wire NS_A NAME_A NS_B NAME_B DELAY_US RATE_MBIT
 *
 * A link between two network namespaces (paths, as /proc/PID/ns/net) with a constant delay each way
 * and a rate (0: none), for kernels that cannot delay packets themselves. Makes a network device at
 * each end, says "ready", and carries Ethernet frames between the two until it is killed. What it
 * costs itself, some 50 us from end to end, is not taken off the delay.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MOST_FRAMES 8192 /* on the way in one direction; more are dropped, as by a switch */
#define MOST_BYTES 65536

struct frame {
	double due; /* when it arrives, on the clock of now() */
	size_t bytes;
	char *data;
};

struct direction {
	int from, to;
	double free_at; /* when the last bit of what was sent so far has left */
	size_t first, next;
	struct frame frames[MOST_FRAMES]; /* number i is at i % MOST_FRAMES */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int failed(const char *what)
{
	fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int make_end(const char *space, const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int fd = open(space, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		failed(space);
	close(fd);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		failed("/dev/net/tun");
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, TUNSETIFF, &request))
		failed(name);
	return fd;
}

/* Take in all that waits at the sending end. */
static void take(struct direction *d, double delay, double seconds_per_byte)
{
	char buffer[MOST_BYTES];
	ssize_t got;

	while ((got = read(d->from, buffer, sizeof(buffer))) > 0) {
		struct frame *frame = &d->frames[d->next % MOST_FRAMES];
		double at = now();

		if (d->next - d->first == MOST_FRAMES)
			continue;
		frame->data = malloc((size_t)got);
		if (!frame->data)
			failed("a frame");
		memcpy(frame->data, buffer, (size_t)got);
		frame->bytes = (size_t)got;
		d->free_at = (d->free_at > at ? d->free_at : at) + (double)got * seconds_per_byte;
		frame->due = d->free_at + delay;
		d->next++;
	}
}

/* Hand out what has arrived. Returns when the next frame will, or WORST if none is on the way. */
static double hand_out(struct direction *d, double worst)
{
	for (; d->first != d->next; d->first++) {
		struct frame *frame = &d->frames[d->first % MOST_FRAMES];

		if (frame->due > now())
			return frame->due < worst ? frame->due : worst;
		/* Ends that are down take nothing: such a frame is lost. */
		if (write(d->to, frame->data, frame->bytes) < 0 && errno == EBADF)
			failed("an end");
		free(frame->data);
	}
	return worst;
}

static _Noreturn void carry(struct direction ways[2], double delay, double seconds_per_byte)
{
	struct pollfd ends[2] = {{.fd = ways[0].from, .events = POLLIN},
				 {.fd = ways[1].from, .events = POLLIN}};

	for (;;) {
		double next = now() + 1, wait;
		struct timespec t;

		for (int i = 0; i < 2; i++)
			take(&ways[i], delay, seconds_per_byte);
		for (int i = 0; i < 2; i++)
			next = hand_out(&ways[i], next);
		wait = next - now();
		wait = wait > 0 ? wait : 0;
		t.tv_sec = (time_t)wait;
		t.tv_nsec = (long)(1e9 * (wait - (double)t.tv_sec));
		ppoll(ends, 2, &t, NULL);
	}
}

int main(int argc, char **argv)
{
	struct direction *ways = calloc(2, sizeof(*ways));
	double delay, rate;

	if (argc != 7 || !ways) {
		fprintf(stderr, "usage: wire NS_A NAME_A NS_B NAME_B DELAY_US RATE_MBIT\n");
		return 2;
	}
	delay = 1e-6 * strtod(argv[5], NULL);
	rate = 1e6 / 8 * strtod(argv[6], NULL);
	ways[0].from = ways[1].to = make_end(argv[1], argv[2]);
	ways[1].from = ways[0].to = make_end(argv[3], argv[4]);
	prctl(PR_SET_TIMERSLACK, 1);
	puts("ready");
	fflush(stdout);
	carry(ways, delay, rate > 0 ? 1 / rate : 0);
}
