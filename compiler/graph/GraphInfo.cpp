// Implements the walk over the module; what stands for a weight's layout (pack, unpack) is the
// weight.
#include "compiler/graph/GraphInfo.h"

#include "compiler/graph/DimText.h"
#include "compiler/graph/Flops.h"
#include "compiler/graph/NodeOrigin.h"
#include "compiler/graph/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/LikelySize.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;

namespace tenon::tn {
namespace {

namespace json = llvm::json;

/// Longer attributes are cut: they are for reading, and engines carry them.
constexpr size_t kLongestAttribute = 80;

std::string utf8(llvm::StringRef text) { return json::fixUTF8(text); }

std::string printed(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (StringAttr string = dyn_cast<StringAttr>(attribute)) {
    stream << string.getValue();
  } else if (FloatAttr number = dyn_cast<FloatAttr>(attribute)) {
    stream << llvm::format("%.9g", number.getValueAsDouble());
  } else {
    attribute.print(stream, /*elideType=*/true);
  }
  llvm::StringRef shown = text;
  // "array<i64: 1, 1>" reads as a list, "#tn<pad_mode constant>" and "#tn.reduce_kind<mean>" as
  // their word.
  if (shown.consume_front("array<") && shown.consume_back(">")) {
    return "[" + shown.split(": ").second.str() + "]";
  }
  if (shown.consume_front("#tn<") && shown.consume_back(">")) {
    return shown.split(' ').second.str();
  }
  if (shown.consume_front("#tn.") && shown.consume_back(">")) {
    return shown.split('<').second.str();
  }
  return text;
}

class Reader {
public:
  Reader(ModuleOp module, RangeOf weightRanges)
      : rangeOf(weightRanges), main(module.lookupSymbol<func::FuncOp>("main")), list(module),
        symbols(list.symbols()) {
    for (const Symbol &symbol : symbols) {
      least.push_back(symbol.min);
      most.push_back(symbol.max);
    }
    for (auto [symbol, dim] : llvm::zip_equal(symbols, firstDims())) {
      typical.push_back(likelySize(dim, symbol.min, symbol.max));
    }
    for (unsigned symbol : sessionSymbols(main)) {
      typical[symbol] = presetOf(module, symbols[symbol]);
    }
  }

  json::Object read() {
    json::Array inputs;
    for (BlockArgument argument : main.getArguments()) {
      unsigned index = argument.getArgNumber();
      std::string name = utf8(portName(main.getArgAttrDict(index), "input", index));
      inputs.push_back(name);
      addValue(argument, json::Object{{"kind", "input"}, {"name", name}});
    }
    json::Array outputs;
    for (Operation &op : main.getBody().front()) {
      if (!op.hasTrait<OpTrait::IsTerminator>()) {
        readOperation(op, -1);
        continue;
      }
      for (OpOperand &operand : op.getOpOperands()) {
        unsigned index = operand.getOperandNumber();
        outputs.push_back(
            json::Object{{"name", utf8(portName(main.getResultAttrDict(index), "output", index))},
                         {"value", idOf(operand.get())}});
      }
    }
    json::Array symbolArray;
    for (auto [symbol, size] : llvm::zip_equal(symbols, typical)) {
      symbolArray.push_back(json::Object{{"name", utf8(symbol.name)},
                                         {"min", symbol.min},
                                         {"max", symbol.max},
                                         {"typical", size}});
    }
    return json::Object{{"schema", "tenon.graph/1"},   {"symbols", std::move(symbolArray)},
                        {"inputs", std::move(inputs)}, {"outputs", std::move(outputs)},
                        {"values", std::move(values)}, {"nodes", std::move(nodes)}};
  }

private:
  /// Where each symbol stands alone in the inputs for the first time; beyond all dims if nowhere.
  SmallVector<uint32_t> firstDims() {
    SmallVector<uint32_t> dims(symbols.size(), UINT32_MAX);
    for (BlockArgument argument : main.getArguments()) {
      for (auto [dim, size] : llvm::enumerate(getDims(argument.getType()))) {
        AffineSymbolExpr symbol = dyn_cast_or_null<AffineSymbolExpr>(size);
        if (symbol && dims[symbol.getPosition()] == UINT32_MAX) {
          dims[symbol.getPosition()] = static_cast<uint32_t>(dim);
        }
      }
    }
    return dims;
  }

  int64_t idOf(Value value) const {
    llvm::DenseMap<Value, int64_t>::const_iterator found = ids.find(value);
    return found == ids.end() ? -1 : found->second;
  }

  static json::Array listOf(ArrayRef<std::string> texts) {
    json::Array list;
    for (const std::string &text : texts) {
      list.push_back(utf8(text));
    }
    return list;
  }

  void addValue(Value value, json::Object entry) {
    RankedTensorType type = cast<RankedTensorType>(value.getType());
    std::string element;
    llvm::raw_string_ostream(element) << type.getElementType();
    json::Array shape;
    for (AffineExpr dim : getDims(type)) {
      std::optional<int64_t> constant = dim ? constantDim(dim) : std::nullopt;
      shape.push_back(constant ? json::Value(*constant) : json::Value(utf8(dimText(dim, symbols))));
    }
    entry["dtype"] = element;
    entry["shape"] = std::move(shape);
    ids[value] = static_cast<int64_t>(values.size());
    values.push_back(std::move(entry));
  }

  json::Value count(AffineExpr expression) const {
    if (!expression) {
      return nullptr;
    }
    if (std::optional<int64_t> constant = constantDim(expression)) {
      return *constant;
    }
    auto at = [&](ArrayRef<int64_t> sizes) {
      std::optional<int64_t> value = evaluate(expression, sizes);
      return value ? json::Value(*value) : json::Value(nullptr);
    };
    return json::Object{{"formula", utf8(dimText(expression, symbols))},
                        {"least", at(least)},
                        {"typical", at(typical)},
                        {"most", at(most)}};
  }

