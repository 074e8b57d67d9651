// What is computed of sampled requests, by itself: distributions, windows, canaries, labels,
// traces. That windows say what tenon.drift says is held by test/serving/watching.py.

#include "server/monitoring/alerts/Canary.h"
#include "server/monitoring/drift/Distributions.h"
#include "server/monitoring/drift/DriftWindow.h"
#include "server/monitoring/drift/Predictions.h"
#include "server/monitoring/tracing/Tracer.h"
#include "server/protocol/TraceContext.h"
#include "support/json/Json.h"
#include "support/random/Random.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <limits>

namespace tenon::server {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Distributions, AreThoseOfSciPy) {
  EXPECT_NEAR(chi2Tail(9, 1), 0.0026997960632601883, 1e-15);
  EXPECT_NEAR(chi2Tail(2, 9), 0.9914676066288135, 1e-13);
  EXPECT_NEAR(chi2Tail(180, 99) / 1.206514044969043e-06, 1, 1e-10);
  EXPECT_NEAR(chi2Tail(chi2Quantile(0.0045, 9), 9), 0.0045, 1e-14);
  EXPECT_NEAR(kolmogorovTail(0.6), 0.8642827790506042, 1e-14);
  EXPECT_NEAR(kolmogorovTail(1.63), 0.009846364888486529, 1e-15);
  EXPECT_NEAR(kolmogorovTail(kolmogorovQuantile(1e-4)), 1e-4, 1e-12);
  // Fisher's tea: all four cups of four out of eight.
  EXPECT_NEAR(moreOftenTail(4, 4, 0, 4), 1.0 / 70, 1e-15);
  EXPECT_EQ(moreOftenTail(0, 4, 0, 4), 1);
  // One new value beside nine others is the least or the largest in 2 of 10 orders.
  EXPECT_NEAR(outsideTail(1, 1, 9), 0.2, 1e-14);
  // Of 30 rows two are equal and in the window of 10: a bound of what is so in 10/30 9/29 of cases.
  std::pair<uint64_t, uint64_t> groups[] = {{2, 1}, {28, 1}};
  EXPECT_NEAR(onlyInOneTail(2, 10, 20, groups), 90.0 / 870, 1e-6);
  EXPECT_EQ(onlyInOneTail(0, 10, 20, groups), 1);
  ShareInterval interval = wilsonInterval(8, 10);
  EXPECT_NEAR(interval.low, 0.4901625, 1e-6);
  EXPECT_NEAR(interval.high, 0.9433178, 1e-6);
  EXPECT_NEAR(wilsonInterval(0, 10).low, 0, 1e-15);
}

