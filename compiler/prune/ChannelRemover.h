// Removes indices for real: smaller constants, and nodes whose sizes say the new dims.
#pragma once

#include "compiler/prune/Rules.h"
#include "compiler/quant/ModelEdit.h"

#include <map>
#include <set>
#include <vector>

namespace tenon::prune {

/// Which classes are removed.
class PruneMask {
public:
  explicit PruneMask(const AxisClasses &axisClasses)
      : axisClasses(axisClasses), removed(axisClasses.size(), false),
        heads(axisClasses.headClasses()) {}
  void remove(uint32_t group) { removed[group] = true; }
  bool isRemoved(uint32_t index) const { return removed[axisClasses.classOf(index)]; }
  std::vector<int64_t> kept(Axis axis) const;
  /// Of the first indices of an axis those that stay.
  int64_t keptBefore(Axis axis, int64_t end) const;
  int64_t size(Axis axis) const { return keptBefore(axis, axis.size); }
  bool touches(Axis axis) const { return size(axis) < axis.size; }
  bool touches(const Axes *axes) const;
  /// Whether heads of several indices of this axis go.
  bool removesHeads(Axis axis) const;

private:
  const AxisClasses &axisClasses;
  std::vector<bool> removed;
  std::set<uint32_t> heads; ///< classes
};

/// What became of a tensor of the model.
struct ShrunkTensor {
  std::string name; ///< in the model that was pruned
  std::vector<int64_t> dims;
  std::map<size_t, std::vector<int64_t>> kept; ///< by axis; those that stay whole are left out
  std::string newName;                         ///< where nodes read different parts of it
  uint32_t crc = 0;                            ///< of the elements before, as zip and zlib have it
  int64_t groups = 0; ///< of the convolution that it is the weight of, afterwards; 0 for none
  /// It loses heads, of whose number other code may know.
  bool losesHeads = false;
  bool isNode = false; ///< the result of a Constant node, which no parameter of a module is
  /// Nodes. Empty where only other names for it read it, which have entries of their own.
  std::vector<std::string> readers;
  std::vector<std::string> sources; ///< of one that was computed: what of, in the model's file
};

/// Sizes and indices that the model's file has as numbers, and that change; -1 for computed ones
/// between them.
struct ChangedSizes {
  std::string node, op;
  std::vector<int64_t> before, after;
};

class ChannelRemover {
public:
  ChannelRemover(const quant::Graph &graph, const Values &values, const Sizes &sizes,
                 const PruneMask &mask, const CountedAxes &counted, quant::ModelEdit &edit,
                 onnx::ExternalFiles &files)
      : graph(graph), values(values), sizes(sizes), mask(mask), counted(counted), edit(edit),
        files(files) {}
  Result<std::vector<ShrunkTensor>> run();
  /// After run.
  std::vector<ChangedSizes> takeSizes() { return std::move(changed); }

private:
  Status cutConstant(size_t node, size_t operand);
  void changeNode(size_t node);
  void keepKnown(size_t node);
  void dropUnread();
  void setSizes(size_t node, const SizeOperand &sized);
  void computeSizes(size_t node, const SizeOperand &sized, const SizeElements *elements);
  void changeSplit(size_t node);
  void changeSlice(size_t node);
  void changeGather(size_t node);
  void changePad(size_t node);
  std::optional<std::vector<int64_t>> constantOf(size_t node, size_t operand) const;
  void setIntegers(size_t node, size_t operand, const std::vector<int64_t> &values);

  const quant::Graph &graph;
  const Values &values;
  const Sizes &sizes;
  const PruneMask &mask;
  const CountedAxes &counted;
  quant::ModelEdit &edit;
  onnx::ExternalFiles &files;
  std::vector<ShrunkTensor> tensors;
  std::vector<ChangedSizes> changed;
  std::set<std::pair<size_t, size_t>> written;  ///< operands of integers, by node
  std::set<std::pair<size_t, size_t>> replaced; ///< those of them that are constants now
};

} // namespace tenon::prune