  void readOperation(Operation &op, int64_t region) {
    if (RegionOp body = dyn_cast<RegionOp>(op)) {
      readRegion(body);
    } else if (op.hasTrait<TnStoredForm>()) {
      ids[op.getResult(0)] = idOf(op.getOperand(0));
    } else if (isa<WeightOp, ConstantOp>(op)) {
      readLiteral(op);
    } else {
      readNode(op, region);
    }
  }

  void readRegion(RegionOp region) {
    Block &body = region.getBody().front();
    int64_t number = region.getRecord().value_or(-1);
    for (auto [argument, input] : llvm::zip_equal(body.getArguments(), region.getInputs())) {
      ids[argument] = idOf(input);
    }
    for (Operation &op : body.without_terminator()) {
      readOperation(op, number);
    }
    for (auto [output, inner] :
         llvm::zip_equal(region.getOutputs(), body.getTerminator()->getOperands())) {
      ids[output] = idOf(inner);
    }
  }

  /// A weight is one value by its id, a constant one by what it says: regions hold copies.
  void readLiteral(Operation &op) {
    WeightOp weight = dyn_cast<WeightOp>(op);
    std::string text = weight ? weight.getId().str() : literal(cast<ConstantOp>(op));
    std::string key = text;
    llvm::raw_string_ostream(key) << op.getResult(0).getType();
    auto [known, isNew] = literals.try_emplace(key, static_cast<int64_t>(values.size()));
    if (!isNew) {
      ids[op.getResult(0)] = known->second;
      return;
    }
    json::Object entry{{"kind", weight ? "parameter" : "constant"},
                       {"name", utf8(text)},
                       {"bytes", count(bytesOf(op.getResult(0)))}};
    Type element = cast<RankedTensorType>(op.getResult(0).getType()).getElementType();
    if (std::optional<std::pair<double, double>> range =
            weight && rangeOf ? rangeOf(weight.getId(), element) : std::nullopt;
        range && std::isfinite(range->first) && std::isfinite(range->second)) {
      entry["range"] = json::Array{range->first, range->second};
    }
    addValue(op.getResult(0), std::move(entry));
  }

  static std::string literal(ConstantOp op) {
    std::string text = printed(op.getValue());
    if (DenseElementsAttr dense = dyn_cast<DenseElementsAttr>(op.getValue());
        dense && dense.isSplat()) {
      text = printed(dense.getSplatValue<Attribute>());
    }
    return text.size() > kLongestAttribute ? text.substr(0, kLongestAttribute) + "…" : text;
  }

  json::Object attributesOf(Operation &op) const {
    json::Object result;
    for (NamedAttribute attribute : op.getAttrDictionary()) {
      llvm::StringRef name = attribute.getName();
      std::string text = printed(attribute.getValue());
      if (SizesOp sizes = dyn_cast<SizesOp>(op)) {
        text.clear();
        for (AffineExpr value : sizes.getValues().getResults()) {
          text += (text.empty() ? "" : ", ") + dimText(value, symbols);
        }
      }
      if (name != "operandSegmentSizes" && !name.contains('.')) {
        result[utf8(name)] =
            utf8(text.size() > kLongestAttribute ? text.substr(0, kLongestAttribute) + "…" : text);
      }
    }
    return result;
  }

  void readNode(Operation &op, int64_t region) {
    int64_t id = static_cast<int64_t>(nodes.size());
    NodeOrigin origin = originOf(op.getLoc());
    json::Object node{{"op", op.getName().stripDialect()}};
    node["name"] = origin.names.empty() ? "" : utf8(origin.names.front());
    if (origin.names.size() > 1) {
      node["names"] = listOf(origin.names);
    }
    if (!origin.kinds.empty()) {
      node["from"] = listOf(origin.kinds);
    }
    for (auto [key, text] :
         {std::pair("module", origin.module), std::pair("source", origin.source)}) {
      if (!text.empty()) {
        node[key] = utf8(text);
      }
    }
    json::Array inputs, outputs;
    for (Value operand : op.getOperands()) {
      inputs.push_back(idOf(operand));
    }
    for (Value result : op.getResults()) {
      outputs.push_back(static_cast<int64_t>(values.size()));
      addValue(result, json::Object{{"kind", "node"}, {"node", id}});
    }
    node["inputs"] = std::move(inputs);
    node["outputs"] = std::move(outputs);
    node["flops"] = count(flopsOf(&op));
    node["bytes"] = count(bytesOf(&op));
    if (json::Object attributes = attributesOf(op); !attributes.empty()) {
      node["attributes"] = std::move(attributes);
    }
    if (region >= 0) {
      node["region"] = region;
    }
    nodes.push_back(std::move(node));
  }

  RangeOf rangeOf;
  func::FuncOp main;
  SymbolList list;
  ArrayRef<Symbol> symbols;
  SmallVector<int64_t> least, typical, most;
  llvm::DenseMap<Value, int64_t> ids;
  llvm::StringMap<int64_t> literals;
  json::Array values, nodes;
};

} // namespace

std::string portName(DictionaryAttr attributes, llvm::StringRef kind, unsigned index) {
  StringAttr name = attributes ? attributes.getAs<StringAttr>("tn.name") : StringAttr();
  return name ? name.str() : kind.str() + std::to_string(index);
}

std::string graphInfo(ModuleOp module, RangeOf rangeOf) {
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(Reader(module, rangeOf).read());
  return text;
}

} // namespace tenon::tn
