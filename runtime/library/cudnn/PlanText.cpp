// A count, then for each executable its engine, its tensors and its description, each with its
// length. Relies on the caller for the integrity of the bytes; lengths are checked all the same.

#include "runtime/library/cudnn/PlanText.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cstring>

namespace tenon::library::cudnn {
namespace {

void appendNumber(std::vector<std::byte> &out, int64_t value) {
  Bytes bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

/// After the first field that does not fit, `isGood` stays false.
struct Reader {
  int64_t number() {
    int64_t value = 0;
    Bytes bytes = take(sizeof(value));
    if (isGood) {
      std::memcpy(&value, bytes.data(), sizeof(value));
    }
    return value;
  }
  Bytes take(uint64_t count) {
    isGood &= count <= rest.size();
    Bytes bytes = rest.first(isGood ? count : 0);
    rest = rest.subspan(bytes.size());
    return bytes;
  }

  Bytes rest;
  bool isGood = true;
};

Status notOurs() {
  return Status::error(ErrorId::LibraryFailed, "a stored cuDNN plan cannot be used");
}

Result<Executable> restorePlan(const Api &api, Context *context, Reader &reader,
                               std::span<const int64_t> knownIds) {
  int64_t engine = reader.number();
  int64_t count = reader.number();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count && count <= static_cast<int64_t>(kMaxTensors); ++i) {
    ids.push_back(reader.number());
    reader.isGood &= std::find(knownIds.begin(), knownIds.end(), ids.back()) != knownIds.end();
  }
  Bytes description = reader.take(static_cast<uint64_t>(reader.number()));
  if (!reader.isGood || ids.empty() || description.empty()) {
    return notOurs();
  }
  TENON_ASSIGN(Descriptor plan, Descriptor::create(api, DescriptorType::ExecutionPlan));
  TENON_TRY(plan.set(Attribute::PlanHandle, AttributeType::Handle, 1, &context));
  TENON_TRY(plan.set(Attribute::PlanJson, AttributeType::Char,
                     static_cast<int64_t>(description.size()), description.data()));
  TENON_TRY(plan.finalize());
  int64_t workspace = -1;
  TENON_TRY(
      plan.get(Attribute::PlanWorkspaceSize, AttributeType::Int64, 1, &workspace).takeStatus());
  if (workspace < 0) {
    return notOurs();
  }
  return Executable(std::move(plan), std::move(ids), static_cast<size_t>(workspace), engine);
}

} // namespace

std::optional<std::vector<std::byte>> storePlans(std::span<const Executable *const> plans) {
  std::vector<std::byte> out;
  appendNumber(out, static_cast<int64_t>(plans.size()));
  for (const Executable *plan : plans) {
    Result<std::vector<std::byte>> description = plan->description();
    if (!description || description->empty()) {
      return std::nullopt;
    }
    appendNumber(out, plan->engineIndex());
    appendNumber(out, static_cast<int64_t>(plan->tensors().size()));
    for (int64_t id : plan->tensors()) {
      appendNumber(out, id);
    }
    appendNumber(out, static_cast<int64_t>(description->size()));
    out.insert(out.end(), description->begin(), description->end());
  }
  return out;
}

Result<std::vector<Executable>> restorePlans(const Api &api, Context *context, Bytes stored,
                                             std::span<const int64_t> knownIds) {
  Reader reader{stored};
  int64_t count = reader.number();
  if (count < 1 || count > 2) {
    return notOurs();
  }
  std::vector<Executable> plans;
  for (int64_t i = 0; i < count; ++i) {
    TENON_ASSIGN(Executable plan, restorePlan(api, context, reader, knownIds));
    plans.push_back(std::move(plan));
  }
  if (!reader.rest.empty()) {
    return notOurs();
  }
  return plans;
}

} // namespace tenon::library::cudnn
