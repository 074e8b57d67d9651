// Tensors of a program during the import. PyTorch's tensors may share memory: what is written
// through one of them is seen by all. Here every value is its own, so a write makes a new value of
// the memory's owner, and the views are made again when they are next read.
#pragma once

#include "compiler/frontend/common/Emitter.h"

#include <functional>
#include <memory>

namespace tenon::pt2 {

/// How a view is made of what it looks at, and what that becomes when the view is written. Both are
/// called after the node that made the view, with the emitter of another.
struct ViewFunctions {
  std::function<mlir::Value(frontend::Emitter &, mlir::Value base)> read;
  /// Null for a view that cannot be written through.
  std::function<mlir::Value(frontend::Emitter &, mlir::Value base, mlir::Value view)> write;
};

class Tensor {
public:
  /// A tensor with memory of its own.
  explicit Tensor(mlir::Value value) : own(value) {}
  /// A view of `base`; `value` is what `functions.read` has just given.
  Tensor(std::shared_ptr<Tensor> base, mlir::Value value, ViewFunctions functions);

  /// The present value; null after a failure to make it again.
  mlir::Value value(frontend::Emitter &emitter);
  /// Replaces the value, and with it what the owner of the memory holds. False if this is, or is a
  /// view of, a view that cannot be written through.
  bool write(frontend::Emitter &emitter, mlir::Value value);
  /// The tensor whose memory this is.
  Tensor &owner();
  /// How often the memory was written, of an owner.
  unsigned writes() const { return version; }

private:
  mlir::Value own;
  std::shared_ptr<Tensor> base;
  ViewFunctions functions;
  /// Of an owner: how often it was written; of a view: the owner's when `own` was made.
  unsigned version = 0;
};

} // namespace tenon::pt2
