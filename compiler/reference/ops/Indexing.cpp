// Evaluates gather, scatter and top-k. Every index is checked before it is used.
// Relies on negative indices counting from the end, as in ONNX.
#include "compiler/reference/Evaluation.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace mlir;

namespace tenon::reference {
namespace {

Status outOfRange(int64_t index, int64_t size) {
  return Status::error(ErrorId::RunIndexOutOfRange,
                       strCat("index ", index, " is outside a dim of size ", size));
}

/// The indices as int64, whatever their type.
Result<std::vector<int64_t>> readIndices(const Tensor &tensor) {
  TENON_ASSIGN(Tensor wide, convert(tensor, DType::I64));
  return std::vector<int64_t>(wide.as<int64_t>(), wide.as<int64_t>() + wide.count());
}

/// Makes an index count from the start; false if it is out of range.
bool normalize(int64_t &index, int64_t size) {
  index += index < 0 ? size : 0;
  return index >= 0 && index < size;
}

Status evaluateGather(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  int64_t axis = cast<tn::GatherOp>(evaluation.op).getAxis();
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_ASSIGN(std::vector<int64_t> indices, readIndices(evaluation.operands[1]));
  int64_t size = x.dims()[axis];
  int64_t outer = productOf(x.dims().take_front(axis));
  int64_t block = productOf(x.dims().drop_front(axis + 1)) * (bitWidth(x.dtype()) / 8);
  if (uint64_t(outer) * indices.size() * block != y.byteCount()) {
    return badOperand("the result's shape does not follow from the operands'");
  }
  char *out = y.mutableBytes();
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t index : indices) {
      int64_t at = index;
      if (!normalize(at, size)) {
        return outOfRange(index, size);
      }
      std::memcpy(out, x.bytes() + (o * size + at) * block, block);
      out += block;
    }
  }
  return evaluation.finish(std::move(y));
}

/// Calls visit(position in indices, offset in data) for each index of the elementwise forms.
template <typename Fn>
Status visitElementIndices(const Tensor &data, const Tensor &indexTensor, int64_t axis,
                           const Fn &visit) {
  TENON_ASSIGN(std::vector<int64_t> indices, readIndices(indexTensor));
  Sizes strides = stridesOf(data.dims());
  for (int64_t d = 0; d < data.rank(); ++d) {
    if (d != axis && indexTensor.dims()[d] > data.dims()[d]) {
      return badOperand("the indices have a larger shape than the data");
    }
  }
  Sizes others = strides;
  others[axis] = 0;
  Walker<1> walker(indexTensor.dims(), {others}, 0);
  for (size_t i = 0; i < indices.size(); ++i, walker.next()) {
    int64_t at = indices[i];
    if (!normalize(at, data.dims()[axis])) {
      return outOfRange(indices[i], data.dims()[axis]);
    }
    TENON_TRY(visit(int64_t(i), walker.offset() + at * strides[axis]));
  }
  return Status::ok();
}

Status evaluateGatherElements(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  if (y.dims() != evaluation.operands[1].dims()) {
    return badOperand("the result's shape is not that of the indices");
  }
  size_t width = bitWidth(x.dtype()) / 8;
  TENON_TRY(visitElementIndices(
      x, evaluation.operands[1], cast<tn::GatherElementsOp>(evaluation.op).getAxis(),
      [&](int64_t i, int64_t offset) {
        std::memcpy(y.mutableBytes() + i * width, x.bytes() + offset * width, width);
        return Status::ok();
      }));
  return evaluation.finish(std::move(y));
}

/// Calls visit(number of the tuple, offset in data) for each index tuple of the N-d forms; `block`
/// gets the number of elements that a tuple stands for.
template <typename Fn>
Status visitTuples(const Tensor &data, const Tensor &indexTensor, int64_t batchDims, int64_t &block,
                   const Fn &visit) {
  TENON_ASSIGN(std::vector<int64_t> indices, readIndices(indexTensor));
  int64_t length = indexTensor.dims().back();
  Sizes strides = stridesOf(data.dims());
  block = productOf(data.dims().drop_front(batchDims + length));
  int64_t tuples = productOf(indexTensor.dims().drop_back());
  int64_t batches = productOf(indexTensor.dims().take_front(batchDims));
  int64_t perBatch = batches ? tuples / batches : 0;
  int64_t batchSize = productOf(data.dims().drop_front(batchDims));
  if (data.dims().take_front(batchDims) != indexTensor.dims().take_front(batchDims)) {
    return badOperand("the batch dims of data and indices differ");
  }
  for (int64_t tuple = 0; tuple < tuples; ++tuple) {
    int64_t offset = tuple / perBatch * batchSize;
    for (int64_t i = 0; i < length; ++i) {
      int64_t at = indices[tuple * length + i];
      int64_t size = data.dims()[batchDims + i];
      if (!normalize(at, size)) {
        return outOfRange(indices[tuple * length + i], size);
      }
      offset += at * strides[batchDims + i];
    }
    TENON_TRY(visit(tuple, offset));
  }
  return Status::ok();
}

