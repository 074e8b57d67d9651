// Writes an engine file: equal inputs give equal bytes, weights are streamed and never held whole,
// and the file appears under its name only when complete. The layout is in
// docs/reference/engine-format.md.

#pragma once

#include "engine/Plan.h"
#include "support/Status.h"
#include "support/memory/ByteSpan.h"

#include <functional>
#include <string>
#include <vector>

namespace tenon::engine {

/// Takes the next bytes of a weight, in pieces of any size.
using ByteSink = std::function<Status(Bytes bytes)>;
/// Gives all bytes of weight number `index` to `sink`, in order: of the array of `rank`, 0 where
/// all have one. Called once per array, by index and then by rank.
using WeightSource = std::function<Status(uint32_t index, uint32_t rank, const ByteSink &sink)>;

struct VariantContent {
  Variant variant;
  Bytes code; ///< ELF shared object or PTX; must outlive the write
  /// What an assembler made of the PTX for the variant's architecture; empty for none. Must outlive
  /// the write too.
  Bytes cubin = {};
  std::string cubinBy = {}; ///< the assembler and its version: "ptxas 13.0.88"
};

/// JSON text for people and tools ("fusion", "memory"), and for what runs the engine ("tokenizer");
/// opaque to the runtime.
struct Record {
  std::string name;
  std::string json;
};

struct EngineContent {
  std::vector<Weight> weights; ///< names, sizes and ranks; the offsets are set by the writer
  std::vector<VariantContent> variants;
  std::vector<Record> records;
  Provenance provenance;
};

struct EngineFileSize {
  uint64_t fileBytes = 0;
  uint64_t weightsBytes = 0; ///< of the weights section, padding between weights included
};

/// Validates every plan, then writes the file at `path`. On failure what was there before stays, or
/// nothing; so it does when `mayAppear`, asked once everything is written, gives an error.
Result<EngineFileSize> writeEngine(const std::string &path, const EngineContent &content,
                                   const WeightSource &weights,
                                   const std::function<Status()> &mayAppear = {});

} // namespace tenon::engine
