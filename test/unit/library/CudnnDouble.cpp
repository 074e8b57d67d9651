// Stands in for libcudnn.so.9: keeps the attributes of descriptors and runs finalized graphs on the
// host. Written from the documentation of the backend interface.
// Engine 0 uses tensor cores, 1 is not deterministic, 2 wants too much memory, 3 and 4 are plain.

#include "CudnnDoubleGraph.h"

#include <deque>

using namespace tenon;
using namespace tenon::library;

CudnnState tenonDoubleState;

namespace {

constexpr int kBadParameter = 2000;
constexpr int kNotSupported = 3001;

size_t widthOf(int type) {
  switch (type) {
  case 0:  // handle
  case 3:  // int64
  case 5:  // double
  case 6:  // pointer
  case 15: // descriptor
    return 8;
  case 2:  // boolean
  case 24: // character
    return 1;
  default:
    return 4;
  }
}

/// Convolutions of tensors whose channels do not lie next to each other have no engine here.
bool hasConvolutionLayouts(const Object *graph) {
  for (const Object *operation : graph->list<Object *>(801)) {
    for (int name : {703, 704, 705}) {
      if (operation->kind == 10 && operation->object(name)->list<int64_t>(903)[1] != 1) {
        return false;
      }
    }
  }
  return true;
}

bool isRefused(const Object *graph) {
  std::vector<Object *> operations = graph->list<Object *>(801);
  bool hasConvolution =
      std::any_of(operations.begin(), operations.end(), [](Object *op) { return op->kind == 10; });
  return tenonDoubleState.refuseAll ||
         (tenonDoubleState.refuseFused && hasConvolution && operations.size() > 1);
}

/// A copy that lives on without the descriptors that it was made of, as a stored plan does.
Object *copied(const Object *object) {
  static std::deque<Object> copies;
  Object *copy = &copies.emplace_back(*object);
  for (int name : {201, 702, 703, 704, 705, 750, 751, 752, 753, 801, 1520, 1521, 1522, 1523, 1610,
                   1611, 1612}) {
    std::vector<Object *> parts = object->list<Object *>(name);
    for (Object *&part : parts) {
      part = copied(part);
    }
    if (!parts.empty()) {
      const char *bytes = reinterpret_cast<const char *>(parts.data());
      copy->attributes[name].assign(bytes, bytes + parts.size() * sizeof(Object *));
    }
  }
  return copy;
}

/// What was stored, by the number that stands for it.
std::vector<Object *> &storedPlans() {
  static std::vector<Object *> plans;
  return plans;
}

int describePlan(const Object *plan, int64_t room, int64_t *count, void *values) {
  int64_t number = static_cast<int64_t>(storedPlans().size());
  *count = sizeof(number);
  if (room >= *count) {
    storedPlans().push_back(copied(plan->object(401)));
    std::memcpy(values, &number, sizeof(number));
  }
  return 0;
}

int restorePlan(Object *plan) {
  std::vector<int64_t> number = plan->list<int64_t>(405);
  if (tenonDoubleState.refuseRestore || number.size() != 1 ||
      static_cast<size_t>(number[0]) >= storedPlans().size()) {
    return kNotSupported;
  }
  const char *bytes =
      reinterpret_cast<const char *>(&storedPlans()[static_cast<size_t>(number[0])]);
  plan->attributes[401].assign(bytes, bytes + sizeof(Object *));
  return 0;
}

template <typename T> int give(T value, int64_t *count, void *values) {
  *count = 1;
  std::memcpy(values, &value, sizeof(value));
  return 0;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cudnnCreate(void **context) {
  *context = &tenonDoubleState;
  return 0;
}
EXPORT int cudnnDestroy(void *) { return 0; }
EXPORT int cudnnSetStream(void *, void *stream) {
  tenonDoubleState.stream = stream;
  return 0;
}
EXPORT size_t cudnnGetVersion() { return 91203; }
EXPORT const char *cudnnGetErrorString(int) { return "CUDNN_STATUS_DOUBLE"; }

EXPORT int cudnnBackendCreateDescriptor(int kind, void **descriptor) {
  *descriptor = new Object(kind);
  return 0;
}
EXPORT int cudnnBackendDestroyDescriptor(void *descriptor) {
  delete static_cast<Object *>(descriptor);
  return 0;
}

EXPORT int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count,
                                    const void *values) {
  Object *object = static_cast<Object *>(descriptor);
  if (object->isFinal || count < 1) {
    return kBadParameter;
  }
  const char *bytes = static_cast<const char *>(values);
  object->attributes[name].assign(bytes, bytes + static_cast<size_t>(count) * widthOf(type));
  return 0;
}

EXPORT int cudnnBackendFinalize(void *descriptor) {
  Object *object = static_cast<Object *>(descriptor);
  object->isFinal = true;
  if (object->kind == 5 && object->attributes.contains(405)) {
    return restorePlan(object);
  }
  if (object->kind == 4) {
    ++tenonDoubleState.heuristics;
    return isRefused(object->object(201)) ? kNotSupported : 0;
  }
  if (object->kind == 1) {
    tenonDoubleState.mathType = object->value<int>(100);
  }
  return object->kind == 15 && !hasConvolutionLayouts(object) ? kBadParameter : 0;
}

EXPORT int cudnnBackendGetAttribute(void *descriptor, int name, int, int64_t room, int64_t *count,
                                    void *values) {
  Object *object = static_cast<Object *>(descriptor);
  switch (name) {
  case 202: // answers of a heuristic
    *count = tenonDoubleState.engines;
    for (int64_t i = 0; i < std::min(room, *count); ++i) {
      static_cast<Object **>(values)[i]->engine = static_cast<int>(i);
      static_cast<Object **>(values)[i]->attributes = object->attributes;
    }
    return 0;
  case 300: // engine of a configuration
    (*static_cast<Object **>(values))->engine = object->engine;
    *count = 1;
    return 0;
  case 1301:
    return give<int64_t>(object->engine, count, values);
  case 1303:
    *count = 0;
    return object->engine == 0   ? give<int>(0, count, values)
           : object->engine == 1 ? give<int>(4, count, values)
                                 : 0;
  case 405:
    return describePlan(object, room, count, values);
  case 402:
    return give<int64_t>(object->object(401)->engine == 2
                             ? int64_t(1) << 40
                             : static_cast<int64_t>(tenonDoubleState.workspace),
                         count, values);
  default:
    return kBadParameter;
  }
}

EXPORT int cudnnBackendExecute(void *, void *plan, void *pack) {
  Object *config = static_cast<Object *>(plan)->object(401);
  tenonDoubleState.engine = config->engine;
  ++tenonDoubleState.executions;
  Run run(static_cast<Object *>(pack));
  for (Object *operation : config->object(201)->list<Object *>(801)) {
    if (!run.operation(operation)) {
      return 5000;
    }
  }
  return 0;
}
