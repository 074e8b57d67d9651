// One random model through the compiler and the runtime, against the reference interpreter on the
// unoptimized import with the drawn sizes as constants.
#pragma once

#include "compiler/target/Target.h"
#include "engine/Level.h"
#include "test/random/Sketch.h"

#include <string>
#include <vector>

namespace tenon::random {

struct OracleOptions {
  std::vector<engine::CpuLevel> levels; ///< that this machine runs
  std::vector<target::Target> gpus;
  std::string scratchFolder; ///< for models and engines, in memory
  std::string dumpFolder;    ///< gets the models that differ; empty for none
  bool dumpsAll = false;     ///< also those that do not differ
  std::string fault;         ///< the planted fault to compile with; empty for none
};

enum class Verdict : uint8_t {
  Same,
  Refused,   ///< the compiler lacks something for it, and says so
  Untouched, ///< the planted fault does not apply
  Different,
};

struct Outcome {
  Verdict verdict = Verdict::Same;
  std::string text; ///< one line: what differs, or why it is refused
};

/// Writes a model, the inputs of its seed and what differs into a folder named by the seed.
void dumpModel(const Model &model, uint64_t seed, const std::string &text,
               const std::string &folder);

/// The model of this seed; the seed also decides level, threads and options.
Outcome checkModel(const Model &model, uint64_t seed, const OracleOptions &options);

/// What another runtime gave for the dumped inputs of this seed (`peer.npz`, an array for each
/// output) against the reference. Refused where it gave nothing.
Outcome checkPeer(const Model &model, uint64_t seed, const std::string &folder);

} // namespace tenon::random
