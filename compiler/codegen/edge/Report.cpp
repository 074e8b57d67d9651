// Relies on llvm/Support/JSON, which sorts keys.
#include "compiler/codegen/edge/Report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace tenon::codegen::edge {
namespace {

/// Of a tensor that lies in one piece.
void addPlace(llvm::json::Object &object, const Tensor &tensor) {
  if (tensor.places.empty()) {
    object["offset"] = tensor.offset;
  }
  if (tensor.rows > 1) {
    object["rows"] = tensor.rows;
  }
}

llvm::json::Array portsOf(const Program &program, const std::vector<Port> &ports) {
  llvm::json::Array list;
  for (const Port &port : ports) {
    const Tensor &tensor = program.tensors[port.tensor];
    list.push_back(llvm::json::Object{{"name", port.name},
                                      {"dims", llvm::json::Array(port.dims)},
                                      {"scale", port.scale},
                                      {"zero_point", port.zero},
                                      {"bytes", tensor.bytes}});
    addPlace(*list.back().getAsObject(), tensor);
  }
  return list;
}

/// When what is in memory, for explain memory.
llvm::json::Object memoryOf(const Program &program) {
  llvm::json::Array tensors;
  for (const Stay &stay : program.stays) {
    std::string name;
    for (const Port &port : program.inputs) {
      name = port.tensor == stay.tensor ? port.name : name;
    }
    for (const Call &call : program.calls) {
      name = call.writes == stay.tensor ? call.node : name;
      name = call.sums == stay.tensor ? "sums of " + call.node : name;
    }
    const Tensor &tensor = program.tensors[stay.tensor];
    tensors.push_back(llvm::json::Object{{"name", name},
                                         {"rows", tensor.rows},
                                         {"row_bytes", tensor.bytes / tensor.rows},
                                         {"at_once", stay.most},
                                         {"begin", stay.begin},
                                         {"end", stay.end}});
  }
  return llvm::json::Object{{"tensors", std::move(tensors)},
                            {"live_bytes", llvm::json::Array(program.live)}};
}

} // namespace

std::string reportOf(const Program &program, const std::string &name,
                     const std::vector<LayerHash> &hashes, const Footprint &footprint) {
  llvm::json::Array layers;
  int64_t weightBytes = 0, scaleBytes = 0;
  for (auto [call, hash] : llvm::zip_equal(program.calls, hashes)) {
    int64_t bytes = 0;
    for (const Constant &constant : call.constants) {
      bool isWeight = constant.name == "weights" || constant.name == "bias";
      (isWeight ? weightBytes : scaleBytes) += static_cast<int64_t>(constant.bytes.size());
      bytes += static_cast<int64_t>(constant.bytes.size());
    }
    const Tensor &written = program.tensors[call.writes];
    llvm::json::Object layer{{"node", call.node},
                             {"kernel", std::string(infoOf(call.kernel).name)},
                             {"products", call.products},
                             {"constant_bytes", bytes},
                             {"bytes", written.bytes}};
    addPlace(layer, written);
    if (call.completes) {
      layer["hash"] = llvm::formatv("{0:x-8}", hash.bytes).str();
    }
    layers.push_back(std::move(layer));
  }
  llvm::json::Object report{{"schema", "tenon.edge/1"},
                            {"name", name},
                            {"core", footprint.core},
                            {"stack_bytes", footprint.stackBytes},
                            {"code_bytes", footprint.codeBytes},
                            {"arena_bytes", program.arenaBytes},
                            {"weight_bytes", weightBytes},
                            {"scale_bytes", scaleBytes},
                            {"row_bytes", rowTableBytes(program)},
                            {"inputs", portsOf(program, program.inputs)},
                            {"outputs", portsOf(program, program.outputs)},
                            {"memory", memoryOf(program)},
                            {"layers", std::move(layers)}};
  return llvm::formatv("{0:2}\n", llvm::json::Value(std::move(report))).str();
}

} // namespace tenon::codegen::edge
