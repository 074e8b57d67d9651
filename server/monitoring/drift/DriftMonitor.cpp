// The way of a sampled request to the thread that counts it, and of what that found back. How it is
// told is in DriftText.cpp.

#include "server/monitoring/drift/DriftMonitor.h"

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

DriftMonitor::DriftMonitor(boost::asio::any_io_executor executor, const MonitoringOptions &options,
                           Log log, TaskThread &thread, Events events)
    : executor(executor), options(options), log(std::move(log)), thread(thread),
      events(std::move(events)), predictions(kMaxPredictions, options.labelAge) {}

void DriftMonitor::notify(std::function<void()> callback) {
  boost::asio::post(executor, std::move(callback));
}

void DriftMonitor::restart(const std::string &model) {
  for (auto &[key, version] : versions) {
    if (key.first == model) {
      version->inARow = version->outputsInARow = 0;
    }
  }
}

void DriftMonitor::setAction(const std::string &model, const std::string &number,
                             std::string what) {
  Versions::iterator found = versions.find(KeyLess::View(model, number));
  if (found != versions.end()) {
    found->second->action = std::move(what);
  }
}

void DriftMonitor::follow(const std::map<std::string, Model> &all) {
  for (const auto &[name, model] : all) {
    for (const auto &[number, version] : model.versions) {
      if (!version->isKnown()) {
        continue;
      }
      std::shared_ptr<MonitoredVersion> &monitored = versions[{name, version->number}];
      if (monitored && monitored->order == version->order) {
        continue;
      }
      events.onVersion(name, number);
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

void DriftMonitor::readReference(const std::shared_ptr<MonitoredVersion> &version,
                                 ModelPorts ports) {
  thread.post([this, version, ports = std::move(ports), path = version->path,
               size = options.window] {
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
      if (reference && options.onDrift == MonitoringAction::Rollback &&
          std::all_of(reference->ports().begin(), reference->ports().end(),
                      [](const MonitoredPort &port) { return port.isInput; })) {
        log(fmt::format(
                "model '{}' version {} is not rolled back on drift: its reference has no outputs, "
                "and drift of inputs alone rolls back only with --on-drift rollback-any",
                version->model, version->number),
            LogLevel::Warning);
      }
    });
  });
}

void DriftMonitor::answered(const Request &request, const InferResult &result) {
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

void DriftMonitor::sample(const std::shared_ptr<MonitoredVersion> &version, const Request &request,
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

void DriftMonitor::handOver() {
  if (isBusy || batch->targets.empty()) {
    return;
  }
  isBusy = true;
  std::shared_ptr<Sample> full = std::exchange(batch, std::move(spare));
  thread.post([this, full] {
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

std::vector<DriftReport> DriftMonitor::addToWindow(const Sample &sample, size_t request,
                                                   size_t &piece) {
  DriftWindow &window = *sample.targets[request]->window;
  std::vector<SampledRows> rows(sample.targets[request]->reference->ports().size());
  for (SampledRows &each : rows) {
    const Sample::Piece &at = sample.pieces[piece++];
    each = {at.rows, Bytes(sample.bytes).subspan(at.offset, at.bytes)};
  }
  return window.add(rows);
}

void DriftMonitor::take(const std::shared_ptr<MonitoredVersion> &version,
                        std::vector<DriftReport> reports, uint64_t collected) {
  version->collected = collected;
  for (DriftReport &report : reports) {
    ++version->windows;
    version->drifted += report.isDrift;
    version->inARow = report.isDrift ? version->inARow + 1 : 0;
    version->outputsInARow = report.isOutputDrift ? version->outputsInARow + 1 : 0;
    version->last = std::move(report);
    events.onWindow(*version);
  }
}

} // namespace tenon::server
