// Relies on the model being read whole: what is missing in its file stands at the family's value.
#include "compiler/frontend/language/Describe.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace tenon::language {
namespace {

constexpr int64_t kFloatBytes = 4;

std::string_view nameOf(Activation activation) {
  switch (activation) {
  case Activation::Silu:
    return "silu";
  case Activation::Gelu:
    return "gelu";
  case Activation::GeluTanh:
    return "gelu_tanh";
  }
  return "";
}

std::string_view scalingOf(const Rotation &rotation) {
  return !rotation.longFactors.empty() ? "longrope"
         : rotation.isYarn             ? "yarn"
         : !rotation.factors.empty()   ? "factors"
         : rotation.factor != 1        ? "linear"
                                       : "none";
}

bool hasWindows(const Model &model) {
  return std::ranges::find(model.isWindowed, true) != model.isWindowed.end();
}

Json ropeOf(const Model &model) {
  // The form of the file: a folder of a family of pairs has its rows in the order of halves.
  Json rope = {{"form", model.rope == Rope::None    ? "none"
                        : model.rope == Rope::Pairs ? "pairs"
                                                    : "halves"}};
  if (model.rope == Rope::None) {
    return rope;
  }
  rope.update({{"elements", model.turned},
               {"base", model.rotation.base},
               {"scaling", scalingOf(model.rotation)},
               {"factor", model.rotation.factor},
               {"magnitude", model.rotation.magnitude}});
  if (model.rotation.originalPositions != 0) {
    rope["original_positions"] = model.rotation.originalPositions;
  }
  if (model.windowRotation && hasWindows(model)) {
    rope["window_base"] = model.windowRotation->base;
  }
  Json without = Json::array();
  int64_t every = model.family->noRopeEvery;
  for (int64_t layer = 0; every != 0 && layer < model.layers; ++layer) {
    if ((layer + 1) % every == 0) {
      without.push_back(layer);
    }
  }
  rope["layers_without"] = std::move(without);
  return rope;
}

Json windowOf(const Model &model) {
  Json layers = Json::array();
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    if (model.isWindowed[layer]) {
      layers.push_back(layer);
    }
  }
  return {{"length", layers.empty() ? 0 : model.window}, {"layers", std::move(layers)}};
}

/// Parts of the first layer that have a bias, by the names of GGUF.
Json biasesOf(const Model &model) {
  constexpr std::string_view kBegin = "blk.0.", kEnd = ".bias";
  Json biases = Json::array();
  for (const auto &[name, tensor] : model.file.tensors) {
    // Norms with a bias are LayerNorms, which `norm` says.
    bool isNorm = name.ends_with("norm.bias");
    if (name.starts_with(kBegin) && name.ends_with(kEnd) && !isNorm) {
      biases.push_back(name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size()));
    }
  }
  return biases;
}

Json switchesOf(const Model &model) {
  const Family &family = *model.family;
  return {{"width", model.width},
          {"inner", model.inner},
          {"heads", model.heads},
          {"key_heads", model.keyHeads},
          {"key_width", model.keyWidth},
          {"value_width", model.valueWidth},
          {"norm", family.hasLayerNorm ? "layer" : "rms"},
          {"epsilon", model.epsilon},
          {"normalizes_heads", family.normalizesHeads},
          {"normalizes_results", family.normalizesResults},
          {"rope", ropeOf(model)},
          {"window", windowOf(model)},
          {"score_scale", model.scoreScale},
          {"score_cap", model.scoreCap},
          {"logit_cap", model.logitCap},
          {"embedding_scale", model.embeddingScale},
          {"activation", nameOf(family.activation)},
          {"gated", family.isGated},
          {"parallel", model.isParallel},
          {"tied_output", model.tensor("output.weight") == nullptr},
          {"biases", biasesOf(model)}};
}

Json tensorsOf(const Model &model) {
  struct Sum {
    int64_t count = 0, bytes = 0;
  };
  std::map<std::string_view, Sum> sums;
  for (const auto &[name, tensor] : model.file.tensors) {
    Sum &sum = sums[tensor.type->name];
    ++sum.count;
    sum.bytes += std::ssize(tensor.bytes);
  }
  Json list = Json::array();
  for (const auto &[type, sum] : sums) {
    list.push_back({{"type", type}, {"count", sum.count}, {"bytes", sum.bytes}});
  }
  return list;
}

/// Of the cosines and sines of a position, which an engine holds as weights.
int64_t tableBytes(const Model &model) {
  int64_t tables = model.rope == Rope::None ? 0 : model.windowRotation && hasWindows(model) ? 4 : 2;
  return tables * model.turned * kFloatBytes;
}

} // namespace

Json describe(const Model &model) {
  const gguf::Value *pre = model.file.find("tokenizer.ggml.pre");
  int64_t cached = model.keyHeads * (model.keyWidth + model.valueWidth);
  return {{"switches", switchesOf(model)},
          {"tensors", tensorsOf(model)},
          {"pre_tokenizer", pre ? std::string(pre->text().value_or("")) : ""},
          {"cache_bytes", model.layers * cached * kFloatBytes},
          {"table_bytes", tableBytes(model)}};
}

} // namespace tenon::language
