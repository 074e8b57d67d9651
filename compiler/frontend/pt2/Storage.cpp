// Implements reads and writes through views.
#include "compiler/frontend/pt2/Storage.h"

using namespace mlir;

namespace tenon::pt2 {

Tensor::Tensor(std::shared_ptr<Tensor> lookedAt, Value value, ViewFunctions viewFunctions)
    : own(value), base(std::move(lookedAt)), functions(std::move(viewFunctions)),
      version(owner().version) {}

Tensor &Tensor::owner() {
  Tensor *tensor = this;
  while (tensor->base) {
    tensor = tensor->base.get();
  }
  return *tensor;
}

Value Tensor::value(frontend::Emitter &emitter) {
  if (base && version != owner().version) {
    Value lookedAt = base->value(emitter);
    own = lookedAt ? functions.read(emitter, lookedAt) : Value();
    version = owner().version;
  }
  return own;
}

bool Tensor::write(frontend::Emitter &emitter, Value value) {
  if (!base) {
    own = value;
    ++version;
    return true;
  }
  Value lookedAt = functions.write ? base->value(emitter) : Value();
  Value changed = lookedAt ? functions.write(emitter, lookedAt, value) : Value();
  if (!changed || !base->write(emitter, changed)) {
    return false;
  }
  own = value;
  version = owner().version;
  return true;
}

} // namespace tenon::pt2
