// Scan, unrolled: a body is applied to one slice of its inputs after the other and carries a state.
// Relies on the scanned length (in opset 8 also on the batch) being constant.
#include "compiler/frontend/onnx/ops/Bodies.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Per scanned input, or per output: the axis and whether it is walked or filled backwards.
struct Walk {
  int64_t axis = 0;
  bool isReversed = false;
};
using Walks = SmallVector<Walk>;

struct ScanForm {
  unsigned numStates = 0;
  Walks inputs;
  Walks outputs; ///< axes as given: they may count from the end
};

/// The axes and directions that two attributes give; an empty name stands for zeros.
std::optional<Walks> readWalks(NodeContext &c, StringRef axes, StringRef directions, size_t count) {
  SmallVector<int64_t> zeros(count, 0);
  SmallVector<int64_t> places = axes.empty() ? zeros : c.integerList(axes, zeros);
  SmallVector<int64_t> ways = directions.empty() ? zeros : c.integerList(directions, zeros);
  bool isSound = places.size() == count && ways.size() == count &&
                 llvm::all_of(ways, [](int64_t way) { return way == 0 || way == 1; });
  if (!isSound) {
    c.error(ErrorId::OnnxBadAttribute, "the axes or directions do not fit the scanned inputs");
    return std::nullopt;
  }
  Walks walks;
  for (auto [place, way] : llvm::zip_equal(places, ways)) {
    walks.push_back({place, way == 1});
  }
  return walks;
}

/// The length along an axis (the same for all inputs from `first` on), which must be constant.
std::optional<int64_t> commonLength(NodeContext &c, unsigned first, ArrayRef<int64_t> axes) {
  AffineExpr length = c.dims(first)[axes[0]];
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (!c.require(tn::ConstraintKind::equal, c.dims(first + i)[axis], length,
                   "the lengths of what is scanned")) {
      return std::nullopt;
    }
  }
  std::optional<int64_t> known = tn::constantDim(c.symbols().canonical(length));
  if (!known) {
    c.gap("the scanned length is not a constant", "declare one size with --shape");
  }
  return known;
}

/// Carries the states through all slices; the slices of each output, in the order of their places.
/// None after a failure.
std::optional<std::vector<ImportedValues>> scanSlices(NodeContext &c, const ScanForm &form,
                                                      Unrolling &unrolling, ImportedValues &states,
                                                      ImportedValues &inputs, int64_t length) {
  std::vector<ImportedValues> parts(form.outputs.size());
  for (int64_t i = 0; i < length; ++i) {
    ImportedValues given = states;
    for (auto [walk, input] : llvm::zip_equal(form.inputs, inputs)) {
      AffineExpr place = c.constantSize(walk.isReversed ? length - 1 - i : i);
      given.push_back(takePart(c, input, walk.axis, place, c.constantSize(1), /*keepAxis=*/false));
    }
    std::optional<ImportedValues> results = c.failed() ? std::nullopt : unrolling.next(given);
    if (!results) {
      return std::nullopt;
    }
    states.assign(results->begin(), results->begin() + form.numStates);
    for (auto [k, some] : llvm::enumerate(parts)) {
      some.push_back((*results)[form.numStates + k]);
    }
  }
  for (auto [walk, some] : llvm::zip_equal(form.outputs, parts)) {
    if (walk.isReversed) {
      std::reverse(some.begin(), some.end());
    }
  }
  return parts;
}

ImportedValue joinScanned(NodeContext &c, ImportedValues &parts, const ValueInfo &stated,
                          int64_t axis) {
  int64_t rank = parts.empty()   ? static_cast<int64_t>(stated.dims.size())
                 : parts[0].type ? parts[0].type.getRank()
                                 : 0;
  axis = c.normalizeAxis(axis, rank + 1);
  if (c.failed()) {
    return ImportedValue();
  }
  return parts.empty() ? joinNone(c, stated, axis) : join(c, parts, axis, /*isNewAxis=*/true);
}

/// The number of states, and the attributes that all opsets have; none after a failure.
std::optional<ScanForm> readForm(NodeContext &c, unsigned firstState) {
  if (!requireInputs(c, firstState)) {
    return std::nullopt;
  }
  const Attribute *body = c.attribute("body", AttributeType::Graph);
  int64_t numScanned = c.integer("num_scan_inputs", 0);
  int64_t numStates = static_cast<int64_t>(c.numInputs()) - firstState - numScanned;
  bool isSound = body && body->graph && numScanned >= 1 && numStates >= 0 &&
                 body->graph->outputs.size() >= static_cast<size_t>(numStates) &&
                 body->graph->outputs.size() >= c.numOutputs();
  if (!isSound) {
    c.error(ErrorId::OnnxBadAttribute,
            "attributes 'body' and 'num_scan_inputs' do not fit its inputs and outputs");
    return std::nullopt;
  }
  ScanForm form;
  form.numStates = static_cast<unsigned>(numStates);
  form.inputs.resize(numScanned);
  form.outputs.resize(body->graph->outputs.size() - numStates);
  return form;
}

