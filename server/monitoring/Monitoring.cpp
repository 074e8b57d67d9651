// The way of a sampled request to the thread that counts it, and of what that found back. What is
// done about it is in Rules.cpp, how it is told in MonitoringText.cpp.

#include "server/monitoring/Monitoring.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace tenon::server {
namespace {

/// Of rows that wait for the thread; more are dropped, and counted.
constexpr size_t kMaxBytes = 32 << 20;
/// From so many on the thread begins at once.
constexpr size_t kEnoughBytes = 1 << 20;
constexpr size_t kMaxPredictions = 1 << 16;
constexpr size_t kMaxEvents = 256;

/// Where the reference of a version is; empty where it has none. A path in config.pbtxt is relative
/// to the model's folder.
std::string referencePath(const MonitoringOptions &options, const Version &version) {
  std::map<std::string, std::string>::const_iterator given = options.references.find(version.model);
  if (given != options.references.end()) {
    return given->second;
  }
  for (const auto &[key, value] : version.config.parameters) {
    if (key == "drift_reference") {
      return std::filesystem::path(version.path).parent_path().parent_path() / value;
    }
  }
  return {};
}

} // namespace

Monitoring::Monitoring(boost::asio::any_io_executor executor, const MonitoringOptions &given,
                       std::string serverVersion, Log logLine)
    : executor(executor), options(given), log(std::move(logLine)),
      predictions(kMaxPredictions, given.labelAge), batch(std::make_shared<Batch>()),
      spare(std::make_shared<Batch>()) {
  auto onFailure = [this](const Status &status) {
    notify([this, line = status.toString()] { log(line, LogLevel::Warning); });
  };
  if (!options.webhook.empty()) {
    webhooks = std::make_unique<DeliveryQueue>(kMaxEvents, onFailure);
  }
  if (!options.otlp.empty()) {
    tracer = std::make_unique<Tracer>(options.otlp, options.traceShare, std::move(serverVersion),
                                      onFailure);
  }
  thread = std::make_unique<TaskThread>();
}

Monitoring::~Monitoring() { stop(); }

void Monitoring::begin(const ModelCatalog &catalog, TrafficControl &control,
                       RegistryRollback rollback) {
  models = &catalog;
  traffic = &control;
  registryRollback = std::move(rollback);
}

void Monitoring::stop() {
  thread = nullptr;
  if (tracer) {
    tracer->flush();
  }
  tracer = nullptr;
  webhooks = nullptr;
}

void Monitoring::notify(std::function<void()> callback) {
  boost::asio::post(executor, std::move(callback));
}

void Monitoring::tick(Clock::time_point now) {
  constexpr uint64_t kSlowly = 5; // every half second
  handOver();
  if (tracer) {
    tracer->tick(now);
  }
  if (ticks++ % kSlowly == 0) {
    follow(models->all());
    evaluateCanaries();
  }
}

void Monitoring::follow(const std::map<std::string, Model> &all) {
  for (const auto &[name, model] : all) {
    for (const auto &[number, version] : model.versions) {
      if (!version->isKnown()) {
        continue;
      }
      std::shared_ptr<MonitoredVersion> &monitored = versions[{name, version->number}];
      if (monitored && monitored->order == version->order) {
        continue;
      }
      std::map<std::string, int64_t>::iterator rolledBack = acted.find(name);
      if (rolledBack != acted.end() && rolledBack->second != number) {
        acted.erase(rolledBack); // somebody loaded another version
      }
      monitored = std::make_shared<MonitoredVersion>();
      monitored->model = name;
      monitored->number = version->number;
      monitored->order = version->order;
      monitored->path = referencePath(options, *version);
      if (!monitored->path.empty()) {
        readReference(monitored, version->ports);
      }
    }
  }
  std::erase_if(versions, [&all](const auto &each) {
    std::map<std::string, Model>::const_iterator model = all.find(each.first.first);
    return model == all.end() ||
           !model->second.versions.contains(versionNumber(each.first.second).value_or(-1));
  });
}

void Monitoring::readReference(const std::shared_ptr<MonitoredVersion> &version, ModelPorts ports) {
  thread->post(
      [this, version, ports = std::move(ports), path = version->path, size = options.window] {
        std::shared_ptr<DriftReference> reference;
        Result<DriftReference> read = DriftReference::read(path, ports);
        Status problem = read.isOk() ? Status::ok() : read.takeStatus();
        if (problem.isOk()) {
          reference = std::make_shared<DriftReference>(std::move(*read));
          version->window = std::make_shared<DriftWindow>(reference, size, kDriftFalseAlarms);
        }
        notify([this, version, reference, problem] {
          version->reference = reference;
          version->problem = problem;
          log(problem.isOk()
                  ? fmt::format("model '{}' version {} is compared with {}: {} features, {} rows",
                                version->model, version->number, version->path,
                                reference->features().size(), reference->rows())
                  : fmt::format("model '{}' version {} is served, but not monitored: {}",
                                version->model, version->number, problem.toString()),
              problem.isOk() ? LogLevel::Info : LogLevel::Warning);
        });
      });
}

