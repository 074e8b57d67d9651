// The sizes of the tensors of a program as it was traced, and which guards torch.export states of
// them whatever the model asks.
#pragma once

#include "compiler/frontend/common/Symbols.h"
#include "compiler/frontend/pt2/GuardText.h"
#include "compiler/frontend/pt2/wire/Program.h"
#include "support/Result.h"

#include <set>
#include <unordered_set>

namespace tenon::pt2 {

class TracedSizes {
public:
  using SizeOf = std::function<mlir::AffineExpr(const Size &)>; ///< null for what is not known

  TracedSizes(const Program &program, const frontend::Symbols &symbols, const SizeOf &sizeOf);

  /// Why tracing states the guard by itself; empty where the model may have asked for it. Tracing
  /// takes no size for 0 or 1, nor for another with which a slice, a view or a broadcast meets it,
  /// unless it was so: its operators compute the same where it is.
  std::string_view artefact(const GuardTerm &guard) const;

private:
  void note(mlir::AffineExpr size);
  bool isTraced(mlir::AffineExpr size) const {
    return size && sizes.contains(size.getAsOpaquePointer());
  }

  const frontend::Symbols &symbols;
  std::unordered_set<const void *> sizes; ///< dims, strides and counts, in the normal form
  std::unordered_set<const void *> dims;  ///< of the inputs
  bool hasPools = false;
  std::set<int64_t> cuts; ///< constant dims of slices and views
};

} // namespace tenon::pt2
