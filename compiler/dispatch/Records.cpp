// The decision records as JSON; the schema is in docs/reference/explain.md.
// Relies on llvm/Support/JSON, which keeps the order of arrays and sorts keys.
#include "compiler/dispatch/Records.h"

#include "llvm/Support/JSON.h"

#include <algorithm>

namespace tenon::dispatch {
namespace {

/// Microseconds to two decimals (parts of them to four), so that the text does not depend on how a
/// sum was rounded.
double rounded(double value, double places = 1e2) {
  return static_cast<double>(static_cast<int64_t>(value * places + 0.5)) / places;
}

llvm::json::Object toValue(const Cost &cost) {
  return llvm::json::Object{{"bytes", cost.bytes},
                            {"work", static_cast<int64_t>(cost.work)},
                            {"launches", cost.launches},
                            {"us", rounded(cost.microseconds)},
                            {"registers", cost.registers},
                            {"occupancy", cost.occupancy},
                            {"lost_us", rounded(cost.lostMicroseconds)}};
}

llvm::json::Object toValue(const OtherNumbers &other) {
  return llvm::json::Object{{"in", other.name},
                            {"us", rounded(other.microseconds)},
                            {"bytes_us", rounded(other.bytesMicroseconds, 1e4)},
                            {"work_us", rounded(other.workMicroseconds, 1e4)}};
}

/// Parts to four decimals, as they are summed up again.
llvm::json::Object toValue(const TimeParts &time) {
  llvm::json::Array parts;
  for (const TimePart &part : time.parts) {
    parts.push_back(
        llvm::json::Object{{"part", part.name}, {"us", rounded(part.microseconds, 1e4)}});
  }
  return llvm::json::Object{{"parts", std::move(parts)},
                            {"blocks", time.blocks},
                            {"at_once", time.atOnce},
                            {"steps", time.steps}};
}

llvm::json::Array toValue(const std::vector<CandidateRecord> &candidates) {
  llvm::json::Array values;
  for (const CandidateRecord &candidate : candidates) {
    llvm::json::Object value{{"kernel", candidate.kernel},
                             {"verdict", candidate.verdict},
                             {"why", candidate.why},
                             {"us", rounded(candidate.microseconds)}};
    if (!candidate.order.empty()) {
      value["order"] = candidate.order;
    }
    if (!candidate.time.parts.empty()) {
      value["time"] = toValue(candidate.time);
    }
    values.push_back(std::move(value));
  }
  return values;
}

/// By level, where anything differs from what the region itself says.
llvm::json::Object levelsOf(const RegionRecord &region) {
  llvm::json::Object levels;
  llvm::json::Value other = toValue(region.other), candidates = toValue(region.candidates);
  for (const LevelRecord &level : region.levels) {
    llvm::json::Value ownOther = toValue(level.other), ownCandidates = toValue(level.candidates);
    bool isSame = rounded(level.microseconds) == rounded(region.cost.microseconds) &&
                  ownOther == other && ownCandidates == candidates;
    if (isSame) {
      continue;
    }
    llvm::json::Object value{{"us", rounded(level.microseconds)},
                             {"bytes_us", rounded(level.bytesMicroseconds, 1e4)},
                             {"work_us", rounded(level.workMicroseconds, 1e4)}};
    if (!level.other.name.empty()) {
      value["other"] = std::move(ownOther);
    }
    if (ownCandidates != candidates) {
      value["candidates"] = std::move(ownCandidates);
    }
    levels[level.level] = std::move(value);
  }
  return levels;
}

} // namespace

void TimeParts::add(const char *name, double seconds) {
  if (seconds > 0) {
    parts.push_back({name, seconds * 1e6});
  }
}

double TimeParts::microseconds() const {
  double sum = 0;
  for (const TimePart &part : parts) {
    sum += part.microseconds;
  }
  return sum;
}

Cost &Cost::operator+=(const Cost &other) {
  bytes += other.bytes;
  work += other.work;
  launches += other.launches;
  microseconds += other.microseconds;
  lostMicroseconds += other.lostMicroseconds;
  bytesMicroseconds += other.bytesMicroseconds;
  workMicroseconds += other.workMicroseconds;
  registers = std::max(registers, other.registers);
  bool isLess = occupancy == 0 || (other.occupancy != 0 && other.occupancy < occupancy);
  occupancy = isLess ? other.occupancy : occupancy;
  return *this;
}

void Records::setKernelTime(size_t region, double microseconds) {
  double change = microseconds - regions[region].cost.microseconds;
  regions[region].cost.microseconds = microseconds;
  for (EdgeRecord &edge : edges) {
    for (int64_t end : {edge.producerRegion, edge.consumerRegion}) {
      if (end == static_cast<int64_t>(region)) {
        edge.apart.microseconds += change;
        edge.fused.microseconds = std::max(edge.fused.microseconds + change, launchMicroseconds);
      }
    }
  }
}

std::string Records::toJson() const {
  llvm::json::Array regionValues;
  for (const RegionRecord &region : regions) {
    llvm::json::Object cost = toValue(region.cost);
    cost["bytes_us"] = rounded(region.cost.bytesMicroseconds, 1e4);
    cost["work_us"] = rounded(region.cost.workMicroseconds, 1e4);
    llvm::json::Object value{{"label", region.label},
                             {"target", region.target},
                             {"strategy", region.strategy},
                             {"reason", region.reason},
                             {"nodes", llvm::json::Array(region.nodes)},
                             {"operations", llvm::json::Array(region.operations)},
                             {"cost", std::move(cost)},
                             {"kernel", region.kernel},
                             {"candidates", toValue(region.candidates)},
                             {"computes", region.computes},
                             {"wide", region.wide},
                             {"converts", region.converts},
                             {"slow", region.slow}};
    if (!region.other.name.empty()) {
      value["other"] = toValue(region.other);
    }
    llvm::json::Array measured;
    for (const MeasuredTime &time : region.measured) {
      measured.push_back(llvm::json::Array{time.bytes, rounded(time.microseconds)});
    }
    if (!measured.empty()) {
      value["measured"] = std::move(measured);
    }
    if (region.freely) {
      value["freely"] = llvm::json::Object{{"kernel", region.freely->kernel},
                                           {"us", rounded(region.freely->microseconds)}};
    }
    if (llvm::json::Object levels = levelsOf(region); !levels.empty()) {
      value["levels"] = std::move(levels);
    }
    regionValues.push_back(std::move(value));
  }
  llvm::json::Array edgeValues;
  for (const EdgeRecord &edge : edges) {
    edgeValues.push_back(llvm::json::Object{{"producer", edge.producer},
                                            {"consumer", edge.consumer},
                                            {"producerRegion", edge.producerRegion},
                                            {"consumerRegion", edge.consumerRegion},
                                            {"verdict", edge.verdict},
                                            {"rule", edge.rule},
                                            {"why", edge.why},
                                            {"decided", edge.decided},
                                            {"apart", toValue(edge.apart)},
                                            {"fused", toValue(edge.fused)}});
  }
  llvm::json::Array sizeValues;
  for (const auto &[name, size] : sizes) {
    sizeValues.push_back(llvm::json::Object{{"name", llvm::json::fixUTF8(name)}, {"size", size}});
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::json::Value(llvm::json::Object{{"schema", 1},
                                                 {"profile", profile},
                                                 {"launch_us", launchMicroseconds},
                                                 {"sizes", std::move(sizeValues)},
                                                 {"regions", std::move(regionValues)},
                                                 {"edges", std::move(edgeValues)}});
  return text;
}

} // namespace tenon::dispatch
