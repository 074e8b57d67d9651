#include "registry/Gate.h"

#include "registry/History.h"
#include "support/text/Printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tenon::registry {
namespace {

constexpr std::string_view kDataPin = "data = ", kHashMark = " sha256:";
constexpr size_t kHashDigits = 64;
constexpr double kLonger = 2; ///< how much longer a second look must take

Status badTerm(std::string_view text, std::string_view why, std::string_view hint) {
  return Status::error(ErrorId::BadGateRule,
                       fmt::format("'{}': {}", withoutControls(text.substr(0, 200)), why), hint);
}

template <typename Number>
Status parseNumber(std::string_view text, std::string_view digits, Number least, Number &number) {
  std::from_chars_result parsed =
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
  bool isWhole = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
  return isWhole && number >= least && number <= Number(1'000'000)
             ? Status::ok()
             : badTerm(text, "the number is not valid", "for example 'seconds >= 10'");
}

/// Fills the pin that the text is; false where it is a rule.
Result<bool> parsePin(const std::string &text, Terms &terms) {
  auto after = [&](std::string_view start) {
    return text.starts_with(start) ? std::string_view(text).substr(start.size())
                                   : std::string_view();
  };
  if (std::string_view data = after(kDataPin); !data.empty()) {
    size_t mark = data.rfind(kHashMark);
    std::string_view hash = mark == data.npos ? "" : data.substr(mark + kHashMark.size());
    if (hash.size() != kHashDigits || mark == 0) {
      return badTerm(text, "it pins data without a SHA-256",
                     "`tenon registry gate NAME@ALIAS --data registry:REF` writes one");
    }
    terms.data = data.substr(0, mark);
    terms.dataHash = hash;
  } else if (std::string_view seconds = after("seconds >= "); !seconds.empty()) {
    TENON_TRY(parseNumber(text, seconds, 0.0, terms.seconds));
  } else if (std::string_view count = after("repetitions >= "); !count.empty()) {
    TENON_TRY(parseNumber(text, count, int64_t(1), terms.repetitions));
  } else if (std::string_view machine = after("machine = "); !machine.empty()) {
    terms.machine = machine;
  } else if (std::string_view keys = after("signature = "); !keys.empty()) {
    TENON_ASSIGN(signing::Trust signer, signing::Trust::ofLine(keys));
    terms.signers.push_back(std::move(signer));
  } else {
    return false;
  }
  return true;
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

double numberOf(const Json &value) {
  return value.is_number() ? value.get<double>() : std::nan("");
}

/// As figuresOf wrote it; none where there was nothing to compare with.
std::optional<Measured> measuredOf(const Json &row) {
  Json interval = row.value("interval_95", Json());
  if (!interval.is_array() || interval.size() != 2) {
    return std::nullopt;
  }
  return Measured{numberOf(row.value("value", Json())), numberOf(interval[0]),
                  numberOf(interval[1]), ""};
}

Status forged(std::string_view what) {
  return Status::error(ErrorId::HistoryAltered, what, "gate the version again");
}

} // namespace

std::string numberText(int64_t version) {
  return version ? fmt::format("version {}", version) : "no version";
}

std::string reasonsOf(const Json &figures, GateOutcome outcome) {
  std::vector<std::string> reasons;
  for (const Json &row : figures) {
    if (row.value("verdict", "") == nameOf(outcome)) {
      reasons.push_back(fmt::format("'{}': {}", row.value("rule", ""), row.value("reason", "")));
    }
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

bool Terms::needsData() const {
  return std::ranges::any_of(rules, [](const Rule &rule) {
    return rule.family == MetricFamily::Share || rule.family == MetricFamily::Number ||
           rule.metric == "memory";
  });
}

bool Terms::asksChampion() const {
  return std::ranges::any_of(rules,
                             [](const Rule &rule) { return rule.baseline == Baseline::Champion; });
}

bool Terms::asksToLoad() const {
  return std::ranges::any_of(rules,
                             [](const Rule &rule) { return rule.family == MetricFamily::Loads; });
}

Result<Terms> parseTerms(std::span<const std::string> texts) {
  Terms terms;
  for (const std::string &text : texts) {
    TENON_ASSIGN(bool isPin, parsePin(text, terms));
    if (isPin) {
      terms.texts.push_back(text);
      continue;
    }
    TENON_ASSIGN(Rule rule, parseRule(text));
    terms.texts.push_back(rule.text);
    terms.rules.push_back(std::move(rule));
  }
  if (terms.rules.empty() && terms.texts.size() > terms.signers.size()) {
    return badTerm(terms.texts.back(), "it pins something that no rule measures", "add a --rule");
  }
  if (terms.asksToLoad() && terms.machine.empty()) {
    return badTerm("loads", "it does not say on which machine", "--machine this, or the server's");
  }
  return terms;
}

bool areSame(const Terms &has, const Terms &wanted) {
  auto withoutData = [](const Terms &terms) {
    std::vector<std::string> texts = terms.texts;
    std::erase_if(texts, [](const std::string &text) { return text.starts_with(kDataPin); });
    return texts;
  };
  return withoutData(has) == withoutData(wanted) &&
         (wanted.dataHash.empty() || has.dataHash == wanted.dataHash);
}

std::string dataPin(std::string_view name, std::string_view hash) {
  return fmt::format("{}{}{}{}", kDataPin, withoutControls(name), kHashMark, hash);
}

Json figuresOf(std::span<const RuleResult> results) {
  Json rows = Json::array();
  for (const RuleResult &each : results) {
    Json row = {{"rule", each.rule.text},   {"verdict", nameOf(each.outcome)},
                {"value", Json()},          {"interval_95", Json()},
                {"limit", each.rule.limit}, {"reason", each.reason}};
    if (each.measured) {
      row["value"] = finite(each.measured->value);
      row["interval_95"] = {finite(each.measured->low), finite(each.measured->high)};
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json detailOf(const GateResult &result) {
  const Conditions &conditions = result.conditions;
  return {{"champion", result.champion},
          {"verdict", nameOf(result.outcome)},
          {"figures", result.figures},
          {"conditions",
           {{"data", conditions.data},
            {"sha256", conditions.dataHash},
            {"seconds", conditions.seconds},
            {"machine", conditions.machine},
            {"tenon", conditions.compiler}}}};
}

GateResult resultOf(const Event &event) {
  GateResult result;
  result.version = event.version;
  result.alias = event.alias;
  result.champion = event.detail.value("champion", int64_t(0));
  std::string verdict = event.detail.value("verdict", "");
  result.outcome = verdict == nameOf(GateOutcome::Passed)    ? GateOutcome::Passed
                   : verdict == nameOf(GateOutcome::Refused) ? GateOutcome::Refused
                                                             : GateOutcome::Undecided;
  result.figures = event.detail.value("figures", Json::array());
  Json conditions = event.detail.value("conditions", Json::object());
  result.conditions = {conditions.value("data", ""), conditions.value("sha256", ""),
                       conditions.value("seconds", 0.0), conditions.value("machine", ""),
                       conditions.value("tenon", "")};
  return result;
}

Status checkConditions(const Terms &terms, const Conditions &has) {
  if (terms.needsData() && has.dataHash.empty()) {
    return Status::error(
        ErrorId::BadGateRule,
        "the rules need accuracy or memory, which are measured on data, but no data is given",
        "--data FILE, or --data registry:NAME:VERSION");
  }
  if (terms.needsData() && !terms.dataHash.empty() && has.dataHash != terms.dataHash) {
    return Status::error(
        ErrorId::BadGateRule,
        fmt::format("the gate measures on {} (sha256 {}), but this data is different (sha256 {})",
                    terms.data, terms.dataHash.substr(0, 12), has.dataHash.substr(0, 12)),
        "`tenon registry gate NAME@ALIAS --rule ... --data ...` sets a gate with other data");
  }
  if (has.seconds < terms.seconds) {
    return Status::error(
        ErrorId::BadGateRule,
        fmt::format("the gate measures for at least {} s, not {} s", terms.seconds, has.seconds),
        "leave out --seconds, or give more");
  }
  if (!terms.machine.empty() && terms.machine != has.machine) {
    return Status::error(ErrorId::BadGateRule,
                         fmt::format("the gate measures on '{}', but this machine is '{}'",
                                     terms.machine, has.machine),
                         "run the gate on such a machine");
  }
  return Status::ok();
}

Status checkResult(const Terms &terms, const GateResult &result) {
  if (terms.needsData() && terms.dataHash.empty()) {
    return forged("the rules need pinned data, but the gate measured on other data");
  }
  TENON_TRY(checkConditions(terms, result.conditions));
  std::vector<RuleResult> results;
  for (const Rule &rule : terms.rules) {
    size_t index = results.size();
    Json row = index < result.figures.size() ? result.figures[index] : Json::object();
    results.push_back(decide(rule, measuredOf(row)));
    bool isSame = row.value("rule", "") == rule.text &&
                  row.value("verdict", "") == nameOf(results.back().outcome) &&
                  (results.back().measured || rule.baseline != Baseline::None);
    if (!isSame) {
      return forged(
          fmt::format("the verdict of rule '{}' does not follow from its measurements", rule.text));
    }
  }
  return results.size() == result.figures.size() && outcomeOf(results) == result.outcome
             ? Status::ok()
             : forged("the gate's verdict does not follow from its rules");
}

Status standing(const Terms &terms, std::span<const GateResult> results, int64_t champion,
                std::string_view name) {
  std::vector<const GateResult *> passed, undecided;
  const GateResult *beside = nullptr; // the last that was compared with another champion
  double longest = 0;
  for (const GateResult &result : results) {
    if (terms.asksChampion() && result.champion != champion) {
      beside = &result;
      continue;
    }
    if (result.outcome == GateOutcome::Refused) {
      return Status::error(ErrorId::GateRefused,
                           fmt::format("the gate of '{}' refused {}", name,
                                       reasonsOf(result.figures, GateOutcome::Refused)),
                           "promote a version that meets the rules, or change the rules; the "
                           "history records the change");
    }
    bool hasPassed = result.outcome == GateOutcome::Passed;
    (hasPassed ? passed : undecided).push_back(&result);
    longest = hasPassed ? longest : std::max(longest, result.conditions.seconds);
  }
  if (passed.empty() && undecided.empty()) {
    return beside ? Status::error(
                        ErrorId::AliasMoved,
                        fmt::format("the version was compared with {}, but '{}' is now at {}",
                                    numberText(beside->champion), name, numberText(champion)),
                        "run the gate again")
                  : Status::error(
                        ErrorId::GateRefused,
                        fmt::format(
                            "'{}' has rules, but the version has not been measured against them",
                            name),
                        "run `tenon registry gate REF ALIAS`");
  }
  int64_t count = std::ranges::count_if(passed, [&](const GateResult *each) {
    return undecided.empty() || each->conditions.seconds >= kLonger * longest;
  });
  if (count >= terms.repetitions) {
    return Status::ok();
  }
  if (undecided.empty() || count > 0) {
    return Status::error(ErrorId::GateUndecided,
                         fmt::format("the gate of '{}' needs {} passing results, but there are {}",
                                     name, terms.repetitions, count),
                         "run the gate again");
  }
  return Status::error(
      ErrorId::GateUndecided,
      fmt::format("the gate of '{}' could not decide: {}", name,
                  reasonsOf(undecided.back()->figures, GateOutcome::Undecided)),
      fmt::format("for a speed rule, run the gate again with --seconds {:.3g} or more; for a rule "
                  "on data, only more data decides, and that is another gate",
                  kLonger * longest));
}

} // namespace tenon::registry
