// Finds the kernels that fit a node, gives their sizes values by its inputs' dims, and types its
// results by their shape rule.
#include "compiler/frontend/common/CustomKernel.h"

#include "compiler/graph/ElementType.h"
#include "compiler/graph/TnCustom.h"
#include "compiler/kernels/Call.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::frontend {
namespace {

using kernels::Kernel;
using kernels::TableEntry;

/// Why a kernel does not take the node; empty if it does, as far as types and ranks say it.
std::string misfitOf(const Kernel &kernel, const CustomNode &node) {
  if (kernel.inputs.size() != node.inputs.size() || node.outputs > kernel.outputs.size()) {
    return strCat("the node has ", node.inputs.size(), " inputs and ", node.outputs,
                  " outputs, the kernel ", kernel.inputs.size(), " and ", kernel.outputs.size());
  }
  for (auto [port, value] : llvm::zip_equal(kernel.inputs, node.inputs)) {
    RankedTensorType type = cast<RankedTensorType>(value.getType());
    std::optional<DType> dtype = tn::dtypeOf(type.getElementType());
    if (dtype != port.type) {
      return strCat("input '", port.name, "' is ", dtype ? nameOf(*dtype) : "of another type",
                    " in the node and ", nameOf(port.type), " in the kernel");
    }
    if (type.getRank() != static_cast<int64_t>(port.dims.size())) {
      return strCat("input '", port.name, "' has ", type.getRank(), " dims in the node and ",
                    port.dims.size(), " in the kernel");
    }
  }
  return "";
}

/// Kernels that compute the same: one for each kind of device.
SmallVector<const TableEntry *> fitting(Emitter &emitter, const kernels::KernelTable &table,
                                        const CustomNode &node) {
  SmallVector<const TableEntry *> found;
  std::string misfits;
  for (const TableEntry *entry : table.find(node.op)) {
    std::string why = misfitOf(entry->kernel, node);
    if (!why.empty()) {
      misfits += strCat(misfits.empty() ? "" : "; ", entry->kernel.symbol, ": ", why);
      continue;
    }
    bool isNew = llvm::none_of(found, [&](const TableEntry *other) {
      return other->kernel.backend == entry->kernel.backend;
    });
    if (isNew) {
      found.push_back(entry);
    }
  }
  if (found.empty()) {
    emitter.error(ErrorId::KernelMisfit, misfits);
  }
  return found;
}

/// The sizes of a kernel from the dims of the node's inputs, which must agree.
SmallVector<AffineExpr> sizesOf(Emitter &emitter, const Kernel &kernel, const CustomNode &node) {
  SmallVector<AffineExpr> sizes(kernel.sizes.size());
  for (auto [port, value] : llvm::zip_equal(kernel.inputs, node.inputs)) {
    for (auto [text, dim] : llvm::zip_equal(port.dims, tn::getDims(value.getType()))) {
      size_t index = llvm::find(kernel.sizes, text) - kernel.sizes.begin();
      if (index < sizes.size() && !sizes[index]) {
        sizes[index] = dim;
      }
    }
  }
  return sizes;
}

/// Makes the dims of inputs agree with the kernel's expressions.
void requireDims(Emitter &emitter, const Kernel &kernel, const CustomNode &node) {
  for (auto [port, value] : llvm::zip_equal(kernel.inputs, node.inputs)) {
    for (size_t i = 0; i < port.dims.size() && !emitter.failed(); ++i) {
      AffineExpr dim = tn::getDims(value.getType())[i];
      AffineExpr wanted = kernels::valueOf(kernel, port.dims[i], sizesOf(emitter, kernel, node),
                                           value.getContext());
      std::string what = strCat("dim ", i, " of '", port.name, "'");
      std::optional<int64_t> known = tn::constantDim(dim),
                             needed = wanted ? tn::constantDim(wanted) : std::nullopt;
      if (known && needed && *known != *needed) {
        return emitter.error(ErrorId::KernelMisfit, Twine(what) + " is " + Twine(*known) +
                                                        ", the kernel needs " + port.dims[i] +
                                                        " = " + Twine(*needed));
      }
      emitter.require(tn::ConstraintKind::equal, dim, wanted, what);
    }
  }
}

/// Makes the sizes be in the ranges of the kernel.
void requireRanges(Emitter &emitter, const Kernel &kernel, const CustomNode &node) {
  SmallVector<AffineExpr> sizes = sizesOf(emitter, kernel, node);
  for (const kernels::SizeRange &range : kernel.ranges) {
    AffineExpr size = sizes[llvm::find(kernel.sizes, range.name) - kernel.sizes.begin()];
    std::optional<int64_t> known = tn::constantDim(size);
    if (known && (*known < range.min || *known > range.max)) {
      return emitter.error(ErrorId::KernelMisfit, "'" + Twine(range.name) + "' is " +
                                                      Twine(*known) + ", the kernel takes " +
                                                      Twine(range.min) + " to " + Twine(range.max));
    }
    if (!known) {
      std::string what = strCat("size '", range.name, "' of its kernel");
      MLIRContext *context = size.getContext();
      emitter.require(tn::ConstraintKind::at_least, size, getAffineConstantExpr(range.min, context),
                      what);
      emitter.require(tn::ConstraintKind::at_least, getAffineConstantExpr(range.max, context), size,
                      what);
    }
  }
}

Attribute attributeOf(Builder &builder, const kernels::AttributeRule &rule,
                      ArrayRef<double> elements) {
  if (rule.type == DType::I64) {
    SmallVector<int64_t> integers(elements.begin(), elements.end());
    return rule.count ? Attribute(builder.getDenseI64ArrayAttr(integers))
                      : builder.getI64IntegerAttr(integers[0]);
  }
  if (rule.type == DType::F32) {
    SmallVector<float> reals(elements.begin(), elements.end());
    return rule.count ? Attribute(builder.getDenseF32ArrayAttr(reals))
                      : builder.getF32FloatAttr(reals[0]);
  }
  return rule.count ? Attribute(builder.getDenseF64ArrayAttr(elements))
                    : builder.getF64FloatAttr(elements[0]);
}

/// Null after a failure.
ArrayAttr attributesOf(Emitter &emitter, const Kernel &kernel, const CustomNode &node) {
  SmallVector<Attribute> values;
  Builder &builder = emitter.builder();
  for (const kernels::AttributeRule &rule : kernel.attributes) {
    bool isInteger = rule.type == DType::I64;
    CustomNode::Numbers value = node.attribute(rule.name, isInteger, rule.count.has_value());
    if (!value && rule.otherwise) {
      value.emplace(rule.otherwise->begin(), rule.otherwise->end());
    }
    if (!value && !emitter.failed()) {
      emitter.error(ErrorId::KernelMisfit, "the node lacks the attribute '" + rule.name +
                                               "', for which the kernel has no default");
    }
    if (!emitter.failed() && value->size() != rule.elements()) {
      emitter.error(ErrorId::KernelMisfit, "attribute '" + Twine(rule.name) + "' has " +
                                               Twine(value->size()) + " elements in the node and " +
                                               Twine(rule.elements()) + " in the kernel");
    }
    if (emitter.failed()) {
      return {};
    }
    values.push_back(attributeOf(builder, rule, *value));
  }
  return builder.getArrayAttr(values);
}

} // namespace