Status evaluateGatherNd(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  const Tensor &indices = evaluation.operands[1];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  int64_t batchDims = cast<tn::GatherNdOp>(evaluation.op).getBatchDims();
  int64_t tuples = productOf(indices.dims().drop_back());
  int64_t length = indices.dims().back();
  if (tuples * productOf(x.dims().drop_front(batchDims + length)) != y.count()) {
    return badOperand("the result's shape does not follow from the operands'");
  }
  size_t width = bitWidth(x.dtype()) / 8;
  int64_t block = 0;
  TENON_TRY(visitTuples(x, indices, batchDims, block, [&](int64_t tuple, int64_t offset) {
    std::memcpy(y.mutableBytes() + tuple * block * width, x.bytes() + offset * width,
                block * width);
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

template <typename W> W scatterCombine(tn::ScatterKind kind, W old, W update) {
  using Wrapping = std::conditional_t<std::is_same_v<W, double>, W, uint64_t>;
  switch (kind) {
  case tn::ScatterKind::none:
    return update;
  case tn::ScatterKind::add:
    return W(Wrapping(old) + Wrapping(update));
  case tn::ScatterKind::mul:
    return W(Wrapping(old) * Wrapping(update));
  case tn::ScatterKind::max:
    return old > update || old != old ? old : update;
  case tn::ScatterKind::min:
    return old < update || old != old ? old : update;
  }
  return update;
}

/// y[offset, offset + count) combined with updates[start, ...), in the order of the updates.
Status scatterBlock(Tensor &y, const Tensor &updates, int64_t offset, int64_t start, int64_t count,
                    tn::ScatterKind kind) {
  if (kind == tn::ScatterKind::none) {
    size_t width = bitWidth(y.dtype()) / 8;
    std::memcpy(y.mutableBytes() + offset * width, updates.bytes() + start * width, count * width);
    return Status::ok();
  }
  return visitElement(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < count; ++i) {
      T &element = y.as<T>()[offset + i];
      element = narrow<T>(
          scatterCombine<Wide<T>>(kind, widen(element), widen(updates.as<T>()[start + i])));
    }
    return Status::ok();
  });
}

/// The result of a scatter before the updates: a copy of the data.
Result<Tensor> copyOfData(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  return Tensor::copy(x.dtype(), x.dims(), llvm::ArrayRef(x.bytes(), x.byteCount()));
}

Status evaluateScatterElements(Evaluation &evaluation) {
  tn::ScatterElementsOp op = cast<tn::ScatterElementsOp>(evaluation.op);
  const Tensor &updates = evaluation.operands[2];
  TENON_ASSIGN(Tensor y, copyOfData(evaluation));
  if (updates.dims() != evaluation.operands[1].dims()) {
    return badOperand("updates and indices have different shapes");
  }
  TENON_TRY(
      visitElementIndices(y, evaluation.operands[1], op.getAxis(), [&](int64_t i, int64_t offset) {
        return scatterBlock(y, updates, offset, i, 1, op.getKind());
      }));
  return evaluation.finish(std::move(y));
}

Status evaluateScatterNd(Evaluation &evaluation) {
  tn::ScatterNdOp op = cast<tn::ScatterNdOp>(evaluation.op);
  const Tensor &indices = evaluation.operands[1];
  const Tensor &updates = evaluation.operands[2];
  TENON_ASSIGN(Tensor y, copyOfData(evaluation));
  int64_t tuples = productOf(indices.dims().drop_back());
  if (tuples * productOf(y.dims().drop_front(indices.dims().back())) != updates.count()) {
    return badOperand("the updates do not fit the indices");
  }
  int64_t block = 0;
  TENON_TRY(visitTuples(y, indices, 0, block, [&](int64_t tuple, int64_t offset) {
    return scatterBlock(y, updates, offset, tuple * block, block, op.getKind());
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateTopK(Evaluation &evaluation) {
  tn::TopKOp op = cast<tn::TopKOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  int64_t axis = op.getAxis();
  TENON_ASSIGN(Tensor values, evaluation.makeResult());
  TENON_ASSIGN(Tensor indices, Tensor::create(DType::I64, values.dims()));
  int64_t size = x.dims()[axis];
  int64_t count = values.dims()[axis];
  if (count > size) {
    return badOperand("there are fewer elements than are asked for");
  }
  int64_t inner = productOf(x.dims().drop_front(axis + 1));
  int64_t rows = productOf(x.dims().take_front(axis)) * inner;
  TENON_TRY(visitElement(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::vector<int64_t> order(size);
    for (int64_t row = 0; row < rows; ++row) {
      const T *in = x.as<T>() + row / inner * size * inner + row % inner;
      // Of equal elements the one with the lower index comes first; NaN counts as the largest.
      auto before = [&](int64_t a, int64_t b) {
        Wide<T> left = widen(in[a * inner]);
        Wide<T> right = widen(in[b * inner]);
        bool leftLarger = right == right && (left > right || left != left);
        bool rightLarger = left == left && (right > left || right != right);
        if (leftLarger || rightLarger) {
          return op.getLargest() ? leftLarger : rightLarger;
        }
        return a < b;
      };
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + count, order.end(), before);
      for (int64_t k = 0; k < count; ++k) {
        int64_t out = (row / inner * count + k) * inner + row % inner;
        values.as<T>()[out] = in[order[k] * inner];
        indices.as<int64_t>()[out] = order[k];
      }
    }
    return Status::ok();
  }));
  TENON_TRY(evaluation.finish(std::move(values)));
  return evaluation.finish(std::move(indices));
}

constexpr OpRow kIndexingOpRows[] = {
    {"tn.gather", evaluateGather},        {"tn.gather_elements", evaluateGatherElements},
    {"tn.gather_nd", evaluateGatherNd},   {"tn.scatter_elements", evaluateScatterElements},
    {"tn.scatter_nd", evaluateScatterNd}, {"tn.top_k", evaluateTopK},
};

} // namespace

llvm::ArrayRef<OpRow> indexingOps() { return kIndexingOpRows; }

} // namespace tenon::reference
