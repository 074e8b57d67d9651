// `tenon compare A B`: how far two ways to compute a model are apart.

#include "tools/tenon/Verb.h"
#include "tools/tenon/accuracy/CompareModels.h"
#include "tools/tenon/cli/KernelFlags.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

namespace tenon::tool {
namespace {

constexpr Range<double> kTolerances = {0, 1e9};

struct CompareFlags {
  CompareModelsRequest request;
  std::vector<double> relative, absolute; ///< one or none
};

void noteUnmatched(const debug::LayerReport &report, bool wantsLayers, Terminal &terminal) {
  std::vector<std::string> names = report.onlyInA;
  names.insert(names.end(), report.onlyInB.begin(), report.onlyInB.end());
  if (!names.empty()) {
    terminal.note(
        wantsLayers
            ? fmt::format("only one of the two has {} more; compile engines with --tap all",
                          names.size())
            : fmt::format(
                  "not compared, because only one of the two has them: {}; match them with --map",
                  fmt::join(names, ", ")));
  }
}

Status compare(CompareFlags &flags, Terminal &terminal) {
  CompareModelsRequest &request = flags.request;
  if (!flags.relative.empty()) {
    request.relative = flags.relative.front();
  }
  if (!flags.absolute.empty()) {
    request.absolute = flags.absolute.front();
  }
  TENON_ASSIGN(debug::LayerReport report, compareModels(request, terminal));
  if (firstBeyond(report)) {
    terminal.fail();
  }
  if (terminal.json()) {
    terminal.printJson("compare", describeLayers(report));
    return Status::ok();
  }
  terminal.print(layersText(report));
  noteUnmatched(report, request.wantsLayers, terminal);
  return Status::ok();
}

} // namespace

Action declareCompare(CLI::App &command) {
  std::shared_ptr<CompareFlags> flags = std::make_shared<CompareFlags>();
  command
      .add_option("A", flags->request.a,
                  "An engine, a model (ONNX, .pt2, .tflite) to interpret, or compiled:MODEL")
      ->required();
  command.add_option("B", flags->request.b, "The same, as the reference for A")->required();
  command.add_flag(
      "--layers", flags->request.wantsLayers,
      "Also compare inner values: all of a model's, those of an engine that compile --tap added");
  addNumbers(command, "--rtol", kTolerances, flags->relative,
             "Relative tolerance; by default that of the element type");
  addNumbers(command, "--atol", kTolerances, flags->absolute,
             "Absolute tolerance; by default that of the element type");
  command.add_option("--map", flags->request.map,
                     "NAME_IN_A=NAME_IN_B: the same value under two names; repeat for more");
  declareFileFlags(command, flags->request.inputs);
  declareSeededFlags(command, flags->request.inputs);
  declareTargetFlags(command, flags->request.target);
  declareKernelFlags(command, flags->request.kernels);
  declareThreadsFlag(command, flags->request.threads, "Threads; all usable CPUs by default");
  return [flags](Terminal &terminal) { return compare(*flags, terminal); };
}

} // namespace tenon::tool
