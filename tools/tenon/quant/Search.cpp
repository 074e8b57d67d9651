// Implements the steps. Each measurement goes into the state at once, so that a killed search loses
// one.

#include "tools/tenon/quant/Search.h"

#include "compiler/quant/FormSearch.h"
#include "support/Hash.h"
#include "support/files/MappedFile.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/quant/CandidateCosts.h"
#include "tools/tenon/quant/Evaluator.h"
#include "tools/tenon/quant/SearchRecord.h"
#include "tools/tenon/quant/SearchText.h"
#include "tools/tenon/target/CpuInfo.h"
#include "tools/tenon/task/TaskListener.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <tuple>

namespace tenon::tool {
namespace {

using quant::Treatment;

/// Parts of the budget: for times of regions; until errors of single candidates are done, and whole
/// forms; the rest is for the last ones.
constexpr double kShareOfTimes = 0.05, kShareOfErrors = 0.55, kShareOfForms = 0.85;
/// Latency of a form is measured so long beside that of the model, and that of the last ones.
constexpr double kSecondsOfForm = 1, kSecondsOfLast = 3;
constexpr size_t kLastForms = 4;

class Search {
public:
  Search(const SearchRequest &given, TaskListener &out) : request(given), listener(out) {}
  Result<Searched> run();

private:
  Status openData();
  Status open();
  Result<std::string> keyOf(const ErrorMeter &meter) const;
  Status measureErrors(ErrorMeter &meter);
  Status measureForms();
  Result<MeasuredForm> measure(const std::string &letters);
  Status measureLast();
  Status conclude();

  quant::Form formOf(const std::string &letters) const;
  std::string lettersOf(const quant::Form &form) const;
  quant::FormSearch formSearch();
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  bool hasTime(double share = kShareOfForms) const { return elapsed() < request.budget * share; }
  Status save() { return state.save(request.statePath); }

