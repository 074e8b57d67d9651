// Implements reads and writes through views.
#include "compiler/frontend/pt2/Storage.h"

using namespace mlir;

namespace tenon::pt2 {

Tensor::Tensor(std::shared_ptr<Tensor> lookedAt, mlir::Value value, ViewFunctions viewFunctions)
    : own(value), base(std::move(lookedAt)), functions(std::move(viewFunctions)),
      version(owner().version) {}

Tensor &Tensor::owner() {
  Tensor *tensor = this;
  while (tensor->base) {
    tensor = tensor->base.get();
  }
  return *tensor;
}

mlir::Value Tensor::value(frontend::Emitter &emitter) {
  if (base && version != owner().version) {
    mlir::Value lookedAt = base->value(emitter);
    own = lookedAt ? functions.read(emitter, lookedAt) : mlir::Value();
    version = owner().version;
  }
  return own;
}

bool Tensor::write(frontend::Emitter &emitter, mlir::Value value) {
  if (!base) {
    own = value;
    ++version;
    return true;
  }
  mlir::Value lookedAt = functions.write ? base->value(emitter) : mlir::Value();
  mlir::Value changed = lookedAt ? functions.write(emitter, lookedAt, value) : mlir::Value();
  if (!changed || !base->write(emitter, changed)) {
    return false;
  }
  own = value;
  version = owner().version;
  return true;
}

} // namespace tenon::pt2
