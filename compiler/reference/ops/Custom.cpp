// Evaluates tn.custom by the model that the user gave as its reference.
// Relies on that model having no weights beyond its constants.
#include "compiler/reference/Evaluation.h"
#include "compiler/reference/Interpreter.h"

#include "compiler/graph/TnCustom.h"
#include "support/text/Text.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace tenon::reference {
namespace {

/// An attribute as the scalar that the reference takes.
Result<Tensor> scalarOf(Attribute attribute, Precision precision) {
  if (IntegerAttr integer = dyn_cast<IntegerAttr>(attribute)) {
    TENON_ASSIGN(Tensor scalar, Tensor::create(DType::I64, {}));
    scalar.as<int64_t>()[0] = integer.getInt();
    return scalar;
  }
  FloatAttr real = cast<FloatAttr>(attribute);
  TENON_ASSIGN(Tensor scalar, Tensor::create(DType::F64, {}));
  scalar.as<double>()[0] = real.getValueAsDouble();
  bool isNarrow = real.getType().isF32() && precision == Precision::Native;
  return isNarrow ? convert(scalar, DType::F32) : Result<Tensor>(scalar);
}

Status evaluateCustom(Evaluation &evaluation) {
  tn::CustomOp op = cast<tn::CustomOp>(evaluation.op);
  if (op.getReference().empty()) {
    return Status::error(ErrorId::KernelUnchecked,
                         strCat("the kernel for ", std::string_view(op.getName()),
                                " has no reference that could be evaluated"),
                         "name an ONNX model under \"reference\" in its description");
  }
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(op.getReference(), ParserConfig(op.getContext()));
  func::FuncOp function = module ? module->lookupSymbol<func::FuncOp>("main") : func::FuncOp();
  if (!function) {
    return Status::error(ErrorId::InternalError, "the reference of a kernel does not parse");
  }
  std::vector<Tensor> inputs(evaluation.operands.begin(), evaluation.operands.end());
  for (Attribute attribute : op.getValues()) {
    if (inputs.size() == function.getNumArguments()) {
      break; // it takes the inputs alone
    }
    TENON_ASSIGN(Tensor scalar, scalarOf(attribute, evaluation.precision));
    inputs.push_back(std::move(scalar));
  }
  Interpreter interpreter(nullptr, {evaluation.precision, evaluation.pool.threads()});
  TENON_ASSIGN(evaluation.results, interpreter.evaluate(function, inputs));
  return Status::ok();
}

constexpr OpRow kCustomOps[] = {{"tn.custom", evaluateCustom}};

} // namespace

llvm::ArrayRef<OpRow> customOps() { return kCustomOps; }

} // namespace tenon::reference