Tensor column(std::string name, const std::vector<double> &values, DType dtype = DType::F64) {
  Tensor tensor =
      std::move(*Tensor::create(std::move(name), dtype, {static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) {
    setElement(tensor, static_cast<int64_t>(i), values[i]);
  }
  return tensor;
}

std::vector<double> normal(Random &random, size_t rows, double shift = 0) {
  std::vector<double> values(rows);
  for (double &value : values) {
    value = shift + std::sqrt(-2 * std::log(1 - random.unit())) *
                        std::cos(6.283185307179586 * random.unit());
  }
  return values;
}

ModelPorts portsOf(DType dtype = DType::F64, std::vector<int64_t> rest = {}) {
  ModelPort port = {"x", dtype, {1}, {1 << 20}, {}};
  port.minDims.insert(port.minDims.end(), rest.begin(), rest.end());
  port.maxDims.insert(port.maxDims.end(), rest.begin(), rest.end());
  ModelPort output = port;
  output.name = "y";
  return {{port}, {output}};
}

std::vector<DriftReport> feed(DriftWindow &window, const std::vector<double> &values) {
  SampledRows rows = {values.size(), std::as_bytes(std::span(values))};
  return window.add(std::span(&rows, 1));
}

std::shared_ptr<const DriftReference> referenceOf(const std::vector<double> &values) {
  Tensor array = column("x", values);
  return std::make_shared<DriftReference>(
      std::move(*DriftReference::make(std::span(&array, 1), portsOf(), "here")));
}

/// By its definition, over all points.
double ksByDefinition(const std::vector<double> &a, const std::vector<double> &b) {
  double largest = 0;
  auto share = [](const std::vector<double> &values, double point) {
    return static_cast<double>(std::count_if(values.begin(), values.end(),
                                             [&](double each) { return each <= point; })) /
           static_cast<double>(values.size());
  };
  for (const std::vector<double> *points : {&a, &b}) {
    for (double point : *points) {
      largest = std::max(largest, std::abs(share(a, point) - share(b, point)));
    }
  }
  return largest;
}

TEST(Drift, KsFromCellsIsThatOfTheDefinition) {
  Random random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<double> reference = normal(random, 100), values = normal(random, 60, 0.3);
    for (size_t i = 0; i < values.size(); i += 2) {
      values[i] = round % 2
                      ? reference[i]
                      : std::round(values[i]); // ties with the reference, and among themselves
    }
    DriftWindow window(referenceOf(reference), values.size(), 0.01);
    std::vector<DriftReport> reports = feed(window, values);
    ASSERT_EQ(reports.size(), 1u);
    EXPECT_NEAR(*reports[0].features[0].ks, ksByDefinition(reference, values), 1e-12);
  }
}

TEST(Drift, FindsAShiftAndIsQuietWithoutOne) {
  Random random(5);
  std::shared_ptr<const DriftReference> reference = referenceOf(normal(random, 5000));
  DriftWindow window(reference, 500, 0.01);
  EXPECT_TRUE(feed(window, normal(random, 300)).empty());
  EXPECT_EQ(window.collected(), 300u);
  unsigned alarms = 0;
  std::vector<DriftReport> reports =
      feed(window, normal(random, 50'000)); // one request may fill many windows
  ASSERT_EQ(reports.size(), 100u);
  EXPECT_EQ(window.collected(), 300u);
  for (const DriftReport &report : reports) {
    alarms += report.isDrift;
  }
  EXPECT_LE(alarms, 5u);
  DriftWindow shifted(reference, 500, 0.01);
  EXPECT_TRUE(feed(shifted, normal(random, 500, 0.5))[0].isDrift);
  // Missing values, and values out of range, where nothing else shows.
  std::vector<double> holes = normal(random, 500), far = normal(random, 500);
  std::fill_n(holes.begin(), 10, kNan);
  std::fill_n(far.begin(), 4, 1e9);
  DriftReport missing = feed(shifted, holes)[0], outside = feed(shifted, far)[0];
  EXPECT_TRUE(missing.isDrift);
  EXPECT_DOUBLE_EQ(missing.features[0].missing, 0.02);
  EXPECT_TRUE(outside.isDrift);
  EXPECT_GE(*outside.features[0].outOfRange, 0.008);
}

TEST(Drift, FewValuesHaveTheirOwnBins) {
  std::vector<double> reference, same, other;
  for (int i = 0; i < 1000; ++i) {
    reference.push_back(i % 4);
    same.push_back((i + 1) % 4);
    other.push_back(i % 2);
  }
  DriftWindow window(referenceOf(reference), 1000, 0.01);
  DriftReport report = feed(window, same)[0];
  EXPECT_FALSE(report.isDrift);
  EXPECT_FALSE(report.features[0].ks);
  EXPECT_TRUE(feed(window, other)[0].isDrift);
}

TEST(Drift, FindsNewAndLostValues) {
  // Half are 0 and half are one of 19 rare values; then the rare ones become one that is new, or
  // one of them; and of 40 equal ones every other goes.
  std::vector<double> reference, same, isNew, one, forty, alike, every;
  for (int i = 0; i < 4000; ++i) {
    double rare = i % 2 ? 0 : 1 + i / 2 % 19;
    reference.push_back(rare);
    forty.push_back(i % 40);
    if (i < 1000) {
      same.push_back(rare);
      isNew.push_back(rare > 0 ? 5.5 : 0);
      one.push_back(rare > 0 ? 5 : 0);
      alike.push_back(i * 7 % 40);
      every.push_back(i % 20 * 2);
    }
  }
  DriftWindow window(referenceOf(reference), 1000, 0.01);
  EXPECT_FALSE(feed(window, same)[0].isDrift);
  DriftReport report = feed(window, isNew)[0];
  EXPECT_TRUE(report.isDrift);
  EXPECT_DOUBLE_EQ(*report.features[0].newValues, 0.5);
  EXPECT_DOUBLE_EQ(*report.features[0].lostValues, 0.5);
  EXPECT_TRUE(feed(window, one)[0].isDrift);
  DriftWindow categories(referenceOf(forty), 1000, 0.01);
  EXPECT_FALSE(feed(categories, alike)[0].isDrift);
  report = feed(categories, every)[0];
  EXPECT_TRUE(report.isDrift);
  EXPECT_DOUBLE_EQ(*report.features[0].lostValues, 0.5);
}

TEST(Drift, ReferencesOfOtherTypesAreComparedByValue) {
  std::vector<double> tenths, whole;
  for (int i = 0; i < 300; ++i) {
    tenths.push_back(i % 3 * 0.1);
    whole.push_back(i % 3);
  }
  for (auto [given, taken] : {std::pair(DType::F64, DType::F32),
                              {DType::F32, DType::F16},
                              {DType::I64, DType::I32},
                              {DType::I32, DType::I64}}) {
    const std::vector<double> &values = isFloating(given) ? tenths : whole;
    Tensor array = column("x", values, given), sent = column("x", values, taken);
    Result<DriftReference> made =
        DriftReference::make(std::span(&array, 1), portsOf(taken), "here");
    ASSERT_TRUE(made.isOk()) << made.takeStatus().toString();
    DriftWindow window(std::make_shared<DriftReference>(std::move(*made)), values.size(), 0.01);
    SampledRows rows = {values.size(), sent.bytes()};
    DriftReport report = window.add(std::span(&rows, 1))[0];
    EXPECT_FALSE(report.isDrift);
    EXPECT_DOUBLE_EQ(*report.features[0].newValues, 0);
  }
  Tensor large = column("x", std::vector<double>(50, 1e10), DType::I64);
  EXPECT_FALSE(DriftReference::make(std::span(&large, 1), portsOf(DType::I32), "here").isOk());
}

TEST(Drift, RefusesReferencesThatDoNotFit) {
  auto refuse = [](const Tensor &array, const ModelPorts &ports) {
    Result<DriftReference> made = DriftReference::make(std::span(&array, 1), ports, "r.npz");
    return made.isOk() ? Status::ok() : made.takeStatus();
  };
  std::vector<double> values(50, 1.0);
  for (const Status &status :
       {refuse(column("z", values), portsOf()), refuse(column("x", values, DType::F32), portsOf()),
        refuse(column("x", values), portsOf(DType::F64, {3})),
        refuse(column("x", std::vector<double>(5, 1.0)), portsOf()),
        refuse(column("x", {}), portsOf()),
        refuse(column("x", std::vector<double>(50, kNan)), portsOf())}) {
    EXPECT_EQ(status.id(), ErrorId::BadDriftReference) << status.toString();
  }
  EXPECT_TRUE(refuse(column("x", values), portsOf()).isOk());
}

RequestCounts counts(uint64_t ok, uint64_t failed, uint64_t slow) {
  RequestCounts made = {ok, failed, {}};
  for (size_t i = 0; i < made.upTo.size(); ++i) {
    made.upTo[i] = Histogram::kBounds[i] < 1000     ? 0
                   : Histogram::kBounds[i] < 10'000 ? ok - slow
                                                    : ok; // in 1 ms, the slow ones in 10
  }
  return made;
}

TEST(Canary, WorseIsSaidAndNothingElse) {
  RequestCounts stable = counts(1800, 2, 10);
  EXPECT_EQ(evaluateCanary(counts(200, 0, 1), stable), "");
  EXPECT_EQ(evaluateCanary(counts(197, 3, 1), counts(1770, 30, 10)), ""); // as bad as the other
  EXPECT_NE(evaluateCanary(counts(180, 20, 1), stable).find("10.00 % of its 200 requests failed"),
            std::string::npos);
  EXPECT_NE(evaluateCanary(counts(200, 0, 40), stable).find("p99"), std::string::npos);
  EXPECT_EQ(evaluateCanary(counts(100, 99, 0), stable), ""); // too few to say
  EXPECT_EQ(evaluateCanary(counts(0, 200, 0), counts(0, 1800, 0)), "");
  Random random(11);
  unsigned alarms = 0;
  for (int round = 0; round < 3000; ++round) {
    uint64_t failed[2] = {}, slow[2] = {}, rows[2] = {200, 1800};
    for (int side = 0; side < 2; ++side) {
      for (uint64_t i = 0; i < rows[side]; ++i) {
        failed[side] += random.chance(0.02);
        slow[side] += random.chance(0.01);
      }
    }
    alarms +=
        !evaluateCanary(counts(200 - failed[0], failed[0], std::min(slow[0], 200 - failed[0])),
                        counts(1800 - failed[1], failed[1], slow[1]))
             .empty();
  }
  EXPECT_LE(alarms, 3u); // 0.3 are expected at most
}

TEST(Predictions, AreBoundedByRowsAndByAge) {
  Predictions kept(10, std::chrono::seconds(60));
  std::shared_ptr<SampledAccuracy> version = std::make_shared<SampledAccuracy>(),
                                   shadow = std::make_shared<SampledAccuracy>();
  Clock::time_point now;
  for (int i = 0; i < 8; ++i) {
    kept.keep("m", std::to_string(i), version, {1, 2}, now);
  }
  EXPECT_EQ(kept.size(), 5u);
  EXPECT_EQ(kept.rowsOf("m", "2", now), 0u);
  EXPECT_EQ(kept.rowsOf("m", "3", now), 2u);
  EXPECT_EQ(kept.rowsOf("other", "3", now), 0u);
  kept.keep("m", "7", shadow, {1, 1}, now);
  const std::vector<int64_t> labels = {1, 2};
  kept.label("m", "7", labels);
  EXPECT_EQ(version->right, 2u);
  EXPECT_EQ(shadow->right, 1u);
  EXPECT_EQ(shadow->rows.size(), 2u);
  EXPECT_EQ(kept.rowsOf("m", "7", now), 0u); // counted once
  kept.keep("m", "6", version, {5}, now);    // the id again
  EXPECT_EQ(kept.rowsOf("m", "6", now), 1u);
  EXPECT_EQ(kept.rowsOf("m", "6", now + std::chrono::seconds(61)), 0u);
  EXPECT_EQ(kept.size(), 0u);
  kept.keep("m", std::string(300, 'x'), version, {5}, now);
  EXPECT_EQ(kept.size(), 0u);
}

TEST(TraceContext, IsTakenOrPassedOver) {
  const std::string good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  TraceContext context = parseTraceParent(good);
  EXPECT_TRUE(context.isGiven && context.isSampled);
  EXPECT_EQ(context.trace[0], 0x4b);
  EXPECT_EQ(context.parent[7], 0xb7);
  EXPECT_FALSE(parseTraceParent(good.substr(0, 53) + "00").isSampled);
  EXPECT_TRUE(parseTraceParent("cc" + good.substr(2) + "-more").isGiven);
  std::string upper = good;
  upper[3] = 'A';
  for (const std::string &wrong :
       {std::string(), good.substr(1), good + "-more", "cc" + good.substr(2) + "more",
        "ff" + good.substr(2), upper, good + ", " + good,
        "00-" + std::string(32, '0') + good.substr(35),
        good.substr(0, 36) + std::string(16, '0') + "-01", std::string(55, '-')}) {
    EXPECT_EQ(parseTraceParent(wrong), TraceContext()) << wrong;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] = '~';
    EXPECT_FALSE(parseTraceParent(changed).isGiven) << i;
    EXPECT_FALSE(parseTraceParent(good.substr(0, i)).isGiven) << i;
  }
}

TEST(Tracer, WritesSpansWithinTheirRequest) {
  TracedRequest request;
  request.context = parseTraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  request.model = "a \"model\"";
  request.version = "3";
  request.end = std::chrono::system_clock::time_point(std::chrono::seconds(100));
  request.total = 1000;
  request.times = {400, 100, 5000, 50}; // a compute that was told longer than it can be
  Random random(1);
  Json value = parseJson(otlpText({request, TracedRequest()}, "1.0", random));
  const Json &spans = value["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(spans.size(), 6u);
  EXPECT_EQ(spans[0]["parentSpanId"], "00f067aa0ba902b7");
  EXPECT_FALSE(spans[5].contains("parentSpanId"));
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(spans[i]["parentSpanId"], spans[0]["spanId"]);
    EXPECT_EQ(spans[i]["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_GE(std::stoull(spans[i]["startTimeUnixNano"].get<std::string>()), 99'999'999'000u);
    EXPECT_LE(std::stoull(spans[i]["endTimeUnixNano"].get<std::string>()), 100'000'000'000u);
  }
}

} // namespace
} // namespace tenon::server
