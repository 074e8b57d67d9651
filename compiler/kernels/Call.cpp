// Resolves the names of a description. Relies on the entries of a tn.custom having been read when
// the model was imported.
#include "compiler/kernels/Call.h"

#include "compiler/graph/DimText.h"

using namespace mlir;

namespace tenon::kernels {
namespace {

unsigned positionIn(const std::vector<Port> &ports, const std::string &name) {
  return llvm::find_if(ports, [&](const Port &port) { return port.name == name; }) - ports.begin();
}

/// A number, or that at a position of a list.
TypedAttr elementOf(Attribute value, size_t index) {
  Builder builder(value.getContext());
  if (DenseI64ArrayAttr list = dyn_cast<DenseI64ArrayAttr>(value)) {
    return builder.getI64IntegerAttr(list[index]);
  }
  if (DenseF32ArrayAttr list = dyn_cast<DenseF32ArrayAttr>(value)) {
    return builder.getF32FloatAttr(list[index]);
  }
  if (DenseF64ArrayAttr list = dyn_cast<DenseF64ArrayAttr>(value)) {
    return builder.getF64FloatAttr(list[index]);
  }
  return cast<TypedAttr>(value);
}

/// None if a size cannot be written.
std::optional<Argument> argumentOf(const Kernel &kernel, tn::CustomOp op, const std::string &text) {
  using Kind = Argument::Kind;
  unsigned inputs = kernel.inputs.size(), outputs = kernel.outputs.size();
  if (unsigned i = positionIn(kernel.inputs, text); i < inputs) {
    return Argument{Kind::Buffer, i, {}, {}};
  }
  if (unsigned i = positionIn(kernel.outputs, text); i < outputs) {
    return Argument{Kind::Buffer, inputs + i, {}, {}};
  }
  for (auto [rule, value] : llvm::zip(kernel.attributes, op.getValues())) {
    for (size_t i = 0; i < rule.elements(); ++i) {
      if (rule.elementName(i) == text) {
        return Argument{Kind::Attribute, 0, {}, elementOf(value, i)};
      }
    }
  }
  if (text == "begin" || text == "end" || text == "scratch") {
    return Argument{text == "begin" ? Kind::Begin
                    : text == "end" ? Kind::End
                                    : Kind::Scratch,
                    0,
                    {},
                    {}};
  }
  AffineExpr size = valueOf(kernel, text, op.getSizes().getResults(), op.getContext());
  return size ? std::optional(Argument{Kind::Size, 0, size, {}}) : std::nullopt;
}

} // namespace

std::optional<Kernel> kernelFor(tn::CustomOp op, std::string_view backend) {
  for (StringAttr text : op.getKernels().getAsRange<StringAttr>()) {
    Result<Kernel> kernel = parseKernel(std::string_view(text.getValue()));
    if (kernel && kernel->backend == backend) {
      return std::move(*kernel);
    }
  }
  return std::nullopt;
}

AffineExpr valueOf(const Kernel &kernel, const std::string &expression, ArrayRef<AffineExpr> sizes,
                   MLIRContext *context) {
  SmallVector<tn::Symbol> symbols;
  for (const std::string &name : kernel.sizes) {
    symbols.push_back({name, 0, kMostOfSize});
  }
  AffineExpr value = tn::parseDim(expression, symbols, context);
  return value ? tn::simplify(value.replaceSymbols(sizes)) : value;
}

std::optional<Call> callFor(tn::CustomOp op, std::string_view backend) {
  std::optional<Kernel> kernel = kernelFor(op, backend);
  if (!kernel) {
    return std::nullopt;
  }
  MLIRContext *context = op.getContext();
  ArrayRef<AffineExpr> sizes = op.getSizes().getResults();
  Call call{std::move(*kernel), {}, {}, getAffineConstantExpr(0, context)};
  for (const std::string &text : call.kernel.arguments) {
    std::optional<Argument> argument = argumentOf(call.kernel, op, text);
    if (!argument) {
      return std::nullopt;
    }
    call.arguments.push_back(*argument);
  }
  for (const std::string &points : call.kernel.grid) {
    call.grid.push_back(valueOf(call.kernel, points, sizes, context));
  }
  if (call.grid.empty()) {
    call.grid.push_back(getAffineConstantExpr(1, context));
  }
  if (!call.kernel.scratchBytes.empty()) {
    call.scratchBytes = valueOf(call.kernel, call.kernel.scratchBytes, sizes, context);
  }
  bool isWhole = call.scratchBytes && llvm::all_of(call.grid, [](AffineExpr dim) { return !!dim; });
  return isWhole ? std::optional(std::move(call)) : std::nullopt;
}

} // namespace tenon::kernels
