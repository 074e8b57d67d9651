// Every GPU has a block of memory that all of them write; addresses of one GPU hold on the others
// once access is enabled.

#include "runtime/device/cuda/CudaGroup.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cstring>

namespace tenon::runtime::cuda {

using engine::CollectiveKind;

namespace {

/// Longer all-reduces and all-gathers (of a rank's part) are faster by NCCL: measured on two H200.
constexpr int64_t kLongReduce = int64_t(256) << 20, kLongGather = engine::kOneShotBytes;

/// How often a thread looks for what another rank sends before it gives up: 3.2 s on an H200.
constexpr int64_t kPolls = int64_t(1) << 24;

unsigned blocksFor(int64_t vectors, int64_t threads) {
  int64_t blocks = (vectors + threads - 1) / threads;
  return static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, engine::kCollectiveBlocks));
}

} // namespace

std::string kernelFor(CollectiveWay way, CollectiveKind kind, DType type, size_t ranks) {
  if (way == CollectiveWay::Library || ranks > size_t(engine::kCollectiveRanks)) {
    return "";
  }
  if (kind == CollectiveKind::AllGather) {
    return way == CollectiveWay::OneShot ? strCat("tenon_all_gather_", ranks) : "";
  }
  bool isSummed = type == DType::F32 || type == DType::F16 || type == DType::BF16;
  return isSummed ? strCat("tenon_all_reduce_", way == CollectiveWay::OneShot ? "one_" : "two_",
                           nameOf(type), "_", ranks)
                  : "";
}

CollectiveWay wayFor(const CollectiveCall &call) {
  bool isGather = call.kind == CollectiveKind::AllGather;
  // One-shot is the faster one as far as it goes.
  bool isShort = isGather || call.bytes() <= engine::kOneShotBytes;
  CollectiveWay way = isShort ? CollectiveWay::OneShot : CollectiveWay::TwoShot;
  bool isTaken = call.bytes() % engine::kCollectiveVector == 0 &&
                 !kernelFor(way, call.kind, call.type, 2).empty();
  return isTaken ? way : CollectiveWay::Library;
}

bool isLong(const CollectiveCall &call) {
  return call.bytes() > (call.kind == CollectiveKind::AllGather ? kLongGather : kLongReduce);
}

std::mutex &runsOfGroups() {
  // The GPUs are the process's, so what runs on them is too.
  static std::mutex *mutex = new std::mutex();
  return *mutex;
}

Result<std::shared_ptr<CudaGroup>>
CudaGroup::open(std::vector<std::shared_ptr<const CudaDevice>> devices, int64_t longestMessage) {
  std::shared_ptr<CudaGroup> group(new CudaGroup());
  for (std::shared_ptr<const CudaDevice> &device : devices) {
    group->members.push_back(
        {device, CudaBuffer(device, MemoryKind::Device), CudaBuffer(device, MemoryKind::Pinned)});
  }
  group->noPeers = group->reachPeers();
  if (group->noPeers.isOk()) {
    TENON_TRY(group->share(longestMessage));
  }
  return group;
}

/// DeviceNotFound names the first pair without access.
Status CudaGroup::reachPeers() {
  for (const Member &from : members) {
    ContextScope scope(*from.device);
    const CudaDriver &driver = from.device->driver();
    for (const Member &to : members) {
      if (&from == &to) {
        continue;
      }
      int can = 0;
      TENON_TRY(driver.check(driver.deviceCanAccessPeer(&can, from.device->handleOfDriver(),
                                                        to.device->handleOfDriver()),
                             "asking for access between GPUs"));
      if (!can) {
        return Status::error(ErrorId::DeviceNotFound,
                             strCat("GPU ", from.device->info().ordinal,
                                    " cannot reach the memory of GPU ", to.device->info().ordinal),
                             "choose GPUs that are linked, or install NCCL");
      }
      int code = driver.ctxEnablePeerAccess(to.device->context(), 0);
      if (code != kPeerAccessAlreadyEnabled) {
        TENON_TRY(driver.check(code, "enabling access between GPUs"));
      }
    }
  }
  return Status::ok();
}

