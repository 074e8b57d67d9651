// Relies on TENON_TRITON_BACKEND, the path of the backend.

#include "test/unit/triton/FakeTriton.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

namespace tenon::test {

std::atomic<int> liveObjects = 0;
uint32_t hostMajor = 1;
std::atomic<bool> gpuOutputs = false;

std::string textOf(TRITONSERVER_Error *error) {
  std::string text = error ? error->text : "";
  TRITONSERVER_ErrorDelete(error);
  return text;
}

namespace {

/// An entry point of the backend, which stays loaded.
template <typename Function> Function entry(const char *name) {
  static void *library = dlopen(TENON_TRITON_BACKEND, RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(library) << dlerror();
  return reinterpret_cast<Function>(dlsym(library, name));
}
#define ENTRY(name) entry<decltype(&name)>(#name)

} // namespace

HostedModel::HostedModel(const std::string &folder, const std::string &config, size_t count,
                         TRITONSERVER_InstanceGroupKind kind, bool isCompleted) {
  model = {folder, 1, config, isCompleted, nullptr};
  problem = textOf(ENTRY(TRITONBACKEND_Initialize)(nullptr));
  if (!problem.empty()) {
    return;
  }
  problem = textOf(ENTRY(TRITONBACKEND_ModelInitialize)(&model));
  isInitialized = problem.empty();
  for (size_t i = 0; i < count && problem.empty(); ++i) {
    std::unique_ptr<TRITONBACKEND_ModelInstance> instance =
        std::make_unique<TRITONBACKEND_ModelInstance>();
    instance->model = &model;
    instance->kind = kind;
    problem = textOf(ENTRY(TRITONBACKEND_ModelInstanceInitialize)(instance.get()));
    if (problem.empty()) {
      instances.push_back(std::move(instance));
    }
  }
}

HostedModel::~HostedModel() {
  for (std::unique_ptr<TRITONBACKEND_ModelInstance> &instance : instances) {
    EXPECT_EQ("", textOf(ENTRY(TRITONBACKEND_ModelInstanceFinalize)(instance.get())));
  }
  if (isInitialized) {
    EXPECT_EQ("", textOf(ENTRY(TRITONBACKEND_ModelFinalize)(&model)));
  }
}

void HostedModel::execute(std::vector<TRITONBACKEND_Request> &requests, size_t instance) {
  std::vector<TRITONBACKEND_Request *> pointers;
  for (TRITONBACKEND_Request &request : requests) {
    pointers.push_back(&request);
  }
  EXPECT_EQ(
      "", textOf(ENTRY(TRITONBACKEND_ModelInstanceExecute)(
              instances[instance].get(), pointers.data(), static_cast<uint32_t>(pointers.size()))));
  for (const TRITONBACKEND_Request &request : requests) {
    EXPECT_EQ(1, request.answers);
    EXPECT_EQ(1, request.releases);
  }
}

} // namespace tenon::test

// ---- Triton's functions ----

#pragma GCC visibility push(default)
using tenon::test::liveObjects;

TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *text) {
  ++liveObjects;
  return new TRITONSERVER_Error{code, text};
}
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error *error) {
  liveObjects -= error ? 1 : 0;
  delete error;
}
const char *TRITONSERVER_ErrorMessage(TRITONSERVER_Error *error) { return error->text.c_str(); }
TRITONSERVER_Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char *, int,
                                            const char *text) {
  EXPECT_EQ(TRITONSERVER_LOG_INFO, level) << text;
  return nullptr;
}
TRITONSERVER_Error *TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message **message,
                                                              const char *text, size_t bytes) {
  ++liveObjects;
  *message = new TRITONSERVER_Message{{text, bytes}};
  return nullptr;
}
TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message *message,
                                                        const char **text, size_t *bytes) {
  *text = message->text.data();
  *bytes = message->text.size();
  return nullptr;
}
TRITONSERVER_Error *TRITONSERVER_MessageDelete(TRITONSERVER_Message *message) {
  --liveObjects;
  delete message;
  return nullptr;
}

