// Opens an engine file: everything but the weights is read into memory, checked against its hashes
// and validated before this returns; the weights are mapped read-only, to be verified when asked.

#pragma once

#include "engine/Plan.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::engine {

/// An open engine file. Immutable; may be read by several threads at once.
class EngineFile {
public:
  static Result<std::unique_ptr<EngineFile>> open(const std::string &path);
  /// `image` is a whole engine file and must outlive the EngineFile. Its weights are used in place
  /// when they lie on a 64-byte border, else copied.
  static Result<std::unique_ptr<EngineFile>> fromMemory(Bytes image);
  ~EngineFile();

  std::span<const Variant> variants() const;
  /// The code object of a variant.
  Bytes code(size_t variant) const;
  /// Of a variant for a GPU: what an assembler made of its PTX for just that architecture, and
  /// which one ("ptxas 13.0.88"); empty when the engine has none.
  Bytes cubin(size_t variant) const;
  const std::string &cubinBy(size_t variant) const;
  std::span<const Weight> weights() const;
  /// The mapped weights section; a weight lies at its offset, that of a rank at Weight::offsetOf.
  Bytes weightsSection() const;
  /// Enters the weights that are in the page cache into the page table and starts reading others.
  void populateWeights() const;
  const Provenance &provenance() const;

  std::vector<std::string> recordNames() const;
  /// JSON text of a record, checked against its hash.
  Result<std::string_view> record(std::string_view name) const;

  /// Compares each 4 MiB block of the weights with its hash, the blocks shared by all usable CPUs.
  Status verifyWeights() const;
  /// The same for the blocks that the plans of these variants read.
  Status verifyWeights(std::span<const size_t> variants) const;
  uint64_t fileBytes() const;

private:
  struct Impl;
  explicit EngineFile(std::unique_ptr<Impl> implementation);
  std::unique_ptr<Impl> impl;
};

} // namespace tenon::engine