Status CudaGroup::share(int64_t longestMessage) {
  int64_t ranks = static_cast<int64_t>(members.size());
  longest = longestMessage;
  partBytes = engine::collectivePartBytes(longestMessage, ranks);
  uint64_t bytes = static_cast<uint64_t>(engine::collectiveSharedBytes(longestMessage, ranks));
  for (Member &member : members) {
    ContextScope scope(*member.device);
    const CudaDriver &driver = member.device->driver();
    TENON_TRY(member.shared.reserve(bytes, "messages between GPUs"));
    TENON_TRY(member.status.reserve(sizeof(int32_t), "the state of a group of GPUs"));
    std::memset(member.status.data(), 0, sizeof(int32_t));
    TENON_TRY(driver.check(driver.memsetD8Async(member.shared.pointer(), 0, bytes, nullptr),
                           "zeroing messages between GPUs"));
    TENON_TRY(driver.check(driver.streamSynchronize(nullptr), "zeroing messages between GPUs"));
  }
  return Status::ok();
}

Status CudaGroup::openLibrary(const std::string &folder) {
  if (!libraries.empty()) {
    return Status::ok();
  }
  std::vector<int> ordinals;
  for (const Member &member : members) {
    ordinals.push_back(member.device->info().ordinal);
  }
  TENON_ASSIGN(libraries, library::nccl::Communicator::openAll(ordinals, folder));
  return Status::ok();
}

Status CudaGroup::start(size_t rank, CollectiveWay way, FunctionHandle kernel,
                        const CollectiveCall &call, StreamHandle stream, bool mayStartEarly) {
  if (call.count == 0) {
    return Status::ok();
  }
  if (way == CollectiveWay::Library) {
    library::nccl::Communicator &nccl = *libraries[rank];
    return call.kind == CollectiveKind::AllReduce
               ? nccl.allReduce(call.from, call.to, static_cast<size_t>(call.count), call.type,
                                stream)
               : nccl.allGather(call.from, call.to, static_cast<size_t>(call.bytes()), stream);
  }
  bool isTwoShot = way == CollectiveWay::TwoShot;
  int64_t threads = isTwoShot ? engine::kTwoShotThreads : engine::kOneShotThreads;
  int64_t all = call.bytes() / engine::kCollectiveVector;
  int64_t most = (isTwoShot ? longest : engine::kOneShotBytes) / engine::kCollectiveVector;
  for (int64_t first = 0; first < all; first += most) {
    int64_t vectors = std::min(most, all - first);
    int64_t each = isTwoShot ? vectors / static_cast<int64_t>(ranks()) : vectors;
    int64_t offset = first * engine::kCollectiveVector;
    void *buffers[] = {static_cast<std::byte *>(call.from) + offset,
                       static_cast<std::byte *>(call.to) + offset};
    TENON_TRY(startKernel(rank, kernel, buffers, vectors, blocksFor(each, threads),
                          static_cast<unsigned>(threads), stream, mayStartEarly,
                          isTwoShot ? partBytes : all));
  }
  return Status::ok();
}

Status CudaGroup::startKernel(size_t rank, FunctionHandle kernel, std::span<void *const> buffers,
                              int64_t count, unsigned blocks, unsigned threads, StreamHandle stream,
                              bool mayStartEarly, int64_t lastSize) {
  Member &own = members[rank];
  std::vector<void *> pointers(buffers.begin(), buffers.end());
  for (Member &member : members) {
    pointers.push_back(member.shared.data());
  }
  pointers.push_back(own.status.data());
  int64_t sizes[engine::kCollectiveSizes] = {count, static_cast<int64_t>(rank), kPolls, lastSize};
  std::vector<void *> params;
  for (void *&pointer : pointers) {
    params.push_back(&pointer);
  }
  for (int64_t &size : sizes) {
    params.push_back(&size);
  }
  LaunchConfig config;
  config.gridX = blocks;
  config.blockX = threads;
  config.stream = stream;
  LaunchAttribute early;
  early.id = kAttributeProgrammaticSerialization;
  early.value.programmaticSerialization = 1;
  if (mayStartEarly) {
    config.attributes = &early;
    config.attributeCount = 1;
  }
  const CudaDriver &driver = own.device->driver();
  return driver.check(driver.launchKernel(&config, kernel, params.data(), nullptr),
                      "starting a collective");
}

Status CudaGroup::takeFailure(size_t rank) {
  const Member &own = members[rank];
  int32_t missing = 0;
  if (own.status.size() != 0) {
    std::memcpy(&missing, own.status.data(), sizeof(missing));
  }
  if (missing == 0) {
    return Status::ok();
  }
  size_t other = static_cast<size_t>(missing - 1);
  return Status::error(ErrorId::DeviceFailed,
                       strCat("GPU ", own.device->info().ordinal, " waited in vain for GPU ",
                              other < ranks() ? members[other].device->info().ordinal : -1,
                              ", which has not come to a collective"),
                       "end the session and make it again");
}

} // namespace tenon::runtime::cuda
