// What codegen makes of one region, for any device: the steps that run it and the memory that lies
// between them. The plan turns steps into instructions.
#pragma once

#include "engine/Expr.h"
#include "engine/Plan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon::codegen {

/// An expression over the region's symbols.
using Program = std::vector<engine::ExprTerm>;

/// A matrix in one of a launch's buffers that the kernel copies into shared memory box by box
/// (engine/Plan.h, TensorMap).
struct TensorMapArgument {
  uint32_t buffer = 0; ///< position in the step's buffers
  uint32_t elementBytes = 2;
  Program rows;
  Program columns;
  Program rowBytes; ///< from the start of a row to that of the next
  uint32_t boxRows = 0;
  uint32_t boxColumns = 0;
};

/// What ranks do together (engine/Plan.h); its step has one buffer to read, one to write, and the
/// number of elements that are read, or a kernel and its buffers and sizes.
struct CollectiveStep {
  engine::CollectiveKind kind = engine::CollectiveKind::AllReduce;
  DType dtype = DType::F32;
};

/// A kernel launch, a library call or a collective.
struct RegionStep {
  /// Of the kernel; empty for others.
  std::string symbol;
  /// The descriptor of engine/LibraryAbi.h; empty for others.
  std::vector<std::byte> call;
  std::optional<CollectiveStep> collective;
  /// Of a collective: kernels that the runtime may start for it, by their names.
  std::vector<std::string> collectiveKernels;
  /// In the order that kernel or call takes them: the region's inputs from 0, then its outputs,
  /// then its temporaries. The first `reads` are only read.
  std::vector<uint32_t> buffers;
  uint32_t reads = 0;
  /// What the kernel or call takes after the buffers, as 64-bit integers.
  std::vector<Program> sizes;
  /// What a kernel on a GPU takes after the sizes.
  std::vector<TensorMapArgument> tensorMaps;
  /// Launches: grid points (on a GPU, blocks), and bytes of scratch a thread (on a GPU, of dynamic
  /// shared memory a block; empty for none).
  Program grid;
  Program scratch;
  /// Launches on a GPU: threads of a block.
  uint32_t threads = 0;
  /// It fills its last buffer with the contents of its first and does nothing else: left out where
  /// the plan makes both one.
  bool isCopy = false;
  /// Each element of the only result is written once, and inputs with the result's dims that only
  /// elementwise operations read are read at that place and before: it may lie over one of them.
  bool mayOverwriteInputs = false;
  /// Behind a call or a collective with a kernel: they do the same (engine/Plan.h).
  bool isFallback = false;
  /// Launches on a GPU: the kernel can fail and takes the place for its status behind all else.
  bool canFail = false;
  /// Launches on a GPU: blocks of a cluster or engine::kWholeGrid, and whether the kernel waits by
  /// itself for the kernels before it, so that it may start before they have ended (programmatic
  /// dependent launch).
  uint32_t cluster = 1;
  bool isDependentLaunch = false;
};

struct RegionCode {
  std::vector<RegionStep> steps;
  /// Bytes of each temporary.
  std::vector<Program> temporaries;
};

/// A compiled region: its steps and the code that holds their kernels (an ELF relocatable for a
/// CPU, PTX for a GPU; may be empty).
struct CompiledRegion {
  RegionCode code;
  std::string object;
};

} // namespace tenon::codegen
