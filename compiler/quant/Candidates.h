// What a search decides about: groups of layers that read through one quantizer, and the treatments
// that each of them can have. Relies on plans of one graph.
#pragma once

#include "compiler/quant/Plan.h"

#include <string>
#include <vector>

namespace tenon::quant {

/// The treatments that a search weighs, from the widest on.
inline constexpr Treatment kTreatments[] = {Treatment::Wide, Treatment::WeightsOnly,
                                            Treatment::Narrow};

struct CandidateLayer {
  std::string name, op;
  Treatment first = Treatment::Narrow; ///< what the rules say
  std::string reason;                  ///< of the rules, where that is not Narrow
};

/// Layers that are treated alike.
struct Candidate {
  std::vector<CandidateLayer> layers;
  std::vector<std::string> tensors;  ///< of the quantization groups that they read
  std::vector<Treatment> treatments; ///< the first is Wide
};

/// Treatments of all layers that can be narrow, so that they are; those in `decided` have theirs.
Overrides narrowAll(const Graph &graph, const Plan &first, const Overrides &decided);

/// Of the layers that are narrow in `all`. `first` is the plan of the rules; what the user decided
/// is in both.
std::vector<Candidate> findCandidates(const Graph &graph, const Plan &first, const Plan &all,
                                      const Overrides &decided);

} // namespace tenon::quant
