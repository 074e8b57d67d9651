// Evaluates matrix products and attention through the blocked product.
// Relies on Product.h for the sums; scores and softmax of attention stay in double.
// One file: both forms of attention share their softmax.
#include "compiler/graph/CachedRows.h"
#include "compiler/graph/TnRare.h"
#include "compiler/reference/Evaluation.h"
#include "compiler/reference/LowBits.h"
#include "compiler/reference/Product.h"

#include <bit>
#include <cmath>
#include <cstring>

using namespace mlir;

namespace tenon::reference {
namespace {

/// A batch of matrices inside a tensor. Element (line, k) of batch b is at
/// bases[b] + line * lineStride + k * depthStride.
struct Matrices {
  std::vector<int64_t> bases;
  int64_t lineStride = 1;
  int64_t depthStride = 1;
};

template <typename T, typename W>
void packMatrix(const T *data, const Matrices &matrices, const PackRequest &request, W *out) {
  const T *start = data + matrices.bases[request.batch] + request.line * matrices.lineStride +
                   request.depth * matrices.depthStride;
  for (int64_t i = 0; i < request.lines; ++i) {
    const T *line = start + i * matrices.lineStride;
    for (int64_t k = 0; k < request.depths; ++k) {
      out[k * request.stride + i] = W(widen(line[k * matrices.depthStride]));
    }
  }
}

/// The first elements of the matrices of an operand for each position of the batch dims.
Result<std::vector<int64_t>> basesOf(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> batch) {
  TENON_ASSIGN(Sizes strides, broadcastStrides(dims.drop_back(2), batch));
  int64_t matrix = dims[dims.size() - 1] * dims[dims.size() - 2];
  std::vector<int64_t> bases(productOf(batch));
  Walker<1> walker(batch, {strides}, 0);
  for (int64_t &base : bases) {
    base = walker.offset() * matrix;
    walker.next();
  }
  return bases;
}

template <typename A, typename B, typename T>
void multiplyMatrices(ThreadPool &pool, const ProductShape &shape, const A *a,
                      const Matrices &aLayout, const B *b, const Matrices &bLayout, T *y) {
  using W = std::conditional_t<kIsFloat<T>, double, uint64_t>;
  multiply<W>(
      pool, shape,
      [&](const PackRequest &request, W *out) { packMatrix(a, aLayout, request, out); },
      [&](const PackRequest &request, W *out) { packMatrix(b, bLayout, request, out); },
      [&](int64_t batch, int64_t row, int64_t column, int64_t count, const W *values) {
        T *out = y + (batch * shape.rows + row) * shape.columns + column;
        for (int64_t j = 0; j < count; ++j) {
          out[j] = narrow<T>(values[j]);
        }
      });
}

Status evaluateMatmul(Evaluation &evaluation) {
  tn::MatmulOp op = cast<tn::MatmulOp>(evaluation.op);
  const Tensor &a = evaluation.operands[0];
  const Tensor &b = evaluation.operands[1];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  int64_t aRows = a.dims()[a.rank() - 2];
  int64_t aColumns = a.dims()[a.rank() - 1];
  int64_t bRows = b.dims()[b.rank() - 2];
  int64_t bColumns = b.dims()[b.rank() - 1];
  Matrices aLayout = {{}, aColumns, 1};
  Matrices bLayout = {{}, 1, bColumns};
  if (op.getTransposeA()) {
    std::swap(aRows, aColumns);
    std::swap(aLayout.lineStride, aLayout.depthStride);
  }
  if (op.getTransposeB()) {
    std::swap(bRows, bColumns);
    std::swap(bLayout.lineStride, bLayout.depthStride);
  }
  llvm::ArrayRef<int64_t> batch = y.dims().drop_back(2);
  ProductShape shape = {productOf(batch), aRows, bColumns, aColumns};
  if (aColumns != bRows || y.dims()[y.rank() - 2] != aRows || y.dims().back() != bColumns) {
    return badOperand("the shapes of the matrices do not fit");
  }
  TENON_ASSIGN(aLayout.bases, basesOf(a.dims(), batch));
  TENON_ASSIGN(bLayout.bases, basesOf(b.dims(), batch));
  if (a.dtype() != b.dtype()) {
    multiplyMatrices(evaluation.pool, shape, a.as<uint8_t>(), aLayout, b.as<int8_t>(), bLayout,
                     y.as<int32_t>());
    return evaluation.finish(std::move(y));
  }
  auto run = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    multiplyMatrices(evaluation.pool, shape, a.as<T>(), aLayout, b.as<T>(), bLayout, y.as<T>());
    return Status::ok();
  };
  TENON_TRY(isFloat(a.dtype()) ? visitFloat(a.dtype(), run) : visitInteger(a.dtype(), run));
  return evaluation.finish(std::move(y));
}

//===--- Attention
//-----------------------------------------------------------------------------===//

/// A [batch, head, position, feature] view of an operand in either order of its inner dims.
struct HeadView {
  Sizes dims;
  Sizes strides;

