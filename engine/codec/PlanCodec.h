// Turns a plan or manifest into its stored form and back. Decoding checks only that the bytes are
// well formed; engine/validate/Validate.h checks what they mean. Private to engine/.

#pragma once

#include "engine/Plan.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <optional>
#include <vector>

namespace tenon::engine {

struct RecordEntry {
  std::string name;
  uint32_t section = 0;
};

/// A variant in the manifest: its plan, its code and what was made of that are sections.
struct VariantEntry {
  std::string level;
  std::vector<std::string> kernels;
  uint32_t planSection = 0;
  uint32_t codeSection = 0;
  uint32_t cubinSection = 0; ///< 0 for none
  std::string cubinBy;
  Architecture architecture = Architecture::X86_64;
  uint32_t features = 0;
};

struct Manifest {
  std::vector<Weight> weights;
  std::vector<VariantEntry> variants;
  std::vector<RecordEntry> records;
  Provenance provenance;
};

/// Sets the offsets of weights; returns the bytes of their section, none on overflow.
std::optional<uint64_t> layOutWeights(std::vector<Weight> &weights);

std::vector<std::byte> encodePlan(const Plan &plan);
Result<Plan> decodePlan(Bytes bytes);
std::vector<std::byte> encodeManifest(const Manifest &manifest);
Result<Manifest> decodeManifest(Bytes bytes);

} // namespace tenon::engine
