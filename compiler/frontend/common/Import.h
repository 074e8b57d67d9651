// What every importer of model files takes and gives: the user's words about inputs, the module,
// and the list of all that a model needs and Tenon lacks.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "support/DType.h"
#include "support/memory/ByteSpan.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::kernels {
struct KernelTable;
}

namespace tenon::frontend {

/// What the user says about one dimension of an input.
struct DimOverride {
  enum class Kind : uint8_t { Keep, Constant, Range };
  Kind kind = Kind::Keep;
  int64_t min = 0; ///< the constant, or the inclusive range
  int64_t max = 0;
};

/// What the user says about an input (`--shape name:[1..32]x128`): one entry a dimension.
struct ShapeOverride {
  std::string input;
  std::vector<DimOverride> dims;
};

/// An input whose value is known when compiling: it becomes a constant and is no input any more.
/// For models that take a shape, an axis or a slice bound as data.
struct FixedInput {
  std::string input;
  DType type = DType::I64;
  std::vector<int64_t> dims;
  Bytes bytes; ///< row-major; must live as long as the weight store
};

struct ImportOptions {
  std::vector<ShapeOverride> shapes;
  std::vector<FixedInput> fixed;
  /// Range of dimensions that neither the model nor the user bounds.
  int64_t symbolMin = 1;
  int64_t symbolMax = 65536;
  /// Seed of generated weights.
  uint64_t seed = 0;
  /// Inner values that become outputs after the model's own; "*" stands for all.
  std::vector<std::string> extraOutputs;
  /// Pages, at most, in which a session of a language model has the keys and values of its
  /// sequences; 0 for a session of one sequence.
  int64_t pages = 0;
  /// What those pages hold: codes of I8 or F8E4M3FN; none for numbers.
  std::optional<DType> cache;
  /// The user's, for operators that Tenon does not have; null for none.
  std::shared_ptr<const kernels::KernelTable> kernels;
};

/// One thing that a model needs and Tenon lacks.
struct Gap {
  std::string opType;
  std::string domain;
  int64_t opset = 0;
  std::string node;
  std::string source; ///< file and line of the model's program; empty if unknown
  std::string dtype;  ///< of the first input; empty if unknown
  int rank = -1;      ///< of the first input; -1 if unknown
  std::string why;
  std::string workaround;
};

/// What an engine of the model carries beside its plan, for whoever runs it: a record of its file.
struct Asset {
  std::string name;
  std::string json;
};

struct ImportResult {
  /// The function @main; its arguments and results carry `tn.name`. Null if there are gaps.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Of all nodes, in the model's order.
  std::vector<Gap> gaps;
  std::vector<Asset> assets;
};

} // namespace tenon::frontend
