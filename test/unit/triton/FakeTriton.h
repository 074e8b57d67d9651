// Triton for tests: objects behind its C interface for backends, and a host that loads the real
// libtriton_tenon.so as Triton does. The functions themselves are in FakeTriton.cpp; the program
// exports them.

#pragma once

#include "bindings/triton/Triton.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string text;
};
struct TRITONSERVER_Message {
  std::string text;
};
struct TRITONBACKEND_Model {
  std::string folder;
  uint64_t version = 1;
  std::string config;
  bool isCompleted = true; ///< whether the backend is asked to complete the configuration
  void *state = nullptr;
};
struct Report {
  bool isSuccess;
  uint64_t rows, start, computeStart, computeEnd, end;
};
struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model *model = nullptr;
  TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU;
  int32_t device = 0;
  void *state = nullptr;
  std::vector<Report> requests, executions;
};
struct TRITONBACKEND_Input {
  std::string name;
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_FP32;
  std::vector<int64_t> dims;
  std::vector<std::vector<std::byte>> pieces;
  size_t skipped = 0; ///< bytes at the front of each piece that are not the tensor's
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
};
struct TRITONBACKEND_Output {
  std::string name;
  TRITONSERVER_DataType type;
  std::vector<int64_t> dims;
  std::vector<std::byte> data;
};
struct TRITONBACKEND_Response {
  TRITONBACKEND_Request *request;
  std::list<TRITONBACKEND_Output> outputs;
};
struct TRITONBACKEND_Request {
  std::vector<TRITONBACKEND_Input> inputs;
  std::vector<std::string> wanted;
  // What became of it.
  int answers = 0, releases = 0;
  std::string error;
  std::list<TRITONBACKEND_Output> outputs;
};

namespace tenon::test {

/// Of errors, messages and responses: what was made and not deleted.
extern std::atomic<int> liveObjects;
/// The interface that the host says it has.
extern uint32_t hostMajor;
/// Outputs are asked to lie on a GPU.
extern std::atomic<bool> gpuOutputs;

/// What an error says, which is deleted; empty for none.
std::string textOf(TRITONSERVER_Error *error);

/// A loaded model of a repository with its instances. Fails with `problem`, and is then without
/// instances.
class HostedModel {
public:
  HostedModel(const std::string &folder, const std::string &config, size_t instances = 1,
              TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU,
              bool isCompleted = true);
  HostedModel(const HostedModel &) = delete;
  ~HostedModel();

  void execute(std::vector<TRITONBACKEND_Request> &requests, size_t instance = 0);

  TRITONBACKEND_Model model;
  std::vector<std::unique_ptr<TRITONBACKEND_ModelInstance>> instances;
  std::string problem;

private:
  bool isInitialized = false;
};

} // namespace tenon::test
