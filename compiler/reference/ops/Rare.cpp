// Evaluates the operations of TnRareOps.td.
// Relies on LowBits.h for the formats of elements that are only stored.
#include "compiler/reference/Evaluation.h"
#include "compiler/reference/LowBits.h"

#include "compiler/graph/TnRare.h"
#include "support/random/GumbelNoise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;

namespace tenon::reference {
namespace {

Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

Status evaluateEncode(Evaluation &evaluation) {
  tn::EncodeOp op = cast<tn::EncodeOp>(evaluation.op);
  LowBitRounding rounding{op.getSaturate(), std::string_view(op.getRound())};
  TENON_ASSIGN(Tensor y, encode(evaluation.operands[0], *dtypeOf(elementOf(op.getY())), rounding));
  return evaluation.finish(std::move(y));
}

Status evaluateDecode(Evaluation &evaluation) {
  Type element = elementOf(evaluation.op->getResult(0));
  TENON_ASSIGN(Tensor numbers, decode(evaluation.operands[0]));
  TENON_ASSIGN(Tensor y, convert(numbers, *storageOf(element, evaluation.precision)));
  return evaluation.finish(std::move(y));
}

Status evaluateUnpackBits(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  int64_t bits = valueBits(y.dtype());
  for (int64_t i = 0; i < y.count(); ++i) {
    int64_t first = i * bits;
    y.as<uint8_t>()[i] = (x.as<uint8_t>()[first / 8] >> (first % 8)) & ((1 << bits) - 1);
  }
  return evaluation.finish(std::move(y));
}

Status evaluateDecodeRows(Evaluation &evaluation) {
  const tn::BlockRows layout = cast<tn::DecodeRowsOp>(evaluation.op).layout();
  const Tensor &rows = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_TRY(visitFloat(y.dtype(), [&](auto to) {
    using To = typename decltype(to)::Type;
    for (int64_t i = 0; i < y.count(); ++i) {
      int64_t row = i / layout.depth, at = i % layout.depth, inBlock = at % layout.block;
      const uint8_t *words = rows.as<uint8_t>() + row * layout.rowBytes() +
                             4 * layout.blockWords() * (at / layout.block);
      float scale = 0, zero = static_cast<float>(layout.commonZeroPoint());
      std::memcpy(&scale, words, sizeof(float));
      if (layout.hasZeroPoints) {
        std::memcpy(&zero, words + sizeof(float), sizeof(float));
      }
      int64_t bit = inBlock * layout.bits;
      int64_t byte = words[4 * layout.headerWords() + bit / 8];
      int64_t number = byte >> bit % 8 & ((int64_t(1) << layout.bits) - 1);
      y.as<To>()[i] = narrow<To>((double(number) - zero) * scale);
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

/// In the type that the values are held in. A kernel rounds the exact product with the reciprocal,
/// as this does.
template <typename T> void roundBlock(const T *from, T *to, int64_t count) {
  T most = 0;
  bool isFinite = true;
  for (int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::abs(from[i]));
    isFinite &= std::isfinite(from[i]);
  }
  bool isTiny = most < std::ldexp(T(1), tn::RoundedBlocks::kLeastExponent);
  T most8 = tn::RoundedBlocks::kMost;
  T inverse = isTiny ? T(0) : most8 / most, scale = isTiny ? T(0) : most / most8;
  // Beyond it, numbers of this type have no fractions.
  T whole = std::ldexp(T(1.5), std::numeric_limits<T>::digits - 1);
  for (int64_t i = 0; i < count; ++i) {
    T rounded = std::fma(from[i], inverse, whole) - whole;
    to[i] = isFinite ? rounded * scale : std::numeric_limits<T>::quiet_NaN();
  }
}

Status evaluateRoundBlocks(Evaluation &evaluation) {
  const int64_t block = cast<tn::RoundBlocksOp>(evaluation.op).getBlock();
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  int64_t depth = x.dims().back();
  TENON_TRY(visitFloat(y.dtype(), [&](auto type) {
    using T = typename decltype(type)::Type;
    if constexpr (std::is_floating_point_v<T>) {
      for (int64_t i = 0; i < y.count(); i += std::min(block, depth - i % depth)) {
        roundBlock(x.as<T>() + i, y.as<T>() + i, std::min(block, depth - i % depth));
      }
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

/// The bytes stay, in the types as the model has them; a bool is any byte but zero.
Status evaluateBitcast(Evaluation &evaluation) {
  tn::BitcastOp op = cast<tn::BitcastOp>(evaluation.op);
  TENON_ASSIGN(Tensor x, convert(evaluation.operands[0], *dtypeOf(elementOf(op.getX()))));
  DType target = *dtypeOf(elementOf(op.getY()));
  TENON_ASSIGN(Tensor y, Tensor::copy(target, x.dims(), {x.bytes(), size_t(x.byteCount())}));
  for (int64_t i = 0; target == DType::Bool && i < y.count(); ++i) {
    y.as<Bool>()[i].value = y.as<Bool>()[i].value != 0;
  }
  TENON_ASSIGN(y, convert(y, *storageOf(elementOf(op.getY()), evaluation.precision)));
  return evaluation.finish(std::move(y));
}

/// The number of the first tap's position whose element is the window's largest.
template <typename T>
int64_t largestPosition(const Tensor &x, tn::MaxPoolIndexOp op, llvm::ArrayRef<int64_t> origin,
                        int64_t base) {
  size_t spatial = op.getKernel().size();
  Sizes strides = stridesOf(x.dims().drop_front(2));
  Walker<1> tap(op.getKernel(), {Sizes(spatial, 0)}, 0);
  int64_t best = -1;
  for (int64_t k = 0; k < productOf(op.getKernel()); ++k, tap.next()) {
    int64_t number = 0;
    bool inside = true;
    for (size_t d = 0; d < spatial; ++d) {
      int64_t at = origin[d] + tap.at(d) * op.getDilations()[d];
      inside &= at >= 0 && at < x.dims()[2 + d];
      number += at * strides[d];
    }
    if (!inside) {
      continue;
    }
    Wide<T> value = widen(x.as<T>()[base + number]);
    Wide<T> most = widen(x.as<T>()[base + std::max<int64_t>(best, 0)]);
    if (best < 0 || value > most || (value != value && most == most)) {
      best = number;
    }
  }
  return best;
}

Status evaluateMaxPoolIndex(Evaluation &evaluation) {
  tn::MaxPoolIndexOp op = cast<tn::MaxPoolIndexOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Sizes outer(x.rank(), 0);
  outer[1] = productOf(x.dims().drop_front(2));
  outer[0] = outer[1] * x.dims()[1];
  TENON_TRY(visitElement(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Walker<1> walker(y.dims(), {outer}, 0);
    Sizes origin(op.getKernel().size());
    for (int64_t i = 0; i < y.count(); ++i, walker.next()) {
      for (size_t d = 0; d < origin.size(); ++d) {
        origin[d] = walker.at(2 + d) * op.getStrides()[d] - op.getPads()[d];
      }
      y.as<int64_t>()[i] = largestPosition<T>(x, op, origin, walker.offset());
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateHistogram(Evaluation &evaluation) {
  tn::HistogramOp op = cast<tn::HistogramOp>(evaluation.op);
  TENON_ASSIGN(Tensor x, convert(evaluation.operands[0], DType::F32));
  int64_t rows = x.dims()[0], length = x.dims()[1], bins = int64_t{1} << op.getBits();
  TENON_ASSIGN(Tensor counts, Tensor::create(DType::I32, {rows, bins}));
  const uint32_t *words = reinterpret_cast<const uint32_t *>(x.bytes());
  for (int64_t i = 0; i < x.count(); ++i) {
    ++counts.as<int32_t>()[i / length * bins + (words[i] >> (32 - op.getBits()))];
  }
  return evaluation.finish(std::move(counts));
}

Status evaluateTruePositions(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor positions, Tensor::create(DType::I64, x.dims()));
  TENON_ASSIGN(Tensor count, Tensor::create(DType::I64, {}));
  int64_t &found = *count.as<int64_t>();
  for (int64_t i = 0; i < x.count(); ++i) {
    if (x.as<Bool>()[i].value != 0) {
      positions.as<int64_t>()[found++] = i;
    }
  }
  TENON_TRY(evaluation.finish(std::move(positions)));
  return evaluation.finish(std::move(count));
}

/// The result's dims are what the interpreter learns the symbol from.
Status evaluateTakeFirst(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  int64_t count = *evaluation.operands[1].as<int64_t>();
  if (count < 0 || count > x.dims()[0]) {
    return badOperand("there are fewer rows than are asked for");
  }
  Sizes dims(x.dims());
  dims[0] = count;
  TENON_ASSIGN(Tensor y, Tensor::create(x.dtype(), dims));
  std::memcpy(y.mutableBytes(), x.bytes(), y.byteCount());
  return evaluation.finish(std::move(y));
}

/// Whether the intersection of two boxes is more than `most` of their union.
template <typename T> bool overlaps(const T *a, const T *b, T most) {
  T height = std::min(a[2], b[2]) - std::max(a[0], b[0]);
  T width = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  T both = height * width;
  T sum = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]);
  return height > 0 && width > 0 && both / (sum - both) > most;
}

/// Of one batch and class.
template <typename T>
void selectBoxes(const T *boxes, const T *scores, const Bool *candidates, int64_t count, T overlap,
                 int64_t most, int64_t *selected) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < count; ++i) {
    if (candidates[i].value != 0) {
      order.push_back(i);
    }
  }
  auto score = [&](int64_t box) {
    return std::isnan(scores[box]) ? -std::numeric_limits<T>::infinity() : scores[box];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return score(a) > score(b); });
  int64_t found = 0;
  for (int64_t box : order) {
    bool isKept =
        found < most &&
        std::none_of(
            selected, selected + found,
            [&](int64_t better) { return overlaps(boxes + 4 * better, boxes + 4 * box, overlap); });
    if (isKept) {
      selected[found++] = box;
    }
  }
}

Status evaluateSelectBoxes(Evaluation &evaluation) {
  tn::SelectBoxesOp op = cast<tn::SelectBoxesOp>(evaluation.op);
  DType held = evaluation.operands[0].dtype() == DType::F64 ? DType::F64 : DType::F32;
  TENON_ASSIGN(Tensor boxes, convert(evaluation.get(op.getBoxes()), held));
  TENON_ASSIGN(Tensor scores, convert(evaluation.get(op.getScores()), held));
  TENON_ASSIGN(Tensor overlap, convert(evaluation.get(op.getOverlap()), held));
  const Bool *candidates = evaluation.get(op.getCandidates()).as<Bool>();
  int64_t limit = *evaluation.get(op.getLimit()).as<int64_t>();
  TENON_ASSIGN(Tensor selected, evaluation.makeResult());
  int64_t count = scores.dims()[2], places = selected.dims()[2];
  std::fill_n(selected.as<int64_t>(), selected.count(), -1);
  for (int64_t row = 0; row < scores.dims()[0] * scores.dims()[1]; ++row) {
    int64_t batch = row / scores.dims()[1];
    int64_t *out = selected.as<int64_t>() + row * places;
    auto select = [&]<typename T>(T) {
      selectBoxes<T>(boxes.as<T>() + batch * count * 4, scores.as<T>() + row * count,
                     candidates + row * count, count, *overlap.as<T>(), std::min(limit, places),
                     out);
    };
    held == DType::F64 ? select(double()) : select(float());
  }
  return evaluation.finish(std::move(selected));
}

/// What `tn.sample` has of one row.
struct SampleRow {
  llvm::ArrayRef<float> logits;
  double temperature, topP, minP;
  int64_t topK;
  uint64_t seed, position;
};

/// The tokens that top-k and top-p leave of these, which are the more probable the earlier.
void keepFirst(std::vector<int64_t> &tokens, llvm::ArrayRef<float> scaled, const SampleRow &row) {
  if (row.topK > 0 && static_cast<size_t>(row.topK) < tokens.size()) {
    tokens.resize(row.topK);
  }
  if (row.topP >= 1) {
    return;
  }
  double mass = 0, kept = 0;
  for (int64_t token : tokens) {
    mass += shareOf(exponential(scaled[token]));
  }
  double wanted = std::max(1.0, std::floor(row.topP * mass));
  size_t count = 0;
  while (count < tokens.size() && kept < wanted) {
    kept += shareOf(exponential(scaled[tokens[count++]]));
  }
  tokens.resize(count);
}

int64_t drawToken(const SampleRow &row) {
  constexpr float kNever = -1e30f;
  float largest = *std::max_element(row.logits.begin(), row.logits.end());
  if (row.temperature <= 0) {
    return std::find(row.logits.begin(), row.logits.end(), largest) - row.logits.begin();
  }
  float scale = static_cast<float>(std::min(1 / row.temperature, 1e30));
  float least = row.minP > 0 ? static_cast<float>(logarithm(std::min(row.minP, 1.0))) : 2 * kNever;
  std::vector<float> scaled;
  std::vector<int64_t> tokens;
  for (float logit : row.logits) {
    scaled.push_back(std::max((logit - largest) * scale, kNever));
    if (scaled.back() >= least) {
      tokens.push_back(static_cast<int64_t>(scaled.size()) - 1);
    }
  }
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&](int64_t a, int64_t b) { return scaled[a] > scaled[b]; });
  keepFirst(tokens, scaled, row);
  auto noisy = [&](int64_t token) {
    double noise = gumbel(uniform(row.seed, row.position, static_cast<uint32_t>(token)));
    return std::pair(static_cast<double>(scaled[token]) + noise, -token);
  };
  return *std::max_element(tokens.begin(), tokens.end(),
                           [&](int64_t a, int64_t b) { return noisy(a) < noisy(b); });
}

Status evaluateSample(Evaluation &evaluation) {
  TENON_ASSIGN(Tensor logits, convert(evaluation.operands[0], DType::F32));
  const double *numbers = evaluation.operands[1].as<double>();
  const int64_t *integers = evaluation.operands[2].as<int64_t>();
  int64_t rows = logits.dims()[0], vocabulary = logits.dims()[1];
  TENON_ASSIGN(Tensor ids, Tensor::create(DType::I64, {rows}));
  TENON_ASSIGN(Tensor logprobs, Tensor::create(DType::F64, {rows}));
  for (int64_t i = 0; i < rows; ++i, numbers += 3, integers += 3) {
    llvm::ArrayRef<float> row(logits.as<float>() + i * vocabulary, vocabulary);
    bool isFinite = llvm::all_of(row, [](float logit) { return std::isfinite(logit); });
    ids.as<int64_t>()[i] =
        isFinite
            ? drawToken({row, numbers[0], numbers[1], numbers[2], integers[0],
                         static_cast<uint64_t>(integers[1]), static_cast<uint64_t>(integers[2])})
            : -1;
    double sum = 0, largest = static_cast<double>(*std::max_element(row.begin(), row.end()));
    for (float logit : row) {
      sum += std::exp(static_cast<double>(logit) - largest);
    }
    logprobs.as<double>()[i] =
        isFinite ? static_cast<double>(row[ids.as<int64_t>()[i]]) - largest - std::log(sum)
                 : std::numeric_limits<double>::quiet_NaN();
  }
  TENON_TRY(evaluation.finish(std::move(ids)));
  Type element = elementOf(evaluation.op->getResult(1));
  TENON_ASSIGN(Tensor held, convert(logprobs, *storageOf(element, evaluation.precision)));
  return evaluation.finish(std::move(held));
}

constexpr OpRow kRareOpRows[] = {
    {"tn.encode", evaluateEncode},
    {"tn.decode", evaluateDecode},
    {"tn.unpack_bits", evaluateUnpackBits},
    {"tn.decode_rows", evaluateDecodeRows},
    {"tn.round_blocks", evaluateRoundBlocks},
    {"tn.bitcast", evaluateBitcast},
    {"tn.max_pool_index", evaluateMaxPoolIndex},
    {"tn.histogram", evaluateHistogram},
    {"tn.true_positions", evaluateTruePositions},
    {"tn.take_first", evaluateTakeFirst},
    {"tn.select_boxes", evaluateSelectBoxes},
    {"tn.sample", evaluateSample},
};

} // namespace

llvm::ArrayRef<OpRow> rareOps() { return kRareOpRows; }

} // namespace tenon::reference
