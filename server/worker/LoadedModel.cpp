// Runs go by the C interface: prepare tells how large the outputs are, then the run writes them
// into the shared buffer.

#include "server/worker/LoadedModel.h"

#include "registry/Sha256.h"
#include "runtime/capi/Opened.h"
#include "server/worker/BatchProof.h"
#include "server/worker/EngineImage.h"
#include "server/worker/TextFit.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <unistd.h>

namespace tenon::server {
namespace {

void signal(int event) {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(event, &one, sizeof(one));
}

/// False when the event can never come.
bool await(int event) {
  uint64_t count = 0;
  ssize_t bytes;
  do {
    // The event does not block, since the front writes to it and must not be stopped by what a
    // worker did with it.
    pollfd ready = {event, POLLIN, 0};
    poll(&ready, 1, -1);
    bytes = read(event, &count, sizeof(count));
  } while (bytes < 0 && (errno == EINTR || errno == EAGAIN));
  return bytes == sizeof(count);
}

Status portOf(const tenon_engine *engine, bool isInput, size_t index, ModelPort &port) {
  tenon_port_info info = {};
  info.struct_size = sizeof(info);
  TENON_TRY(takeStatus(isInput ? tenon_engine_input(engine, index, &info)
                               : tenon_engine_output(engine, index, &info)));
  port.name = info.name;
  port.dtype = static_cast<DType>(info.dtype);
  port.minDims.assign(info.min_dims, info.min_dims + info.rank);
  port.maxDims.assign(info.max_dims, info.max_dims + info.rank);
  return Status::ok();
}

tenon_memory_use memoryOf(const tenon_session *session) {
  tenon_memory_use use = {};
  use.struct_size = sizeof(use);
  return takeStatus(tenon_session_memory(session, &use)).isOk() ? use : tenon_memory_use();
}

uint64_t divideUp(uint64_t bytes, uint64_t parts) { return (bytes + parts - 1) / parts; }

/// What a session holds on its device by itself, or on each of some GPUs.
uint64_t heldBytes(const tenon_session *session, uint64_t gpus) {
  tenon_memory_use use = memoryOf(session);
  return divideUp(use.arena + use.state + use.scratch + use.workspace + use.ports, gpus);
}

void putError(RequestSlot &slot, const Status &status) {
  slot.outcome = RequestSlot::Outcome::Failed;
  slot.errorId = static_cast<uint32_t>(status.id());
  slot.messageBytes =
      static_cast<uint32_t>(std::min(status.message().size(), RequestSlot::kTextBytes));
  slot.hintBytes = static_cast<uint32_t>(
      std::min(status.hint().size(), RequestSlot::kTextBytes - slot.messageBytes));
  std::memcpy(slot.text, status.message().data(), slot.messageBytes);
  std::memcpy(slot.text + slot.messageBytes, status.hint().data(), slot.hintBytes);
}

} // namespace

void SharedBufferTable::add(uint32_t number, std::unique_ptr<SharedMemory> buffer) {
  std::lock_guard guard(lock);
  buffers[number] = std::move(buffer);
  added.notify_all();
}

void SharedBufferTable::drop(uint32_t number) {
  std::lock_guard guard(lock);
  buffers.erase(number);
}

std::shared_ptr<SharedMemory> SharedBufferTable::find(uint32_t number) {
  std::unique_lock guard(lock);
  added.wait(guard, [&] { return buffers.contains(number); });
  return buffers[number];
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(ControlMessage &request,
                                                       SharedBufferTable &buffers, int doneEvent) {
  std::vector<Descriptor> &descriptors = request.descriptors;
  TENON_ASSIGN(LoadRequest wanted, decodeLoad(request.text));
  Descriptor draft;
  if (wanted.hasDraft && !descriptors.empty()) {
    draft = std::move(descriptors.back());
    descriptors.pop_back();
  }
  if (descriptors.size() < 4 || descriptors.size() % 2 != 0) {
    return Status::error(ErrorId::InternalError, "a load request lacks file descriptors");
  }
  std::unique_ptr<LoadedModel> model(new LoadedModel(buffers, doneEvent, request.key));
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  unsigned threads = static_cast<unsigned>(request.value);
  bool isOnGpu = request.kind == ControlMessage::Kind::LoadOnGpu;
  TENON_ASSIGN(model->engine,
               model->open(std::move(descriptors[0]), wanted.sha256, isOnGpu, model->image));
  model->watchRanks();
  TENON_TRY(model->describe(wanted.batch, threads, start));
  model->ends("batching");
  if (model->holdsLanguageModel()) {
    if (wanted.hasDraft) {
      TENON_ASSIGN(capi::EngineHandle opened,
                   model->open(std::move(draft), wanted.draftSha256, isOnGpu, model->draftImage));
      TENON_ASSIGN(model->draft, generate::LanguageModel::of(std::move(opened)));
    }
    TENON_TRY(model->becomeLanguageModel(threads, (descriptors.size() - 2) / 2, wanted));
    model->generation->start(std::move(descriptors[1]));
    return model;
  }
  for (size_t i = 2; i < descriptors.size(); i += 2) {
    TENON_TRY(
        model->addInstance(std::move(descriptors[i]), std::move(descriptors[i + 1]), threads));
  }
  model->ends("sessions");
  for (std::unique_ptr<Instance> &instance : model->instances) {
    instance->thread =
        std::thread([raw = instance.get(), self = model.get()] { self->serve(*raw); });
  }
  return model;
}

void LoadedModel::watchRanks() {
  const runtime::Engine &opened = capi::engineOf(*engine);
  if (opened.plan().ranks > 1) {
    gpus = opened.gpu() ? opened.plan().ranks : 1;
    watch = std::make_unique<GroupWatch>(opened.rankWatch(), key);
  }
}

void LoadedModel::failed(const Status &status) const {
  if (gpus > 1 && status.id() == ErrorId::DeviceFailed) {
    endWorker(key, status);
  }
}

void LoadedModel::ends(std::string_view phase) {
  std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
  double seconds = std::chrono::duration<double>(now - std::exchange(phaseBegan, now)).count();
  modelInfo.phases.push_back({std::string(phase), seconds});
}

LoadedModel::~LoadedModel() {
  isEnding = true;
  for (std::unique_ptr<Instance> &instance : instances) {
    if (instance->thread.joinable()) {
      signal(instance->wake.get());
      instance->thread.join();
    }
  }
}

Result<capi::EngineHandle> LoadedModel::open(Descriptor file, const std::string &sha256,
                                             bool isOnGpu, AlignedBuffer &image) {
  EarlyGpu gpu(isOnGpu);
  TENON_ASSIGN(image, readImage(file.get()));
  ends("file");
  if (!sha256.empty() &&
      registry::sha256Of({reinterpret_cast<const char *>(image.data()), image.size()}) != sha256) {
    return Status::error(ErrorId::SignatureWrong,
                         "the engine's bytes differ from those that were signed",
                         "restore the signed file, or sign this one");
  }
  tenon_engine *opened = nullptr;
  // Of an empty file the address is null, which would be an error of ours.
  const void *data = image.size() ? static_cast<const void *>(image.data()) : "";
  TENON_TRY(takeStatus(tenon_engine_open_memory(data, image.size(), nullptr, &opened)));
  capi::EngineHandle engine(opened);
  if (isOnGpu && tenon_engine_gpu(opened) < 0) {
    return Status::error(ErrorId::EngineNoVariant,
                         "no variant of the engine runs on the GPU of its worker",
                         "compile the model with --target for it; `tenon doctor` shows the GPU");
  }
  ends("engine");
  return engine;
}

bool LoadedModel::holdsLanguageModel() const {
  const char *text = nullptr;
  size_t bytes = 0;
  return takeStatus(tenon_engine_record(engine.get(), "language", &text, &bytes)).isOk();
}

Status LoadedModel::becomeLanguageModel(unsigned threads, uint64_t running,
                                        const LoadRequest &wanted) {
  generate::ServiceOptions options;
  options.threads = threads;
  options.draftTokens = static_cast<int64_t>(wanted.draftTokens);
  options.draft = draft.get();
  if (running > 1) { // somebody said how many requests run at once
    options.maxRunning = static_cast<int64_t>(running);
  }
  OpenedFile own = {engine.get(), image.size()}, guessing = {nullptr, draftImage.size()};
  if (draft) {
    guessing.engine = draft->engine();
  }
  TENON_ASSIGN(generate::ServiceFit fit, fitTexts(own, draft ? &guessing : nullptr, threads,
                                                  wanted.texts, options.maxRunning));
  options.maxRunning = fit.users;
  options.pages = fit.pages;
  TENON_ASSIGN(std::unique_ptr<generate::LanguageModel> model,
               generate::LanguageModel::of(std::move(engine)));
  ends("tokenizer");
  TENON_ASSIGN(generation, Generation::create(std::move(model), options,
                                              [this](const Status &status) { failed(status); }));
  ends("session");
  const generate::ModelFacts &facts = generation->facts();
  modelInfo.language = {static_cast<uint64_t>(facts.positions),
                        static_cast<uint64_t>(facts.vocabulary), !facts.chatTemplate.empty()};
  modelInfo.sharedBytes = fit.weights + draftImage.size();
  modelInfo.bytes = fit.needed();
  return Status::ok();
}

Status LoadedModel::describe(const BatchPolicy &policy, unsigned threads,
                             std::chrono::steady_clock::time_point loadBegan) {
  ModelPorts &modelPorts = modelInfo.ports;
  modelPorts.inputs.resize(tenon_engine_input_count(engine.get()));
  modelPorts.outputs.resize(tenon_engine_output_count(engine.get()));
  for (size_t i = 0; i < modelPorts.inputs.size(); ++i) {
    TENON_TRY(portOf(engine.get(), true, i, modelPorts.inputs[i]));
  }
  for (size_t i = 0; i < modelPorts.outputs.size(); ++i) {
    TENON_TRY(portOf(engine.get(), false, i, modelPorts.outputs[i]));
  }
  EngineRecord record = readRecord(engine.get(), modelPorts);
  if (!holdsLanguageModel()) { // whose rows are those of texts
    modelInfo.batch = proveBatch(engine.get(), modelPorts, record, policy, threads, loadBegan);
  }
  // The weights of an engine for the CPU lie in its file's image.
  modelInfo.sharedBytes = modelInfo.bytes = image.size();
  return Status::ok();
}

Status LoadedModel::addInstance(Descriptor slot, Descriptor wake, unsigned threads) {
  std::unique_ptr<Instance> instance = std::make_unique<Instance>();
  TENON_ASSIGN(instance->memory, SharedMemory::open(std::move(slot), kRequestSlotBytes));
  instance->wake = std::move(wake);
  tenon_session_options options = {};
  options.struct_size = sizeof(options);
  options.threads = threads;
  tenon_session *session = nullptr;
  TENON_TRY(takeStatus(tenon_session_create(engine.get(), &options, &session)));
  instance->session.reset(session);
  if (instances.empty() && tenon_engine_gpu(engine.get()) >= 0) {
    // The image is the host's.
    modelInfo.sharedBytes = modelInfo.bytes = divideUp(memoryOf(session).weights, gpus);
  }
  modelInfo.bytes += heldBytes(session, gpus);
  instances.push_back(std::move(instance));
  return Status::ok();
}

void LoadedModel::serve(Instance &instance) {
  RequestSlot &slot = *reinterpret_cast<RequestSlot *>(instance.memory->data());
  while (await(instance.wake.get())) {
    if (slot.requests.load(std::memory_order_acquire) ==
        slot.answers.load(std::memory_order_relaxed)) {
      if (isEnding) {
        return;
      }
      continue;
    }
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    Status status;
    try {
      status = run(instance, slot);
    } catch (const std::exception &) {
      status = Status::error(ErrorId::OutOfMemory, "out of memory for a run");
    }
    if (!status.isOk()) {
      failed(status);
      putError(slot, status);
    }
    slot.heldBytes = heldBytes(instance.session.get(), gpus);
    slot.computeNanoseconds =
        static_cast<uint64_t>((std::chrono::steady_clock::now() - start).count());
    slot.answers.fetch_add(1, std::memory_order_release);
    signal(doneEvent);
  }
}

Status LoadedModel::run(Instance &instance, RequestSlot &slot) {
  tenon_session *session = instance.session.get();
  std::shared_ptr<SharedMemory> inputBuffer = buffers.find(slot.inputBuffer),
                                outputBuffer = buffers.find(slot.outputBuffer);
  TENON_ASSIGN(std::vector<TensorPlace> places,
               readTable(inputBuffer->bytes(), 0, slot.inputCount));
  std::vector<tenon_input> inputs;
  for (const TensorPlace &place : places) {
    inputs.push_back({inputBuffer->data() + place.offset, place.dims.data(), place.dims.size()});
  }
  TENON_TRY(takeStatus(tenon_session_prepare(session, inputs.data(), inputs.size())));

  std::vector<TensorPlace> results(modelInfo.ports.outputs.size());
  auto readShape = [&](size_t i) -> Status {
    const int64_t *dims = nullptr;
    size_t rank = 0, bytes = 0;
    TENON_TRY(takeStatus(tenon_session_output_shape(session, i, &dims, &rank, &bytes)));
    results[i].dims.assign(dims, dims + rank);
    results[i].bytes = bytes;
    return Status::ok();
  };
  for (size_t i = 0; i < results.size(); ++i) {
    TENON_TRY(readShape(i));
  }
  uint64_t end = slot.outputOffset + tableBytes(results);
  for (TensorPlace &result : results) {
    result.offset = alignTensor(end);
    end = result.offset + result.bytes;
  }
  if (end > slot.outputEnd || slot.outputEnd > outputBuffer->bytes().size()) {
    slot.outcome = RequestSlot::Outcome::NeedsRoom;
    slot.roomNeeded = end - slot.outputOffset;
    return Status::ok();
  }
  std::vector<tenon_output> outputs;
  for (const TensorPlace &result : results) {
    outputs.push_back({outputBuffer->data() + result.offset, result.bytes});
  }
  TENON_TRY(takeStatus(
      tenon_session_run(session, inputs.data(), inputs.size(), outputs.data(), outputs.size())));
  // Where data decide how large an output is, only now it is known.
  for (size_t i = 0; i < results.size(); ++i) {
    TENON_TRY(readShape(i));
  }
  writeTable(outputBuffer->bytes(), slot.outputOffset, results);
  slot.outcome = RequestSlot::Outcome::Done;
  return Status::ok();
}

} // namespace tenon::server