void Monitoring::answered(const Request &request, const InferResult &result) {
  bool isSampled = options.share >= 1 || random.chance(options.share);
  Versions::iterator found =
      isSampled ? versions.find(KeyLess::View(result.version->model, result.version->number))
                : versions.end();
  if (found == versions.end() || found->second->order != result.version->order) {
    return;
  }
  if (!request.payload.id.empty()) {
    std::vector<int64_t> classes = classesOf(result);
    if (!classes.empty()) {
      predictions.keep(result.version->model, request.payload.id, found->second->accuracy,
                       std::move(classes), Clock::now());
    }
  }
  if (found->second->reference) {
    sample(found->second, request, result);
  }
}

void Monitoring::sample(const std::shared_ptr<MonitoredVersion> &version, const Request &request,
                        const InferResult &result) {
  size_t bytesBefore = batch->bytes.size(), piecesBefore = batch->pieces.size();
  bool isTaken = bytesBefore < kMaxBytes;
  for (const MonitoredPort &port : version->reference->ports()) {
    if (!isTaken) {
      break;
    }
    const RequestInput *input =
        port.isInput ? &request.payload.inputs[request.order[port.place]] : nullptr;
    const std::vector<int64_t> &dims = input ? input->dims : result.outputs[port.place].dims;
    uint64_t bytes = input ? input->bytes : result.outputs[port.place].bytes;
    uint64_t rows = port.isWhole ? 1 : static_cast<uint64_t>(dims[0]);
    bool isRow = port.isSummarized || std::equal(dims.begin() + !port.isWhole, dims.end(),
                                                 port.rowDims.begin(), port.rowDims.end());
    rows = isRow && bytes > 0 ? rows
                              : 0; // of another length than in the reference: nothing to compare
    size_t offset = batch->bytes.size();
    batch->pieces.push_back({rows, offset, rows > 0 ? bytes : 0});
    if (rows == 0) {
      continue;
    }
    if (input && input->list) {
      batch->bytes.resize(offset + bytes);
      isTaken = storeNumbers(request.payload.lists[*input->list], input->dtype,
                             MutableBytes(batch->bytes).subspan(offset), input->name)
                    .isOk();
    } else {
      const std::byte *from =
          input ? input->binary.data()
                : result.buffer->memory->data() + result.outputs[port.place].offset;
      batch->bytes.insert(batch->bytes.end(), from, from + bytes);
    }
  }
  if (!isTaken) {
    batch->bytes.resize(bytesBefore);
    batch->pieces.resize(piecesBefore);
    droppedRows += request.rows;
    return;
  }
  batch->targets.push_back(version);
  if (batch->bytes.size() >= kEnoughBytes) {
    handOver();
  }
}

void Monitoring::handOver() {
  if (isBusy || batch->targets.empty() || !thread) {
    return;
  }
  isBusy = true;
  std::shared_ptr<Batch> full = std::exchange(batch, std::move(spare));
  thread->post([this, full] {
    struct Found {
      std::shared_ptr<MonitoredVersion> version;
      std::vector<DriftReport> reports;
      uint64_t collected;
    };
    std::vector<Found> found;
    size_t piece = 0;
    for (size_t i = 0; i < full->targets.size(); ++i) {
      const std::shared_ptr<MonitoredVersion> &version = full->targets[i];
      std::vector<DriftReport> reports = addToWindow(*full, i, piece);
      bool isLast = i + 1 == full->targets.size() || full->targets[i + 1] != version;
      if (isLast || !reports.empty()) {
        found.push_back({version, std::move(reports), version->window->collected()});
      }
    }
    full->targets.clear();
    full->pieces.clear();
    full->bytes.clear();
    notify([this, full, found = std::move(found)] {
      isBusy = false;
      spare = full;
      for (const Found &each : found) {
        take(each.version, each.reports, each.collected);
      }
    });
  });
}

std::vector<DriftReport> Monitoring::addToWindow(const Batch &batch, size_t request,
                                                 size_t &piece) {
  DriftWindow &window = *batch.targets[request]->window;
  std::vector<SampledRows> rows(batch.targets[request]->reference->ports().size());
  for (SampledRows &each : rows) {
    const Batch::Piece &at = batch.pieces[piece++];
    each = {at.rows, Bytes(batch.bytes).subspan(at.offset, at.bytes)};
  }
  return window.add(rows);
}

void Monitoring::take(const std::shared_ptr<MonitoredVersion> &version,
                      std::vector<DriftReport> reports, uint64_t collected) {
  version->collected = collected;
  for (DriftReport &report : reports) {
    ++version->windows;
    version->drifted += report.isDrift;
    version->inARow = report.isDrift ? version->inARow + 1 : 0;
    version->last = std::move(report);
    evaluateDrift(*version);
  }
}

void Monitoring::replied(const InferResult &result, uint64_t copyOutNanoseconds) {
  if (tracer) {
    tracer->replied(result, copyOutNanoseconds);
  }
}

void Monitoring::failed(const Request &request) {
  if (tracer) {
    tracer->failed(request);
  }
}

} // namespace tenon::server
