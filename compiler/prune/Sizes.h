// What values of integers say of sizes: for each element its number, and the axes whose sizes it is
// computed of. A reshape to dims that other nodes compute is followed by them, element by element.
#pragma once

#include "compiler/frontend/onnx/wire/ExternalData.h"
#include "compiler/prune/Values.h"

#include <optional>

namespace tenon::prune {

struct SizeElement {
  std::optional<int64_t> value; ///< none where it is not known, or follows free dims
  std::vector<Axis> reads;      ///< axes that it is computed of, and would change with
};
using SizeElements = std::vector<SizeElement>;

/// The operand of a node that says dims of its result, and the axes that its elements are for.
struct SizeOperand {
  size_t operand = 0;
  Axes axes;
};

class Sizes {
public:
  Sizes(const quant::Graph &graph, const Values &values, onnx::ExternalFiles &files);

  /// Null for what is no value of a few integers, or follows from more than dims and constants.
  const SizeElements *of(std::string_view value) const;
  /// All elements, in the model before; none where one is not known.
  std::optional<std::vector<int64_t>> constant(std::string_view value) const;
  /// Of Reshape, Expand, ConstantOfShape, and of Resize with sizes.
  std::optional<SizeOperand> sizeOperand(size_t node) const;
  /// Whether a size of -1 can stand there: for the only dim of a Reshape that is free or unknown.
  bool isInferred(size_t node, const SizeOperand &sized, size_t index) const;
  /// The axes whose sizes have to stay, since the node computes with them, and they are neither
  /// known nor dims that are written anew.
  std::vector<Axis> fixedReads(size_t node) const;

private:
  void addConstant(std::string_view value, onnx::ExternalFiles &files);
  std::optional<SizeElements> evaluate(size_t node) const;
  std::optional<SizeElements> shapeOf(size_t node) const;
  std::optional<SizeElements> elementwise(size_t node) const;
  std::optional<SizeElements> gathered(size_t node) const;
  std::optional<SizeElements> sliced(size_t node) const;

  const quant::Graph &graph;
  const Values &values;
  std::unordered_map<std::string_view, SizeElements> known;
};

} // namespace tenon::prune
