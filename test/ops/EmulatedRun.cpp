// emulated_run MODEL INPUTS.npz OUTPUTS.npz LEVEL: what `tenon compile` and `tenon run` do for a
// CPU level of another architecture, but that the reference interpreter walks over the regions in
// place of the runtime. Exits with 77 where the level's emulator is not installed.
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/SelectKernels.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/tensors/Npy.h"
#include "support/text/Text.h"
#include "test/ops/RegionWalk.h"
#include "test/unit/codegen/foreign/Emulation.h"
#include "tools/debug/RunEngine.h"
#include "tools/debug/Trial.h"

#include <cstdio>

using namespace mlir;

namespace tenon::ops {
namespace {

std::vector<std::string> namesOf(ArrayAttr attributes) {
  std::vector<std::string> names;
  for (Attribute each : attributes) {
    names.push_back(cast<DictionaryAttr>(each).getAs<StringAttr>("tn.name").str());
  }
  return names;
}

/// The outputs of a module that dispatch has formed the regions of.
Result<std::vector<debug::NamedTensor>> runModule(ModuleOp dispatched, tn::WeightStore &weights,
                                                  engine::CpuLevel level,
                                                  const std::vector<debug::NamedTensor> &inputs) {
  OwningOpRef<ModuleOp> module = dispatched.clone();
  module->walk([](tn::RegionOp region) { region.removeRecordAttr(); }); // those of the compilation
  pipeline::CodeTarget code =
      pipeline::cpuTarget(level, target::cpuTarget(level), /*guarded=*/false);
  pipeline::WantedKernels none;
  dispatch::Records records;
  TENON_TRY(pipeline::KernelSelector(code, none).select(*module, records));
  func::FuncOp main = module->lookupSymbol<func::FuncOp>("main");
  TENON_ASSIGN(Tensors ordered, debug::inOrder(inputs, namesOf(main.getAllArgAttrs())));
  int count = 0;
  TENON_ASSIGN(Tensors results,
               walkRegions(
                   main, weights, ordered,
                   [&](const codegen::RegionSource &source, ArrayRef<reference::Tensor> operands,
                       const Tensors &like, const std::vector<int64_t> &symbols) {
                     return runRegionCode(source, level, operands, like, symbols);
                   },
                   count));
  std::vector<debug::NamedTensor> outputs;
  for (auto [name, tensor] : llvm::zip_equal(namesOf(main.getAllResultAttrs()), results)) {
    outputs.push_back({name, std::move(tensor)});
  }
  return outputs;
}

Status run(const std::string &model, const std::string &inputFile, const std::string &outputFile,
           engine::CpuLevel level) {
  TENON_ASSIGN(
      std::vector<tenon::Tensor> arrays,
      readNpz(inputFile, [](const std::string &, const NpyHeader &) { return Status::ok(); }));
  TENON_ASSIGN(std::vector<debug::NamedTensor> inputs, debug::fromArrays(arrays));
  std::vector<debug::NamedTensor> outputs;
  pipeline::CompileOptions options;
  options.model = model;
  options.levels = {level};
  options.stopAfter = pipeline::Phase::Dispatch;
  pipeline::CompileHooks hooks;
  hooks.afterPass = [&](std::string_view pass, ModuleOp module, tn::WeightStore &weights) {
    if (pass != "dispatch") {
      return Status::ok();
    }
    Result<std::vector<debug::NamedTensor>> results = runModule(module, weights, level, inputs);
    if (results) {
      outputs = std::move(*results);
    }
    return results.takeStatus();
  };
  TENON_TRY(pipeline::compile(options, hooks).takeStatus());
  return writeNpz(outputFile, debug::toArrays(outputs));
}

} // namespace
} // namespace tenon::ops

int main(int count, char **arguments) {
  if (count != 5) {
    fprintf(stderr, "usage: emulated_run MODEL INPUTS.npz OUTPUTS.npz LEVEL\n");
    return 2;
  }
  std::optional<tenon::engine::CpuLevel> level = tenon::codegen::cpu::findEmulated(arguments[4]);
  if (!level) {
    return 77;
  }
  tenon::Status status = tenon::ops::run(arguments[1], arguments[2], arguments[3], *level);
  if (!status) {
    fprintf(stderr, "%s\n", status.toString().c_str());
  }
  return status ? 0 : 1;
}
