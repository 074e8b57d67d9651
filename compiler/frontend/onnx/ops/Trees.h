// Ensembles of decision trees of ai.onnx.ml as one table of nodes, and what they give for rows of
// features. Relies on gathers from constant tables, a level of all trees at a time.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

#include <vector>

namespace tenon::onnx {

/// What may become of scores; PROBIT where an operator says so.
inline constexpr llvm::StringRef kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                                  "PROBIT"};

/// How a node compares its feature with its value.
enum class Branch : uint8_t { LessEqual, Less, GreaterEqual, Greater, Equal, NotEqual, Leaf };

struct TreeNode {
  Branch branch = Branch::Leaf;
  int64_t feature = 0;
  double value = 0;
  int64_t yes = 0; ///< the node to go on with where the comparison holds; of a leaf itself
  int64_t no = 0;
  bool missingIsYes = false; ///< what a NaN does
};

/// What a leaf adds to a target.
struct LeafWeight {
  int64_t node = 0;
  int64_t target = 0;
  double weight = 0;
};

enum class Aggregate : uint8_t { Average, Sum, Min, Max };

struct Ensemble {
  std::vector<TreeNode> nodes;
  llvm::SmallVector<int64_t> roots;
  std::vector<LeafWeight> weights;
  int64_t targets = 1;
  Aggregate aggregate = Aggregate::Sum;
};

/// The nodes, roots and weights that the lists of TreeEnsembleClassifier ("class") and
/// TreeEnsembleRegressor ("target") describe; none after an error.
std::optional<Ensemble> readNodeLists(NodeContext &c, llvm::StringRef weights);

/// What the trees give for input 0, [rows, features], aggregated: [rows, targets] in its float
/// type, f32 for integers.
mlir::Value evaluateTrees(NodeContext &c, const Ensemble &ensemble);

/// Scores [rows, targets] after `transform`: NONE, SOFTMAX, LOGISTIC or SOFTMAX_ZERO.
mlir::Value transformScores(NodeContext &c, mlir::Value scores, llvm::StringRef transform);

/// `values` of each column added; nothing for an empty list.
mlir::Value addRow(NodeContext &c, mlir::Value scores, llvm::ArrayRef<double> values);

} // namespace tenon::onnx
