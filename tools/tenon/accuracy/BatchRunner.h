// Runs the samples of a data set through an engine: in batches where the engine takes any number of
// rows and gives a row for each, else one by one.

#pragma once

#include "runtime/core/Session.h"
#include "tools/tenon/data/Dataset.h"

#include <memory>
#include <span>
#include <vector>

namespace tenon::tool {

class BatchRunner {
public:
  /// The data set is matched to the engine's inputs, and lives as long as this. At most `mostRows`
  /// samples are run at once.
  static Result<BatchRunner> create(std::shared_ptr<const runtime::Engine> engine,
                                    const Dataset &data, size_t mostRows,
                                    const runtime::SessionOptions &options);

  /// For each sample from `first` on the outputs, whose dim of the batch is gone.
  Result<std::vector<std::vector<Tensor>>> outputsOf(size_t first, size_t count);
  /// The inputs of a sample, likewise.
  Result<std::vector<Tensor>> inputsOf(size_t sample) const;

  const runtime::Engine &engine() const { return session->engine(); }

private:
  BatchRunner() = default;
  Result<std::vector<Tensor>> run(const Batch &batch);

  std::unique_ptr<runtime::Session> session;
  const Dataset *samples = nullptr;
  size_t most = 1;
};

} // namespace tenon::tool
