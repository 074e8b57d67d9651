// Layers are joined through the tensors that they read: one scale serves all readers, and a layer
// of two computed operands joins the readers of both.
#include "compiler/quant/Candidates.h"

#include <algorithm>
#include <numeric>

namespace tenon::quant {
namespace {

using std::string_view;

/// Sets of layers, joined through the quantization groups that they read.
class Sets {
public:
  explicit Sets(size_t count) : parents(count) { std::iota(parents.begin(), parents.end(), 0); }
  size_t find(size_t element) const {
    while (parents[element] != element) {
      element = parents[element];
    }
    return element;
  }
  /// The lower one stays the set's name.
  void join(size_t a, size_t b) {
    size_t first = find(a), second = find(b);
    parents[std::max(first, second)] = std::min(first, second);
  }

private:
  std::vector<size_t> parents;
};

size_t operandsOf(const Layer &layer) { return layer.weight ? 1 : 2; }

} // namespace

Overrides narrowAll(const Graph &graph, const Plan &first, const Overrides &decided) {
  Overrides all = decided;
  for (const Layer &layer : first.layers) {
    all.emplace(nameOf(graph.node(layer.node)), std::pair(Treatment::Narrow, std::string()));
  }
  return all;
}

std::vector<Candidate> findCandidates(const Graph &graph, const Plan &first, const Plan &all,
                                      const Overrides &decided) {
  Sets sets(all.layers.size());
  std::map<size_t, size_t> readers; // of a quantization group the first layer
  for (size_t i = 0; i < all.layers.size(); ++i) {
    const Layer &layer = all.layers[i];
    for (size_t operand = 0; layer.treatment == Treatment::Narrow && operand < operandsOf(layer);
         ++operand) {
      size_t group = all.groupOf.at(graph.node(layer.node).inputs[operand]);
      sets.join(readers.emplace(group, i).first->second, i);
    }
  }
  std::vector<Candidate> candidates;
  std::map<size_t, size_t> places; // of a set its candidate
  for (size_t i = 0; i < all.layers.size(); ++i) {
    const Layer &layer = all.layers[i], &before = first.layers[i];
    string_view name = nameOf(graph.node(layer.node));
    if (layer.treatment != Treatment::Narrow || decided.contains(name)) {
      continue;
    }
    auto [place, isNew] = places.emplace(sets.find(i), candidates.size());
    if (isNew) {
      candidates.emplace_back();
      candidates.back().treatments = {Treatment::Wide, Treatment::Narrow};
    }
    Candidate &candidate = candidates[place->second];
    candidate.layers.push_back({std::string(name), std::string(graph.node(layer.node).opType),
                                before.treatment, before.reason});
    if (before.treatment == Treatment::WeightsOnly && candidate.treatments.size() == 2) {
      candidate.treatments.insert(candidate.treatments.begin() + 1, Treatment::WeightsOnly);
    }
    for (size_t operand = 0; operand < operandsOf(layer); ++operand) {
      size_t group = all.groupOf.at(graph.node(layer.node).inputs[operand]);
      for (string_view tensor : all.groups[group].tensors) {
        if (std::find(candidate.tensors.begin(), candidate.tensors.end(), tensor) ==
            candidate.tensors.end()) {
          candidate.tensors.emplace_back(tensor);
        }
      }
    }
  }
  return candidates;
}

} // namespace tenon::quant
