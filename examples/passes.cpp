// A plug-in with three passes: tenon compile MODEL --plugin build/dev/lib/example_passes.so

#include <tenon/graph.hpp>

#include <cmath>
#include <cstdio>
#include <string>

namespace {

/// Another function, so the outputs change: by how much is measured and reported.
void reluToGelu(tenon::Graph &graph) {
  for (const tenon::Match &match : graph.match("relu(x)")) {
    graph.replace(match.result(), graph.create("gelu", {match["x"]}));
  }
}

/// relu(batch_norm(conv(x))) without the normalization, which goes into the weights and a bias.
/// Tenon does the same by itself; here it shows how constants are read and made, and the check
/// proves it equal.
void foldBatchNorm(tenon::Graph &graph) {
  const std::string pattern =
      "relu(n:batch_norm(c:conv(x, w, groups=1), scale, shift, mean, variance))";
  for (const tenon::Match &match : graph.match(pattern)) {
    tenon::Node norm = graph.producer(match["n"]), conv = graph.producer(match["c"]);
    std::vector<float> weight = graph.data<float>(match["w"]);
    std::vector<float> scale = graph.data<float>(match["scale"]);
    std::vector<float> bias = graph.data<float>(match["shift"]);
    std::vector<float> mean = graph.data<float>(match["mean"]);
    std::vector<float> variance = graph.data<float>(match["variance"]);
    double epsilon = std::stod(graph.attribute(norm, "epsilon"));
    size_t perChannel = weight.size() / scale.size();
    for (size_t channel = 0; channel < scale.size(); ++channel) {
      double factor = scale[channel] / std::sqrt(variance[channel] + epsilon);
      for (size_t i = 0; i < perChannel; ++i) {
        weight[channel * perChannel + i] *= factor;
      }
      bias[channel] -= mean[channel] * factor;
    }
    tenon::Value folded = graph.create("conv",
                                       {match["x"], graph.constant(graph.type(match["w"]), weight),
                                        graph.constant(graph.type(match["shift"]), bias)},
                                       graph.attributes(conv));
    graph.replace(match.result(), graph.create("relu", {folded}));
  }
}

/// Looks and changes nothing.
void countFlops(tenon::Graph &graph) {
  int64_t total = 0;
  for (tenon::Node node : graph.nodes()) {
    total += graph.flops(node);
  }
  std::fprintf(stderr, "%.3f GFLOP in %zu nodes\n", total / 1e9, graph.nodes().size());
}

} // namespace

TENON_PLUGIN("examples", tenon::pass<countFlops>("count-flops", "normalize"),
             tenon::pass<foldBatchNorm>("fold-batch-norm", "normalize"),
             tenon::pass<reluToGelu>("relu-to-gelu", "normalize", INFINITY))
