// Whether a reshape shares the memory of its operand, as PyTorch decides it: by strides, which the
// program states. What is written later is seen through a view and not through a copy.
#include "compiler/frontend/pt2/Call.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// Whether two sizes are the same for all values of the symbols; none if that depends or is not
/// known.
std::optional<bool> isSame(frontend::Symbols &symbols, AffineExpr a, AffineExpr b) {
  if (!a || !b) {
    return std::nullopt;
  }
  a = symbols.canonical(a);
  b = symbols.canonical(b);
  tn::SymbolList::Range left = symbols.bounds(a), right = symbols.bounds(b);
  if (left.max < right.min || right.max < left.min) {
    return false;
  }
  return a == b ? std::optional(true) : symbols.compare(a, frontend::Comparison::Equal, b);
}

bool isKnown(frontend::Symbols &symbols, AffineExpr size, int64_t value) {
  return size && tn::constantDim(symbols.canonical(size)) == value;
}

} // namespace

std::optional<Call::Strided> Call::stridesOf(StringRef name) {
  const Argument *given = argument(name);
  auto meta = given ? graph.tensors.find(given->text) : graph.tensors.end();
  if (meta == graph.tensors.end() || meta->second.sizes.size() != meta->second.strides.size()) {
    return std::nullopt;
  }
  Strided result;
  for (auto [size, stride] : llvm::zip_equal(meta->second.sizes, meta->second.strides)) {
    Result<AffineExpr> dim = owner.sizeOf(size), step = owner.sizeOf(stride);
    if (!dim || !step || !*dim || !*step) {
      return std::nullopt;
    }
    result.dims.push_back(*dim);
    result.strides.push_back(*step);
  }
  return result;
}

std::optional<bool> Call::isContiguous(StringRef name) {
  std::optional<Strided> x = stridesOf(name);
  if (!x) {
    return std::nullopt;
  }
  AffineExpr expected = constantSize(1);
  for (size_t d = x->dims.size(); d-- > 0;) {
    if (isKnown(symbols(), x->dims[d], 0)) {
      return true;
    }
    if (isKnown(symbols(), x->dims[d], 1)) {
      continue;
    }
    std::optional<bool> fits = isSame(symbols(), x->strides[d], expected);
    if (fits != true) {
      return fits;
    }
    expected = expected ? frontend::multiplySizes(expected, x->dims[d]) : expected;
  }
  return true;
}

/// Dims that lie in memory as one are a chunk. Each chunk of the operand must be a run of new dims.
std::optional<bool> Call::isViewAs(StringRef name, ArrayRef<AffineExpr> dims) {
  std::optional<Strided> x = stridesOf(name);
  if (!x || isContiguous(name) == true) {
    return x ? std::optional(true) : std::nullopt;
  }
  AffineExpr one = constantSize(1), chunk = one, taken = one, stride = x->strides.back();
  size_t next = dims.size();
  for (size_t d = x->dims.size(); d-- > 0;) {
    chunk = chunk ? frontend::multiplySizes(chunk, x->dims[d]) : chunk;
    if (d > 0 && !isKnown(symbols(), x->dims[d - 1], 1)) {
      AffineExpr span = chunk && stride ? frontend::multiplySizes(chunk, stride) : AffineExpr();
      std::optional<bool> isJoined = isSame(symbols(), x->strides[d - 1], span);
      if (!isJoined) {
        return std::nullopt;
      }
      if (*isJoined) {
        continue;
      }
    } else if (d > 0) {
      continue;
    }
    while (next > 0 &&
           (isKnown(symbols(), dims[next - 1], 1) || isSame(symbols(), taken, chunk) != true)) {
      taken = taken ? frontend::multiplySizes(taken, dims[--next]) : AffineExpr();
      if (!taken || !chunk) {
        return std::nullopt;
      }
    }
    std::optional<bool> isWhole = isSame(symbols(), taken, chunk);
    if (isWhole != true) {
      return isWhole;
    }
    chunk = taken = one;
    stride = d > 0 ? x->strides[d - 1] : AffineExpr();
  }
  return next == 0;
}

void Call::setPerhapsView(StringRef name, std::optional<bool> isView, ViewFunctions functions) {
  if (isView == true) {
    return setView(name, std::move(functions));
  }
  mlir::Value x = value(name);
  mlir::Value y = x ? functions.read(*this, x) : mlir::Value();
  if (isView == false || !y) {
    return setOutput(y);
  }
  auto refuse = [](frontend::Emitter &e, mlir::Value) {
    e.gap("sizes decide whether a written tensor shares its memory",
          "clone it before the write, or declare the input shapes with --shape");
    return mlir::Value();
  };
  const Argument *given = argument(name);
  setValue(0, {.tensor = std::make_shared<Tensor>(tensorOf(*given, name), y,
                                                  ViewFunctions{refuse, nullptr})});
}

} // namespace tenon::pt2
