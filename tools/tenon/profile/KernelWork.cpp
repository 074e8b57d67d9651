// What kernels compute where it is other than the model's operations, by the nodes of a region and
// the kernel's name. Relies on the graph's attributes being as the operations print them.

#include "tools/tenon/profile/KernelWork.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tenon::tool {
namespace {

using Dims = std::vector<double>;

/// Rows and columns of a tile of AMX, and the bytes of a row's step along the depth. Fewer rows
/// than kFewRows behind the last whole tile are multiplied in vector registers.
constexpr double kTile = 16, kTileStep = 64, kFewRows = 4;
/// Operations that are followed back from a product to what bounds it: of BERT's second product of
/// a feed-forward block four.
constexpr int kMostSteps = 6;
/// What columns and depth of a product of 8-bit floats are multiples of.
constexpr double kFloat8Border = 16;

class NodeView {
public:
  NodeView(const view::Graph &owner, const view::Sizes &known, const view::Node &own)
      : graph(owner), sizes(known), node(own) {}

  /// Of an operand or result; empty where it has none.
  Dims input(size_t index) const { return dimsOf(node.inputs, index); }
  Dims output(size_t index) const { return dimsOf(node.outputs, index); }
  std::string attribute(const char *name) const {
    Json value = node.attributes.value(name, Json());
    return value.is_string() ? value.get<std::string>() : "";
  }
  const std::string &op() const { return node.op; }

private:
  Dims dimsOf(const std::vector<int64_t> &values, size_t index) const {
    Dims dims;
    if (index >= values.size() || values[index] < 0) {
      return dims;
    }
    const view::Value &value = graph.values.at(static_cast<size_t>(values[index]));
    for (const std::string &dim : value.shape.value_or(std::vector<std::string>())) {
      dims.push_back(static_cast<double>(view::evaluate(dim, sizes).value_or(0)));
    }
    return dims;
  }

  const view::Graph &graph;
  const view::Sizes &sizes;
  const view::Node &node;
};

/// The number that stands behind a word of a kernel's text; none if there is none.
std::optional<double> numberBehind(std::string_view text, std::string_view word) {
  size_t at = text.find(word);
  int number = 0;
  std::string_view rest = at == std::string_view::npos ? "" : text.substr(at + word.size());
  bool reads = std::from_chars(rest.data(), rest.data() + rest.size(), number).ec == std::errc();
  return reads ? std::optional<double>(number) : std::nullopt;
}

double product(const Dims &dims) {
  double result = 1;
  for (double dim : dims) {
    result *= dim;
  }
  return result;
}

double rounded(double size, double to) { return std::ceil(size / to) * to; }

/// F(m x m, 3 x 3) multiplies (m + 2)^2 times for each tile of m^2 results, where a convolution
/// multiplies 9 times for each of them. Tiles at the edges are whole; the transforms before and
/// behind are not counted.
double winogradShare(const NodeView &conv, double m) {
  Dims dims = conv.output(0);
  double whole = 1;
  if (dims.size() >= 4) {
    size_t last = conv.attribute("channelsLast") == "true" ? dims.size() - 2 : dims.size() - 1;
    for (size_t axis : {last - 1, last}) {
      whole *= rounded(dims[axis], m) / std::max(dims[axis], 1.0);
    }
  }
  return (m + 2) * (m + 2) / (9 * m * m) * whole;
}

/// Of the pairs of queries and keys, those in the keys that a block of queries sees.
double causalShare(const NodeView &attention, double queriesOfBlock) {
  Dims q = attention.input(0), k = attention.input(1);
  if (attention.attribute("causal") != "true" || q.size() < 3 || k.size() < 3) {
    return 1;
  }
  std::string inner = attention.attribute("headsInner");
  auto lengthOf = [&](const Dims &dims, bool hasHeadsInside) {
    return dims[dims.size() - (hasHeadsInside ? 3 : 2)];
  };
  size_t second = inner.find(',');
  double queries = lengthOf(q, inner.starts_with("[true"));
  double keys =
      lengthOf(k, second != std::string::npos && inner.substr(second).starts_with(", true"));
  double blocks = std::ceil(queries / std::max(queriesOfBlock, 1.0)), pairs = 0;
  for (double block = 0; block < blocks; ++block) {
    double first = std::floor(block * queries / blocks);
    double next = std::floor((block + 1) * queries / blocks);
    pairs += (next - first) * std::clamp(next + keys - queries, 0.0, keys);
  }
  return queries * keys > 0 ? pairs / (queries * keys) : 1;
}

/// What a product takes on tiles of which the last are whole too.
double tileShare(const NodeView &matmul, double bytesOfNumber) {
  Dims a = matmul.input(0), result = matmul.output(0);
  if (a.size() < 2 || result.size() < 2 || product(result) == 0) {
    return 1;
  }
  double rows = result.size() == 2 || matmul.input(1).size() <= 2
                    ? product(result) / result.back() // of all matrices as one
                    : result[result.size() - 2];
  double left = std::fmod(rows, kTile);
  double depth = product(a) / (product(result) / result.back());
  double step = kTileStep / bytesOfNumber;
  return (left < kFewRows ? rows : rounded(rows, kTile)) / rows *
         (rounded(result.back(), kTile) / result.back()) * (rounded(depth, step) / depth);
}

/// Whether no element of a value exceeds a number that holds for any input, as
/// compiler/opt/precision/Float8Bounds.h finds one; whether that is small enough is not asked.
bool isBounded(const view::Graph &graph, int64_t value, int steps) {
  constexpr std::string_view kBounding[] = {"layer_norm", "rms_norm", "softmax", "sigmoid", "tanh"};
  if (value < 0 || steps == 0) {
    return false;
  }
  const view::Value &own = graph.values.at(static_cast<size_t>(value));
  if (own.node < 0) {
    return own.kind == "parameter" || own.kind == "constant";
  }
  const view::Node &maker = graph.nodes.at(static_cast<size_t>(own.node));
  return std::ranges::find(kBounding, maker.op) != std::end(kBounding) ||
         std::ranges::all_of(maker.inputs, [&](int64_t input) {
           return input < 0 || isBounded(graph, input, steps - 1);
         });
}

/// The products of the states, one after the other, which the graph does not count.
double recurrenceFlops(const NodeView &recurrence) {
  Dims input = recurrence.input(0), weights = recurrence.input(1);
  return input.size() == 3 && weights.size() == 2 ? 2 * product(input) * weights[0] : 0;
}

} // namespace

