// Guards are compared with the sizes in their normal form, in which equal expressions are one.
#include "compiler/frontend/pt2/TracedSizes.h"

#include <unordered_map>

using namespace mlir;

namespace tenon::pt2 {
namespace {

using Op = GuardTerm::Op;

/// Operators whose results look at a part of their operand, or at it in another shape.
constexpr std::string_view kViews[] = {"slice",   "narrow", "split",        "chunk",  "view",
                                       "reshape", "expand", "_unsafe_view", "unfold", "as_strided"};

bool isView(std::string_view target) {
  size_t begin = target.find("aten.");
  std::string_view name = begin == std::string_view::npos ? "" : target.substr(begin + 5);
  name = name.substr(0, name.find('.'));
  return llvm::any_of(kViews, [&](std::string_view view) { return name.starts_with(view); });
}

/// The size that a term is; null where it is more than a sum, a product or a quotient of sizes.
AffineExpr sizeOfTerm(const GuardTerm &term, MLIRContext *context) {
  if (term.op == Op::Integer) {
    return getAffineConstantExpr(term.integer, context);
  }
  if (term.op == Op::Size || term.operands.size() != 2) {
    return term.size;
  }
  AffineExpr left = sizeOfTerm(term.operands[0], context);
  AffineExpr right = sizeOfTerm(term.operands[1], context);
  if (!left || !right) {
    return nullptr;
  }
  switch (term.op) {
  case Op::Add:
    return frontend::addSizes(left, right);
  case Op::Multiply:
    return frontend::multiplySizes(left, right);
  case Op::FloorDivide:
    return tn::simplify(left.floorDiv(right));
  case Op::Max: // Strides are products of the larger of 1 and a dim.
    return tn::constantDim(left) == 1 ? right : tn::constantDim(right) == 1 ? left : AffineExpr();
  default:
    return nullptr;
  }
}

/// Whether it computes with strides: products of max(1, d) of dims that are no input's own.
bool hasStride(const GuardTerm &term) {
  bool isStride =
      term.op == Op::Max &&
      llvm::any_of(
          term.operands,
          [](const GuardTerm &each) { return each.op == Op::Integer && each.integer == 1; }) &&
      llvm::any_of(term.operands, [](const GuardTerm &each) { return !each.operands.empty(); });
  return isStride || llvm::any_of(term.operands, hasStride);
}

const GuardTerm *symbolIn(const GuardTerm &term) {
  if (term.op == Op::Size) {
    return &term;
  }
  for (const GuardTerm &operand : term.operands) {
    if (const GuardTerm *found = symbolIn(operand)) {
      return found;
    }
  }
  return nullptr;
}

} // namespace

TracedSizes::TracedSizes(const Program &program, const frontend::Symbols &theSymbols,
                         const SizeOf &sizeOf)
    : symbols(theSymbols) {
  std::unordered_map<std::string, AffineExpr> known;
  auto read = [&](const Size &size) {
    if (size.constant) {
      return sizeOf(size);
    }
    auto [entry, isNew] = known.try_emplace(size.expression);
    if (isNew) {
      entry->second = tn::simplify(sizeOf(size));
    }
    return entry->second;
  };
  for (const auto &[name, meta] : program.graph.tensors) {
    AffineExpr count = symbols.constant(1);
    for (const Size &size : llvm::reverse(meta.sizes)) {
      AffineExpr dim = read(size);
      note(dim);
      count = frontend::multiplySizes(count, dim); // none from a dim on that is not known
      note(count);
    }
    for (const Size &stride : meta.strides) {
      note(read(stride));
    }
  }
  for (const InputSpec &input : program.inputs) {
    auto meta = program.graph.tensors.find(input.argument.text);
    if (input.kind == InputSpec::Kind::User && meta != program.graph.tensors.end()) {
      for (const Size &size : meta->second.sizes) {
        AffineExpr dim = read(size);
        dims.insert(dim ? dim.getAsOpaquePointer() : nullptr);
      }
    }
  }
  for (const Node &node : program.graph.nodes) {
    hasPools |= node.target.find("pool") != std::string::npos;
    if (!isView(node.target)) {
      continue;
    }
    for (const Argument &output : node.outputs) {
      for (const Argument &tensor :
           output.kind == Argument::Kind::List ? output.elements : std::vector{output}) {
        auto meta = program.graph.tensors.find(tensor.text);
        for (const Size &size :
             meta == program.graph.tensors.end() ? std::vector<Size>() : meta->second.sizes) {
          cuts.insert(size.constant.value_or(-1));
        }
      }
    }
  }
}

void TracedSizes::note(AffineExpr size) {
  if (size) {
    sizes.insert(size.getAsOpaquePointer());
  }
}

std::string_view TracedSizes::artefact(const GuardTerm &guard) const {
  const GuardTerm *symbol = symbolIn(guard);
  if (!symbol || !guard.isComparison() || guard.op == Op::Less) {
    return {};
  }
  if (guard.op != Op::LessOrEqual && hasStride(guard)) {
    return "tracing compares how tensors lie in memory";
  }
  MLIRContext *context = symbol->size.getContext();
  const GuardTerm &first = guard.operands[0];
  auto known = [&](const GuardTerm &term) {
    return tn::simplify(symbols.canonical(sizeOfTerm(term, context)));
  };
  AffineExpr left = known(first), right = known(guard.operands[1]);
  auto isDim = [&](AffineExpr size) { return dims.contains(size.getAsOpaquePointer()); };
  if (guard.op == Op::LessOrEqual) { // 2 <= n
    bool isCount = left && tn::constantDim(left) == 2 && isTraced(right) && !isDim(right);
    return isCount ? "tracing takes no size for 0 or 1" : "";
  }
  if (first.op == Op::Mod && right && tn::constantDim(right) == 0 && hasPools) {
    // A pool with windows c apart has floor(a / c) + 1 of them, whatever a % c is.
    AffineExpr steps = known(first.operands[0]), apart = known(first.operands[1]);
    bool isKnown = steps && apart && tn::constantDim(apart) && !isDim(steps);
    if (isKnown &&
        isTraced(frontend::addSizes(tn::simplify(steps.floorDiv(apart)), symbols.constant(1)))) {
      return "tracing asks how the windows of a pool divide the size";
    }
  }
  if (guard.op != Op::NotEqual) {
    return {};
  }
  if (first.op == Op::Mod && right && tn::constantDim(right) == 0) { // a % b != 0
    AffineExpr divided = known(first.operands[0]), divisor = known(first.operands[1]);
    bool isView = isTraced(divided) && isTraced(divisor) && !tn::constantDim(divisor) &&
                  !(isDim(divided) && isDim(divisor));
    return isView ? "tracing found how a view divides the sizes" : "";
  }
  if (left && tn::constantDim(left)) {
    std::swap(left, right);
  }
  if (!isTraced(left) || !right) {
    return {};
  }
  std::optional<int64_t> constant = tn::constantDim(right);
  if (constant && (*constant == 0 || *constant == 1)) {
    return isDim(left) ? "" : "tracing takes no size for 0 or 1";
  }
  bool isMet =
      constant ? cuts.contains(*constant) : isTraced(right) && !(isDim(left) && isDim(right));
  return isMet ? "tracing takes a slice, a view or a broadcast for a real one" : "";
}

} // namespace tenon::pt2
