// Encodes a compiled region as counted fields of 64-bit little-endian numbers and bytes; one
// description of the fields serves both directions. Relies on the cache's checksum for damage;
// lengths are checked all the same.
#include "compiler/pipeline/RegionEntry.h"

#include <cstring>

namespace tenon::pipeline {
namespace {

class Encoder {
public:
  void number(int64_t value) { out.append(reinterpret_cast<const char *>(&value), sizeof(value)); }
  template <typename Integer> void integer(Integer &value) { number(static_cast<int64_t>(value)); }
  void bytes(auto &value) {
    number(static_cast<int64_t>(value.size()));
    out.append(reinterpret_cast<const char *>(value.data()), value.size());
  }
  void list(auto &items, auto field) {
    number(static_cast<int64_t>(items.size()));
    for (auto &item : items) {
      field(item);
    }
  }

  std::string out;
};

/// After a field that does not fit, all further ones are empty.
class Decoder {
public:
  explicit Decoder(std::string_view bytes) : rest(bytes) {}

  int64_t number() {
    int64_t value = 0;
    if (rest.size() < sizeof(value)) {
      isGood = false;
      return 0;
    }
    std::memcpy(&value, rest.data(), sizeof(value));
    rest.remove_prefix(sizeof(value));
    return value;
  }
  template <typename Integer> void integer(Integer &value) {
    value = static_cast<Integer>(number());
  }
  void bytes(auto &value) {
    size_t size = count(1);
    value.resize(size);
    std::memcpy(value.data(), rest.data(), size);
    rest.remove_prefix(size);
  }
  void list(auto &items, auto field) {
    items.resize(count(sizeof(int64_t)));
    for (auto &item : items) {
      field(item);
    }
  }

  bool isWhole() const { return isGood && rest.empty(); }

private:
  /// A number of items that take at least `least` bytes each.
  size_t count(size_t least) {
    int64_t value = number();
    isGood &= value >= 0 && static_cast<uint64_t>(value) <= rest.size() / least;
    return isGood ? static_cast<size_t>(value) : 0;
  }

  std::string_view rest;
  bool isGood = true;
};

template <typename Archive> void visit(Archive &archive, codegen::Program &program) {
  archive.list(program, [&](engine::ExprTerm &term) {
    archive.integer(term.op);
    archive.integer(term.value);
  });
}

template <typename Archive> void visit(Archive &archive, codegen::TensorMapArgument &map) {
  archive.integer(map.buffer);
  archive.integer(map.elementBytes);
  visit(archive, map.rows);
  visit(archive, map.columns);
  visit(archive, map.rowBytes);
  archive.integer(map.boxRows);
  archive.integer(map.boxColumns);
}

template <typename Archive>
void visit(Archive &archive, std::optional<codegen::CollectiveStep> &collective) {
  bool isThere = collective.has_value();
  archive.integer(isThere);
  if (isThere) {
    collective = collective.value_or(codegen::CollectiveStep());
    archive.integer(collective->kind);
    archive.integer(collective->dtype);
  }
}

template <typename Archive> void visit(Archive &archive, codegen::RegionStep &step) {
  archive.bytes(step.symbol);
  archive.bytes(step.call);
  visit(archive, step.collective);
  archive.list(step.collectiveKernels, [&](std::string &name) { archive.bytes(name); });
  archive.list(step.buffers, [&](uint32_t &buffer) { archive.integer(buffer); });
  archive.integer(step.reads);
  archive.list(step.sizes, [&](codegen::Program &size) { visit(archive, size); });
  archive.list(step.tensorMaps, [&](codegen::TensorMapArgument &map) { visit(archive, map); });
  visit(archive, step.grid);
  visit(archive, step.scratch);
  archive.integer(step.threads);
  archive.integer(step.isCopy);
  archive.integer(step.mayOverwriteInputs);
  archive.integer(step.isFallback);
  archive.integer(step.canFail);
  archive.integer(step.cluster);
  archive.integer(step.isDependentLaunch);
}

template <typename Archive> void visit(Archive &archive, codegen::CompiledRegion &region) {
  archive.list(region.code.steps, [&](codegen::RegionStep &step) { visit(archive, step); });
  archive.list(region.code.temporaries, [&](codegen::Program &size) { visit(archive, size); });
  archive.bytes(region.object);
}

bool isProgram(const codegen::Program &program) {
  for (const engine::ExprTerm &term : program) {
    if (static_cast<int>(term.op) > engine::kLastExprOp) {
      return false;
    }
  }
  return true;
}

} // namespace

std::string encodeRegion(const codegen::CompiledRegion &region) {
  Encoder encoder;
  codegen::CompiledRegion copy = region;
  visit(encoder, copy);
  return std::move(encoder.out);
}

std::optional<codegen::CompiledRegion> decodeRegion(std::string_view bytes) {
  Decoder decoder(bytes);
  codegen::CompiledRegion region;
  visit(decoder, region);
  bool isRegion = decoder.isWhole();
  for (const codegen::RegionStep &step : region.code.steps) {
    isRegion = isRegion && isProgram(step.grid) && isProgram(step.scratch);
    for (const codegen::Program &size : step.sizes) {
      isRegion = isRegion && isProgram(size);
    }
    for (const codegen::TensorMapArgument &map : step.tensorMaps) {
      isRegion = isRegion && isProgram(map.rows) && isProgram(map.columns) &&
                 isProgram(map.rowBytes) && map.buffer < step.buffers.size();
    }
  }
  for (const codegen::Program &size : region.code.temporaries) {
    isRegion = isRegion && isProgram(size);
  }
  return isRegion ? std::optional(std::move(region)) : std::nullopt;
}

} // namespace tenon::pipeline
