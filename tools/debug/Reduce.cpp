// Delta debugging (Zeller and Hildebrandt's ddmin) over the nodes of an ONNX graph. Any set of
// nodes is a model: what it reads and does not make becomes an input with the value that the
// reference has for it.
#include "compiler/frontend/Frontend.h"
#include "compiler/pipeline/CrashGuard.h"
#include "runtime/tensors/Npy.h"
#include "support/Shape.h"
#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "support/files/ScratchFolder.h"
#include "support/text/Text.h"
#include "tools/debug/Values.h"

#include <chrono>
#include <set>

namespace tenon::debug {
namespace {

using Clock = std::chrono::steady_clock;
using Nodes = std::vector<size_t>;

/// Larger ones stay inputs: what decides shapes and axes is small.
constexpr int64_t kLargestLiteral = 4096;
/// A trial may take so many times as long as the whole model, and at least so many seconds.
constexpr double kSlack = 4, kShortestTrial = 5;

class Reducer {
public:
  Reducer(const DebugRequest &request, std::string scratchFolder)
      : request(request), scratch(std::move(scratchFolder)) {}

  Result<Reduction> run(const std::string &model, const std::string &inputs);

private:
  double secondsLeft() const {
    return request.seconds - std::chrono::duration<double>(Clock::now() - begun).count();
  }
  /// The part of these nodes; none where one of them reads what was not recorded.
  std::optional<onnx::Part> partOf(const Nodes &nodes) const;
  bool addRead(std::string_view name, onnx::Part &part) const;
  bool fails(const onnx::Part &part);
  bool fails(const Nodes &nodes);
  Trial trialOf(const onnx::Part &part) const;
  Status writePart(const onnx::Part &part, const std::string &path);

  Status record();
  void dropNodes();
  void dropOutputs();
  void fixSizes();
  Status writeResult(const std::string &model, const std::string &inputs);

