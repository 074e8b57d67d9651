// Nodes that a kernel of the user's computes: they become tn.custom, for every importer alike.
#pragma once

#include "compiler/frontend/common/Emitter.h"

#include <functional>
#include <optional>
#include <string_view>

namespace tenon::kernels {
struct KernelTable;
}

namespace tenon::frontend {

/// A node of a model whose operator has kernels.
struct CustomNode {
  std::string_view op; ///< "com.example::VectorAdd"
  llvm::SmallVector<mlir::Value> inputs;
  unsigned outputs = 1;
  using Numbers = std::optional<llvm::SmallVector<double>>;
  /// The elements of an attribute of the node, one if it is no list; none if the node lacks it.
  /// After `failed` of the emitter they do not matter.
  std::function<Numbers(llvm::StringRef name, bool isInteger, bool isList)> attribute;
};

/// The elements of an attribute as `CustomNode::attribute` gives them.
template <typename Number>
CustomNode::Numbers asNumbers(const llvm::SmallVector<Number> &elements) {
  return llvm::SmallVector<double>(elements.begin(), elements.end());
}

/// Whether the user has kernels for an operator; `kernels` may be null.
bool hasKernel(const kernels::KernelTable *kernels, std::string_view op);

/// The results of the node, one for each of its outputs. TN0308 through the emitter where no kernel
/// fits it, and none then.
llvm::SmallVector<mlir::Value> emitCustom(Emitter &emitter, const kernels::KernelTable &kernels,
                                          const CustomNode &node);

} // namespace tenon::frontend
