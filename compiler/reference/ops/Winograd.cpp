// Evaluates the transform of filters for Winograd's minimal filtering, and the way back.
// Relies on graph/Winograd.h for the points.
#include "compiler/graph/Winograd.h"

#include "compiler/reference/Evaluation.h"

using namespace mlir;

namespace tenon::reference {
namespace {

/// Filters with the taps of one dim transformed to m + 2 values, or back to taps.
Result<Tensor> transformAlong(const Tensor &from, int64_t dim, int64_t m, bool isForward) {
  Sizes dims(from.dims());
  int64_t source = isForward ? winograd::kTaps : m + 2;
  if (dims[dim] != source) {
    return badOperand("the filters are of another size");
  }
  dims[dim] = isForward ? m + 2 : winograd::kTaps;
  TENON_ASSIGN(Tensor to, Tensor::create(from.dtype(), dims));
  int64_t inner = productOf(from.dims().drop_front(dim + 1));
  int64_t outer = productOf(from.dims().take_front(dim));
  TENON_TRY(visitFloat(from.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::vector<double> values(m + 2);
    std::array<double, winograd::kTaps> taps;
    for (int64_t i = 0; i < outer * inner; ++i) {
      int64_t rest = i % inner, line = i / inner;
      auto read = [&](int64_t k) {
        return static_cast<double>(from.as<T>()[(line * source + k) * inner + rest]);
      };
      if (isForward) {
        taps = {read(0), read(1), read(2)};
        winograd::transformFilter(m, taps, values.data());
      } else {
        for (int64_t k = 0; k < source; ++k) {
          values[k] = read(k);
        }
        taps = winograd::originalFilter(m, values.data());
      }
      for (int64_t k = 0; k < dims[dim]; ++k) {
        to.as<T>()[(line * dims[dim] + k) * inner + rest] =
            static_cast<T>(isForward ? values[k] : taps[k]);
      }
    }
    return Status::ok();
  }));
  return to;
}

/// Columns of the squares first, then lines.
Status evaluateBoth(Evaluation &evaluation, int64_t m, bool isForward) {
  Tensor from = evaluation.operands[0];
  int64_t rank = from.dims().size();
  if (rank < 2) {
    return badOperand("the filters have no two dims of taps");
  }
  for (int64_t dim : {rank - 2, rank - 1}) {
    TENON_ASSIGN(from, transformAlong(from, dim, m, isForward));
  }
  return evaluation.finish(std::move(from));
}

Status evaluateFilter(Evaluation &evaluation) {
  return evaluateBoth(evaluation, cast<tn::WinogradFilterOp>(evaluation.op).getM(), true);
}

Status evaluateTaps(Evaluation &evaluation) {
  return evaluateBoth(evaluation, cast<tn::WinogradTapsOp>(evaluation.op).getM(), false);
}

constexpr OpRow kWinogradOpRows[] = {{"tn.winograd_filter", evaluateFilter},
                                     {"tn.winograd_taps", evaluateTaps}};

} // namespace

llvm::ArrayRef<OpRow> winogradOps() { return kWinogradOpRows; }

} // namespace tenon::reference
