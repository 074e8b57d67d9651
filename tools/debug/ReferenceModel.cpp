// Evaluates a model only as often as a difference asks for it.
#include "tools/debug/ReferenceModel.h"

#include "compiler/frontend/Frontend.h"
#include "compiler/graph/Tn.h"
#include "compiler/pipeline/KernelTable.h"
#include "compiler/reference/Compare.h"
#include "support/text/Text.h"
#include "tools/debug/Noise.h"

using namespace mlir;

namespace tenon::debug {
namespace {

/// Disturbed evaluations beside the sound one.
constexpr int kSamples = 24;

std::string nameIn(DictionaryAttr attributes) {
  StringAttr name = attributes ? attributes.getAs<StringAttr>("tn.name") : StringAttr();
  return name ? name.str() : "";
}

} // namespace

ReferenceModel::ReferenceModel() : context(MLIRContext::Threading::DISABLED) {
  context.loadDialect<tn::TnDialect, func::FuncDialect>();
  context.getDiagEngine().registerHandler([](Diagnostic &) { return success(); });
}

Status ReferenceModel::import(Import read, const std::vector<NamedTensor> &given) {
  frontend::ImportOptions options;
  for (const NamedTensor &input : given) {
    frontend::ShapeOverride shape{.input = input.name, .dims = {}};
    for (int64_t size : input.tensor.dims()) {
      shape.dims.push_back({frontend::DimOverride::Kind::Constant, size, size});
    }
    options.shapes.push_back(std::move(shape));
  }
  TENON_ASSIGN(imported, read(options, context, store));
  if (!imported.gaps.empty()) {
    return Status::error(ErrorId::ModelHasGaps, imported.gaps.front().why);
  }
  TENON_ASSIGN(inputs, inOrder(given, argumentNames(function())));
  return Status::ok();
}

Status ReferenceModel::importFile(const std::string &path,
                                  const std::vector<std::string> &extraOutputs,
                                  const std::vector<NamedTensor> &given,
                                  const pipeline::CompileOptions &compile) {
  TENON_ASSIGN(std::shared_ptr<const kernels::KernelTable> own,
               pipeline::kernelTable(compile.kernelLibraries, {}));
  return import(
      [&](frontend::ImportOptions options, MLIRContext &into, tn::WeightStore &weights) {
        options.extraOutputs = extraOutputs;
        options.pages = static_cast<int64_t>(pipeline::pagesOf(compile));
        options.kernels = own;
        return frontend::importModel(path, options, into, weights);
      },
      given);
}

std::vector<std::string> ReferenceModel::names() { return resultNames(function()); }

Result<Tensors> ReferenceModel::evaluate(const reference::Hooks &hooks) {
  reference::Interpreter interpreter(&store, {.threads = 1});
  return interpreter.evaluate(function(), inputs, hooks);
}

std::string ReferenceModel::difference(const Tensors &expected, const Tensors &actual,
                                       uint64_t seed) {
  if (expected.size() != actual.size()) {
    return strCat(actual.size(), " outputs found, ", expected.size(), " expected");
  }
  if (!explainer) {
    explainer.emplace(function(), store, inputs, expected, seed);
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    std::string text = explainer->problem(i, actual[i]);
    if (!text.empty()) {
      return strCat("output '", names()[i], "': ", text);
    }
  }
  return "";
}

std::vector<std::string> resultNames(func::FuncOp function) {
  std::vector<std::string> names;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    names.push_back(nameIn(function.getResultAttrDict(i)));
  }
  return names;
}

std::vector<std::string> argumentNames(func::FuncOp function) {
  std::vector<std::string> names;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    names.push_back(nameIn(function.getArgAttrDict(i)));
  }
  return names;
}

Result<Tensors> inOrder(const std::vector<NamedTensor> &given,
                        const std::vector<std::string> &names) {
  Tensors ordered;
  for (const std::string &name : names) {
    auto found = llvm::find_if(given, [&](const NamedTensor &input) { return input.name == name; });
    if (found == given.end()) {
      return Status::error(ErrorId::BadArgument,
                           strCat("there is no value for the input '", name, "'"),
                           "give all inputs with --inputs, or none");
    }
    ordered.push_back(found->tensor);
  }
  return ordered;
}

Explainer::Explainer(func::FuncOp theFunction, tn::WeightStore &weights, Tensors theInputs,
                     Tensors results, uint64_t theSeed)
    : function(theFunction), store(weights), inputs(std::move(theInputs)),
      expected(std::move(results)), seed(theSeed) {}

std::string Explainer::problem(size_t index, const reference::Tensor &actual) {
  if (reference::compareTensors(expected[index], actual).equal()) {
    return "";
  }
  if (samples.empty()) {
    samples.push_back(expected);
    for (int s = 0; s < kSamples; ++s) {
      Result<Tensors> sample = disturbedResults(function, store, inputs, seed + s);
      if (sample) {
        samples.push_back(std::move(*sample));
      }
    }
  }
  Tensors column;
  for (const Tensors &sample : samples) {
    column.push_back(sample[index]);
  }
  return unexplained(column, actual);
}

} // namespace tenon::debug
