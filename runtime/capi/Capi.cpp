// The C interface over Engine and Session. Nothing thrown below passes this border: running out of
// memory becomes a status that needs no memory.

#include "tenon/tenon.h"

#include "engine/PortRanges.h"
#include "runtime/capi/Alone.h"
#include "runtime/capi/Opened.h"
#include "runtime/capi/StatusObject.h"
#include "runtime/capi/Structs.h"
#include "runtime/capi/Tensors.h"
#include "runtime/core/Engine.h"
#include "runtime/core/Session.h"
#include "support/text/Text.h"

#include <atomic>
#include <limits>
#include <new>
#include <span>

using tenon::Bytes;
using tenon::ErrorId;
using tenon::Result;
using tenon::Status;
using tenon::strCat;
using tenon::capi::badArgument;
using tenon::capi::fillStruct;
using tenon::capi::guarded;
using tenon::capi::readStruct;
using tenon::engine::Port;
using tenon::runtime::Engine;
using tenon::runtime::Session;

struct tenon_engine {
  std::shared_ptr<const Engine> engine;
  /// Kept because the C interface gives out pointers.
  std::vector<tenon::engine::PortRanges> inputs;
  std::vector<tenon::engine::PortRanges> outputs;
};

struct tenon_session {
  std::unique_ptr<Session> session;
  std::vector<tenon::runtime::InputBinding> inputs;
  std::vector<tenon::runtime::OutputBinding> outputs;
  std::vector<std::span<const int64_t>> dims;
  mutable std::atomic_flag isInUse;
};

const Engine &tenon::capi::engineOf(const tenon_engine &opened) { return *opened.engine; }

namespace {

template <typename Work> tenon_status *alone(const tenon_session *session, const Work &work) {
  return guarded([&]() -> Status {
    if (!session) {
      return badArgument("the session is null");
    }
    return tenon::capi::alone(
        session->isInUse, "another thread is using this session",
        "make a session for each thread; sessions of one engine run at the same time", work);
  });
}

Status finishOpen(Result<std::shared_ptr<const Engine>> opened, tenon_engine **engine) {
  if (!opened.isOk()) {
    return opened.takeStatus();
  }
  std::unique_ptr<tenon_engine> out = std::make_unique<tenon_engine>();
  out->engine = std::move(*opened);
  const tenon::engine::Plan &plan = out->engine->plan();
  for (const Port &port : plan.inputs) {
    out->inputs.push_back(tenon::engine::rangesOf(plan, port));
  }
  for (const Port &port : plan.outputs) {
    out->outputs.push_back(tenon::engine::rangesOf(plan, port));
  }
  *engine = out.release();
  return Status::ok();
}

Result<tenon::runtime::EngineOptions> toOptions(const tenon_engine_options *options) {
  tenon_engine_options given = {};
  TENON_TRY(readStruct(options, given));
  tenon::runtime::EngineOptions out;
  out.variant = given.variant ? given.variant : "";
  out.verifyWeights = given.no_verify_weights == 0;
  out.gpu = given.gpu;
  return out;
}

Status describePort(const std::vector<Port> &ports,
                    const std::vector<tenon::engine::PortRanges> &ranges, size_t index,
                    tenon_port_info *info) {
  if (!info || index >= ports.size()) {
    return badArgument(info ? strCat("port ", index, " was asked for, but there are ", ports.size())
                            : std::string("the place for the port is null"));
  }
  return fillStruct({0, ports[index].name.c_str(), static_cast<tenon_dtype>(ports[index].dtype),
                     ports[index].dims.size(), ranges[index].least.data(),
                     ranges[index].most.data()},
                    info);
}

Status checkInputs(const tenon_session *session, const tenon_input *inputs, size_t count) {
  if (!session || (!inputs && count != 0)) {
    return badArgument("the session or the inputs are null");
  }
  for (size_t i = 0; i < count; ++i) {
    if (!inputs[i].dims && inputs[i].rank != 0) {
      return badArgument(strCat("the dims of input ", i, " are null"));
    }
  }
  return Status::ok();
}

} // namespace