  HeadView(const Tensor &tensor, bool headsInner)
      : dims(tensor.dims()), strides(stridesOf(tensor.dims())) {
    if (headsInner) {
      std::swap(dims[1], dims[2]);
      std::swap(strides[1], strides[2]);
    }
  }
};

/// The matrices of one batch entry, one a head; `sharing` heads of q use one head of k and v.
Matrices headsOf(const HeadView &view, int64_t batch, int64_t heads, int64_t sharing,
                 size_t lineDim, size_t depthDim) {
  Matrices matrices;
  for (int64_t head = 0; head < heads; ++head) {
    matrices.bases.push_back(batch * view.strides[0] + head / sharing * view.strides[1]);
  }
  matrices.lineStride = view.strides[lineDim];
  matrices.depthStride = view.strides[depthDim];
  return matrices;
}

/// Of scores that are all -inf NaN, or, unless `maskedRowsAreNan`, nothing of any key.
void softmaxScores(double *row, int64_t size, bool maskedRowsAreNan) {
  double most = -std::numeric_limits<double>::infinity();
  for (int64_t k = 0; k < size; ++k) {
    most = std::max(most, row[k]);
  }
  if (!maskedRowsAreNan && most == -std::numeric_limits<double>::infinity() &&
      std::none_of(row, row + size, [](double score) { return std::isnan(score); })) {
    std::fill_n(row, size, 0.0);
    return;
  }
  double sum = 0;
  for (int64_t k = 0; k < size; ++k) {
    row[k] = std::exp(row[k] - most);
    sum += row[k];
  }
  for (int64_t k = 0; k < size; ++k) {
    row[k] /= sum;
  }
}

/// Everything about one attention operation; `run` computes one batch entry after the other.
struct Attention {
  double scale;
  bool causal;
  bool maskedRowsAreNan;
  HeadView q, k, v, y;
  const double *mask; // null without one
  Sizes maskStrides;  // over [B, H, Sq, Sk]
  int64_t start;      // position of the first query, where causal
  int64_t window;     // 0: none

  template <typename T>
  void run(Evaluation &evaluation, const T *qData, const T *kData, const T *vData, T *yData) const {
    int64_t heads = q.dims[1];
    int64_t queries = q.dims[2];
    int64_t keys = k.dims[2];
    int64_t sharing = k.dims[1] ? heads / k.dims[1] : 1;
    std::vector<double> scores(heads * queries * keys);
    for (int64_t batch = 0; batch < q.dims[0]; ++batch) {
      Matrices rows = headsOf(q, batch, heads, 1, 2, 3);
      Matrices columns = headsOf(k, batch, heads, sharing, 2, 3);
      multiply<double>(
          evaluation.pool, {heads, queries, keys, q.dims[3]},
          [&](const PackRequest &request, double *out) { packMatrix(qData, rows, request, out); },
          [&](const PackRequest &request, double *out) {
            packMatrix(kData, columns, request, out);
          },
          [&](int64_t head, int64_t query, int64_t key, int64_t count, const double *values) {
            std::copy_n(values, count, scores.data() + (head * queries + query) * keys + key);
          });
      evaluation.pool.parallelFor(heads * queries, [&](int64_t begin, int64_t end, unsigned) {
        for (int64_t row = begin; row < end; ++row) {
          finishScores(scores.data() + row * keys, batch, row / queries, row % queries);
        }
      });
      storeResult(evaluation.pool, scores, batch, sharing, vData, yData);
    }
  }

private:
  void finishScores(double *row, int64_t batch, int64_t head, int64_t query) const {
    int64_t keys = k.dims[2];
    int64_t visible = causal ? start + query + 1 : keys;
    int64_t first = window > 0 ? visible - window : 0;
    for (int64_t key = 0; key < keys; ++key) {
      double added = 0;
      if (mask) {
        added = mask[batch * maskStrides[0] + head * maskStrides[1] + query * maskStrides[2] +
                     key * maskStrides[3]];
      }
      row[key] = key >= first && key < visible ? row[key] * scale + added
                                               : -std::numeric_limits<double>::infinity();
    }
    softmaxScores(row, keys, maskedRowsAreNan);
  }

