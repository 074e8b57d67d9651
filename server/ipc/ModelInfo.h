// What the front asks for when it has a model loaded, and what the worker tells of the model.

#pragma once

#include "support/DType.h"
#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// An input or output of a loaded engine.
struct ModelPort {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> minDims; ///< equal to `maxDims` where they are fixed
  std::vector<int64_t> maxDims;
  /// Dims as the engine's record has them: "batch", "2*seq", "28". Equal texts are equal dims in
  /// every run. Empty where there is no record.
  std::vector<std::string> dims;
};

struct ModelPorts {
  std::vector<ModelPort> inputs;
  std::vector<ModelPort> outputs;
};

/// An input that may be made longer, and what it is filled with.
struct PadRule {
  std::string input;
  double value = 0;
};

/// How requests are to be batched along dim 0, if the proof agrees.
struct BatchPolicy {
  enum class Kind : uint64_t {
    None,       ///< they are not
    IfRecorded, ///< if the engine's record says that dim 0 of all inputs and outputs is one symbol
    Stated,     ///< somebody said that dim 0 is the batch: the record only must not say otherwise
  };
  Kind kind = Kind::None;
  uint64_t maxRows = 0; ///< of a batch
  /// How far outputs may differ, relative to the largest value of the output; 0: what is usual for
  /// the type.
  double tolerance = 0;
  /// Somebody accepts that a client's answer may depend on what others ask: what the engine records
  /// of its rows is left aside.
  bool acceptsMeetings = false;
  std::vector<PadRule> pads; ///< inputs that may be padded along the one other dim that they share
  uint64_t memory = 0;       ///< bytes that the second look may take; 0: what is usual
};

/// How many texts a language model has room for.
struct TextRoom {
  uint64_t users = 0;  ///< that run at once; 0: nobody said
  uint64_t tokens = 0; ///< of each, prompt and answer; 0: as many as the engine gives a sequence
  uint64_t memory = 0; ///< bytes that weights and texts may take; 0: nobody knows
};

/// What is to be loaded.
struct LoadRequest {
  std::string sha256; ///< of the engine's file, which must be that; empty: any
  BatchPolicy batch;
  TextRoom texts = {};
  uint64_t draftTokens = 0; ///< that a step of a language model guesses of an answer, at most
  bool hasDraft = false;    ///< the last descriptor is the engine of a draft model
  std::string draftSha256 = {};
};

/// What the proof found.
struct BatchInfo {
  enum class State : uint64_t { None, Proven, Refused };
  State batching = State::None;
  State padding = State::None;
  uint64_t maxRows = 1;
  double difference = 0; ///< the largest that was seen, relative to the largest value of the
                         ///< output; 0: all bits are equal
  std::string reason;    ///< Refused: which output differs, and by how much
  std::string padReason;
  std::string paddedDim; ///< the symbol of the dim that padding makes longer
  /// Inputs whose numbers of this value hide padded places: a request that hides one of its own by
  /// it must not be padded.
  std::vector<PadRule> masks;
};

/// What an engine says that holds a language model.
struct LanguageInfo {
  uint64_t positions = 0; ///< tokens that a prompt and its answer have at most
  uint64_t vocabulary = 0;
  bool hasTemplate = false; ///< it takes chats
};

/// A part of a load, and what it took.
struct LoadPhase {
  std::string name;
  double seconds = 0;
};

struct ModelInfo {
  ModelPorts ports;
  BatchInfo batch;
  std::optional<LanguageInfo> language;
  /// Of memory on the model's device: the engine's file, or on a GPU, or each of a group, its
  /// weights there.
  uint64_t sharedBytes = 0;
  uint64_t bytes = 0;            ///< those and what sessions hold there
  std::vector<LoadPhase> phases; ///< of the load, in their order
};

std::string encodeLoad(const LoadRequest &request);
/// TN0902 for text that encodeLoad does not write; so do the others.
Result<LoadRequest> decodeLoad(std::string_view text);
std::string encodeModelInfo(const ModelInfo &info);
Result<ModelInfo> decodeModelInfo(std::string_view text);

} // namespace tenon::server
