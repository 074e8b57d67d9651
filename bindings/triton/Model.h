// A model of Triton: its configuration, and the engine on each device that an instance of it uses.

#pragma once

#include "bindings/triton/ModelConfig.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace tenon::triton {

class Model {
public:
  /// Opens `repository/version/model.tenon`, completes the configuration where Triton asks for it,
  /// and checks it against the engine.
  static Error create(TRITONBACKEND_Model *handle, std::unique_ptr<Model> &model);

  /// The engine on a GPU, or on the CPU for -1; instances share it. Any thread.
  Error engineOn(int32_t gpu, std::shared_ptr<tenon_engine> &engine);

  const ModelConfig &config() const { return modelConfig; }
  const Ports &ports() const { return modelPorts; }

private:
  Error open(const char *variant, int32_t gpu, bool isVerified,
             std::shared_ptr<tenon_engine> &engine);
  Error openOnCpu(std::shared_ptr<tenon_engine> &engine);
  Error configure(TRITONBACKEND_Model *handle);

  std::string path;
  ModelConfig modelConfig;
  Ports modelPorts;
  std::mutex lock;
  /// What was opened to read the ports, until the first instance: it may lie where no instance is.
  std::shared_ptr<tenon_engine> first;
  std::map<int32_t, std::weak_ptr<tenon_engine>> engines;
};

} // namespace tenon::triton