  template <typename T>
  void storeResult(ThreadPool &pool, const std::vector<double> &scores, int64_t batch,
                   int64_t sharing, const T *vData, T *yData) const {
    int64_t heads = q.dims[1];
    int64_t queries = q.dims[2];
    int64_t keys = k.dims[2];
    Matrices rows = {{}, keys, 1};
    for (int64_t head = 0; head < heads; ++head) {
      rows.bases.push_back(head * queries * keys);
    }
    Matrices columns = headsOf(v, batch, heads, sharing, 3, 2);
    multiply<double>(
        pool, {heads, queries, v.dims[3], keys},
        [&](const PackRequest &request, double *out) {
          packMatrix(scores.data(), rows, request, out);
        },
        [&](const PackRequest &request, double *out) { packMatrix(vData, columns, request, out); },
        [&](int64_t head, int64_t query, int64_t column, int64_t count, const double *values) {
          T *out = yData + batch * y.strides[0] + head * y.strides[1] + query * y.strides[2];
          for (int64_t j = 0; j < count; ++j) {
            out[(column + j) * y.strides[3]] = narrow<T>(values[j]);
          }
        });
  }
};

Status evaluateAttention(Evaluation &evaluation) {
  tn::AttentionOp op = cast<tn::AttentionOp>(evaluation.op);
  llvm::ArrayRef<bool> inner = op.getHeadsInner();
  TENON_ASSIGN(Tensor result, evaluation.makeResult());
  const Tensor &q = evaluation.get(op.getQ());
  const Tensor &k = evaluation.get(op.getK());
  const Tensor &v = evaluation.get(op.getV());
  Attention attention = {op.getScale().convertToDouble(),
                         op.getCausal(),
                         op.getMaskedRowsAreNan(),
                         {q, inner[0]},
                         {k, inner[1]},
                         {v, inner[2]},
                         {result, inner[3]},
                         nullptr,
                         {},
                         0,
                         static_cast<int64_t>(op.getWindow())};
  const Sizes &qDims = attention.q.dims;
  const Sizes &kDims = attention.k.dims;
  const Sizes &vDims = attention.v.dims;
  Sizes expected = {qDims[0], qDims[1], qDims[2], vDims[3]};
  bool fits = kDims[0] == qDims[0] && vDims[0] == qDims[0] && kDims[1] == vDims[1] &&
              kDims[2] == vDims[2] && kDims[3] == qDims[3] && attention.y.dims == expected &&
              (kDims[1] ? qDims[1] % kDims[1] == 0 : qDims[1] == 0);
  if (!fits) {
    return badOperand("the shapes of q, k and v do not fit");
  }
  std::vector<double> added;
  if (const Tensor *mask = op.getMask() ? evaluation.find(op.getMask()) : nullptr) {
    Sizes scores = {qDims[0], qDims[1], qDims[2], kDims[2]};
    TENON_ASSIGN(attention.maskStrides, broadcastStrides(mask->dims(), scores));
    // Its type may be wider than that of the operands.
    TENON_TRY(visitFloat(mask->dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      llvm::transform(llvm::ArrayRef(mask->as<T>(), mask->count()), std::back_inserter(added),
                      [](T value) { return widen(value); });
      return Status::ok();
    }));
    attention.mask = added.data();
  }
  attention.start = kDims[2] - qDims[2];
  if (op.getStart()) {
    TENON_ASSIGN(Tensor start, convert(evaluation.get(op.getStart()), DType::I64));
    attention.start = *start.as<int64_t>();
  }
  TENON_TRY(visitFloat(q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    attention.run(evaluation, q.as<T>(), k.as<T>(), v.as<T>(), result.as<T>());
    return Status::ok();
  }));
  return evaluation.finish(std::move(result));
}

//===--- Pages ---===//

