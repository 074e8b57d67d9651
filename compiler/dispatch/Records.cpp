// The decision records as JSON and back; the schema is in docs/explain.md.
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

} // namespace

// The functions below are found by llvm::json through argument-dependent lookup.

static bool fromJSON(const llvm::json::Value &value, Cost &cost, llvm::json::Path path) {
  llvm::json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("bytes", cost.bytes) && mapper.map("work", cost.work) &&
         mapper.map("launches", cost.launches) && mapper.map("us", cost.microseconds) &&
         mapper.map("registers", cost.registers) && mapper.map("occupancy", cost.occupancy) &&
         mapper.map("lost_us", cost.lostMicroseconds) &&
         mapper.mapOptional("bytes_us", cost.bytesMicroseconds) &&
         mapper.mapOptional("work_us", cost.workMicroseconds);
}

namespace {
struct Size {
  std::string name;
  int64_t value = 0;
};

bool fromJSON(const llvm::json::Value &value, Size &size, llvm::json::Path path) {
  llvm::json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("name", size.name) && mapper.map("size", size.value);
}
} // namespace

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
    llvm::json::Array candidates;
    for (const CandidateRecord &candidate : region.candidates) {
      candidates.push_back(llvm::json::Object{{"kernel", candidate.kernel},
                                              {"verdict", candidate.verdict},
                                              {"why", candidate.why},
                                              {"us", rounded(candidate.microseconds)}});
    }
    llvm::json::Object cost = toValue(region.cost);
    cost["bytes_us"] = rounded(region.cost.bytesMicroseconds, 1e4);
    cost["work_us"] = rounded(region.cost.workMicroseconds, 1e4);
    regionValues.push_back(llvm::json::Object{{"label", region.label},
                                              {"target", region.target},
                                              {"strategy", region.strategy},
                                              {"reason", region.reason},
                                              {"nodes", llvm::json::Array(region.nodes)},
                                              {"operations", llvm::json::Array(region.operations)},
                                              {"cost", std::move(cost)},
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

llvm::Expected<Records> Records::fromJson(llvm::StringRef text) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    return value.takeError();
  }
  Records records;
  int64_t schema = 0;
  std::vector<Size> sizes;
  llvm::json::Path::Root root("fusion record");
  llvm::json::ObjectMapper mapper(*value, root);
  if (!mapper || !mapper.map("schema", schema) || !mapper.map("profile", records.profile) ||
      !mapper.mapOptional("launch_us", records.launchMicroseconds) ||
      !mapper.mapOptional("sizes", sizes) || !mapper.map("regions", records.regions) ||
      !mapper.map("edges", records.edges)) {
    return root.getError();
  }
  for (Size &size : sizes) {
    records.sizes.emplace_back(std::move(size.name), size.value);
  }
  if (schema != 1) {
    return llvm::createStringError("the fusion record has schema %lld, this program reads 1",
                                   static_cast<long long>(schema));
  }
  return records;
}

} // namespace tenon::dispatch