void scan(NodeContext &c) {
  std::optional<ScanForm> form = readForm(c, 0);
  if (!form) {
    return;
  }
  std::optional<Walks> inputWalks =
      readWalks(c, "scan_input_axes", "scan_input_directions", form->inputs.size());
  std::optional<Walks> outputWalks =
      readWalks(c, "scan_output_axes", "scan_output_directions", form->outputs.size());
  if (!inputWalks || !outputWalks) {
    return;
  }
  form->inputs = *inputWalks;
  form->outputs = *outputWalks;
  ImportedValues states, inputs;
  SmallVector<int64_t> axes;
  for (unsigned i = 0; i < c.numInputs(); ++i) {
    (i < form->numStates ? states : inputs).push_back(c.input(i));
    if (i >= form->numStates) {
      Walk &walk = form->inputs[i - form->numStates];
      walk.axis = c.normalizeAxis(walk.axis, c.rank(i));
      axes.push_back(walk.axis);
    }
  }
  std::optional<int64_t> length =
      c.failed() ? std::nullopt : commonLength(c, form->numStates, axes);
  if (!length) {
    return;
  }
  Unrolling unrolling(c, c.numInputs(), length);
  std::optional<std::vector<ImportedValues>> parts =
      c.failed() ? std::nullopt : scanSlices(c, *form, unrolling, states, inputs, *length);
  for (unsigned i = 0; parts && i < c.numOutputs(); ++i) {
    bool isState = i < form->numStates;
    unsigned k = isState ? 0 : i - form->numStates;
    c.setOutput(i, isState ? states[i]
                           : joinScanned(c, (*parts)[k], unrolling.body->outputs[i],
                                         form->outputs[k].axis));
  }
}

/// Opset 8: every input has a batch in front, and the body sees one entry of it.
void scanBatch(NodeContext &c) {
  std::optional<ScanForm> form = readForm(c, 1);
  if (!form) {
    return;
  }
  if (c.has(0)) {
    return c.gap("sequences of different lengths are not supported",
                 "leave out the input 'sequence_lens'");
  }
  std::optional<Walks> walks = readWalks(c, "", "directions", form->inputs.size());
  unsigned firstScanned = 1 + form->numStates;
  for (unsigned i = 1; i < c.numInputs(); ++i) {
    if (c.rank(i) < (i < firstScanned ? 1 : 2)) {
      return c.error(ErrorId::OnnxBadNode, "input " + Twine(i) + " has no batch or no length");
    }
  }
  size_t count = form->inputs.size();
  std::optional<int64_t> batch =
      walks ? commonLength(c, firstScanned, SmallVector<int64_t>(count, 0)) : std::nullopt;
  std::optional<int64_t> length =
      batch ? commonLength(c, firstScanned, SmallVector<int64_t>(count, 1)) : std::nullopt;
  if (!length || *batch == 0 || *length == 0) {
    return c.gap("an empty batch or length is not supported", "declare one above 0");
  }
  form->inputs = *walks;
  Unrolling unrolling(c, c.numInputs() - 1, *batch * *length);
  std::vector<ImportedValues> entries(c.numOutputs());
  for (int64_t b = 0; b < *batch && !c.failed(); ++b) {
    ImportedValues states, inputs;
    for (unsigned i = 1; i < c.numInputs(); ++i) {
      (i < firstScanned ? states : inputs)
          .push_back(takePart(c, c.input(i), 0, c.constantSize(b), c.constantSize(1), false));
    }
    std::optional<std::vector<ImportedValues>> parts =
        scanSlices(c, *form, unrolling, states, inputs, *length);
    for (unsigned i = 0; parts && i < c.numOutputs(); ++i) {
      entries[i].push_back(i < form->numStates
                               ? states[i]
                               : join(c, (*parts)[i - form->numStates], 0, /*isNewAxis=*/true));
    }
    if (!parts) {
      return;
    }
  }
  for (unsigned i = 0; i < c.numOutputs() && !c.failed(); ++i) {
    c.setOutput(i, join(c, entries[i], 0, /*isNewAxis=*/true));
  }
}

constexpr OpRow kBodyScanOpRows[] = {
    {"Scan",
     8,
     2,
     kMany,
     kMany,
     scanBatch,
     {needs({"body", kGraph}), {"directions", kInts}, needs({"num_scan_inputs", kInt})},
     "",
     0b01},
    {"Scan",
     9,
     1,
     kMany,
     kMany,
     scan,
     {needs({"body", kGraph}),
      needs({"num_scan_inputs", kInt}),
      {"scan_input_axes", kInts},
      {"scan_input_directions", kInts},
      {"scan_output_axes", kInts},
      {"scan_output_directions", kInts}}},
};

} // namespace

ArrayRef<OpRow> bodyScanRows() { return kBodyScanOpRows; }

} // namespace tenon::onnx
