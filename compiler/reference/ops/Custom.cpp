// Evaluates tn.custom by the model that the user gave as its reference.
// Relies on that model having no weights beyond its constants.
#include "compiler/reference/Evaluation.h"
#include "compiler/reference/Interpreter.h"

#include "compiler/graph/TnCustom.h"
#include "support/text/Text.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tenon::reference {
namespace {

template <typename Number>
Result<Tensor> tensorOf(DType type, llvm::ArrayRef<int64_t> dims,
                        const llvm::SmallVector<Number> &elements) {
  TENON_ASSIGN(Tensor tensor, Tensor::create(type, dims));
  llvm::copy(elements, tensor.as<Number>());
  return tensor;
}

/// An attribute as the reference takes it: a number as a scalar, a list as a vector.
Result<Tensor> tensorOf(Attribute attribute, Precision precision) {
  llvm::SmallVector<int64_t> integers, dims;
  llvm::SmallVector<double> reals;
  bool isNarrow = false;
  llvm::TypeSwitch<Attribute>(attribute)
      .Case([&](IntegerAttr integer) { integers.push_back(integer.getInt()); })
      .Case([&](FloatAttr real) {
        reals.push_back(real.getValueAsDouble());
        isNarrow = real.getType().isF32();
      })
      .Case([&](DenseI64ArrayAttr list) {
        integers.append(list.asArrayRef().begin(), list.asArrayRef().end());
      })
      .Case([&](DenseF32ArrayAttr list) {
        reals.append(list.asArrayRef().begin(), list.asArrayRef().end());
        isNarrow = true;
      })
      .Case([&](DenseF64ArrayAttr list) {
        reals.append(list.asArrayRef().begin(), list.asArrayRef().end());
      });
  if (!isa<IntegerAttr, FloatAttr>(attribute)) {
    dims.push_back(static_cast<int64_t>(integers.size() + reals.size()));
  }
  if (!integers.empty()) {
    return tensorOf(DType::I64, dims, integers);
  }
  TENON_ASSIGN(Tensor tensor, tensorOf(DType::F64, dims, reals));
  return isNarrow && precision == Precision::Native ? convert(tensor, DType::F32)
                                                    : Result<Tensor>(tensor);
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
    TENON_ASSIGN(Tensor tensor, tensorOf(attribute, evaluation.precision));
    inputs.push_back(std::move(tensor));
  }
  Interpreter interpreter(nullptr, {evaluation.precision, evaluation.pool.threads()});
  TENON_ASSIGN(evaluation.results, interpreter.evaluate(function, inputs));
  return Status::ok();
}

constexpr OpRow kCustomOps[] = {{"tn.custom", evaluateCustom}};

} // namespace

llvm::ArrayRef<OpRow> customOps() { return kCustomOps; }

} // namespace tenon::reference
