// Thin ownership over NCCL's functions.

#include "runtime/library/nccl/Nccl.h"

#include "support/text/Text.h"

namespace tenon::library::nccl {
namespace {

Status failureOf(const Api &api, Comm *comm, int code, const char *doing) {
  const char *last = api.getLastError(comm);
  return Status::error(ErrorId::LibraryFailed,
                       strCat(doing, ": NCCL reported ", api.getErrorString(code),
                              last && last[0] ? ": " : "", last ? last : ""),
                       "run with NCCL_DEBUG=INFO to see more");
}

std::optional<DataType> dataTypeOf(DType type) {
  switch (type) {
  case DType::F32:
    return kFloat32;
  case DType::F16:
    return kFloat16;
  case DType::BF16:
    return kBfloat16;
  case DType::F64:
    return kFloat64;
  default:
    return std::nullopt;
  }
}

} // namespace

Result<std::vector<std::unique_ptr<Communicator>>>
Communicator::openAll(std::span<const int> ordinals, const std::string &folder) {
  TENON_ASSIGN(Api api, openApi(folder));
  std::vector<Comm *> handles(ordinals.size());
  int code = api.commInitAll(handles.data(), static_cast<int>(ordinals.size()), ordinals.data());
  if (code != kSuccess) {
    return failureOf(api, nullptr, code, "making a group of GPUs");
  }
  std::vector<std::unique_ptr<Communicator>> group;
  for (Comm *handle : handles) {
    group.push_back(std::unique_ptr<Communicator>(new Communicator(api, handle)));
  }
  return group;
}

/// Aborting waits for no other rank.
Communicator::~Communicator() { api.commAbort(comm); }

Status Communicator::allReduce(const void *from, void *to, size_t count, DType type, void *stream) {
  std::optional<DataType> known = dataTypeOf(type);
  if (!known) {
    return Status::error(ErrorId::LibraryUnsupported,
                         strCat("NCCL does not add elements of ", nameOf(type)),
                         "use f32, f16, bf16 or f64");
  }
  return check(api.allReduce(from, to, count, *known, kSum, comm, stream), "an all-reduce");
}

Status Communicator::allGather(const void *from, void *to, size_t bytes, void *stream) {
  return check(api.allGather(from, to, bytes, kInt8, comm, stream), "an all-gather");
}

Status Communicator::check(int code, const char *doing) const {
  return code == kSuccess ? Status::ok() : failureOf(api, comm, code, doing);
}

} // namespace tenon::library::nccl