TRITONSERVER_Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor) {
  *major = tenon::test::hostMajor;
  *minor = 19;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelVersion(TRITONBACKEND_Model *model, uint64_t *version) {
  *version = model->version;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelRepository(TRITONBACKEND_Model *model,
                                                  TRITONBACKEND_ArtifactType *type,
                                                  const char **location) {
  *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = model->folder.c_str();
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *model, uint32_t,
                                              TRITONSERVER_Message **config) {
  return TRITONSERVER_MessageNewFromSerializedJson(config, model->config.data(),
                                                   model->config.size());
}
TRITONSERVER_Error *TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model *model,
                                                          bool *isWished) {
  *isWished = model->isCompleted;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model *model, uint32_t,
                                                 TRITONSERVER_Message *config) {
  model->config = config->text;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelState(TRITONBACKEND_Model *model, void **state) {
  *state = model->state;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelSetState(TRITONBACKEND_Model *model, void *state) {
  model->state = state;
  return nullptr;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance *instance,
                                                    TRITONSERVER_InstanceGroupKind *kind) {
  *kind = instance->kind;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance *instance,
                                                        int32_t *device) {
  *device = instance->device;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance *,
                                                    const char **name) {
  *name = "m_0";
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance *instance,
                                                     TRITONBACKEND_Model **model) {
  *model = instance->model;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance *instance,
                                                     void **state) {
  *state = instance->state;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance *instance,
                                                        void *state) {
  instance->state = state;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request, bool isSuccess,
    uint64_t start, uint64_t computeStart, uint64_t computeEnd, uint64_t end) {
  EXPECT_EQ(0, request->releases);
  instance->requests.push_back({isSuccess, 0, start, computeStart, computeEnd, end});
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance *instance, uint64_t rows, uint64_t start, uint64_t computeStart,
    uint64_t computeEnd, uint64_t end) {
  instance->executions.push_back({true, rows, start, computeStart, computeEnd, end});
  return nullptr;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInput(TRITONBACKEND_Request *request, const char *name,
                                               TRITONBACKEND_Input **input) {
  for (TRITONBACKEND_Input &each : request->inputs) {
    if (each.name == name) {
      *input = &each;
      return nullptr;
    }
  }
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "there is no such input");
}
TRITONSERVER_Error *TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request *request,
                                                     uint32_t *count) {
  *count = static_cast<uint32_t>(request->wanted.size());
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *request, uint32_t index,
                                                    const char **name) {
  *name = request->wanted[index].c_str();
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t flags) {
  EXPECT_EQ(TRITONSERVER_REQUEST_RELEASE_ALL, static_cast<int>(flags));
  ++request->releases;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **,
                                                  TRITONSERVER_DataType *type, const int64_t **dims,
                                                  uint32_t *rank, uint64_t *,
                                                  uint32_t *bufferCount) {
  *type = input->type;
  *dims = input->dims.data();
  *rank = static_cast<uint32_t>(input->dims.size());
  *bufferCount = static_cast<uint32_t>(input->pieces.size());
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *input, uint32_t index,
                                              const void **data, uint64_t *bytes,
                                              TRITONSERVER_MemoryType *memory, int64_t *) {
  *data = input->pieces[index].data() + input->skipped;
  *bytes = input->pieces[index].size() - input->skipped;
  *memory = input->memory;
  return nullptr;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response,
                                              TRITONBACKEND_Request *request) {
  ++liveObjects;
  *response = new TRITONBACKEND_Response{request, {}};
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response,
                                                 TRITONBACKEND_Output **output, const char *name,
                                                 TRITONSERVER_DataType type, const int64_t *dims,
                                                 uint32_t rank) {
  response->outputs.push_back({name, type, {dims, dims + rank}, {}});
  *output = &response->outputs.back();
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **data,
                                               uint64_t bytes, TRITONSERVER_MemoryType *memory,
                                               int64_t *) {
  output->data.resize(bytes);
  *data = output->data.data();
  *memory = tenon::test::gpuOutputs ? TRITONSERVER_MEMORY_GPU : *memory;
  return nullptr;
}
TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t flags,
                                               TRITONSERVER_Error *error) {
  EXPECT_EQ(TRITONSERVER_RESPONSE_COMPLETE_FINAL, static_cast<int>(flags));
  TRITONBACKEND_Request &request = *response->request;
  ++request.answers;
  request.error = error ? error->text : "";
  request.outputs = std::move(response->outputs);
  --liveObjects;
  delete response;
  return nullptr;
}
#pragma GCC visibility pop
