// scaled_dot_product_attention in all its spellings.
#include "compiler/frontend/common/AttentionScores.h"

#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// Dims in front of the last two as one, or [1] where there are none: tn.attention has a batch and
/// heads.
mlir::Value asFour(Call &c, mlir::Value x, const tn::Dims &outer) {
  tn::Dims dims = tn::getDims(x.getType());
  AffineExpr rows = dims[dims.size() - 2], width = dims.back();
  if (dims.size() == 4) {
    return x;
  }
  tn::Dims wide = outer;
  wide.append({rows, width});
  x = c.broadcast(x, wide);
  AffineExpr batch = c.constantSize(1);
  for (size_t i = 0; i + 1 < outer.size(); ++i) {
    batch = frontend::multiplySizes(batch, outer[i]);
  }
  AffineExpr heads = outer.empty() ? c.constantSize(1) : outer.back();
  return batch ? c.reshape(x, {batch, heads, rows, width}) : mlir::Value();
}

void attention(Call &c) {
  mlir::Value q = c.value("query"), k = c.value("key"), v = c.value("value");
  c.ignore({"enable_gqa", "compute_log_sumexp", "compute_logsumexp", "return_debug_mask"});
  if (c.real("dropout_p", 0) != 0) {
    return c.gap("attention with dropout is not supported", "call model.eval() before the export");
  }
  if (!q || !k || !v) {
    return;
  }
  Type element = getElementTypeOrSelf(q);
  tn::Dims queryDims = tn::getDims(q.getType());
  size_t rank = queryDims.size();
  if (rank < 2) {
    return c.error(ErrorId::Pt2BadGraph, "its query has fewer than two dims");
  }
  AffineExpr queries = queryDims[rank - 2], keys = *(tn::getDims(k.getType()).end() - 2);
  std::optional<double> scale =
      frontend::scoreScale(c, q, c.has("scale") ? std::optional(c.real("scale", 1)) : std::nullopt);
  if (!scale) {
    return;
  }
  bool isCausal = c.truth("is_causal", false);
  StringRef maskName = c.has("attn_bias") ? "attn_bias" : "attn_mask";
  mlir::Value mask = c.value(maskName);
  if (mask && getElementTypeOrSelf(mask).isInteger(1)) {
    mask = frontend::additive(c, mask, element);
  }
  mask = mask ? c.cast(mask, element) : mask;
  // tn.attention aligns its causal mask at the last query, PyTorch at the first one.
  if (isCausal && !tn::sameDim(queries, keys)) {
    mlir::Value addend = frontend::causalAddend(c, queries, keys, /*offset=*/{}, element);
    mask = mask ? c.add(mask, addend) : addend;
    isCausal = false;
  }
  tn::Dims outer(ArrayRef<AffineExpr>(queryDims).drop_back(2));
  if (rank != 4) {
    q = asFour(c, q, outer), k = asFour(c, k, outer), v = asFour(c, v, outer);
    bool isSimple = !mask || cast<RankedTensorType>(mask.getType()).getRank() <= 2;
    mask = isSimple ? mask : asFour(c, mask, outer);
  }
  mlir::Value y =
      c.make<tn::AttentionOp>(q, k, v, mask, /*start=*/mlir::Value(), llvm::APFloat(*scale),
                              isCausal, ArrayRef<bool>{false, false, false, false});
  if (y && rank != 4) {
    tn::Dims dims = outer;
    dims.append({queries, tn::getDims(y.getType()).back()});
    y = c.reshape(y, dims);
  }
  c.setOutput(0, y);
  for (unsigned i = 1; i < c.numOutputs(); ++i) {
    // Statistics for the gradient: an output that has elements, if nobody reads it, is left out.
    std::optional<tn::Dims> dims = c.statedDims(i);
    c.setOutput(i, c.broadcast(c.scalar(0, c.resultElement(i)), dims.value_or(tn::Dims())));
  }
}

constexpr OpRow kAttentionOpRows[] = {
    {"aten.scaled_dot_product_attention", attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu", attention},
    {"aten._scaled_dot_product_flash_attention", attention},
    {"aten._scaled_dot_product_efficient_attention", attention},
    {"aten._scaled_dot_product_cudnn_attention", attention},
    {"aten._scaled_dot_product_attention_math", attention},
};

} // namespace

ArrayRef<OpRow> attentionRows() { return kAttentionOpRows; }

} // namespace tenon::pt2