/// What is added to is rounded to an integer in the low bits.
constexpr float kWhole = 12582912.0F;

/// A row of numbers as codes, and behind them their scale.
template <typename T> void encodeRow(Type cache, const T *row, int64_t count, char *to) {
  // Compared by bits, by which NaN is the largest.
  uint32_t bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    bits = std::max(bits, std::bit_cast<uint32_t>(static_cast<float>(widen(row[i]))) & 0x7FFFFFFF);
  }
  float largest = std::bit_cast<float>(bits), most = tn::CachedRows::most(cache);
  bool isTiny = largest < std::ldexp(1.0F, tn::CachedRows::kLeastExponent);
  float inverse = isTiny ? 0 : most / largest;
  float scale = isTiny ? 0 : largest - largest + largest / most;
  bool areIntegers = getElementTypeOrSelf(cache).isInteger(8);
  for (int64_t i = 0; i < count; ++i) {
    float x = static_cast<float>(widen(row[i]));
    uint8_t code = areIntegers
                       ? static_cast<uint8_t>(std::bit_cast<uint32_t>(std::fma(x, inverse, kWhole)))
                       : lowBitCode(DType::F8E4M3FN, x * inverse);
    to[i] = static_cast<char>(code);
  }
  std::memcpy(to + count, &scale, sizeof(scale));
}

/// The numbers of all rows of a cache of codes.
std::vector<float> decodedRows(Type cache, const Tensor &codes) {
  int64_t row = codes.dims()[3], width = row - tn::CachedRows::kScaleBytes;
  bool areIntegers = getElementTypeOrSelf(cache).isInteger(8);
  std::vector<float> numbers;
  for (int64_t first = 0; first < codes.count(); first += row) {
    float scale;
    std::memcpy(&scale, codes.bytes() + first + width, sizeof(scale));
    for (int64_t i = 0; i < width; ++i) {
      uint8_t code = static_cast<uint8_t>(codes.bytes()[first + i]);
      double number = areIntegers ? static_cast<int8_t>(code) : lowBitNumber(DType::F8E4M3FN, code);
      numbers.push_back(static_cast<float>(number) * scale);
    }
  }
  return numbers;
}

Status evaluatePagedWrite(Evaluation &evaluation) {
  tn::PagedWriteOp op = cast<tn::PagedWriteOp>(evaluation.op);
  const Tensor &cache = evaluation.get(op.getCache()), &x = evaluation.get(op.getX());
  const int64_t *slots = evaluation.get(op.getSlots()).as<int64_t>();
  TENON_ASSIGN(Tensor y, Tensor::copy(cache.dtype(), cache.dims(),
                                      llvm::ArrayRef(cache.bytes(), cache.byteCount())));
  int64_t heads = cache.dims()[1], page = cache.dims()[2];
  int64_t row = cache.dims()[3] * (cache.count() ? cache.byteCount() / cache.count() : 0);
  Type type = op.getCache().getType();
  auto write = [&](int64_t from, int64_t at) {
    if (!tn::CachedRows::areCodes(type)) {
      std::copy_n(x.bytes() + from * row, row, y.mutableBytes() + at * row);
      return Status::ok();
    }
    return visitFloat(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      int64_t width = x.dims()[2];
      encodeRow(type, x.as<T>() + from * width, width, y.mutableBytes() + at * row);
      return Status::ok();
    });
  };
  for (int64_t token = 0; token < x.dims()[0]; ++token) {
    if (slots[token] >= cache.dims()[0] * page || slots[token] < -1) {
      return badOperand("a slot is beyond the pages");
    }
    for (int64_t head = 0; slots[token] >= 0 && head < heads; ++head) {
      int64_t at = (slots[token] / page * heads + head) * page + slots[token] % page;
      TENON_TRY(write(token * heads + head, at));
    }
  }
  return evaluation.finish(std::move(y));
}

/// The new tokens of one sequence, and where its positions lie.
struct PagedSequence {
  int64_t first, count, length;
  const int64_t *pages;
};

struct PagedAttention {
  double scale, softcap;
  int64_t window;
  Sizes q, keys; // dims
  int64_t width; // of values

