// Rotary embeddings: ONNX's operator and the older one of ONNX Runtime.
// Relies on the width of a head being a constant.
#include "compiler/frontend/onnx/ops/Heads.h"

using namespace mlir;

namespace tenon::onnx {

Value rotate(NodeContext &c, Value x, Value cosine, Value sine, int64_t rotated, bool interleaved) {
  if (!x || !cosine || !sine || c.failed()) {
    return Value();
  }
  tn::Dims d = tn::getDims(x.getType());
  std::optional<int64_t> width = tn::constantDim(d[3]);
  if (!width) {
    c.gap("the width of a head is not a constant", "declare it with --shape");
    return Value();
  }
  if (rotated <= 0 || rotated % 2 != 0 || rotated > *width) {
    c.error(ErrorId::OnnxBadNode, "the rotated width is odd or larger than a head");
    return Value();
  }
  AffineExpr half = c.constantSize(rotated / 2);
  AffineExpr two = c.constantSize(2);
  Value part = c.sliceAxis(x, 3, c.constantSize(0), c.constantSize(rotated));
  // Either way pairs lie along a dim of two.
  int64_t pairAxis = interleaved ? 4 : 3;
  tn::Dims pairDims =
      interleaved ? tn::Dims{d[0], d[1], d[2], half, two} : tn::Dims{d[0], d[1], d[2], two, half};
  Value pairs = c.reshape(part, pairDims);
  tn::Dims single = {d[0], d[1], d[2], half};
  Value first =
      c.reshape(c.sliceAxis(pairs, pairAxis, c.constantSize(0), c.constantSize(1)), single);
  Value second =
      c.reshape(c.sliceAxis(pairs, pairAxis, c.constantSize(1), c.constantSize(1)), single);
  Value real = c.sub(c.mul(cosine, first), c.mul(sine, second));
  Value imaginary = c.add(c.mul(sine, first), c.mul(cosine, second));
  tn::Dims entry = pairDims;
  entry[pairAxis] = c.constantSize(1);
  Value turned =
      c.reshape(c.concat({c.reshape(real, entry), c.reshape(imaginary, entry)}, pairAxis),
                {d[0], d[1], d[2], c.constantSize(rotated)});
  if (rotated == *width) {
    return turned;
  }
  Value rest = c.sliceAxis(x, 3, c.constantSize(rotated), c.constantSize(*width - rotated));
  return c.concat({turned, rest}, 3);
}

namespace {

/// Rows of a cache, [B, S, half] or [S, half], as [.., S, 1, half].
Value besideHeads(NodeContext &c, Value cache) {
  tn::Dims d = cache ? tn::getDims(cache.getType()) : tn::Dims();
  if (d.size() != 2 && d.size() != 3) {
    c.error(ErrorId::OnnxBadNode, "its caches do not have one row for each position");
    return Value();
  }
  d.insert(d.end() - 1, c.constantSize(1));
  return c.reshape(cache, d);
}

/// Turns input 0, given as [B, H, S, D] or as [B, S, H * D]; the result has its form.
void turnInput(NodeContext &c, int64_t heads, Value cosine, Value sine, int64_t rotated) {
  bool apart = c.rank(0) == 4;
  Value x = apart ? c.value(0) : splitHeads(c, c.value(0), heads);
  x = x ? c.transpose(x, {0, 2, 1, 3}) : x;
  if (x && rotated == 0) {
    rotated = tn::constantDim(tn::getDims(x.getType())[3]).value_or(0);
  }
  bool interleaved = c.integer("interleaved", 0) != 0;
  Value y = rotate(c, x, besideHeads(c, cosine), besideHeads(c, sine), rotated, interleaved);
  c.setOutput(0, y && apart ? c.transpose(y, {0, 2, 1, 3}) : c.reshape(y, c.dims(0)));
}

void rotaryEmbedding(NodeContext &c) {
  Value at = c.fromStart(c.value(3));
  auto cache = [&](unsigned i) {
    return c.has(3) ? c.make<tn::GatherOp>(c.value(i), at, int64_t{0}) : c.value(i);
  };
  if (!c.has(3) && (c.rank(1) != 3 || c.rank(2) != 3)) {
    return c.error(ErrorId::OnnxBadNode, "its caches do not have one row for each position");
  }
  turnInput(c, c.integer("num_heads", 0), cache(1), cache(2), c.integer("rotary_embedding_dim", 0));
}

/// Positions [B, S], or the first one of all entries as one element.
void microsoftRotary(NodeContext &c) {
  if (c.integer("is_packed_batching", 0) != 0 || c.real("scale", 1) != 1) {
    return c.gap("packed batches and a scale are not supported", "export without them");
  }
  bool apart = c.rank(0) == 4;
  if (!apart && c.rank(0) != 3) {
    return c.error(ErrorId::OnnxBadNode, "its input has neither three nor four dimensions");
  }
  std::optional<int64_t> half = c.rank(2) == 2 ? tn::constantDim(c.dims(2)[1]) : std::nullopt;
  std::optional<int64_t> width = tn::constantDim(c.dims(0).back());
  int64_t rotated = c.integer("rotary_embedding_dim", 0);
  int64_t heads = c.integer("num_heads", 0);
  if (!half || !width || *half == 0) {
    return c.gap("the width of its caches or of its input is not a constant",
                 "declare it with --shape");
  }
  heads = !apart && heads == 0 && rotated == 0 ? *width / (2 * *half) : heads;
  Value at = c.value(1);
  if (at && c.rank(1) == 1) {
    at = c.add(c.reshape(at, {c.constantSize(1)}), c.positions(c.dims(0)[apart ? 2 : 1]));
  }
  at = c.fromStart(at);
  turnInput(c, heads, c.make<tn::GatherOp>(c.value(2), at, int64_t{0}),
            c.make<tn::GatherOp>(c.value(3), at, int64_t{0}), rotated);
}

constexpr Attributes kRotary = {
    {"interleaved", kInt}, {"num_heads", kInt}, {"rotary_embedding_dim", kInt}};
constexpr Attributes kMicrosoftRotary = {{"interleaved", kInt},
                                         {"is_packed_batching", kInt},
                                         {"num_heads", kInt},
                                         {"rotary_embedding_dim", kInt},
                                         {"scale", kFloat}};

constexpr OpRow kRotaryOpRows[] = {
    {"RotaryEmbedding", 23, 3, 4, 1, rotaryEmbedding, kRotary},
    {"RotaryEmbedding", 1, 4, 4, 1, microsoftRotary, kMicrosoftRotary, kMicrosoft},
};

} // namespace

ArrayRef<OpRow> rotaryRows() { return kRotaryOpRows; }

} // namespace tenon::onnx
