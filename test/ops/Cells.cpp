// Implements cells through the whole pipeline: the module of a cell enters it as a dumped phase, so
// that nothing of a model file stands between the table and the compiler.
#include "test/ops/Cells.h"

#include "compiler/pipeline/PhaseDump.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/reference/Compare.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "runtime/core/Session.h"
#include "support/text/Text.h"
#include "test/ops/RowCase.h"

#include <sstream>

namespace tenon::ops {
namespace {

using conformance::Case;
using conformance::CaseOptions;
using conformance::Outcome;
using conformance::Verdict;

constexpr Form kForms[] = {Form::Static, Form::Dynamic, Form::Constant};

/// One cell, and its name.
struct Cell {
  size_t row = 0;
  std::string dtype;
  Form form = Form::Static;

  std::string name() const {
    return strCat(opTable()[row].op, ".", row, "/", dtype, "/", nameOf(form));
  }
};

std::vector<Cell> allCells() {
  std::vector<Cell> cells;
  for (size_t row = 0; row < opTable().size(); ++row) {
    std::istringstream dtypes(opTable()[row].dtypes);
    std::string dtype;
    for (bool isFirst = true; dtypes >> dtype; isFirst = false) {
      for (Form form : kForms) {
        bool isTried = form == Form::Dynamic ||
                       (isFirst && (form == Form::Static || !opTable()[row].operands.empty()));
        if (isTried) {
          cells.push_back({row, dtype, form});
        }
      }
    }
  }
  return cells;
}

/// Names for inputs and outputs, which models bring with them.
void nameThem(mlir::func::FuncOp function) {
  mlir::OpBuilder builder(function);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    function.setArgAttr(i, "tn.name", builder.getStringAttr(strCat("input", i)));
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    function.setResultAttr(i, "tn.name", builder.getStringAttr(strCat("output", i)));
  }
}

Status compile(RowCase &cell, const CaseOptions &options, const std::string &engine) {
  nameThem(cell.source().lookupSymbol<mlir::func::FuncOp>("main"));
  pipeline::PhaseDump dump(options.scratchFolder);
  TENON_TRY(dump.dumpModule(pipeline::Phase::Import, cell.source(), cell.sourceWeights()));
  pipeline::CompileOptions compileOptions;
  compileOptions.model = options.scratchFolder + "/0-import.mlir";
  compileOptions.output = engine;
  compileOptions.levels = options.targets.levels;
  compileOptions.gpus = options.targets.gpus;
  compileOptions.threads = 1;
  return pipeline::compile(compileOptions).takeStatus();
}

Result<Tensors> run(const std::string &path, const Tensors &inputs, const CaseOptions &options) {
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine,
               conformance::openEngine(path, options));
  TENON_ASSIGN(std::unique_ptr<runtime::Session> session,
               runtime::Session::create(engine, {.threads = options.threads}));
  std::vector<std::span<const int64_t>> dims;
  std::vector<runtime::InputBinding> bindings;
  for (const reference::Tensor &input : inputs) {
    dims.push_back(std::span(input.dims().data(), input.dims().size()));
    bindings.push_back({input.bytes(), dims.back()});
  }
  TENON_TRY(session->prepare(dims));
  Tensors outputs;
  std::vector<runtime::OutputBinding> places;
  for (size_t i = 0; i < engine->plan().outputs.size(); ++i) {
    std::span<const int64_t> shape = session->outputDims(i);
    TENON_ASSIGN(reference::Tensor output,
                 reference::Tensor::create(engine->plan().outputs[i].dtype,
                                           llvm::ArrayRef(shape.data(), shape.size())));
    outputs.push_back(std::move(output));
    places.push_back({outputs.back().mutableBytes(), outputs.back().byteCount()});
  }
  // The second run goes through a graph where there are any.
  TENON_TRY(session->run(bindings, places));
  TENON_TRY(session->run(bindings, places));
  return outputs;
}

std::string difference(const Tensors &expected, const Tensors &actual) {
  if (expected.size() != actual.size()) {
    return strCat(actual.size(), " results for ", expected.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    reference::Comparison comparison = reference::compareTensors(expected[i], actual[i]);
    if (!comparison.equal()) {
      return strCat("result ", i, ": ", comparison.text(expected[i].dims()));
    }
  }
  return "";
}

Status check(const Cell &cell, const CaseOptions &options) {
  TENON_ASSIGN(std::unique_ptr<RowCase> row,
               RowCase::make(opTable()[cell.row], cell.dtype, cell.form));
  std::string engine = options.scratchFolder + "/cell.tenon";
  TENON_TRY(compile(*row, options, engine));
  if (options.compileOnly) {
    return Status::ok();
  }
  TENON_ASSIGN(Tensors expected, row->runReference());
  TENON_ASSIGN(Tensors actual, run(engine, row->sourceInputs(), options));
  std::string text = difference(expected, actual);
  return text.empty() ? Status::ok() : Status::error(ErrorId::VerifyFailed, text);
}

} // namespace

std::vector<Case> opCells() {
  std::vector<Case> cases;
  for (const Cell &cell : allCells()) {
    cases.push_back({cell.name(), ""});
  }
  return cases;
}

Outcome runOpCell(const Case &testCase, const CaseOptions &options) {
  for (const Cell &cell : allCells()) {
    if (cell.name() == testCase.name) {
      return conformance::judge(check(cell, options));
    }
  }
  return {Verdict::Fail, "no such cell"};
}

} // namespace tenon::ops
