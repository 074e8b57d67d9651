// The ratio is of runs in turn, so that what disturbs the machine disturbs both; the rows are of
// the two profiles, which were measured one after the other.

#include "tools/tenon/profile/Compare.h"

#include "support/Shape.h"
#include "tools/tenon/bench/Subject.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace tenon::tool {
namespace {

constexpr size_t kMinRounds = 7;

Status runInto(Runner &runner, std::vector<double> &milliseconds) {
  BenchClock::time_point start = BenchClock::now();
  TENON_TRY(runner.run());
  milliseconds.push_back(millisecondsSince(start));
  return Status::ok();
}

std::string inputsText(const Profile &profile) {
  std::string text;
  for (const auto &[name, dims] : profile.inputs) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", name, formatDims(dims));
  }
  return text;
}

} // namespace

Status checkComparable(const Profile &first, const Profile &second) {
  return first.inputs == second.inputs
             ? Status::ok()
             : Status::error(
                   ErrorId::BadArgument,
                   fmt::format("--ab: {} expects {}, but {} expects {}", first.path,
                               inputsText(first), second.path, inputsText(second)),
                   "profile two engines of one model, with sizes that both accept by --shape");
}

Result<ProfileDifference> compareProfiles(const Profile &first, Runner &firstRunner,
                                          const Profile &second, Runner &secondRunner,
                                          double seconds) {
  std::vector<double> own, other;
  TENON_TRY(firstRunner.run());
  TENON_TRY(secondRunner.run());
  BenchClock::time_point start = BenchClock::now();
  while (own.size() < kMinRounds || millisecondsSince(start) < seconds * 1000) {
    // The one that goes first changes.
    bool isFirst = own.size() % 2 == 0;
    TENON_TRY(isFirst ? runInto(firstRunner, own) : runInto(secondRunner, other));
    TENON_TRY(isFirst ? runInto(secondRunner, other) : runInto(firstRunner, own));
  }
  ProfileDifference difference;
  difference.ratio = compareLatency(own, other);
  std::map<std::string, ProfileDifference::Row> rows;
  for (const OperatorGroup &group : first.groups) {
    rows[group.name].seconds += group.seconds;
  }
  for (const OperatorGroup &group : second.groups) {
    rows[group.name].otherSeconds += group.seconds;
  }
  for (auto &[name, row] : rows) {
    row.name = name;
    difference.rows.push_back(row);
  }
  std::ranges::sort(difference.rows, std::greater(), [](const ProfileDifference::Row &row) {
    return std::abs(row.otherSeconds - row.seconds);
  });
  return difference;
}

Json toJson(const ProfileDifference &difference, const Profile &second) {
  Json rows = Json::array();
  for (const ProfileDifference::Row &row : difference.rows) {
    rows.push_back(
        {{"name", row.name}, {"time_us", row.seconds * 1e6}, {"other_us", row.otherSeconds * 1e6}});
  }
  return {{"other", second.path},
          {"ratio_of_minima", difference.ratio.ofMinima},
          {"ratio_of_medians", difference.ratio.ofMedians},
          {"interval_95", {difference.ratio.low, difference.ratio.high}},
          {"differs", difference.ratio.differs()},
          {"operators", rows}};
}

std::string differenceText(const ProfileDifference &difference, const Profile &second, size_t top) {
  const RatioSummary &ratio = difference.ratio;
  std::string text = fmt::format("\n{} takes {:.3f} x the time (medians of alternating runs; 95 % "
                                 "between {:.3f} and {:.3f}){}\n",
                                 view::visible(second.path), ratio.ofMedians, ratio.low, ratio.high,
                                 ratio.differs() ? "" : ": no difference shown");
  for (size_t i = 0; i < std::min(top, difference.rows.size()); ++i) {
    const ProfileDifference::Row &row = difference.rows[i];
    text += fmt::format("  {:>+10.2f} us  {:>10.2f} to {:>10.2f}  {}\n",
                        (row.otherSeconds - row.seconds) * 1e6, row.seconds * 1e6,
                        row.otherSeconds * 1e6, view::visible(row.name));
  }
  return text;
}

} // namespace tenon::tool