bool hasKernel(const kernels::KernelTable *kernels, std::string_view op) {
  return kernels && !kernels->find(op).empty();
}

SmallVector<Value> emitCustom(Emitter &emitter, const kernels::KernelTable &table,
                              const CustomNode &node) {
  SmallVector<const TableEntry *> entries = fitting(emitter, table, node);
  if (emitter.failed()) {
    return {};
  }
  const Kernel &kernel = entries.front()->kernel;
  requireDims(emitter, kernel, node);
  for (const TableEntry *entry : entries) {
    if (!emitter.failed()) {
      requireRanges(emitter, entry->kernel, node);
    }
  }
  ArrayAttr attributes = emitter.failed() ? ArrayAttr() : attributesOf(emitter, kernel, node);
  if (emitter.failed()) {
    return {};
  }
  // As they are now: equal dims may have determined symbols.
  SmallVector<AffineExpr> sizes = sizesOf(emitter, kernel, node);
  OpBuilder &builder = emitter.builder();
  SmallVector<Type> types;
  for (const kernels::Port &port : kernel.outputs) {
    SmallVector<AffineExpr> dims;
    for (const std::string &text : port.dims) {
      AffineExpr dim = kernels::valueOf(kernel, text, sizes, builder.getContext());
      if (!dim) {
        emitter.gap("the size " + Twine(text) + " of its output '" + port.name +
                    "' cannot be written over the sizes of the model");
        return {};
      }
      dims.push_back(dim);
    }
    if (!emitter.requireNotNegative(dims, "dims of output '" + port.name + "'")) {
      return {};
    }
    types.push_back(tn::makeTensor(dims, tn::elementType(port.type, builder.getContext())));
  }
  std::string reference;
  SmallVector<StringRef> texts;
  for (const TableEntry *entry : entries) {
    texts.push_back(entry->kernel.json);
    reference = reference.empty() ? entry->reference : reference;
  }
  // Only if all devices' kernels keep them apart.
  bool hasRows = llvm::all_of(
      entries, [&](const TableEntry *entry) { return entry->kernel.rows == kernel.rows; });
  size_t rows = llvm::find(kernel.sizes, kernel.rows) - kernel.sizes.begin();
  IntegerAttr rowsAttr =
      hasRows && rows < kernel.sizes.size() ? builder.getI64IntegerAttr(rows) : IntegerAttr();
  OperationState state(emitter.location(), tn::CustomOp::getOperationName());
  tn::CustomOp::build(builder, state, types, node.inputs, StringRef(node.op),
                      builder.getStrArrayAttr(texts), tn::symbolMap(sizes, builder.getContext()),
                      attributes, StringRef(reference), rowsAttr);
  Operation *op = emitter.finish(state);
  return op ? SmallVector<Value>(op->getResults()) : SmallVector<Value>();
}

} // namespace tenon::frontend
