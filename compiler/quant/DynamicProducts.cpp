// Both forms are ONNX's own operators. DynamicQuantizeLinear knows one scale for a tensor; scales
// for tokens are said by reductions and arithmetic, which compilers fuse.
#include "compiler/quant/DynamicProducts.h"

#include "support/text/Text.h"

namespace tenon::quant {
namespace {

using onnx::DataType;

/// Adds nodes before another one, each named by what it does.
class Chain {
public:
  Chain(ModelEdit &edit, size_t node, std::string base)
      : edit(edit), node(node), base(std::move(base)) {}

  std::string add(std::string_view op, std::initializer_list<std::string> inputs,
                  std::string result = "") {
    std::string name = edit.freshName(strCat(base, "_", op));
    result = result.empty() ? edit.freshName(name + "_result") : result;
    edit.insertBefore(node,
                      nodeMessage(op, name, std::span(inputs.begin(), inputs.size()), result));
    return result;
  }
  std::string cast(const std::string &input, DataType type) {
    std::string name = edit.freshName(strCat(base, "_Cast"));
    std::string result = edit.freshName(name + "_result");
    edit.insertBefore(node, nodeMessage("Cast", name, std::span(&input, 1), result, "to",
                                        static_cast<int64_t>(type)));
    return result;
  }
  std::string scalar(std::string_view what, float value) {
    std::string name = edit.freshName(strCat(base, "_", what));
    edit.addScalar(name, value);
    return name;
  }

private:
  ModelEdit &edit;
  size_t node;
  std::string base;
};

} // namespace

DynamicRows quantizeTokens(ModelEdit &edit, size_t node, const std::string &value, int64_t opset) {
  // A row of zeros gets a scale that can be divided by.
  constexpr float kMax = 127, kMin = 1e-30F;
  constexpr int64_t kAxesAreInputs = 18;
  Chain chain(edit, node, value);
  std::string absolute = chain.add("Abs", {value}), most = edit.freshName(value + "_most");
  onnx::Message reduce;
  if (opset >= kAxesAreInputs) {
    std::string axes = edit.freshName(value + "_axes"), inputs[] = {absolute, axes};
    int64_t last = -1, dims[] = {1};
    edit.addConstant(axes, DataType::Int64, dims,
                     {reinterpret_cast<const char *>(&last), sizeof(last)});
    reduce = nodeMessage("ReduceMax", edit.freshName(value + "_ReduceMax"), inputs, most);
  } else {
    reduce = nodeMessage("ReduceMax", edit.freshName(value + "_ReduceMax"), std::span(&absolute, 1),
                         most);
    const int64_t last[] = {-1};
    addIntegers(reduce, "axes", last);
  }
  edit.insertBefore(node, std::move(reduce));
  std::string step = chain.add("Mul", {most, chain.scalar("inverse", 1 / kMax)});
  std::string scale = chain.add("Max", {step, chain.scalar("least", kMin)});
  std::string levels = chain.add("Round", {chain.add("Div", {value, scale})});
  return {chain.cast(levels, DataType::Int8), scale, ""};
}

DynamicRows quantizeTensor(ModelEdit &edit, size_t node, const std::string &value) {
  std::string name = edit.freshName(value + "_DynamicQuantizeLinear");
  DynamicRows rows{edit.freshName(name + "_result"), edit.freshName(name + "_scale"),
                   edit.freshName(name + "_zero_point")};
  std::string outputs[] = {rows.quantized, rows.scale, rows.zero};
  edit.insertBefore(node,
                    nodeMessage("DynamicQuantizeLinear", name, std::span(&value, 1), outputs));
  return rows;
}

void replaceProduct(ModelEdit &edit, const Graph &graph, size_t node,
                    const DynamicProduct &product) {
  const onnx::Node &old = graph.node(node);
  Chain chain(edit, node, std::string(nameOf(old)));
  const DynamicRows &rows = product.rows;
  std::string result(old.outputs.front());
  std::string sums = rows.zero.empty()
                         ? chain.add("MatMulInteger", {rows.quantized, product.weight})
                         : chain.add("MatMulInteger", {rows.quantized, product.weight, rows.zero});
  std::string last = product.bias.empty() ? result : "", wide = chain.cast(sums, DataType::Float);
  if (rows.zero.empty()) {
    // One scale after the other: ONNX Runtime fuses a product by both, and with a bias behind it
    // computes as if all rows had one scale.
    wide = chain.add("Mul", {chain.add("Mul", {wide, rows.scale}), product.scale}, last);
  } else {
    wide = chain.add("Mul", {wide, chain.add("Mul", {rows.scale, product.scale})}, last);
  }
  if (!product.bias.empty()) {
    chain.add("Add", {wide, product.bias}, result);
  }
  edit.drop(node);
}

} // namespace tenon::quant
