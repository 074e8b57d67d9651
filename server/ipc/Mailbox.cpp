// Tables are read word by word, each word once: the other process may write at the same time.

#include "server/ipc/Mailbox.h"

#include <cstring>

namespace tenon::server {
namespace {

constexpr uint64_t kMostRank = 32;

Status damaged() { return Status::error(ErrorId::InternalError, "a table of tensors between front and worker is damaged"); }

} // namespace

uint64_t tableBytes(const std::vector<TensorPlace> &tensors) {
  uint64_t words = 0;
  for (const TensorPlace &tensor : tensors) {
    words += 3 + tensor.dims.size();
  }
  return words * sizeof(uint64_t);
}

void writeTable(MutableBytes slab, uint64_t offset, const std::vector<TensorPlace> &tensors) {
  std::byte *to = slab.data() + offset;
  auto put = [&](uint64_t word) {
    std::memcpy(to, &word, sizeof(word));
    to += sizeof(word);
  };
  for (const TensorPlace &tensor : tensors) {
    put(tensor.offset);
    put(tensor.bytes);
    put(tensor.dims.size());
    for (int64_t dim : tensor.dims) {
      put(static_cast<uint64_t>(dim));
    }
  }
}

Result<std::vector<TensorPlace>> readTable(Bytes slab, uint64_t offset, size_t count) {
  uint64_t at = offset;
  auto take = [&](uint64_t &word) {
    if (at > slab.size() || slab.size() - at < sizeof(word)) {
      return false;
    }
    std::memcpy(&word, slab.data() + at, sizeof(word));
    at += sizeof(word);
    return true;
  };
  std::vector<TensorPlace> tensors;
  for (size_t i = 0; i < count; ++i) {
    TensorPlace tensor;
    uint64_t rank = 0;
    bool isRead = take(tensor.offset) && take(tensor.bytes) && take(rank) && rank <= kMostRank;
    for (uint64_t d = 0; isRead && d < rank; ++d) {
      uint64_t dim = 0;
      isRead = take(dim);
      tensor.dims.push_back(static_cast<int64_t>(dim));
    }
    if (!isRead || tensor.offset > slab.size() || tensor.bytes > slab.size() - tensor.offset) {
      return damaged();
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

} // namespace tenon::server
