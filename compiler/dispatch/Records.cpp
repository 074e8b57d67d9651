// The decision records as JSON and back; the schema is in docs/explain.md.
// Relies on llvm/Support/JSON, which keeps the order of arrays and sorts keys.
#include "compiler/dispatch/Records.h"

#include "llvm/Support/JSON.h"

#include <algorithm>

namespace tenon::dispatch {
namespace {

/// Microseconds to two decimals, so that the text does not depend on how a sum was rounded.
double rounded(double value) { return static_cast<int64_t>(value * 100 + 0.5) / 100.0; }

llvm::json::Value toValue(const Cost &cost) {
  return llvm::json::Object{{"bytes", cost.bytes},
                            {"work", static_cast<int64_t>(cost.work)},
                            {"launches", cost.launches},
                            {"us", rounded(cost.microseconds)},
                            {"registers", cost.registers},
                            {"occupancy", cost.occupancy},
                            {"lost_us", rounded(cost.lostMicroseconds)}};
}

} // namespace

// The functions below are found by llvm::json through argument-dependent lookup.

static bool fromJSON(const llvm::json::Value &value, Cost &cost, llvm::json::Path path) {
  llvm::json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("bytes", cost.bytes) && mapper.map("work", cost.work) &&
         mapper.map("launches", cost.launches) && mapper.map("us", cost.microseconds) &&
         mapper.map("registers", cost.registers) && mapper.map("occupancy", cost.occupancy) &&
         mapper.map("lost_us", cost.lostMicroseconds);
}

static bool fromJSON(const llvm::json::Value &value, CandidateRecord &candidate,
                     llvm::json::Path path) {
  llvm::json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("kernel", candidate.kernel) &&
         mapper.map("verdict", candidate.verdict) && mapper.map("why", candidate.why) &&
         mapper.mapOptional("us", candidate.microseconds);
}

static bool fromJSON(const llvm::json::Value &value, RegionRecord &region, llvm::json::Path path) {
  llvm::json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("label", region.label) && mapper.map("target", region.target) &&
         mapper.map("strategy", region.strategy) && mapper.map("reason", region.reason) &&
         mapper.map("nodes", region.nodes) && mapper.map("operations", region.operations) &&
         mapper.map("cost", region.cost) && mapper.mapOptional("kernel", region.kernel) &&
         mapper.mapOptional("candidates", region.candidates) &&
         mapper.mapOptional("slow", region.slow);
}

static bool fromJSON(const llvm::json::Value &value, EdgeRecord &edge, llvm::json::Path path) {
  llvm::json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("producer", edge.producer) && mapper.map("consumer", edge.consumer) &&
         mapper.map("producerRegion", edge.producerRegion) &&
         mapper.map("consumerRegion", edge.consumerRegion) && mapper.map("verdict", edge.verdict) &&
         mapper.map("rule", edge.rule) && mapper.map("why", edge.why) &&
         mapper.map("decided", edge.decided) && mapper.map("apart", edge.apart) &&
         mapper.map("fused", edge.fused);
}

Cost &Cost::operator+=(const Cost &other) {
  bytes += other.bytes;
  work += other.work;
  launches += other.launches;
  microseconds += other.microseconds;
  lostMicroseconds += other.lostMicroseconds;
  registers = std::max(registers, other.registers);
  bool isLess = occupancy == 0 || (other.occupancy != 0 && other.occupancy < occupancy);
  occupancy = isLess ? other.occupancy : occupancy;
  return *this;
}

std::string Records::toJson() const {
  llvm::json::Array regionValues;
  for (const RegionRecord &region : regions) {
    llvm::json::Array candidates;
    for (const CandidateRecord &candidate : region.candidates) {
      candidates.push_back(llvm::json::Object{{"kernel", candidate.kernel},
                                              {"verdict", candidate.verdict},
                                              {"why", candidate.why},
                                              {"us", candidate.microseconds}});
    }
    regionValues.push_back(llvm::json::Object{{"label", region.label},
                                              {"target", region.target},
                                              {"strategy", region.strategy},
                                              {"reason", region.reason},
                                              {"nodes", llvm::json::Array(region.nodes)},
                                              {"operations", llvm::json::Array(region.operations)},
                                              {"cost", toValue(region.cost)},
                                              {"kernel", region.kernel},
                                              {"candidates", std::move(candidates)},
                                              {"slow", region.slow}});
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
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::json::Value(llvm::json::Object{{"schema", 1},
                                                 {"profile", profile},
                                                 {"regions", std::move(regionValues)},
                                                 {"edges", std::move(edgeValues)}});
  return text;
}

llvm::Expected<Records> Records::fromJson(llvm::StringRef text) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    return value.takeError();
  }
  Records records;
  int64_t schema = 0;
  llvm::json::Path::Root root("fusion record");
  llvm::json::ObjectMapper mapper(*value, root);
  if (!mapper || !mapper.map("schema", schema) || !mapper.map("profile", records.profile) ||
      !mapper.map("regions", records.regions) || !mapper.map("edges", records.edges)) {
    return root.getError();
  }
  if (schema != 1) {
    return llvm::createStringError("the fusion record has schema %lld, this program reads 1",
                                   static_cast<long long>(schema));
  }
  return records;
}

} // namespace tenon::dispatch