  template <typename T, typename C>
  void run(const PagedSequence &sequence, int64_t row, const T *qData, const C *keyData,
           const C *valueData, T *out) const {
    int64_t token = sequence.first + row / q[1], head = row % q[1];
    int64_t position = sequence.length - sequence.count + row / q[1];
    int64_t first = window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
    int64_t keyHead = head / (q[1] / keys[1]), page = keys[2];
    auto rowOf = [&](int64_t at) {
      return (sequence.pages[at / page] * keys[1] + keyHead) * page + at % page;
    };
    std::vector<double> scores(position + 1 - first);
    for (int64_t at = first; at <= position; ++at) {
      double sum = 0;
      for (int64_t i = 0; i < q[2]; ++i) {
        sum +=
            widen(qData[(token * q[1] + head) * q[2] + i]) * widen(keyData[rowOf(at) * q[2] + i]);
      }
      sum *= scale;
      scores[at - first] = softcap > 0 ? softcap * std::tanh(sum / softcap) : sum;
    }
    softmaxScores(scores.data(), static_cast<int64_t>(scores.size()), false);
    for (int64_t i = 0; i < width; ++i) {
      double sum = 0;
      for (int64_t at = first; at <= position; ++at) {
        sum += scores[at - first] * widen(valueData[rowOf(at) * width + i]);
      }
      out[(token * q[1] + head) * width + i] = narrow<T>(sum);
    }
  }
};

Status evaluatePagedAttention(Evaluation &evaluation) {
  tn::PagedAttentionOp op = cast<tn::PagedAttentionOp>(evaluation.op);
  TENON_ASSIGN(Tensor result, evaluation.makeResult());
  const Tensor &q = evaluation.get(op.getQ()), &keys = evaluation.get(op.getKeys());
  const Tensor &values = evaluation.get(op.getValues()), &pages = evaluation.get(op.getPages());
  const int64_t *starts = evaluation.get(op.getStarts()).as<int64_t>();
  const int64_t *lengths = evaluation.get(op.getLengths()).as<int64_t>();
  PagedAttention attention = {op.getScale().convertToDouble(),
                              op.getSoftcap().convertToDouble(),
                              static_cast<int64_t>(op.getWindow()),
                              Sizes(q.dims()),
                              Sizes(keys.dims()),
                              result.dims()[2]};
  int64_t table = pages.dims()[1], page = keys.dims()[2];
  std::vector<PagedSequence> sequences;
  for (int64_t s = 0; s < pages.dims()[0]; ++s) {
    PagedSequence sequence = {starts[s], starts[s + 1] - starts[s], lengths[s],
                              pages.as<int64_t>() + s * table};
    bool fits = (s > 0 || starts[0] == 0) && sequence.count >= 0 && starts[s + 1] <= q.dims()[0] &&
                sequence.count <= sequence.length && sequence.length <= table * page;
    for (int64_t i = 0; fits && i * page < sequence.length; ++i) {
      fits = sequence.pages[i] >= 0 && sequence.pages[i] < keys.dims()[0];
    }
    if (!fits) {
      return badOperand("a sequence is beyond the tokens, its table or the pages");
    }
    sequences.push_back(sequence);
  }
  Type cache = op.getKeys().getType();
  std::vector<float> keyRows, valueRows;
  bool areCodes = tn::CachedRows::areCodes(cache);
  if (areCodes) {
    keyRows = decodedRows(cache, keys);
    valueRows = decodedRows(cache, values);
  }
  TENON_TRY(visitFloat(q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    auto runAll = [&](const auto *keyData, const auto *valueData) {
      for (const PagedSequence &sequence : sequences) {
        evaluation.pool.parallelFor(
            sequence.count * q.dims()[1], [&](int64_t begin, int64_t end, unsigned) {
              for (int64_t row = begin; row < end; ++row) {
                attention.run(sequence, row, q.as<T>(), keyData, valueData, result.as<T>());
              }
            });
      }
    };
    areCodes ? runAll(keyRows.data(), valueRows.data()) : runAll(keys.as<T>(), values.as<T>());
    return Status::ok();
  }));
  return evaluation.finish(std::move(result));
}

constexpr OpRow kContractionOpRows[] = {
    {"tn.matmul", evaluateMatmul},
    {"tn.attention", evaluateAttention},
    {"tn.paged_write", evaluatePagedWrite},
    {"tn.paged_attention", evaluatePagedAttention},
};

} // namespace

llvm::ArrayRef<OpRow> contractionOps() { return kContractionOpRows; }

} // namespace tenon::reference
