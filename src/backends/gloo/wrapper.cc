#include "backends/gloo/wrapper.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/scatter.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <vector>

namespace
{

/* Gloo's time-outs end the process's own waits only after an hour: -T ends a run before, and a
   time-out of Gloo makes the mesh useless. */
constexpr std::chrono::hours TIMEOUT{1};
constexpr std::chrono::milliseconds AT_ONCE{1};
constexpr uint32_t CALL_TAG = 0, BARRIER_TAG = 1;

/* Gloo's reasons begin with the place in its source, "[./gloo/transport/tcp/pair.cc:598] ". */
void note_reason(char *why, const char *text)
{
	const char *const end = text[0] == '[' ? std::strstr(text, "] ") : nullptr;

	std::snprintf(why, BB_GLOO_WHY, "%s", end ? end + 2 : text);
	why[std::strcspn(why, "\n")] = '\0';
}

template <typename Work> bool guarded(char *why, Work &&work) noexcept
{
	try {
		work();
		return true;
	} catch (const std::exception &cause) {
		note_reason(why, cause.what());
	} catch (...) {
		note_reason(why, "an unknown exception");
	}
	return false;
}

/* Pairs are connected by hand, which works with all versions of Gloo. */
class Mesh : public gloo::rendezvous::Context
{
      public:
	Mesh(const std::shared_ptr<gloo::transport::Device> &device, int me, int n)
	    : gloo::rendezvous::Context(me, n)
	{
		setTimeout(TIMEOUT);
		device_ = device;
		transportContext_ = device_->createContext(me, n);
		transportContext_->setTimeout(TIMEOUT);
	}

	std::vector<char> createPair(int peer)
	{
		return transportContext_->createPair(peer)->address().bytes();
	}
};

template <size_t BYTES> struct Element {
	char bytes[BYTES];
};

} // namespace

struct bb_gloo_device {
	std::shared_ptr<gloo::transport::Device> device;
	std::mutex lock;
	std::set<bb_gloo_mesh *> meshes;
};

struct bb_gloo_request {
	struct bb_gloo_mesh *mesh;
	std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
	bool sends;
	int peer; /* negative: any */
};

struct bb_gloo_mesh {
	bb_gloo_device *device;
	std::shared_ptr<Mesh> context;
	std::mutex lock;
	std::set<bb_gloo_request *> requests; /* not waited for yet */

	/* Requests keep connections open, and data may still arrive in their buffers. */
	~bb_gloo_mesh()
	{
		{
			const std::lock_guard<std::mutex> guard(device->lock);

			device->meshes.erase(this);
		}
		for (auto *request : requests)
			delete request;
	}
};

void bb_gloo_name(char name[BB_GLOO_NAME])
{
	void (*const function)(gloo::BarrierOptions &) = gloo::barrier;
	Dl_info where;
	const bool found = dladdr(reinterpret_cast<void *>(function), &where) != 0;

	std::snprintf(name, BB_GLOO_NAME, "Gloo %d.%d.%d (%s)", GLOO_VERSION_MAJOR,
		      GLOO_VERSION_MINOR, GLOO_VERSION_PATCH,
		      found ? where.dli_fname : "unknown file");
}

bool bb_gloo_device_open(const char *address, struct bb_gloo_device **device, char *why)
{
	return guarded(why, [&] {
		gloo::transport::tcp::attr attributes;

		attributes.hostname = address;
		*device =
			new bb_gloo_device{gloo::transport::tcp::CreateDevice(attributes), {}, {}};
	});
}

void bb_gloo_device_close(struct bb_gloo_device *device)
{
	char why[BB_GLOO_WHY];

	(void)guarded(why, [&] { delete device; });
}

