// NVIDIA's assembler for PTX, where one is installed: by a toolkit or by PyPI's package. Tenon
// needs none; with one, an engine can hold machine code beside its PTX.

#pragma once

#include "compiler/api/CompileOptions.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::tool {

class Ptxas {
public:
  /// `path` if it is not empty; else ptxas of PATH, of CUDA_HOME, of /usr/local/cuda and of the
  /// wheels of the active Python, in this order. LibraryMissing says where it was looked for.
  static Result<Ptxas> find(const std::string &path);

  /// "ptxas 13.0.88".
  const std::string &name() const { return nameAndVersion; }
  const std::string &file() const { return program; }

  /// Machine code of PTX (ended by a zero byte or not) for one architecture ("sm_90a"). Takes up to
  /// seconds. LibraryUnsupported when it refuses the PTX: an older ptxas than the PTX is for.
  Result<std::vector<std::byte>> assemble(Bytes ptx, std::string_view arch) const;

private:
  std::string program;
  std::string nameAndVersion;
};

/// For compilations.
pipeline::Assembler assemblerOf(Ptxas ptxas);

} // namespace tenon::tool