void countKernelWork(const view::Graph &graph, const view::Sizes &sizes, Profile &profile) {
  for (RegionFigures &region : profile.regions) {
    region.kernelFlops = region.flops;
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].region < 0) {
      continue;
    }
    NodeView node(graph, sizes, graph.nodes[i]);
    RegionFigures &region = profile.regions.at(static_cast<size_t>(graph.nodes[i].region));
    if (!node.attribute("cell").empty()) { // of recurrent layers
      double flops = recurrenceFlops(node);
      region.flops += flops;
      region.kernelFlops += flops;
      for (size_t own : region.operators) {
        bool isIt = profile.operators[own].kind == node.op();
        profile.operators[own].flops += isIt ? flops : 0;
      }
      continue;
    }
    std::optional<double> tile = numberBehind(region.kernel, "conv_winograd");
    std::optional<double> block = numberBehind(region.kernel, "queries=");
    double share = 1;
    if (node.op() == "conv" && tile) {
      share = winogradShare(node, *tile);
      region.kernelWork = "by Winograd's filtering";
    } else if (node.op() == "attention" && block && (share = causalShare(node, *block)) < 1) {
      region.kernelWork = "with the keys that each query sees";
    } else if (node.op() == "matmul") {
      bool isOnBorders = std::ranges::all_of(
          node.input(1), [](double size) { return std::fmod(size, kFloat8Border) == 0; });
      region.fitsFloat8 = isOnBorders && !graph.nodes[i].inputs.empty() &&
                          isBounded(graph, graph.nodes[i].inputs[0], kMostSteps);
      Numbers numbers = region.numbers();
      bool isNarrow = numbers == Numbers::I8 || numbers == Numbers::Bf16;
      region.tileShare = isNarrow ? tileShare(node, numbers == Numbers::I8 ? 1 : 2) : 1;
    }
    region.kernelFlops *= share;
  }
}

} // namespace tenon::tool
