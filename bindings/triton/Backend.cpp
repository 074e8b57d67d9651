// What Triton calls. No exception goes through: the standard library throws where there is no
// memory, and the JSON library where a configuration is not what Triton promises.

#include "bindings/triton/Instance.h"
#include "support/text/Text.h"

#include <exception>
#include <new>

using namespace tenon;
using namespace tenon::triton;

namespace {

constexpr uint32_t kMajor = 1;

template <typename Body> TRITONSERVER_Error *guarded(Body body) {
  try {
    return body().release();
  } catch (const std::bad_alloc &) {
    return fail(ErrorId::OutOfMemory, "out of memory for a model or request of Triton").release();
  } catch (const std::exception &error) {
    return fail(ErrorId::InternalError, error.what()).release();
  }
}

} // namespace

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *) {
  return guarded([]() -> Error {
    uint32_t major = 0, minor = 0;
    TRITON_TRY(TRITONBACKEND_ApiVersion(&major, &minor));
    if (major != kMajor) {
      return fail(ErrorId::NotServed,
                  strCat("Triton's interface for backends is ", major, ".", minor,
                         ", but this backend is for ", kMajor),
                  "use a release of Triton 2");
    }
    return nullptr;
  });
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *handle) {
  return guarded([&]() -> Error {
    std::unique_ptr<Model> model;
    TRITON_TRY(Model::create(handle, model));
    TRITON_TRY(TRITONBACKEND_ModelSetState(handle, model.get()));
    model.release(); // until ModelFinalize
    return nullptr;
  });
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *handle) {
  return guarded([&]() -> Error {
    void *state = nullptr;
    TRITON_TRY(TRITONBACKEND_ModelState(handle, &state));
    delete static_cast<Model *>(state);
    return nullptr;
  });
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *handle) {
  return guarded([&]() -> Error {
    TRITONBACKEND_Model *model = nullptr;
    void *state = nullptr;
    TRITON_TRY(TRITONBACKEND_ModelInstanceModel(handle, &model));
    TRITON_TRY(TRITONBACKEND_ModelState(model, &state));
    std::unique_ptr<Instance> instance;
    TRITON_TRY(Instance::create(handle, *static_cast<Model *>(state), instance));
    TRITON_TRY(TRITONBACKEND_ModelInstanceSetState(handle, instance.get()));
    instance.release(); // until ModelInstanceFinalize
    return nullptr;
  });
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *handle) {
  return guarded([&]() -> Error {
    void *state = nullptr;
    TRITON_TRY(TRITONBACKEND_ModelInstanceState(handle, &state));
    delete static_cast<Instance *>(state);
    return nullptr;
  });
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *handle,
                                                       TRITONBACKEND_Request **requests,
                                                       uint32_t count) {
  return guarded([&]() -> Error {
    void *state = nullptr;
    TRITON_TRY(TRITONBACKEND_ModelInstanceState(handle, &state));
    static_cast<Instance *>(state)->execute({requests, count});
    return nullptr;
  });
}
