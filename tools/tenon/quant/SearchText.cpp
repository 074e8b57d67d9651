// Implements the texts. Errors are said as relative ones, the roots of those that add up.

#include "tools/tenon/quant/SearchText.h"

#include "tools/tenon/accuracy/Report.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

using quant::Treatment;

bool isShare(const Searched &searched) {
  return searched.metric.starts_with("top") || searched.metric == "f1";
}

std::string errorText(const MeasuredTreatment &treatment) {
  return fmt::format("{:.2g} %", std::sqrt(*treatment.error) * 100);
}

std::string microseconds(double milliseconds) {
  return fmt::format("{:.1f} us", milliseconds * 1000);
}

size_t narrowLayers(const Searched &searched, const std::string &letters) {
  size_t count = 0;
  for (size_t i = 0; i < letters.size(); ++i) {
    count += letters[i] == 'n' ? searched.candidates[i].candidate.layers.size() : 0;
  }
  return count;
}

size_t allLayers(const Searched &searched) {
  size_t count = 0;
  for (const SearchedCandidate &own : searched.candidates) {
    count += own.candidate.layers.size();
  }
  return count;
}

/// The candidate that loses most when it alone is narrow; null where that was not measured of any.
const SearchedCandidate *worstOf(const Searched &searched) {
  const SearchedCandidate *worst = nullptr;
  for (const SearchedCandidate &own : searched.candidates) {
    bool isMeasured = !own.treatments.empty() && !own.isEstimated.back();
    if (isMeasured && (!worst || *own.treatments.back().error > *worst->treatments.back().error)) {
      worst = &own;
    }
  }
  return worst;
}

std::string namesOf(const quant::Candidate &candidate) {
  std::string names = fmt::format("'{}'", view::visible(candidate.layers.front().name));
  return candidate.layers.size() == 1
             ? names
             : names + fmt::format(" and {} more", candidate.layers.size() - 1);
}

/// Of the tensors that a candidate reads the one with the fewest levels for most values.
std::string tensorText(const Searched &searched, const quant::Candidate &candidate) {
  const quant::TensorInfo *poorest = nullptr;
  for (const quant::TensorInfo &tensor : searched.narrow.tensors) {
    bool isRead = std::ranges::any_of(candidate.layers, [&](const quant::CandidateLayer &layer) {
      return std::ranges::count(tensor.readers, layer.name) > 0;
    });
    poorest = isRead && (!poorest || tensor.decibels < poorest->decibels) ? &tensor : poorest;
  }
  return !poorest ? ""
                  : fmt::format("; of '{}', which it reads, 95 % of the values share {:.1f} of 256 "
                                "levels ({:.1f} dB)",
                                view::visible(poorest->name), poorest->levels, poorest->decibels);
}

std::string worstText(const Searched &searched) {
  const SearchedCandidate *worst = worstOf(searched);
  if (!worst) {
    return "";
  }
  std::vector<double> errors;
  for (const SearchedCandidate &own : searched.candidates) {
    if (!own.isEstimated.back()) {
      errors.push_back(*own.treatments.back().error);
    }
  }
  std::ranges::sort(errors);
  std::string kept = !searched.info                                  ? ""
                     : worst->chosen == worst->treatments.size() - 1 ? "; it is int8 nevertheless"
                                                                     : "; it stays in FP32";
  return fmt::format("{} loses most: int8 there alone changes the outputs by {}, and half of the "
                     "others by less than {:.2g} %{}{}\n",
                     namesOf(worst->candidate), errorText(worst->treatments.back()),
                     std::sqrt(errors[errors.size() / 2]) * 100,
                     tensorText(searched, worst->candidate), kept);
}

std::string dropText(const Searched &searched, double drop) {
  return !std::isfinite(drop) ? "not finite"
         : isShare(searched)  ? fmt::format("{:+.2f}", 0 - drop * 100)
                              : fmt::format("{:+.3g} %", 0 - drop * 100);
}

Json candidateJson(const SearchedCandidate &own) {
  Json layers = Json::array(), treatments = Json::array();
  for (const quant::CandidateLayer &layer : own.candidate.layers) {
    layers.push_back({{"name", layer.name},
                      {"op", layer.op},
                      {"first_guess", quant::nameOf(layer.first)},
                      {"first_reason", layer.reason}});
  }
  for (size_t t = 0; t < own.treatments.size(); ++t) {
    treatments.push_back({{"treatment", quant::nameOf(own.candidate.treatments[t])},
                          {"us", own.treatments[t].milliseconds * 1000},
                          {"error", finiteOrNull(std::sqrt(own.treatments[t].error.value_or(0)))},
                          {"estimated", bool(own.isEstimated[t])}});
  }
  return {{"layers", layers},
          {"tensors", own.candidate.tensors},
          {"treatments", treatments},
          {"chosen", quant::nameOf(own.candidate.treatments[own.chosen])}};
}