bool bb_gloo_mesh_open(struct bb_gloo_device *device, int me, int n,
		       struct bb_gloo_address *addresses, struct bb_gloo_mesh **mesh, char *why)
{
	return guarded(why, [&] {
		auto context = std::make_shared<Mesh>(device->device, me, n);

		for (int i = 0; i < n; i++) {
			addresses[i].bytes = 0;
			if (i == me)
				continue;
			const std::vector<char> bytes = context->createPair(i);

			if (bytes.size() > sizeof(addresses[i].data))
				throw std::length_error("an address of Gloo is too long");
			addresses[i].bytes = static_cast<uint32_t>(bytes.size());
			std::memcpy(addresses[i].data, bytes.data(), bytes.size());
		}
		*mesh = new bb_gloo_mesh{device, std::move(context), {}, {}};
		const std::lock_guard<std::mutex> guard(device->lock);

		device->meshes.insert(*mesh);
	});
}

bool bb_gloo_mesh_connect(struct bb_gloo_mesh *mesh, int peer,
			  const struct bb_gloo_address *address, char *why)
{
	return guarded(why, [&] {
		mesh->context->getPair(peer)->connect(
			std::vector<char>(address->data, address->data + address->bytes));
	});
}

void bb_gloo_mesh_close(struct bb_gloo_mesh *mesh)
{
	char why[BB_GLOO_WHY];

	(void)guarded(why, [&] { delete mesh; });
}

/* A receive that times out makes Gloo end all waits of its context. */
void bb_gloo_device_abort(struct bb_gloo_device *device)
{
	char byte, why[BB_GLOO_WHY];

	if (!device)
		return;
	const std::lock_guard<std::mutex> guard(device->lock);

	for (auto *mesh : device->meshes)
		(void)guarded(why, [&] {
			mesh->context->createUnboundBuffer(&byte, 1)->waitRecv(nullptr, AT_ONCE);
		});
}

/* ---- messages ---------------------------------------------------------------------------- */

bool bb_gloo_start(struct bb_gloo_mesh *mesh, bool sends, int peer, uint64_t slot, void *data,
		   size_t bytes, struct bb_gloo_request **request, char *why)
{
	return guarded(why, [&] {
		std::unique_ptr<bb_gloo_request> started(new bb_gloo_request{
			mesh, mesh->context->createUnboundBuffer(data, bytes), sends, peer});
		std::vector<int> others;

		for (int i = 0; peer < 0 && i < mesh->context->size; i++)
			if (i != mesh->context->rank)
				others.push_back(i);
		if (sends)
			started->buffer->send(peer, slot, 0, bytes);
		else if (peer < 0)
			started->buffer->recv(others, slot, 0, bytes);
		else
			started->buffer->recv(peer, slot, 0, bytes);
		const std::lock_guard<std::mutex> guard(mesh->lock);

		mesh->requests.insert(started.get());
		*request = started.release();
	});
}

bool bb_gloo_wait(struct bb_gloo_request *request, int *peer, char *why)
{
	const std::unique_ptr<bb_gloo_request> owned(request);

	if (peer)
		*peer = owned->peer;
	return guarded(why, [&] {
		{
			const std::lock_guard<std::mutex> guard(owned->mesh->lock);

			owned->mesh->requests.erase(request);
		}
		if (owned->sends)
			owned->buffer->waitSend();
		else
			owned->buffer->waitRecv(peer);
	});
}

/* ---- collectives ------------------------------------------------------------------------- */