extern "C" {

tenon_code tenon_status_code(const tenon_status *status) {
  return status ? status->code : TENON_OK;
}

const char *tenon_status_id(const tenon_status *status) { return status ? status->id.c_str() : ""; }

const char *tenon_status_hint(const tenon_status *status) {
  return status ? status->hint.c_str() : "";
}

const char *tenon_status_text(const tenon_status *status) {
  return status ? status->text.c_str() : "ok";
}

void tenon_status_destroy(tenon_status *status) {
  if (status && !status->isStatic) {
    delete status;
  }
}

tenon_status *tenon_engine_open(const char *path, const tenon_engine_options *options,
                                tenon_engine **engine) {
  return guarded([&]() -> Status {
    if (!path || !engine) {
      return badArgument("the path or the place for the engine is null");
    }
    TENON_ASSIGN(tenon::runtime::EngineOptions wanted, toOptions(options));
    return finishOpen(Engine::open(path, wanted), engine);
  });
}

tenon_status *tenon_engine_open_memory(const void *data, size_t bytes,
                                       const tenon_engine_options *options, tenon_engine **engine) {
  return guarded([&]() -> Status {
    if (!data || !engine) {
      return badArgument("the memory or the place for the engine is null");
    }
    TENON_ASSIGN(tenon::runtime::EngineOptions wanted, toOptions(options));
    Bytes image(static_cast<const std::byte *>(data), bytes);
    return finishOpen(Engine::fromMemory(image, wanted), engine);
  });
}

void tenon_engine_destroy(tenon_engine *engine) { delete engine; }

const char *tenon_engine_variant(const tenon_engine *engine) {
  return engine ? engine->engine->variant().level.c_str() : "";
}

int32_t tenon_engine_gpu(const tenon_engine *engine) {
  return engine ? engine->engine->gpu().value_or(-1) : -1;
}

size_t tenon_engine_input_count(const tenon_engine *engine) {
  return engine ? engine->inputs.size() : 0;
}

size_t tenon_engine_output_count(const tenon_engine *engine) {
  return engine ? engine->outputs.size() : 0;
}

tenon_status *tenon_engine_input(const tenon_engine *engine, size_t index, tenon_port_info *info) {
  return guarded([&] {
    return engine ? describePort(engine->engine->plan().inputs, engine->inputs, index, info)
                  : badArgument("the engine is null");
  });
}

tenon_status *tenon_engine_output(const tenon_engine *engine, size_t index, tenon_port_info *info) {
  return guarded([&] {
    return engine ? describePort(engine->engine->plan().outputs, engine->outputs, index, info)
                  : badArgument("the engine is null");
  });
}

tenon_status *tenon_engine_record(const tenon_engine *engine, const char *name, const char **json,
                                  size_t *bytes) {
  return guarded([&]() -> Status {
    if (!engine || !name || !json || !bytes) {
      return badArgument("the engine, the name or a place for the text is null");
    }
    TENON_ASSIGN(std::string_view text, engine->engine->file().record(name));
    *json = text.data();
    *bytes = text.size();
    return Status::ok();
  });
}

tenon_status *tenon_session_create(const tenon_engine *engine, const tenon_session_options *options,
                                   tenon_session **session) {
  return guarded([&]() -> Status {
    if (!engine || !session) {
      return badArgument("the engine or the place for the session is null");
    }
    tenon_session_options given = {};
    TENON_TRY(readStruct(options, given));
    tenon::runtime::SessionOptions wanted;
    wanted.threads = given.threads;
    wanted.memoryLimit = given.memory_limit ? given.memory_limit : wanted.memoryLimit;
    if (given.value_count != 0 && !given.values) {
      return badArgument("the values of the session are null");
    }
    for (const tenon_session_value &each : std::span(given.values, given.value_count)) {
      if (!each.name) {
        return badArgument("the name of a session's value is null");
      }
      wanted.symbols.push_back({each.name, each.value});
    }
    wanted.measureSeconds = given.measure_calls != 0 ? std::numeric_limits<double>::infinity() : 0;
    std::unique_ptr<tenon_session> out = std::make_unique<tenon_session>();
    TENON_ASSIGN(out->session, Session::create(engine->engine, wanted));
    // Room for the bindings of every run, which then allocates nothing.
    out->inputs.reserve(engine->inputs.size());
    out->outputs.reserve(engine->outputs.size());
    out->dims.reserve(engine->inputs.size());
    *session = out.release();
    return Status::ok();
  });
}

void tenon_session_destroy(tenon_session *session) { delete session; }

tenon_status *tenon_session_prepare(tenon_session *session, const tenon_input *inputs,
                                    size_t input_count) {
  return alone(session, [&]() -> Status {
    TENON_TRY(checkInputs(session, inputs, input_count));
    session->dims.clear();
    for (size_t i = 0; i < input_count; ++i) {
      session->dims.emplace_back(inputs[i].dims, inputs[i].rank);
    }
    return session->session->prepare(session->dims);
  });
}

tenon_status *tenon_session_output_shape(const tenon_session *session, size_t index,
                                         const int64_t **dims, size_t *rank, size_t *bytes) {
  return guarded([&] {
    if (!session || index >= session->session->engine().plan().outputs.size()) {
      return badArgument(strCat("there is no output ", index));
    }
    if (!session->session->isPrepared()) {
      return badArgument("the session was not prepared for any dims");
    }
    std::span<const int64_t> shape = session->session->outputDims(index);
    if (dims) {
      *dims = shape.data();
    }
    if (rank) {
      *rank = shape.size();
    }
    if (bytes) {
      *bytes = session->session->outputBytes(index);
    }
    return Status::ok();
  });
}

tenon_status *tenon_session_run(tenon_session *session, const tenon_input *inputs,
                                size_t input_count, const tenon_output *outputs,
                                size_t output_count) {
  return alone(session, [&]() -> Status {
    TENON_TRY(checkInputs(session, inputs, input_count));
    if (!outputs && output_count != 0) {
      return badArgument("the outputs are null");
    }
    session->inputs.clear();
    for (size_t i = 0; i < input_count; ++i) {
      session->inputs.push_back({inputs[i].data, {inputs[i].dims, inputs[i].rank}});
    }
    session->outputs.clear();
    for (size_t i = 0; i < output_count; ++i) {
      session->outputs.push_back({outputs[i].data, outputs[i].bytes});
    }
    return session->session->run(session->inputs, session->outputs);
  });
}

tenon_status *tenon_session_run_tensors(tenon_session *session, const tenon_tensor *const *inputs,
                                        size_t input_count, const tenon_tensor *const *outputs,
                                        size_t output_count, const tenon_run_options *options) {
  return alone(session, [&]() -> Status {
    if ((!inputs && input_count != 0) || (!outputs && output_count != 0)) {
      return badArgument("the inputs or the outputs are null");
    }
    tenon_run_options given = {};
    TENON_TRY(readStruct(options, given));
    const Engine &engine = session->session->engine();
    TENON_TRY(tenon::capi::bindInputs(engine, {inputs, input_count}, session->inputs));
    session->dims.clear();
    for (const tenon::runtime::InputBinding &input : session->inputs) {
      session->dims.push_back(input.dims);
    }
    TENON_TRY(session->session->prepare(session->dims));
    TENON_TRY(
        tenon::capi::bindOutputs(*session->session, {outputs, output_count}, session->outputs));
    tenon::runtime::RunOptions runOptions;
    runOptions.stream = given.stream;
    return session->session->run(session->inputs, session->outputs, runOptions);
  });
}

tenon_status *tenon_session_memory(const tenon_session *session, tenon_memory_use *use) {
  return alone(session, [&]() -> Status {
    if (!use) {
      return badArgument("the place for the numbers is null");
    }
    tenon::runtime::MemoryUse held = session->session->memoryUse();
    return fillStruct({0, held.arenaBytes, held.stateBytes, held.scratchBytes, held.weightBytes,
                       held.workspaceBytes, held.portBytes, held.stagingBytes},
                      use);
  });
}

tenon_status *tenon_session_facts(const tenon_session *session, tenon_run_facts *facts) {
  return alone(session, [&]() -> Status {
    if (!facts) {
      return badArgument("the place for the facts is null");
    }
    tenon::runtime::RunInfo known = session->session->info();
    return fillStruct(
        {0, known.kernels, known.calls, known.moves, known.usedGraph ? 1 : 0, known.gpuSeconds},
        facts);
  });
}

void tenon_session_set_timing(tenon_session *session, int32_t is_on) {
  if (session) {
    session->session->setTiming(is_on != 0);
  }
}

const void *tenon_session_output_data(const tenon_session *session, size_t index) {
  return session ? session->session->outputData(index) : nullptr;
}

tenon_status *tenon_session_reset_state(tenon_session *session) {
  return alone(session, [&] { return session->session->resetState(); });
}

} // extern "C"
