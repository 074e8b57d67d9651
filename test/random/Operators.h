// The generators of nodes: for each operator that the importer knows, a function that chooses
// operands and attributes, or the reason why there is none.
#pragma once

#include "test/random/Sketch.h"

#include <span>

namespace tenon::random {

struct Operator {
  const char *name;
  /// Adds a node; false if nothing fits or the importer refuses it.
  std::function<bool(Sketch &)> make;
};

/// One list a family, in ops/.
std::vector<Operator> elementwiseOperators();
std::vector<Operator> rowOperators();
std::vector<Operator> contractionOperators();
std::vector<Operator> windowOperators();
std::vector<Operator> movementOperators();
std::vector<Operator> indexingOperators();
std::vector<Operator> otherOperators();

/// All of them.
const std::vector<Operator> &operators();

/// Adds a node that needs sizes of inputs to be related; false if the importer refuses it.
bool relate(Sketch &sketch);

struct Missing {
  const char *name;
  const char *reason;
};
std::span<const Missing> operatorsWithoutGenerator();

/// A model of some nodes; the same for the same seed.
Model makeModel(uint64_t seed, bool hasRelations);

// What the families share.
inline const Types kFloats = {DType::F32, DType::F32, DType::F32,
                              DType::F64, DType::F16, DType::BF16};
inline const Types kNumbers = {DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16,
                               DType::I64, DType::I32, DType::I16, DType::I8,  DType::U8,
                               DType::U16, DType::U32, DType::U64};
inline const Types kIntegers = {DType::I64, DType::I32, DType::I16, DType::I8,
                                DType::U8,  DType::U16, DType::U32, DType::U64};
inline const Types kAnything = {DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16,
                                DType::I64, DType::I32, DType::I8,  DType::U8,  DType::Bool};

/// An axis of `value`, from either end.
int64_t axisOf(Sketch &sketch, const Value &value);
/// All but `mostAxes` at most are taken, in random order.
std::vector<int64_t> axesOf(Sketch &sketch, const Value &value, size_t most);

} // namespace tenon::random
