#include "tools/tenon/gate/LoadOnce.h"

#include "tools/tenon/accuracy/BatchRunner.h"
#include "tools/tenon/bench/Runner.h"
#include "tools/tenon/engines/ChildProcess.h"
#include "tools/tenon/inputs/Inputs.h"

#include <fmt/format.h>

namespace tenon::tool {
namespace {

Status runOnce(const std::string &path, const std::string &data) {
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, runtime::Engine::open(path));
  if (data.empty()) {
    TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs({}, *engine));
    TENON_ASSIGN(Runner runner, Runner::create(engine, std::move(inputs), {}));
    return runner.run();
  }
  std::map<std::string, std::string> metadata = metadataOf(engine->file());
  TENON_ASSIGN(Dataset samples, Dataset::open(data, wantedInputs(engine->plan()),
                                              {metadata["preprocessing"], metadata["classes"]}));
  TENON_ASSIGN(BatchRunner runner, BatchRunner::create(engine, samples, 1, {}));
  return runner.outputsOf(0, 1).takeStatus();
}

} // namespace

registry::Measured loadOnce(const std::string &engine, const std::string &data) {
  auto work = [&]() -> Json {
    Status status = runOnce(engine, data);
    return status.isOk() ? Json::object() : describeError(status);
  };
  Result<Json> answer =
      inChild(work, Status::error(ErrorId::InternalError,
                                  "the process that ran it ended without a result"));
  double loads = answer.isOk() ? 1 : 0;
  return {loads, loads, loads,
          answer.isOk() ? "it was loaded and ran" : answer.takeStatus().toString()};
}

} // namespace tenon::tool
