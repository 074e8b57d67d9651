// Tables are read word by word, each word once: the other process may write at the same time.

#include "server/ipc/RequestSlot.h"

#include "server/ipc/Control.h"

#include <algorithm>
#include <cstring>

namespace tenon::server {
namespace {

constexpr uint64_t kMaxRank = 32;

Status damaged() {
  return Status::error(ErrorId::InternalError,
                       "a table of tensors between server and worker is damaged");
}

/// One load, which the compiler neither repeats nor leaves out.
template <typename Word> Word readOnce(const Word &word) {
  return static_cast<const volatile Word &>(word);
}

} // namespace

RunAnswer readAnswer(const RequestSlot &slot) {
  RunAnswer answer;
  answer.outcome = readOnce(slot.outcome);
  answer.roomNeeded = readOnce(slot.roomNeeded);
  answer.computeNanoseconds = readOnce(slot.computeNanoseconds);
  answer.heldBytes = readOnce(slot.heldBytes);
  if (answer.outcome == RequestSlot::Outcome::Failed) {
    size_t message = std::min<size_t>(readOnce(slot.messageBytes), RequestSlot::kTextBytes);
    size_t hint = std::min<size_t>(readOnce(slot.hintBytes), RequestSlot::kTextBytes - message);
    answer.failure =
        Status::error(errorNumbered(readOnce(slot.errorId)), std::string_view(slot.text, message),
                      std::string_view(slot.text + message, hint));
  } else if (answer.outcome != RequestSlot::Outcome::Done &&
             answer.outcome != RequestSlot::Outcome::NeedsRoom) {
    answer.outcome = RequestSlot::Outcome::Failed;
    answer.failure =
        Status::error(ErrorId::InternalError, "the worker's answer is damaged: its outcome");
  }
  return answer;
}

uint64_t tableBytes(const std::vector<TensorPlace> &tensors) {
  uint64_t words = 0;
  for (const TensorPlace &tensor : tensors) {
    words += 3 + tensor.dims.size();
  }
  return words * sizeof(uint64_t);
}

void writeTable(MutableBytes buffer, uint64_t offset, const std::vector<TensorPlace> &tensors) {
  std::byte *to = buffer.data() + offset;
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

Result<std::vector<TensorPlace>> readTable(Bytes buffer, uint64_t offset, size_t count) {
  uint64_t at = offset;
  auto take = [&](uint64_t &word) {
    if (at > buffer.size() || buffer.size() - at < sizeof(word)) {
      return false;
    }
    std::memcpy(&word, buffer.data() + at, sizeof(word));
    at += sizeof(word);
    return true;
  };
  std::vector<TensorPlace> tensors;
  for (size_t i = 0; i < count; ++i) {
    TensorPlace tensor;
    uint64_t rank = 0;
    bool isRead = take(tensor.offset) && take(tensor.bytes) && take(rank) && rank <= kMaxRank;
    for (uint64_t d = 0; isRead && d < rank; ++d) {
      uint64_t dim = 0;
      isRead = take(dim);
      tensor.dims.push_back(static_cast<int64_t>(dim));
    }
    if (!isRead || tensor.offset > buffer.size() || tensor.bytes > buffer.size() - tensor.offset) {
      return damaged();
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

} // namespace tenon::server