  const DebugRequest &request;
  std::string scratch;
  Clock::time_point begun = Clock::now();
  double trialSeconds = kShortestTrial;
  Trial whole;
  std::optional<MappedFile> file;
  std::optional<onnx::Pieces> pieces;
  std::optional<onnx::ExternalFiles> external;
  Recording recording;
  Nodes kept;
  onnx::Part smallest;
  std::set<std::string> tried; ///< models that do not fail
  Reduction reduction;
};

bool Reducer::addRead(std::string_view name, onnx::Part &part) const {
  auto found = recording.values.find(name);
  if (found == recording.values.end()) {
    return false;
  }
  const RecordedValue &value = found->second;
  if (value.isKnown && value.tensor.count() <= kLargestLiteral && bitWidth(value.port.type) >= 8) {
    llvm::ArrayRef<int64_t> dims = value.tensor.dims();
    part.literals.push_back({std::string(name),
                             value.port.type,
                             {dims.begin(), dims.end()},
                             {value.tensor.bytes(), value.tensor.byteCount()}});
  } else {
    part.inputs.push_back(value.port);
  }
  return true;
}

std::optional<onnx::Part> Reducer::partOf(const Nodes &nodes) const {
  onnx::Part part{.nodes = nodes, .inputs = {}, .outputs = {}, .literals = {}};
  std::set<std::string_view> defined, read;
  for (size_t index : nodes) {
    const onnx::Pieces::Node &node = pieces->nodes()[index];
    for (std::string_view name : node.reads) {
      bool isNew =
          read.insert(name).second && !defined.contains(name) && !pieces->isInitializer(name);
      if (isNew && !addRead(name, part)) {
        return std::nullopt;
      }
    }
    defined.insert(node.results.begin(), node.results.end());
  }
  for (size_t index : nodes) {
    for (std::string_view name : pieces->nodes()[index].results) {
      auto value = recording.values.find(name);
      bool isOutput = !read.contains(name) || llvm::is_contained(pieces->outputs(), name);
      if (isOutput && value != recording.values.end()) {
        part.outputs.push_back(value->second.port);
      }
    }
  }
  return part.outputs.empty() ? std::nullopt : std::optional(part);
}

Status Reducer::writePart(const onnx::Part &part, const std::string &path) {
  TENON_ASSIGN(std::string bytes, pieces->assemble(part, *external));
  TENON_ASSIGN(AtomicFile output, AtomicFile::create(path));
  TENON_TRY(output.append(std::as_bytes(std::span(bytes))));
  return output.commit();
}

Trial Reducer::trialOf(const onnx::Part &part) const {
  Trial trial = whole;
  trial.compile.model = scratch + "/part.onnx";
  trial.compile.shapes = shapesOf(part.inputs, recording);
  trial.inputs.clear();
  for (const onnx::Port &input : part.inputs) {
    trial.inputs.push_back({input.name, recording.values.find(input.name)->second.tensor});
  }
  return trial;
}

bool Reducer::fails(const onnx::Part &part) {
  if (secondsLeft() <= 0) {
    reduction.isInTime = false;
    return false;
  }
  Trial trial = trialOf(part);
  if (!writePart(part, trial.compile.model)) {
    return false;
  }
  ++reduction.trials;
  Outcome outcome = inChild(std::min(trialSeconds, secondsLeft()),
                            [&](std::string &) { return evaluateTrial(trial); });
  if (!outcome.isLike(reduction.outcome)) {
    return false;
  }
  reduction.smallest = outcome;
  smallest = part;
  return true;
}

bool Reducer::fails(const Nodes &nodes) {
  std::string key;
  for (size_t node : nodes) {
    key += strCat(node, ' ');
  }
  if (tried.contains(key)) {
    return false;
  }
  std::optional<onnx::Part> part = partOf(nodes);
  if (part && fails(*part)) {
    kept = nodes;
    reduction.isReduced = true;
    return true;
  }
  tried.insert(key);
  return false;
}

/// Parts of the list first, then the list without one of its parts, in ever smaller parts.
void Reducer::dropNodes() {
  (void)fails(Nodes(kept));
  for (size_t parts = 2; kept.size() > 1 && reduction.isInTime;) {
    Nodes all = kept;
    parts = std::min(parts, all.size());
    auto border = [&](size_t part) {
      return all.begin() + static_cast<std::ptrdiff_t>(all.size() * part / parts);
    };
    bool isSmaller = false;
    for (size_t i = 0; i < parts && !isSmaller; ++i) {
      isSmaller = fails(Nodes(border(i), border(i + 1)));
    }
    if (isSmaller) {
      parts = 2;
      continue;
    }
    for (size_t i = 0; i < parts && !isSmaller && parts > 2; ++i) {
      Nodes rest(all.begin(), border(i));
      rest.insert(rest.end(), border(i + 1), all.end());
      isSmaller = fails(rest);
    }
    if (!isSmaller && parts == all.size()) {
      break;
    }
    parts = isSmaller ? std::max<size_t>(parts - 1, 2) : parts * 2;
    if (request.progress) {
      request.progress(strCat(kept.size(), " nodes"), 1 - secondsLeft() / request.seconds);
    }
  }
}

void Reducer::dropOutputs() {
  for (size_t i = smallest.outputs.size(); i-- > 0 && smallest.outputs.size() > 1;) {
    onnx::Part part = smallest;
    part.outputs.erase(part.outputs.begin() + static_cast<std::ptrdiff_t>(i));
    (void)fails(part);
  }
}

/// A failure that does not need symbols is easier to look at without them.
void Reducer::fixSizes() {
  onnx::Part part = smallest;
  for (std::vector<onnx::Port> *ports : {&part.inputs, &part.outputs}) {
    for (onnx::Port &port : *ports) {
      llvm::ArrayRef<int64_t> dims = recording.values.find(port.name)->second.tensor.dims();
      port.dims.assign(dims.begin(), dims.end());
    }
  }
  if (!shapesOf(smallest.inputs, recording).empty()) {
    (void)fails(part);
  }
}

Status Reducer::writeResult(const std::string &model, const std::string &inputs) {
  TENON_TRY(writePart(smallest, model));
  TENON_TRY(writeNpz(inputs, toArrays(trialOf(smallest).inputs)));
  reduction.nodesAfter = smallest.nodes.size();
  for (size_t index : smallest.nodes) {
    const onnx::Pieces::Node &node = pieces->nodes()[index];
    reduction.nodes.push_back(strCat(node.op, " '", node.name, "'"));
  }
  for (const ShapeArgument &shape : shapesOf(smallest.inputs, recording)) {
    std::string text = shape.input + ":";
    for (const ShapeArgument::Dim &dim : shape.dims) {
      std::string size =
          dim.min == dim.max ? std::to_string(dim.min) : strCat('[', dim.min, "..", dim.max, ']');
      text += (&dim == shape.dims.data() ? "" : "x") + size;
    }
    reduction.shapes.push_back(text);
  }
  return Status::ok();
}

/// Only this: children must not return to a crash guard of their parent.
Status Reducer::record() {
  Result<Recording> recorded = Recording();
  std::optional<std::string> crash = pipeline::crashOf([&] { recorded = recordValues(whole); });
  if (crash) {
    return Status::error(ErrorId::CompilerFault, strCat("importing the model: ", *crash),
                         "report this with the model");
  }
  TENON_ASSIGN(recording, std::move(recorded));
  return Status::ok();
}

Result<Reduction> Reducer::run(const std::string &model, const std::string &inputs) {
  TENON_ASSIGN(frontend::Format format, frontend::formatOf(request.compile.model));
  if (format == frontend::Format::Pt2) {
    return Status::error(
        ErrorId::BadArgument,
        strCat("'", request.compile.model,
               "' is an archive from torch.export, but reduced models are written as ONNX"),
        "use 'tenon debug bisect', or 'tenon compare compiled:MODEL MODEL --layers'");
  }
  TENON_ASSIGN(whole, makeTrial(request, scratch));
  TENON_ASSIGN(MappedFile mapped, MappedFile::open(whole.compile.model));
  file = std::move(mapped);
  TENON_ASSIGN(pieces, onnx::Pieces::read(file->bytes()));
  size_t slash = whole.compile.model.rfind('/');
  external.emplace(slash == std::string::npos ? "." : whole.compile.model.substr(0, slash + 1));
  Clock::time_point start = Clock::now();
  reduction.outcome = inChild(request.seconds, [&](std::string &) { return evaluateTrial(whole); });
  reduction.trials = 1;
  reduction.nodesBefore = reduction.nodesAfter = pieces->nodes().size();
  if (!reduction.outcome.isFailure()) {
    return reduction;
  }
  trialSeconds = std::max(kShortestTrial,
                          kSlack * std::chrono::duration<double>(Clock::now() - start).count());
  TENON_TRY(record());
  for (size_t i = 0; i < pieces->nodes().size(); ++i) {
    kept.push_back(i);
  }
  dropNodes();
  if (!reduction.isReduced) {
    return reduction;
  }
  dropOutputs();
  fixSizes();
  TENON_TRY(writeResult(model, inputs));
  return reduction;
}

} // namespace

Result<Reduction> reduceModel(const DebugRequest &request, const std::string &model,
                              const std::string &inputs) {
  TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create("tenon-reduce"));
  return Reducer(request, folder.path()).run(model, inputs);
}

} // namespace tenon::debug
