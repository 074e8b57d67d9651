// Products, convolutions and attention, with what usually stands behind them.
#include "test/random/Operators.h"

#include <algorithm>

namespace tenon::random {
namespace {

using namespace onnx::test;

const Types kProducts = {DType::F32, DType::F32, DType::F32, DType::F32,
                         DType::F64, DType::F16, DType::BF16};

bool matmul(Sketch &s) {
  bool isInteger = s.draw.chance(0.1);
  Value a = s.operand(isInteger ? Types{DType::I32, DType::I64} : kProducts, 1, 5);
  Dim depth = s.dimsLike(a).back();
  Dim columns = s.draw.chance(0.3) ? Dim(s.draw.within(1, 3)) : s.dim();
  std::vector<Dim> dims;
  if (a.rank() > 2 && s.draw.chance(0.4)) {
    dims = s.dimsLike(a);
    dims.resize(dims.size() - 2);
    for (Dim &dim : dims) {
      dim = s.draw.chance(0.3) ? Dim(int64_t{1}) : dim;
    }
    dims.erase(dims.begin(), dims.begin() + s.draw.below(static_cast<int64_t>(dims.size()) + 1));
  }
  dims.push_back(depth);
  if (!dims.empty() && (dims.size() > 1 || s.draw.chance(0.9))) {
    dims.push_back(columns);
  }
  return s.node("MatMul", {a.name, s.operandLike(a.type, dims).name});
}

bool gemm(Sketch &s) {
  Value a = s.operand(kProducts, 2, 2);
  bool transposeA = s.draw.chance(0.3), transposeB = s.draw.chance(0.4);
  std::vector<Dim> from = s.dimsLike(a);
  Dim rows = from[transposeA ? 1 : 0], depth = from[transposeA ? 0 : 1];
  Dim columns = s.draw.chance(0.3) ? Dim(s.draw.within(1, 3)) : s.dim();
  std::vector<std::string> names = {
      a.name,
      s.operandLike(a.type, transposeB ? std::vector{columns, depth} : std::vector{depth, columns})
          .name};
  if (s.draw.chance(0.7)) {
    std::vector<Dim> bias = s.draw.chance(0.6)   ? std::vector<Dim>{columns}
                            : s.draw.chance(0.5) ? std::vector<Dim>{rows, columns}
                            : s.draw.chance(0.5) ? std::vector<Dim>{int64_t{1}}
                                                 : std::vector<Dim>{rows, int64_t{1}};
    names.push_back(s.source(a.type, bias).name);
  }
  std::vector<Message> attributes = {attrInt("transA", transposeA), attrInt("transB", transposeB)};
  if (s.draw.chance(0.3)) {
    attributes.push_back(attrFloat("alpha", 0.5f));
    attributes.push_back(attrFloat("beta", s.draw.one({0.0f, 1.0f, 2.0f})));
  }
  return s.node("Gemm", names, 1, attributes);
}

struct Spatial {
  std::vector<int64_t> kernel;
  std::vector<Message> attributes;
};

/// A kernel that fits the spatial dims of `x` with its pads, and the attributes of a convolution.
Spatial spatialOf(Sketch &s, const Value &x, bool isTransposed) {
  size_t rank = x.sizes.size() - 2;
  Spatial spatial;
  std::vector<int64_t> strides, pads(2 * rank), dilations;
  bool isPointwise = s.draw.chance(0.3);
  for (size_t i = 0; i < rank; ++i) {
    int64_t size = std::max<int64_t>(x.sizes[2 + i], 1);
    int64_t kernel = isPointwise ? 1 : s.draw.within(1, std::min<int64_t>(5, size));
    int64_t dilation = s.draw.chance(0.2) && 2 * (kernel - 1) < size ? 2 : 1;
    spatial.kernel.push_back(kernel);
    strides.push_back(s.draw.chance(0.3) ? 2 : 1);
    dilations.push_back(dilation);
    int64_t most = isTransposed ? (kernel - 1) / 2 : dilation * (kernel - 1);
    pads[i] = s.draw.chance(0.5) ? s.draw.within(0, most) : 0;
    pads[rank + i] = s.draw.chance(0.7) ? pads[i] : s.draw.within(0, most);
  }
  spatial.attributes = {attrInts("strides", strides), attrInts("dilations", dilations)};
  if (s.draw.chance(0.8)) {
    spatial.attributes.push_back(attrInts("pads", pads));
  } else {
    spatial.attributes.push_back(
        attrText("auto_pad", s.draw.one({"SAME_UPPER", "SAME_LOWER", "VALID"})));
  }
  if (s.draw.chance(0.5)) {
    spatial.attributes.push_back(attrInts("kernel_shape", spatial.kernel));
  }
  return spatial;
}

struct Channels {
  int64_t groups, in, out;
};

Channels channelsOf(Sketch &s) {
  Channels c{.groups = 1,
             .in = s.draw.one<int64_t>({1, 2, 3, 4, 8, 16}),
             .out = s.draw.one<int64_t>({1, 1, 2, 3, 5, 16, 33})};
  if (s.draw.chance(0.35)) {
    c.groups = s.draw.chance(0.5) ? c.in : s.draw.within(1, 3);
    c.in = c.groups * (c.in >= c.groups ? c.in / c.groups : 1);
    c.out = c.groups * s.draw.within(1, 3);
  }
  return c;
}

Value image(Sketch &s, DType type, int64_t channels, int64_t maxRank, Content content = {}) {
  for (const Value &value : s.all()) {
    bool fits = value.type == type && value.rank() >= 3 && value.rank() <= maxRank &&
                value.dims[1] == Dim(channels);
    if (fits && s.draw.chance(0.6)) {
      return value;
    }
  }
  std::vector<Dim> dims = s.shape(3, maxRank);
  dims.resize(std::min<size_t>(dims.size(), maxRank));
  dims[1] = channels;
  for (size_t i = 2; i < dims.size(); ++i) {
    // A window wants a constant size more often than not.
    dims[i] = s.draw.chance(0.8) ? Dim(s.draw.within(1, 9)) : dims[i];
  }
  return s.source(type, dims, content);
}

bool convolve(Sketch &s, bool isTransposed) {
  Channels c = channelsOf(s);
  Value x = image(s, s.draw.of(kProducts), c.in, s.draw.chance(0.1) ? 5 : 4);
  Spatial spatial = spatialOf(s, x, isTransposed);
  std::vector<Dim> weight = isTransposed ? std::vector<Dim>{c.in, c.out / c.groups}
                                         : std::vector<Dim>{c.out, c.in / c.groups};
  weight.insert(weight.end(), spatial.kernel.begin(), spatial.kernel.end());
  std::vector<std::string> names = {x.name, s.source(x.type, weight).name};
  if (s.draw.chance(0.6)) {
    names.push_back(s.source(x.type, {c.out}).name);
  }
  spatial.attributes.push_back(attrInt("group", c.groups));
  if (isTransposed && s.draw.chance(0.2)) {
    spatial.attributes.push_back(
        attrInts("output_padding", std::vector<int64_t>(spatial.kernel.size(), 0)));
  }
  return s.node(isTransposed ? "ConvTranspose" : "Conv", names, 1, spatial.attributes);
}

const Types kBytes = {DType::U8, DType::I8};
constexpr Content kSmallBytes = {.low = -9, .high = 9};

/// A scale and a zero point.
std::vector<std::string> quantization(Sketch &s, DType type) {
  return {s.scalar(DType::F32, s.draw.one({0.25, 0.5, 0.1})).name,
          s.scalar(type, static_cast<double>(s.draw.below(4))).name};
}

bool convInteger(Sketch &s) {
  Channels c = channelsOf(s);
  Value x = image(s, DType::U8, c.in, 4, {.low = 0, .high = 20});
  Spatial spatial = spatialOf(s, x, false);
  std::vector<Dim> weight = {c.out, c.in / c.groups};
  weight.insert(weight.end(), spatial.kernel.begin(), spatial.kernel.end());
  spatial.attributes.push_back(attrInt("group", c.groups));
  std::vector<std::string> names = {x.name, s.source(s.draw.of(kBytes), weight, kSmallBytes).name};
  if (s.draw.chance(0.5)) {
    names.push_back(s.scalar(DType::U8, static_cast<double>(s.draw.below(9))).name);
  }
  return s.node("ConvInteger", names, 1, spatial.attributes);
}

bool qlinearConv(Sketch &s) {
  Channels c = channelsOf(s);
  Value x = image(s, DType::U8, c.in, 4, {.low = 0, .high = 20});
  Spatial spatial = spatialOf(s, x, false);
  std::vector<Dim> weight = {c.out, c.in / c.groups};
  weight.insert(weight.end(), spatial.kernel.begin(), spatial.kernel.end());
  spatial.attributes.push_back(attrInt("group", c.groups));
  std::vector<std::string> names = {x.name};
  auto add = [&](const std::vector<std::string> &more) {
    names.insert(names.end(), more.begin(), more.end());
  };
  add(quantization(s, DType::U8));
  names.push_back(s.source(DType::I8, weight, kSmallBytes).name);
  add(quantization(s, DType::I8));
  add(quantization(s, DType::U8));
  if (s.draw.chance(0.5)) {
    names.push_back(s.source(DType::I32, {c.out}, kSmallBytes).name);
  }
  return s.node("QLinearConv", names, 1, spatial.attributes);
}

bool matmulInteger(Sketch &s) {
  Value a = s.operand(kBytes, 2, 4, kSmallBytes);
  Value b = s.source(s.draw.of(kBytes), {s.dimsLike(a).back(), s.dim()}, kSmallBytes);
  std::vector<std::string> names = {a.name, b.name};
  if (s.draw.chance(0.5)) {
    names.push_back(s.scalar(a.type, static_cast<double>(s.draw.below(9))).name);
    names.push_back(s.scalar(b.type, static_cast<double>(s.draw.below(9))).name);
  }
  return s.node("MatMulInteger", names);
}

bool qlinearMatmul(Sketch &s) {
  Value a = s.operand(kBytes, 2, 3, kSmallBytes);
  Value b = s.source(s.draw.of(kBytes), {s.dimsLike(a).back(), s.dim()}, kSmallBytes);
  DType to = s.draw.of(kBytes);
  std::vector<std::string> names = {a.name};
  auto add = [&](const std::vector<std::string> &more) {
    names.insert(names.end(), more.begin(), more.end());
  };
  add(quantization(s, a.type));
  names.push_back(b.name);
  add(quantization(s, b.type));
  add(quantization(s, to));
  return s.node("QLinearMatMul", names);
}

bool einsum(Sketch &s) {
  struct Form {
    const char *equation;
    const char *left, *right;
  };
  const Form form = s.draw.one<Form>({{"ij,jk->ik", "ij", "jk"},
                                      {"bij,bjk->bik", "bij", "bjk"},
                                      {"bij,bkj->bik", "bij", "bkj"},
                                      {"ij,ij->i", "ij", "ij"},
                                      {"ij,j->i", "ij", "j"},
                                      {"bhid,bhjd->bhij", "bhid", "bhjd"},
                                      {"i,j->ij", "i", "j"},
                                      {"ij->ji", "ij", ""},
                                      {"ijk->ik", "ijk", ""},
                                      {"bij,jk", "bij", "jk"}});
  std::vector<Dim> letters(26, Dim(int64_t{0}));
  for (Dim &letter : letters) {
    letter = s.draw.chance(0.4) ? s.dim() : Dim(s.draw.within(1, 7));
  }
  auto dimsOf = [&](std::string_view names) {
    std::vector<Dim> dims;
    for (char name : names) {
      dims.push_back(letters[name - 'a']);
    }
    return dims;
  };
  DType type = s.draw.of(kProducts);
  std::vector<std::string> names = {s.operandLike(type, dimsOf(form.left)).name};
  if (*form.right) {
    names.push_back(s.operandLike(type, dimsOf(form.right)).name);
  }
  return s.node("Einsum", names, 1, {attrText("equation", form.equation)});
}

bool attend(Sketch &s) {
  DType type = s.draw.one({DType::F32, DType::F32, DType::F16});
  Dim batch = s.draw.chance(0.3) ? s.dim() : Dim(s.draw.within(1, 3)), queries = s.dim(),
      keys = s.dim();
  int64_t heads = s.draw.within(1, 3), width = s.draw.one<int64_t>({1, 2, 3, 8, 16}),
          out = s.draw.one<int64_t>({1, 4, 8});
  int64_t shared = s.draw.chance(0.3) ? 1 : heads;
  std::vector<std::string> names = {s.source(type, {batch, heads, queries, width}).name,
                                    s.source(type, {batch, shared, keys, width}).name,
                                    s.source(type, {batch, shared, keys, out}).name};
  if (s.draw.chance(0.4)) {
    names.push_back(s.source(type, s.draw.chance(0.5)
                                       ? std::vector<Dim>{queries, keys}
                                       : std::vector<Dim>{batch, int64_t{1}, queries, keys})
                        .name);
  }
  std::vector<Message> attributes = {attrInt("is_causal", s.draw.chance(0.3))};
  if (s.draw.chance(0.3)) {
    attributes.push_back(attrFloat("scale", 0.3f));
  }
  if (s.draw.chance(0.15)) {
    attributes.push_back(attrFloat("softcap", 2.0f));
  }
  return s.node("Attention", names, 1, attributes);
}

/// Attention as exporters write it before opset 23.
bool spelledAttention(Sketch &s) {
  Dim batch = s.draw.within(1, 3), queries = s.dim(), keys = s.dim();
  int64_t heads = s.draw.within(1, 3), width = s.draw.one<int64_t>({2, 4, 8});
  Value q = s.source(DType::F32, {batch, heads, queries, width}),
        k = s.source(DType::F32, {batch, heads, width, keys}),
        v = s.source(DType::F32, {batch, heads, keys, width});
  if (!s.node("MatMul", {q.name, k.name})) {
    return false;
  }
  std::string scores = s.all().back().name;
  if (s.draw.chance(0.7) && s.node("Mul", {scores, s.scalar(DType::F32, 0.4).name})) {
    scores = s.all().back().name;
  }
  if (s.draw.chance(0.5) && s.node("Add", {scores, s.source(DType::F32, {queries, keys}).name})) {
    scores = s.all().back().name;
  }
  return s.node("Softmax", {scores}, 1, {attrInt("axis", s.opset < 13 ? 3 : -1)}) &&
         s.node("MatMul", {s.all().back().name, v.name});
}

bool rotate(Sketch &s) {
  int64_t heads = s.draw.within(1, 3), width = s.draw.one<int64_t>({2, 4, 8});
  Dim batch = s.draw.within(1, 3), sequence = s.dim();
  Value x = s.source(DType::F32, {batch, heads, sequence, width});
  Value cosine = s.source(DType::F32, {batch, sequence, width / 2}),
        sine = s.source(DType::F32, {batch, sequence, width / 2});
  return s.node("RotaryEmbedding", {x.name, cosine.name, sine.name}, 1,
                {attrInt("interleaved", s.draw.below(2))});
}

} // namespace

std::vector<Operator> contractionOperators() {
  return {
      {"MatMul", matmul},
      {"MatMul", spelledAttention},
      {"Gemm", gemm},
      {"Conv", [](Sketch &s) { return convolve(s, false); }},
      {"Conv", [](Sketch &s) { return convolve(s, false); }},
      {"ConvTranspose", [](Sketch &s) { return convolve(s, true); }},
      {"ConvInteger", convInteger},
      {"QLinearConv", qlinearConv},
      {"MatMulInteger", matmulInteger},
      {"QLinearMatMul", qlinearMatmul},
      {"Einsum", einsum},
      {"Attention", attend},
      {"RotaryEmbedding", rotate},
  };
}

} // namespace tenon::random