  using Clock = std::chrono::steady_clock;
  const SearchRequest &request;
  TaskListener &listener;
  Clock::time_point start = Clock::now();
  std::optional<FormMaker> maker;
  std::unique_ptr<Form> model;
  std::optional<Dataset> calibrationData, testData;
  MetricSpec metric;
  std::optional<Evaluator> evaluator;
  SearchState state;
  Searched result;
};

/// What can be wrong with files is said before work.
Status Search::openData() {
  TENON_TRY(SearchState::check(request.statePath));
  quant::Settings settings = request.settings;
  settings.mayBeNone = true;
  TENON_ASSIGN(quant::Quantizer probe, quant::Quantizer::open(request.calibration.model, settings));
  TENON_ASSIGN(std::vector<WantedInput> inputs, wantedInputs(probe));
  ModelHints hints = {probe.metadata("preprocessing"), probe.metadata("classes")};
  TENON_ASSIGN(calibrationData, Dataset::open(request.calibration.data, inputs, hints));
  const std::string &test = request.test.empty() ? request.calibration.data : request.test;
  TENON_ASSIGN(testData, Dataset::open(test, inputs, hints));
  TENON_ASSIGN(metric, chooseMetric(request.metric, *testData));
  result.testData = testData->path();
  result.testSamples = testData->samples();
  result.metric = metric.name;
  return Status::ok();
}

Status Search::open() {
  TENON_TRY(openData());
  TENON_ASSIGN(maker, FormMaker::open(request.calibration, request.settings, listener));
  result.calibration = maker->calibration();
  result.narrow = maker->narrowInfo();
  for (const quant::Candidate &candidate : maker->candidates()) {
    result.candidates.push_back({candidate, {}, {}, 0});
  }
  TENON_ASSIGN(Form compiled, Form::compile(request.calibration.model, maker->options(), listener));
  model = std::make_unique<Form>(std::move(compiled));
  result.level = model->engine->variant().level;
  result.threads = request.calibration.threads;
  TENON_ASSIGN(double shared, testData->shareOf(result.calibration.fingerprint));
  if (shared > 0) {
    std::string part = shared == 1 ? "all" : fmt::format("about {:.0f} %", shared * 100);
    result.warnings.push_back(fmt::format("losses are measured on samples, {} of which also served "
                                          "for calibration: give others with --test",
                                          part));
  }
  TENON_ASSIGN(evaluator, Evaluator::open(metric, *model, *testData, maker->options()));
  result.baseline = evaluator->baseline();
  return Status::ok();
}

/// All that measurements depend on, but what the program of a metric `cmd:` does.
Result<std::string> Search::keyOf(const ErrorMeter &meter) const {
  Hasher hasher;
  std::vector<std::string> files = dataFilesOf(request.calibration.model);
  files.insert(files.begin(), request.calibration.model);
  for (const std::string &path : files) {
    TENON_ASSIGN(MappedFile file, MappedFile::open(path));
    hasher.update(file.bytes());
  }
  TENON_ASSIGN(std::string test, testData->fingerprint(testData->samples()));
  const quant::Settings &own = request.settings;
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {}", TENON_VERSION, cpuInfo("model name"),
                  result.calibration.fingerprint, test, result.metric, meter.samples(),
                  result.level, result.threads, quant::nameOf(own.method), own.percentile,
                  own.reducesRange, own.smooths, own.correctsBias);
  for (const auto &[node, decided] : own.overrides) {
    text += fmt::format(" {} {}", node, quant::nameOf(decided.first));
  }
  hasher.update(text);
  return hasher.digest().hex();
}

/// One candidate after the other in each of its treatments, those first that gain most time.
Status Search::measureErrors(ErrorMeter &meter) {
  std::vector<std::tuple<double, size_t, size_t>> order;
  for (size_t i = 0; i < state.treatments.size(); ++i) {
    std::vector<MeasuredTreatment> &own = state.treatments[i];
    own[0].error = 0;
    for (size_t t = 1; t < own.size(); ++t) {
      if (!own[t].error) {
        order.emplace_back(own[t].milliseconds - own[0].milliseconds, i, t);
      }
    }
  }
  std::ranges::sort(order);
  for (size_t done = 0; done < order.size() && hasTime(kShareOfErrors); ++done) {
    auto [gain, i, t] = order[done];
    listener.progress("search: errors of layers", double(done) / double(order.size()));
    std::string letters = maker->uniform(Treatment::Wide);
    letters[i] = letterOf(maker->candidates()[i].treatments[t]);
    TENON_ASSIGN(state.treatments[i][t].error, meter.errorOf(letters, listener));
    TENON_TRY(save());
  }
  listener.clearProgress();
  std::vector<std::vector<MeasuredTreatment>> known = state.treatments;
  std::vector<std::vector<bool>> isEstimated = estimateErrors(*maker, known);
  for (size_t i = 0; i < known.size(); ++i) {
    result.candidates[i].treatments = known[i];
    result.candidates[i].isEstimated = isEstimated[i];
  }
  return Status::ok();
}

std::string Search::lettersOf(const quant::Form &form) const {
  std::string letters;
  for (size_t i = 0; i < form.size(); ++i) {
    letters += letterOf(maker->candidates()[i].treatments[form[i]]);
  }
  return letters;
}

quant::Form Search::formOf(const std::string &letters) const {
  quant::Form form;
  for (size_t i = 0; i < letters.size(); ++i) {
    form.push_back(static_cast<uint8_t>(result.candidates[i].placeOf(treatmentOf(letters[i]))));
  }
  return form;
}

/// Over all forms that were measured.
quant::FormSearch Search::formSearch() {
  std::vector<std::vector<quant::Choice>> choices;
  for (const SearchedCandidate &own : result.candidates) {
    choices.emplace_back();
    for (const MeasuredTreatment &treatment : own.treatments) {
      choices.back().push_back(
          {treatment.milliseconds - own.treatments[0].milliseconds, *treatment.error});
    }
  }
  auto measureForm = [this](const quant::Form &form) -> Result<quant::FormCost> {
    std::string letters = lettersOf(form);
    TENON_ASSIGN(state.forms[letters], measure(letters));
    TENON_TRY(save());
    return quant::FormCost{state.forms[letters].drop, state.forms[letters].milliseconds};
  };
  quant::FormSearch search(std::move(choices), {request.drop, request.milliseconds},
                           state.modelMilliseconds, measureForm, [this] { return hasTime(); });
  for (const auto &[letters, form] : state.forms) {
    search.add(formOf(letters), {form.drop, form.milliseconds});
  }
  return search;
}

/// A form as a whole: its latency beside the model's, and its drop.
Result<MeasuredForm> Search::measure(const std::string &letters) {
  if (maker->isModel(letters)) {
    return MeasuredForm{evaluator->baseline(), 0, Interval{0, 0}, state.modelMilliseconds, 1, 1, 1};
  }
  listener.progress("search: whole forms", std::min(elapsed() / request.budget, 1.0));
  TENON_ASSIGN(Form form, maker->compile(letters, listener));
  TENON_ASSIGN(AccuracyResult accuracy, evaluator->evaluate(form));
  const Form *both[] = {model.get(), &form};
  double seconds = std::clamp(request.budget / 100, kSecondsOfForm / 5, kSecondsOfForm);
  TENON_ASSIGN(std::vector<Latency> times,
               timeInterleaved(both, *calibrationData, seconds, maker->options(), listener));
  const Latency &own = times.back();
  return MeasuredForm{
      accuracy.value, accuracy.drop, accuracy.interval, state.modelMilliseconds * own.ratio,
      own.ratio,      own.low,       own.high};
}

/// The best ones once more, side by side and longer: one of many is best by luck too.
Status Search::measureLast() {
  std::vector<std::string> names;
  std::vector<std::unique_ptr<Form>> forms;
  std::vector<const Form *> views = {model.get()};
  for (const quant::Form &choices : formSearch().ranked()) {
    std::string letters = lettersOf(choices);
    if (names.size() < kLastForms && !maker->isModel(letters)) {
      TENON_ASSIGN(Form form, maker->compile(letters, listener));
      names.push_back(letters);
      forms.push_back(std::make_unique<Form>(std::move(form)));
      views.push_back(forms.back().get());
    }
  }
  double seconds = std::clamp(request.budget - elapsed(), kSecondsOfForm, kSecondsOfLast);
  TENON_ASSIGN(std::vector<Latency> times,
               timeInterleaved(views, *calibrationData, seconds, maker->options(), listener));
  for (size_t i = 0; i < names.size(); ++i) {
    MeasuredForm &form = state.forms.at(names[i]);
    form.ratio = times[i + 1].ratio;
    form.low = times[i + 1].low;
    form.high = times[i + 1].high;
    form.milliseconds = state.modelMilliseconds * form.ratio;
  }
  return save();
}

Status Search::measureForms() {
  if (hasTime()) {
    TENON_TRY(formSearch().run(formOf(maker->firstGuess())));
  }
  result.isOutOfTime = !hasTime();
  return state.forms.size() > 1 && elapsed() < request.budget ? measureLast() : Status::ok();
}

/// The best form that fits, or why there is none.
Status Search::conclude() {
  quant::FormSearch all = formSearch();
  std::optional<quant::Form> chosen = all.best();
  for (size_t i = 0; chosen && i < chosen->size(); ++i) {
    result.candidates[i].chosen = (*chosen)[i];
  }
  for (const auto &[letters, form] : state.forms) {
    bool isChosen = chosen && letters == lettersOf(*chosen);
    result.forms.push_back({letters, form, all.fits({form.drop, form.milliseconds}), isChosen});
  }
  std::ranges::sort(result.forms, std::greater<>(),
                    [](const SearchedForm &form) { return form.measured.milliseconds; });
  result.modelMilliseconds = state.modelMilliseconds;
  if (state.forms.size() < 2) {
    result.refusal = Status::error(
        ErrorId::SearchOutOfTime,
        fmt::format(
            "the search ran out of its {:g} s before it had measured a whole candidate model",
            request.budget),
        fmt::format("run it again to continue from {}; or give a longer --budget",
                    request.statePath));
    return Status::ok();
  }
  if (!chosen) {
    result.refusal = refusalOf(result, request, *evaluator);
    return Status::ok();
  }
  if (maker->isModel(lettersOf(*chosen))) {
    result.warnings.push_back("no 8-bit version is better here: the original model is written");
  }
  std::vector<std::string> reasons;
  for (const SearchedCandidate &own : result.candidates) {
    reasons.push_back(ruleOf(own));
  }
  TENON_ASSIGN(FormMaker::Written written,
               maker->write(lettersOf(*chosen), reasons, recordOf(result)));
  result.info = std::move(written.info);
  result.bytes = std::move(written.bytes);
  return Status::ok();
}

Result<Searched> Search::run() {
  TENON_TRY(open());
  TENON_ASSIGN(ErrorMeter meter,
               ErrorMeter::open(*maker, *model, *calibrationData, request.samples));
  result.errorSamples = meter.samples();
  std::vector<std::string> treatmentsOf;
  for (const quant::Candidate &candidate : maker->candidates()) {
    treatmentsOf.emplace_back();
    std::ranges::transform(candidate.treatments, std::back_inserter(treatmentsOf.back()), letterOf);
  }
  TENON_ASSIGN(std::string key, keyOf(meter));
  TENON_ASSIGN(state, SearchState::load(request.statePath, key, treatmentsOf));
  if (state.treatments.empty()) {
    TENON_ASSIGN(CandidateTimes times, timeCandidates(*maker, *calibrationData,
                                                      request.budget * kShareOfTimes, listener));
    state.modelMilliseconds = times.modelMilliseconds;
    state.treatments = std::move(times.treatments);
    TENON_TRY(save());
  }
  TENON_TRY(measureErrors(meter));
  TENON_TRY(measureForms());
  TENON_TRY(conclude());
  result.seconds = elapsed();
  return std::move(result);
}

} // namespace

size_t SearchedCandidate::placeOf(Treatment treatment) const {
  return static_cast<size_t>(std::ranges::find(candidate.treatments, treatment) -
                             candidate.treatments.begin());
}

Result<Searched> search(const SearchRequest &request, TaskListener &listener) {
  return Search(request, listener).run();
}

} // namespace tenon::tool
