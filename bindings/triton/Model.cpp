// The configuration is read before the engine is opened, which tells the name of its file, and
// completed after.

#include "bindings/triton/Model.h"

#include "engine/Level.h"
#include "support/json/Json.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon::triton {
namespace {

constexpr uint32_t kConfigFormat = 1;

struct DeleteMessage {
  void operator()(TRITONSERVER_Message *message) const {
    take(TRITONSERVER_MessageDelete(message));
  }
};
using Message = std::unique_ptr<TRITONSERVER_Message, DeleteMessage>;

Error readJson(TRITONBACKEND_Model *handle, Json &json) {
  TRITONSERVER_Message *message = nullptr;
  TRITON_TRY(TRITONBACKEND_ModelConfig(handle, kConfigFormat, &message));
  Message owner(message);
  const char *text = nullptr;
  size_t bytes = 0;
  TRITON_TRY(TRITONSERVER_MessageSerializeToJson(message, &text, &bytes));
  json = parseJson({text, bytes});
  return nullptr;
}

Error writeJson(TRITONBACKEND_Model *handle, const Json &json) {
  std::string text = dumpJson(json);
  TRITONSERVER_Message *message = nullptr;
  TRITON_TRY(TRITONSERVER_MessageNewFromSerializedJson(&message, text.data(), text.size()));
  Message owner(message);
  return take(TRITONBACKEND_ModelSetConfig(handle, kConfigFormat, message));
}

/// Where the engine is, without its name.
Error folderOf(TRITONBACKEND_Model *handle, std::string &folder) {
  TRITONBACKEND_ArtifactType type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  const char *location = nullptr;
  uint64_t version = 0;
  TRITON_TRY(TRITONBACKEND_ModelRepository(handle, &type, &location));
  TRITON_TRY(TRITONBACKEND_ModelVersion(handle, &version));
  if (type != TRITONBACKEND_ARTIFACT_FILESYSTEM) {
    return fail(ErrorId::BadModelFolder, "the model is not in a folder on this machine");
  }
  folder = strCat(location, "/", version, "/");
  return nullptr;
}

} // namespace

Error Model::create(TRITONBACKEND_Model *handle, std::unique_ptr<Model> &model) {
  std::unique_ptr<Model> made = std::make_unique<Model>();
  TRITON_TRY(made->configure(handle));
  model = std::move(made);
  return nullptr;
}

Error Model::configure(TRITONBACKEND_Model *handle) {
  Json json;
  TRITON_TRY(readJson(handle, json));
  TRITON_TRY(readConfig(json, modelConfig));
  if (modelConfig.file.find('/') != std::string::npos) {
    return fail(ErrorId::BadModelConfig,
                strCat("default_model_filename '", modelConfig.file,
                       "' is not the name of a file in the version's folder"));
  }
  std::string folder;
  TRITON_TRY(folderOf(handle, folder));
  path = folder + modelConfig.file;
  TRITON_TRY(open(nullptr, 0, false, first));
  engines[tenon_engine_gpu(first.get())] = first;
  TRITON_TRY(readPorts(first.get(), modelPorts));
  bool isRequested = false, isChanged = false;
  TRITON_TRY(TRITONBACKEND_ModelAutoCompleteConfig(handle, &isRequested));
  if (isRequested) {
    completeConfig(modelConfig, modelPorts, json, isChanged);
  }
  TRITON_TRY(checkConfig(modelConfig, modelPorts, json));
  return isChanged ? writeJson(handle, json) : nullptr;
}

Error Model::open(const char *variant, int32_t gpu, bool isVerified,
                  std::shared_ptr<tenon_engine> &engine) {
  tenon_engine_options options = {};
  options.struct_size = sizeof(options);
  options.variant = variant;
  options.gpu = gpu;
  options.no_verify_weights = isVerified;
  tenon_engine *opened = nullptr;
  TRITON_TRY(tenon_engine_open(path.c_str(), &options, &opened));
  engine.reset(opened, tenon_engine_destroy);
  return nullptr;
}

Error Model::openOnCpu(std::shared_ptr<tenon_engine> &engine) {
  // Without a level, the runtime takes a GPU before a CPU. The weights were just verified.
  for (auto level = engine::kCpuLevels.rbegin(); level != engine::kCpuLevels.rend(); ++level) {
    if (!open(std::string(level->name).c_str(), 0, true, engine)) {
      return nullptr;
    }
  }
  return fail(ErrorId::EngineNoVariant,
              "the instance is on the CPU, but the engine has no code for this CPU",
              "compile the model with --target cpu, or set instance_group [{ kind: KIND_GPU }]");
}

Error Model::engineOn(int32_t gpu, std::shared_ptr<tenon_engine> &engine) {
  std::lock_guard guard(lock);
  engine = engines[gpu].lock();
  if (!engine) {
    TRITON_TRY(gpu < 0 ? openOnCpu(engine) : open(nullptr, gpu, false, engine));
    if (tenon_engine_gpu(engine.get()) != gpu) {
      return fail(ErrorId::EngineNoVariant,
                  strCat("the instance is on GPU ", gpu, ", but the engine has no code for it"),
                  "compile the model with --target for this GPU, or set instance_group [{ kind: "
                  "KIND_CPU }]");
    }
    engines[gpu] = engine;
  }
  first.reset();
  return nullptr;
}

} // namespace tenon::triton
