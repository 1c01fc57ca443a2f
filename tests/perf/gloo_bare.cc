/*
 * gloo_bare - a bare loop around one collective of Gloo: what busbench's own loop is held against.
 *
 *   gloo_bare RANKS ITERATIONS all_reduce|all_gather|alltoall SIZE...
 *
 * Ranks are processes, connected over 127.0.0.1 as PyTorch connects them. One clock reading before
 * and one after the loop, floats, Gloo's own sum. Each call makes its options anew, as PyTorch and
 * busbench do: options that live on are a third of the time at 1 MiB where the threads of two
 * ranks share two cores. SIZE counts as in nccl-tests. Prints the mean time of one call, mean over
 * the ranks.
 */
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace
{

constexpr int MOST_RANKS = 16, WARM_UPS = 5;

/* Between the processes. */
struct Shared {
	pthread_barrier_t barrier;
	char addresses[MOST_RANKS][MOST_RANKS][256];
	size_t bytes[MOST_RANKS][MOST_RANKS];
	double seconds[MOST_RANKS];
};

class Mesh : public gloo::rendezvous::Context
{
      public:
	Mesh(int me, int n, Shared &shared) : gloo::rendezvous::Context(me, n)
	{
		gloo::transport::tcp::attr attributes;

		attributes.hostname = "127.0.0.1";
		device_ = gloo::transport::tcp::CreateDevice(attributes);
		transportContext_ = device_->createContext(me, n);
		transportContext_->setTimeout(std::chrono::minutes(10));
		for (int i = 0; i < n; i++) {
			if (i == me)
				continue;
			const std::vector<char> own =
				transportContext_->createPair(i)->address().bytes();

			shared.bytes[me][i] = own.size();
			std::memcpy(shared.addresses[me][i], own.data(), own.size());
		}
		pthread_barrier_wait(&shared.barrier);
		for (int i = 0; i < n; i++) {
			const char *const theirs = shared.addresses[i][me];

			if (i != me)
				transportContext_->getPair(i)->connect(
					std::vector<char>(theirs, theirs + shared.bytes[i][me]));
		}
	}
};

template <typename Call>
double seconds(const std::shared_ptr<Mesh> &mesh, long iterations, Call &&call)
{
	for (int i = 0; i < WARM_UPS; i++)
		call();
	gloo::BarrierOptions barrier(mesh);
	gloo::barrier(barrier);
	const auto start = std::chrono::steady_clock::now();
	for (long i = 0; i < iterations; i++)
		call();
	const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
	return passed.count() / static_cast<double>(iterations);
}

double measure(const std::shared_ptr<Mesh> &mesh, const std::string &name, size_t bytes,
	       long iterations)
{
	const size_t ranks = static_cast<size_t>(mesh->size), count = bytes / sizeof(float);
	std::vector<float> in(count), out(count);

	if (name == "all_reduce")
		return seconds(mesh, iterations, [&] {
			gloo::AllreduceOptions options(mesh);
			void (*const sum)(void *, const void *, const void *, size_t) =
				gloo::sum<float>;

			options.setInput(in.data(), count);
			options.setOutput(out.data(), count);
			options.setReduceFunction(sum);
			options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
			gloo::allreduce(options);
		});
	if (name == "all_gather")
		return seconds(mesh, iterations, [&] {
			gloo::AllgatherOptions options(mesh);

			options.setInput(in.data(), count / ranks);
			options.setOutput(out.data(), count / ranks * ranks);
			gloo::allgather(options);
		});
	return seconds(mesh, iterations, [&] {
		gloo::AlltoallOptions options(mesh);

		options.setInput(in.data(), count / ranks * ranks);
		options.setOutput(out.data(), count / ranks * ranks);
		gloo::alltoall(options);
	});
}

void run_rank(int me, int n, Shared &shared, char **arguments)
{
	const long iterations = std::strtol(arguments[2], nullptr, 10);
	const auto mesh = std::make_shared<Mesh>(me, n, shared);

	for (char **size = arguments + 4; *size; size++) {
		const size_t bytes = std::strtoul(*size, nullptr, 10);
		double sum = 0;

		shared.seconds[me] = measure(mesh, arguments[3], bytes, iterations);
		pthread_barrier_wait(&shared.barrier);
		for (int i = 0; i < n; i++)
			sum += shared.seconds[i];
		if (me == 0)
			std::printf("{\"size\":%zu,\"what\":\"bare\",\"us\":%.5f}\n", bytes,
				    1e6 * sum / n);
		std::fflush(stdout);
		pthread_barrier_wait(&shared.barrier);
	}
}

} // namespace

int main(int argc, char **argv)
{
	const int n = argc > 4 ? std::atoi(argv[1]) : 0;
	const std::string name = argc > 4 ? argv[3] : "";
	pthread_barrierattr_t attributes;
	int failed = 0;

	if (n < 2 || n > MOST_RANKS || std::atol(argv[2]) < 1 ||
	    (name != "all_reduce" && name != "all_gather" && name != "alltoall")) {
		std::fprintf(stderr, "usage: gloo_bare RANKS ITERATIONS "
				     "all_reduce|all_gather|alltoall SIZE...\n");
		return 2;
	}
	void *const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	Shared &shared = *static_cast<Shared *>(memory);
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared.barrier, &attributes, static_cast<unsigned>(n));
	for (int rank = 0; rank < n; rank++)
		if (fork() == 0) {
			run_rank(rank, n, shared, argv);
			return 0;
		}
	for (int status; wait(&status) > 0;)
		failed |= status != 0;
	return failed;
}