namespace
{

/* One call of a collective; T has the size of its elements. */
template <typename T> class Call
{
      public:
	Call(const std::shared_ptr<Mesh> &mesh, const bb_gloo_collective &call)
	    : mesh_(mesh), call_(call), in_(static_cast<T *>(const_cast<void *>(call.in))),
	      out_(static_cast<T *>(call.out)), all_(call.count * static_cast<size_t>(mesh->size)),
	      at_root_(mesh->rank == call.root)
	{
	}

	void run()
	{
		switch (call_.function) {
		case BB_GLOO_ALL_REDUCE:
			return allReduce(gloo::AllreduceOptions::Algorithm::RING);
		case BB_GLOO_ALL_REDUCE_BCUBE:
			return allReduce(gloo::AllreduceOptions::Algorithm::BCUBE);
		case BB_GLOO_ALL_GATHER:
			return allGather();
		case BB_GLOO_BROADCAST:
			return broadcast();
		case BB_GLOO_REDUCE:
			return reduce();
		case BB_GLOO_GATHER:
			return gather();
		case BB_GLOO_SCATTER:
			return scatter();
		case BB_GLOO_ALLTOALL:
			return alltoall();
		case BB_GLOO_ALLTOALLV:
			return alltoallv();
		}
	}

      private:
	const std::shared_ptr<Mesh> &mesh_;
	const bb_gloo_collective &call_;
	T *const in_, *const out_;
	const size_t all_; /* elements of all ranks */
	const bool at_root_;

	template <typename Options> void start(Options &options)
	{
		options.setTag(CALL_TAG);
		options.setTimeout(TIMEOUT);
	}

	/* A rank with INPUTS and OUTPUTS elements. In place Gloo has no input. */
	template <typename Options> void start(Options &options, size_t inputs, size_t outputs)
	{
		start(options);
		if (in_)
			options.setInput(in_, inputs);
		options.setOutput(out_, outputs);
	}

	template <typename Options> void setReduction(Options &options)
	{
		options.setReduceFunction(
			[this](void *result, const void *a, const void *b, size_t n) {
				call_.reduce(call_.own, result, a, b, n);
			});
	}

	void allReduce(gloo::AllreduceOptions::Algorithm algorithm)
	{
		gloo::AllreduceOptions options(mesh_);

		start(options, call_.count, call_.count);
		setReduction(options);
		options.setAlgorithm(algorithm);
		gloo::allreduce(options);
	}

	void allGather()
	{
		gloo::AllgatherOptions options(mesh_);

		start(options, call_.count, all_);
		gloo::allgather(options);
	}

	void broadcast()
	{
		gloo::BroadcastOptions options(mesh_);

		start(options);
		options.setRoot(call_.root);
		if (in_ && at_root_)
			options.setInput(in_, call_.count);
		options.setOutput(out_, call_.count);
		gloo::broadcast(options);
	}

	void reduce()
	{
		gloo::ReduceOptions options(mesh_);

		start(options, call_.count, call_.count);
		setReduction(options);
		options.setRoot(call_.root);
		gloo::reduce(options);
	}

	void gather()
	{
		gloo::GatherOptions options(mesh_);

		start(options);
		options.setRoot(call_.root);
		options.setInput(in_, call_.count);
		if (at_root_)
			options.setOutput(out_, all_);
		gloo::gather(options);
	}

	void scatter()
	{
		gloo::ScatterOptions options(mesh_);
		std::vector<T *> blocks;

		start(options);
		options.setRoot(call_.root);
		for (int i = 0; at_root_ && i < mesh_->size; i++)
			blocks.push_back(in_ + call_.count * static_cast<size_t>(i));
		if (at_root_)
			options.setInputs(blocks, call_.count);
		options.setOutput(out_, call_.count);
		gloo::scatter(options);
	}

	void alltoall()
	{
		gloo::AlltoallOptions options(mesh_);

		start(options, all_, all_);
		gloo::alltoall(options);
	}

	void alltoallv()
	{
		gloo::AlltoallvOptions options(mesh_);

		start(options);
		options.setInput(in_, std::vector<int64_t>(call_.sent, call_.sent + mesh_->size));
		options.setOutput(
			out_, std::vector<int64_t>(call_.received, call_.received + mesh_->size));
		gloo::alltoallv(options);
	}
};

} // namespace

bool bb_gloo_run(struct bb_gloo_mesh *mesh, const struct bb_gloo_collective *collective, char *why)
{
	return guarded(why, [&] {
		switch (collective->element) {
		case 1:
			return Call<Element<1>>(mesh->context, *collective).run();
		case 2:
			return Call<Element<2>>(mesh->context, *collective).run();
		case 4:
			return Call<Element<4>>(mesh->context, *collective).run();
		case 8:
			return Call<Element<8>>(mesh->context, *collective).run();
		default:
			throw std::invalid_argument("no element has this size");
		}
	});
}

bool bb_gloo_barrier(struct bb_gloo_mesh *mesh, char *why)
{
	return guarded(why, [&] {
		gloo::BarrierOptions options(mesh->context);

		options.setTag(BARRIER_TAG);
		options.setTimeout(TIMEOUT);
		gloo::barrier(options);
	});
}
