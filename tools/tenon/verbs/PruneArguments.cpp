// Relies on CLI11 turning what is thrown into a message of the option.

#include "tools/tenon/verbs/PruneArguments.h"

#include "runtime/tensors/Npy.h"
#include "tools/tenon/inputs/Units.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace tenon::tool {

double parseRatio(const std::string &text) {
  size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception &) {
    throw CLI::ValidationError("--ratio", fmt::format("'{}' is no share: write 30% or 0.3", text));
  }
  bool isPercent = text.substr(end) == "%";
  if ((!isPercent && end != text.size()) || !std::isfinite(value)) {
    throw CLI::ValidationError("--ratio", fmt::format("'{}' is no share: write 30% or 0.3", text));
  }
  return isPercent ? value / 100 : value;
}

double parseLatency(const std::string &text) {
  std::optional<double> milliseconds = numberWithUnit(text, kTimes);
  if (!milliseconds || *milliseconds == 0) {
    throw CLI::ValidationError("--latency",
                               fmt::format("'{}' is no time: write 3ms, 500us or 1s", text));
  }
  return *milliseconds;
}

Result<std::vector<prune::ScoreTensor>> readScores(const std::string &path) {
  AcceptArray accept = [&](const std::string &name, const NpyHeader &header) {
    return header.dtype == DType::F32
               ? Status::ok()
               : Status::error(ErrorId::BadImportance,
                               fmt::format("{}: the scores of '{}' are not float32", path, name),
                               "tenon.prune.taylor(module, data) makes such files");
  };
  TENON_ASSIGN(std::vector<Tensor> arrays, readNpz(path, accept));
  std::vector<prune::ScoreTensor> scores;
  for (const Tensor &array : arrays) {
    prune::ScoreTensor own{array.name, array.dims,
                           std::vector<float>(static_cast<size_t>(array.elements()))};
    std::memcpy(own.values.data(), array.data.data(), own.values.size() * sizeof(float));
    scores.push_back(std::move(own));
  }
  return scores;
}

} // namespace tenon::tool