Json formJson(const Searched &searched, const SearchedForm &form) {
  const MeasuredForm &measured = form.measured;
  return {{"treatments", form.letters},
          {"value", finiteOrNull(measured.value)},
          {"drop", finiteOrNull(measured.drop)},
          {"drop_interval_95", measured.interval ? Json({finiteOrNull(measured.interval->low),
                                                         finiteOrNull(measured.interval->high)})
                                                 : Json()},
          {"latency_ms", measured.milliseconds},
          {"latency_ratio", measured.ratio},
          {"latency_ratio_interval_95", {measured.low, measured.high}},
          {"int8_layers", narrowLayers(searched, form.letters)},
          {"fits", form.fits},
          {"chosen", form.isChosen}};
}

} // namespace

std::string ruleOf(const SearchedCandidate &own) {
  const MeasuredTreatment &wide = own.treatments.front(), &narrow = own.treatments.back();
  const quant::CandidateLayer &layer = own.candidate.layers.front();
  std::string what = fmt::format("search: int8 {}, wide {}; error of int8 alone {}{}",
                                 microseconds(narrow.milliseconds), microseconds(wide.milliseconds),
                                 errorText(narrow), own.isEstimated.back() ? " (estimated)" : "");
  Treatment chosen = own.candidate.treatments[own.chosen];
  return chosen != layer.first && chosen == Treatment::Narrow
             ? what + fmt::format("; against '{}'", layer.reason)
             : what;
}

Status refusalOf(const Searched &searched, const SearchRequest &request,
                 const Evaluator &evaluator) {
  std::string asked;
  if (request.drop) {
    asked = fmt::format("a drop of {}", evaluator.describeDrop(*request.drop));
  }
  if (request.milliseconds) {
    asked += fmt::format("{}{:g} ms", asked.empty() ? "" : " and ", *request.milliseconds);
  }
  auto fastest = std::ranges::min_element(searched.forms, {}, [&](const SearchedForm &form) {
    bool isLoss = request.drop && form.measured.drop > *request.drop;
    return std::pair(isLoss, form.measured.milliseconds);
  });
  return Status::error(
      ErrorId::SearchFoundNone,
      fmt::format("none of the {} measured candidates meets {}: the nearest takes {:.3f} ms at a "
                  "drop of {}",
                  searched.forms.size(), asked, fastest->measured.milliseconds,
                  evaluator.describeDrop(fastest->measured.drop)),
      searched.isOutOfTime
          ? "give a longer --budget, and the search continues where it stopped; or relax the limits"
          : "relax the limits, or give more samples");
}

std::string searchText(const Searched &searched) {
  std::string text = worstText(searched);
  text += fmt::format("search: {} candidates of {} layers, errors on {} samples, {} forms measured "
                      "on {} samples of {} in "
                      "{:.0f} s; {} of the model itself {}{}\n",
                      searched.candidates.size(), allLayers(searched), searched.errorSamples,
                      searched.forms.size(), searched.testSamples, view::visible(searched.testData),
                      searched.seconds, searched.metric,
                      isShare(searched) ? fmt::format("{:.2f} %", searched.baseline * 100)
                                        : fmt::format("{:.5g}", searched.baseline),
                      searched.isOutOfTime ? "; it ended at the budget" : "");
  text += fmt::format("  {:>11}  {:>20}  {:>10}  {:>7}  {}\n", searched.metric, "95 % interval",
                      "latency", "x model", "int8 layers");
  double least = INFINITY; // the front: what no faster form is as good as
  std::vector<std::string> rows;
  for (auto form = searched.forms.rbegin(); form != searched.forms.rend(); ++form) {
    const MeasuredForm &measured = form->measured;
    if (measured.drop >= least && !form->isChosen) {
      continue;
    }
    least = std::min(least, measured.drop);
    std::string interval;
    if (measured.interval) {
      interval = fmt::format("{} .. {}", dropText(searched, measured.interval->high),
                             dropText(searched, measured.interval->low));
    }
    rows.push_back(fmt::format("{} {:>11}  {:>20}  {:>7.3f} ms  {:>7.2f}  {} of {}{}\n",
                               form->isChosen ? '*' : ' ', dropText(searched, measured.drop),
                               interval, measured.milliseconds, measured.ratio,
                               narrowLayers(searched, form->letters), allLayers(searched),
                               form->fits ? "" : "  not as asked"));
  }
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    text += *row;
  }
  return text;
}

Json searchJson(const Searched &searched) {
  Json candidates = Json::array(), forms = Json::array();
  for (const SearchedCandidate &own : searched.candidates) {
    candidates.push_back(candidateJson(own));
  }
  for (const SearchedForm &form : searched.forms) {
    forms.push_back(formJson(searched, form));
  }
  const SearchedCandidate *worst = worstOf(searched);
  return {{"metric", searched.metric},
          {"model_value", searched.baseline},
          {"model_latency_ms", searched.modelMilliseconds},
          {"level", searched.level},
          {"threads", searched.threads},
          {"test", searched.testData},
          {"test_samples", searched.testSamples},
          {"error_samples", searched.errorSamples},
          {"seconds", searched.seconds},
          {"out_of_time", searched.isOutOfTime},
          {"worst", worst ? Json(worst->candidate.layers.front().name) : Json()},
          {"candidates", candidates},
          {"forms", forms},
          {"warnings", searched.warnings}};
}

} // namespace tenon::tool
