// Entries go by age and by number, the oldest first; an entry that gets its label goes too, so that
// none counts twice.

#include "server/monitoring/drift/Predictions.h"

#include "runtime/tensors/Tensor.h"

#include <cstring>

namespace tenon::server {
namespace {

/// A model's name has no zero byte.
std::string keyOf(const std::string &model, const std::string &id) {
  std::string key;
  key.reserve(model.size() + 1 + id.size());
  return key.append(model).append(1, '\0').append(id);
}

template <typename T> int64_t largestOf(const std::byte *row, size_t count) {
  size_t best = 0;
  T most = {}, value = {};
  std::memcpy(&most, row, sizeof(T));
  for (size_t i = 1; i < count; ++i) {
    std::memcpy(&value, row + i * sizeof(T), sizeof(T));
    if (value > most) {
      most = value;
      best = i;
    }
  }
  return static_cast<int64_t>(best);
}

template <typename T> int64_t valueOf(const std::byte *element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return static_cast<int64_t>(value);
}

int64_t classOf(DType dtype, const std::byte *row, size_t count) {
  switch (dtype) {
  case DType::F32:
    return largestOf<float>(row, count);
  case DType::F64:
    return largestOf<double>(row, count);
  case DType::F16:
    return largestOf<_Float16>(row, count);
  case DType::I32:
    return valueOf<int32_t>(row);
  default:
    return valueOf<int64_t>(row);
  }
}

} // namespace

void SampledAccuracy::add(bool isRight) {
  if (rows.size() == kMaxRows) {
    right -= rows.front();
    rows.pop_front();
  }
  rows.push_back(isRight);
  right += isRight;
}

std::vector<int64_t> classesOf(const InferResult &result) {
  const ModelPort &port = result.version->ports.outputs[0];
  const TensorPlace &place = result.outputs[0];
  bool isScore = port.dtype == DType::F32 || port.dtype == DType::F64 || port.dtype == DType::F16,
       isClass = port.dtype == DType::I32 || port.dtype == DType::I64;
  if (place.dims.empty() || place.bytes == 0 || (!isScore && !isClass)) {
    return {};
  }
  size_t bytes = bitWidth(port.dtype) / 8, elements = place.bytes / bytes;
  size_t rows = place.dims.size() > 1 || isClass ? static_cast<size_t>(place.dims[0]) : 1,
         count = elements / rows;
  if (isScore ? count < 2 : count != 1) {
    return {};
  }
  std::vector<int64_t> classes(rows);
  const std::byte *row = result.buffer->memory->data() + place.offset;
  for (size_t i = 0; i < rows; ++i, row += count * bytes) {
    classes[i] = classOf(port.dtype, row, count);
  }
  return classes;
}

void Predictions::keep(const std::string &model, const std::string &id,
                       std::shared_ptr<SampledAccuracy> version, std::vector<int64_t> classes,
                       Clock::time_point now) {
  constexpr size_t kMaxId = 256;
  if (id.size() > kMaxId || classes.size() > maxRows) {
    return;
  }
  std::string key = keyOf(model, id);
  Entries::iterator found = entries.find(key);
  if (found != entries.end()) {
    for (const auto &[other, known] : found->second.answers) {
      if (other == version) { // the id is used again
        forget(found);
        found = entries.end();
        break;
      }
    }
  }
  rows += classes.size();
  if (found == entries.end()) {
    found = entries
                .emplace(key,
                         Entry{.answers = {}, .time = now, .place = order.insert(order.end(), key)})
                .first;
  }
  found->second.answers.emplace_back(std::move(version), std::move(classes));
  expire(now);
}

void Predictions::forget(Entries::iterator entry) {
  for (const auto &[version, classes] : entry->second.answers) {
    rows -= classes.size();
  }
  order.erase(entry->second.place);
  entries.erase(entry);
}

void Predictions::expire(Clock::time_point now) {
  while (!order.empty()) {
    Entries::iterator oldest = entries.find(order.front());
    if (rows <= maxRows && oldest->second.time + age > now) {
      return;
    }
    forget(oldest);
  }
}

size_t Predictions::rowsOf(const std::string &model, const std::string &id, Clock::time_point now) {
  expire(now);
  Entries::iterator found = entries.find(keyOf(model, id));
  return found == entries.end() ? 0 : found->second.answers.front().second.size();
}

void Predictions::label(const std::string &model, const std::string &id,
                        std::span<const int64_t> labels) {
  Entries::iterator found = entries.find(keyOf(model, id));
  for (const auto &[version, classes] : found->second.answers) {
    for (size_t i = 0; i < std::min(classes.size(), labels.size()); ++i) {
      version->add(classes[i] == labels[i]);
    }
  }
  forget(found);
}

} // namespace tenon::server
