// What stands before a promotion: the terms of an alias, which are rules and what they are measured
// on and with; results by these terms; and what all results of a version together say. Pure
// functions: a promotion is decided and later verified by the same ones.

#pragma once

#include "registry/Rule.h"
#include "registry/signing/Trust.h"
#include "support/Result.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::registry {

struct Event;

/// What a result was measured on and with.
struct Conditions {
  std::string data;     ///< as it was named: "registry:NAME:VERSION" or a file; empty: none
  std::string dataHash; ///< SHA-256 of its bytes
  double seconds = 0;   ///< that each pair was timed
  std::string machine;  ///< the models of its processor and accelerator
  std::string compiler; ///< the version of Tenon
};

/// What an alias asks of a version. The texts are rules ('top1 >= 85%'), pins:
/// 'data = NAME sha256:HASH', 'seconds >= 10', 'repetitions >= 3', 'machine = TEXT',
/// and keys: 'signature = key FINGERPRINT BASE64' (signing::lineOfKeys).
struct Terms {
  std::vector<Rule> rules;
  std::string data, dataHash;          ///< empty where no data are pinned
  double seconds = 0;                  ///< at least
  int64_t repetitions = 1;             ///< so many results must have passed
  std::string machine;                 ///< empty: any
  std::vector<signing::Trust> signers; ///< each of which must have signed
  std::vector<std::string> texts;

  bool needsData() const;
  bool asksChampion() const;
  bool asksToLoad() const;
};

/// TN1009.
Result<Terms> parseTerms(std::span<const std::string> texts);
/// Whether an alias that has the ones is asked for nothing else by the others, which may leave the
/// data open.
bool areSame(const Terms &has, const Terms &wanted);
/// "version 3", or "no version".
std::string numberText(int64_t version);

/// The text that pins data.
std::string dataPin(std::string_view name, std::string_view hash);

/// What a gate found of a version for an alias.
struct GateResult {
  int64_t version = 0;
  std::string alias;
  int64_t champion = 0; ///< 0: there was none
  GateOutcome outcome = GateOutcome::Undecided;
  std::vector<std::string> terms; ///< that were asked
  Conditions conditions;
  Json figures; ///< a row for each rule, as `figuresOf` makes them
};

/// [{"rule", "verdict", "value", "interval_95", "limit", "reason"}, ...].
Json figuresOf(std::span<const RuleResult> results);
/// "'rule': reason; ..." of the rows that have the outcome.
std::string reasonsOf(const Json &figures, GateOutcome outcome);
/// The detail of a gate's event, and back.
Json detailOf(const GateResult &result);
GateResult resultOf(const Event &event);

/// TN1009 unless they are what the terms pin.
Status checkConditions(const Terms &terms, const Conditions &has);
/// The same of a result whose data are pinned; TN1011 unless its verdicts follow from its figures.
Status checkResult(const Terms &terms, const GateResult &result);

/// Whether a version may be promoted from `champion`, by all results that it has under the terms,
/// the oldest first: TN1006, TN1007, TN1008. A refusal stands until the terms are set anew, and a
/// result that passed outweighs an undecided one only where it was timed twice as long, so that
/// measuring again until it happens to pass gives nothing.
Status standing(const Terms &terms, std::span<const GateResult> results, int64_t champion,
                std::string_view name);

} // namespace tenon::registry
