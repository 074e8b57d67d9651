// The walk over the nodes, and what all rules use.
#include "compiler/prune/Rules.h"

#include "support/text/Text.h"

namespace tenon::prune {

using std::string_view;

std::string NodeContext::reason(string_view what) const {
  return strCat(own().opType, " '", quant::nameOf(own()), "' ", what);
}

std::optional<std::vector<int64_t>> NodeContext::elements(string_view value) const {
  return sizes.constant(value);
}

std::optional<std::vector<int64_t>> NodeContext::integers(size_t operand,
                                                          string_view attribute) const {
  if (const onnx::Attribute *given = quant::attributeOf(own(), attribute)) {
    return given->type == onnx::AttributeType::Int ? std::vector{given->i} : given->ints;
  }
  bool isThere = operand < own().inputs.size() && !own().inputs[operand].empty();
  return isThere ? elements(own().inputs[operand]) : std::nullopt;
}

string_view NodeContext::text(string_view attribute, string_view fallback) const {
  const onnx::Attribute *given = quant::attributeOf(own(), attribute);
  return given ? given->s : fallback;
}

bool NodeContext::isOfSizes(size_t operand) const {
  return operand < own().inputs.size() && sizes.of(own().inputs[operand]);
}

void NodeContext::tie(Axis one, Axis other) {
  if (one.size == other.size) {
    axisClasses.tie(one, other);
  } else {
    keep(one, "reads it in another size");
    keep(other, "reads it in another size");
  }
}

void NodeContext::tieAll(const Axes &one, const Axes &other) {
  if (one.size() != other.size()) {
    keepAll(&one, "changes its rank");
    keepAll(&other, "changes its rank");
    return;
  }
  for (size_t i = 0; i < one.size(); ++i) {
    tie(one[i], other[i]);
  }
}

void NodeContext::keep(Axis axis, string_view what) { axisClasses.fix(axis, reason(what)); }

void NodeContext::keepAll(const Axes *axes, string_view what) {
  for (size_t i = 0; axes && i < axes->size(); ++i) {
    keep((*axes)[i], what);
  }
}

void NodeContext::keepNode(string_view what) {
  for (size_t i = 0; i < own().inputs.size(); ++i) {
    keepAll(operand(i), what);
  }
  for (size_t i = 0; i < own().outputs.size(); ++i) {
    keepAll(result(i), what);
  }
}

void NodeContext::product(Axis whole, std::vector<Axis> factors) {
  if (whole.size == 0) {
    for (Axis factor : factors) {
      keep(factor, "makes it a part of an axis that is too long to follow");
    }
    return;
  }
  uint64_t elements = 1;
  for (Axis factor : factors) {
    elements *= factor.size;
  }
  if (elements != whole.size) {
    keep(whole, "reads it in another size");
    for (Axis factor : factors) {
      keep(factor, "reads it in another size");
    }
    return;
  }
  axisClasses.product(whole, std::move(factors),
                      reason("splits it, and the longer part is the one that can shrink"));
}

Axis NodeContext::count(string_view attribute, uint32_t size) {
  Axis axis = axisClasses.add(size);
  counted.emplace(node, Counted{attribute, axis});
  return axis;
}

CountedAxes applyRules(const onnx::Model &model, const quant::Graph &graph, const Values &values,
                       AxisClasses &axisClasses, const Sizes &sizes) {
  CountedAxes counted;
  auto keepPorts = [&](const std::vector<onnx::ValueInfo> &ports, string_view what) {
    for (const onnx::ValueInfo &port : ports) {
      const Axes *axes = values.named(port.name);
      for (size_t i = 0; axes && i < axes->size() && !graph.constant(port.name); ++i) {
        axisClasses.fix((*axes)[i],
                        strCat("it is a dim of the model's ", what, " '", port.name, "'"));
      }
    }
  };
  keepPorts(model.graph.inputs, "input");
  keepPorts(model.graph.outputs, "output");
  for (size_t node = 0; node < graph.all().size(); ++node) {
    NodeContext context(graph, values, axisClasses, counted, sizes, node);
    const onnx::Node &own = context.own();
    bool isOnnx = own.domain.empty() || own.domain == "ai.onnx";
    Rule rule = nullptr;
    for (Rule (*family)(string_view) :
         {pointwiseRule, productRule, movementRule, normRule, sizeRule}) {
      rule = isOnnx && !rule ? family(own.opType) : rule;
    }
    rule ? rule(context) : context.keepNode("has no rule for pruning");
    for (Axis axis : sizes.fixedReads(node)) {
      context.keep(axis, "computes with its size");
    }
    for (string_view output : own.outputs) {
      const SizeElements *elements = graph.isKept(output) ? sizes.of(output) : nullptr;
      for (size_t i = 0; elements && i < elements->size(); ++i) {
        for (Axis axis : (*elements)[i].reads) {
          axisClasses.fix(axis, strCat("'", output, "' tells its size"));
        }
      }
      const Axes *axes = values.named(output);
      for (size_t i = 0; axes && i < axes->size() && graph.isKept(output); ++i) {
        axisClasses.fix((*axes)[i], strCat("'", output, "' is read by a graph inside a node"));
      }
    }
  }
  axisClasses.settle();
  return counted;
}

} // namespace tenon::prune
