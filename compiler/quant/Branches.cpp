// Each graph is written by the writer of the main one, from the innermost on. Relies on the
// outermost edit for names and constants, so that all scopes have different ones and share weights.
#include "compiler/quant/Branches.h"

#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/quant/InnerModel.h"
#include "compiler/quant/Layers.h"
#include "compiler/quant/QdqWriter.h"
#include "support/text/Text.h"

namespace tenon::quant {
namespace {

Mode modeOf(const Settings &settings) {
  return isDynamic(settings.scheme) && settings.weightBits == 0 ? Mode::Dynamic : Mode::WeightsOnly;
}

class BranchWriter {
public:
  BranchWriter(const Settings &settings, int64_t opset, onnx::ExternalFiles &files,
               StoredWeights &stored, QuantizationInfo &made)
      : settings(settings), opset(opset), files(files), stored(stored), made(made) {}

  Status writeAll(const onnx::Model &model, const Graph &graph, ModelEdit &edit);

private:
  Status write(const onnx::Model &outer, const Graph &around, size_t node,
               const onnx::Attribute &attribute, ModelEdit &edit);

  const Settings &settings;
  int64_t opset;
  onnx::ExternalFiles &files;
  StoredWeights &stored;
  QuantizationInfo &made;
  std::vector<std::unique_ptr<InnerModel>> kept; ///< names of constants point into them
};

Status BranchWriter::write(const onnx::Model &outer, const Graph &around, size_t node,
                           const onnx::Attribute &attribute, ModelEdit &edit) {
  TENON_ASSIGN(std::unique_ptr<InnerModel> own, InnerModel::read(outer, *attribute.graph));
  const InnerModel &branch = *kept.emplace_back(std::move(own));
  Graph graph(branch.model(), &around, node);
  ModelEdit innerEdit(branch.bytes(), branch.model(), graph);
  innerEdit.writeInto(edit, graph.isClosed());
  innerEdit.keepExternal();
  TENON_TRY(writeAll(branch.model(), graph, innerEdit));
  Plan plan = makePlan(graph, settings.overrides, modeOf(settings));
  std::map<std::string_view, Smoothing> smoothed;
  std::map<std::string_view, const Channels *> channels;
  Grams grams;
  QdqWriter writer(graph, plan, {}, smoothed, channels, innerEdit, files, stored);
  writer.useScheme(settings.scheme, opset);
  writer.useSettings(settings, grams);
  writer.limitWeights(settings.reducesRange ? kMaxReduced : kMaxWeight);
  QuantizationInfo info;
  TENON_TRY(writer.run(info));
  // What has ranges in the main graph has none here.
  bool isRanged = settings.weightBits == 0 && !isDynamic(settings.scheme);
  for (LayerInfo &layer : info.layers) {
    if (isRanged && layer.reason.empty()) {
      layer.reason = strCat("inside of ", around.node(node).opType, " '", nameOf(around.node(node)),
                            "': its activations have no ranges");
    }
    made.layers.push_back(std::move(layer));
  }
  made.tables.insert(made.tables.end(), info.tables.begin(), info.tables.end());
  TENON_ASSIGN(std::string bytes, innerEdit.write(files, ""));
  TENON_ASSIGN(onnx::Model written, onnx::readModel(std::as_bytes(std::span(bytes))));
  edit.setGraph(node, attribute.name, written.graph);
  return Status::ok();
}

Status BranchWriter::writeAll(const onnx::Model &model, const Graph &graph, ModelEdit &edit) {
  for (size_t i = 0; i < graph.all().size(); ++i) {
    for (const onnx::Attribute &attribute : graph.node(i).attributes) {
      if (attribute.graph) {
        TENON_TRY(write(model, graph, i, attribute, edit));
      }
    }
  }
  return Status::ok();
}

} // namespace

Status quantizeBranches(const onnx::Model &model, const Graph &graph, const Settings &settings,
                        int64_t opset, ModelEdit &edit, onnx::ExternalFiles &files,
                        StoredWeights &stored, QuantizationInfo &made) {
  return BranchWriter(settings, opset, files, stored, made).writeAll(model, graph, edit);
}

QuantizationInfo leftInside(const Graph &graph) {
  QuantizationInfo result;
  for (const Inside &inside : layersInside(graph)) {
    LayerInfo own;
    own.name = inside.name;
    own.op = inside.op;
    own.treatment = Treatment::Wide;
    own.reason = inside.reason;
    result.layers.push_back(std::move(own));
  }
  return result;
}

} // namespace tenon::quant
