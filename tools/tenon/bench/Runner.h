// A session with its inputs and outputs in place: what `run` and `bench` do the same way.
// It relies on the inputs matching the engine, which makeInputs has seen to.

#pragma once

#include "runtime/core/Session.h"
#include "runtime/tensors/Tensor.h"

#include <memory>
#include <vector>

namespace tenon::tool {

class Runner {
public:
  /// A session made ready for the dims of `inputs`.
  static Result<Runner> create(std::shared_ptr<const runtime::Engine> engine,
                               std::vector<Tensor> inputs, const runtime::SessionOptions &options);

  Status run();
  const std::vector<Tensor> &inputs() const { return given; }
  const std::vector<Tensor> &outputs() const { return made; }
  runtime::Session &session() { return *owned; }
  const engine::Plan &plan() const { return owned->engine().plan(); }

private:
  Runner() = default;
  Status prepare();

  std::unique_ptr<runtime::Session> owned;
  std::vector<Tensor> given;
  std::vector<Tensor> made;
  std::vector<runtime::InputBinding> inputBindings;
  std::vector<runtime::OutputBinding> outputBindings;
};

} // namespace tenon::tool
