// Implements compiling, running and timing over what `run`, `accuracy` and `bench` have.

#include "tools/tenon/quant/Form.h"

#include "tools/tenon/accuracy/BatchRunner.h"
#include "tools/tenon/accuracy/Rows.h"
#include "tools/tenon/bench/Interleaved.h"
#include "tools/tenon/bench/Statistics.h"
#include "tools/tenon/print/JsonFields.h"
#include "tools/view/EngineGraph.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::tool {
namespace {

/// The nodes of each instruction of an engine.
Result<std::vector<std::vector<std::string>>> nodesOfInstructions(const runtime::Engine &engine) {
  TENON_ASSIGN(std::string suffix, view::recordSuffix(engine.file(), engine.variant().level));
  Json records[2];
  const char *names[] = {"fusion", "placement"};
  for (size_t i = 0; i < 2; ++i) {
    TENON_ASSIGN(std::string_view text, engine.file().record(names[i] + suffix));
    records[i] = parseJson(text);
  }
  Json regions = listAt(records[0], "regions");
  std::vector<std::vector<std::string>> nodes(engine.plan().instructions.size());
  for (const Json &row : listAt(records[1], "instructions")) {
    size_t instruction = static_cast<size_t>(numberAt(row, "instruction"));
    size_t region = static_cast<size_t>(numberAt(row, "region"));
    bool hasRegion = row.contains("region") && row["region"].is_number() && region < regions.size();
    for (const Json &node : hasRegion ? listAt(regions[region], "nodes") : Json::array()) {
      if (instruction < nodes.size() && node.is_string()) {
        nodes[instruction].push_back(node.get<std::string>());
      }
    }
  }
  return nodes;
}

Result<Runner> runnerOf(const Form &form, const Dataset &data, const FormOptions &options) {
  TENON_ASSIGN(Batch batch, data.read(0, 1));
  TENON_ASSIGN(Runner runner,
               Runner::create(form.engine, std::move(batch.inputs), options.session()));
  TENON_TRY(runner.run());
  return runner;
}

} // namespace

runtime::SessionOptions FormOptions::session() const {
  runtime::SessionOptions result;
  result.threads = threads;
  return result;
}

Result<Form> Form::compile(const std::string &model, const FormOptions &options,
                           TaskListener &listener) {
  OpenRequest open;
  open.path = model;
  open.target.targets = {"cpu:native"};
  open.useCache = options.useCache;
  open.verifyWeights = false;
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(open, listener));
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, source.open());
  return Form{std::move(source), std::move(engine)};
}

Result<Rows> rowsOf(const Form &form, const Dataset &data, std::span<const size_t> samples,
                    const FormOptions &options) {
  TENON_ASSIGN(BatchRunner runner, BatchRunner::create(form.engine, data, 1, options.session()));
  Rows rows;
  for (size_t sample : samples) {
    TENON_ASSIGN(std::vector<std::vector<Tensor>> outputs, runner.outputsOf(sample, 1));
    std::vector<double> row;
    for (const Tensor &output : outputs.front()) {
      if (isFloating(output.dtype)) {
        std::vector<double> elements = allElements(output);
        row.insert(row.end(), elements.begin(), elements.end());
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

double squaredDistance(const Rows &rows, const Rows &right) {
  double apart = 0, size = 0;
  for (size_t sample = 0; sample < right.size(); ++sample) {
    const std::vector<double> &row = rows[sample], &wanted = right[sample];
    if (row.size() != wanted.size() || !areFinite(row)) {
      return std::numeric_limits<double>::infinity();
    }
    for (size_t i = 0; i < row.size(); ++i) {
      apart += (row[i] - wanted[i]) * (row[i] - wanted[i]);
      size += wanted[i] * wanted[i];
    }
  }
  return size == 0 ? apart : apart / size;
}

Result<std::vector<std::vector<RegionTime>>> timeRegions(std::span<const Form *const> forms,
                                                         const Dataset &data, size_t rounds,
                                                         const FormOptions &options) {
  std::vector<Runner> runners;
  std::vector<std::vector<std::vector<double>>> times; // of each form and step
  for (const Form *form : forms) {
    TENON_ASSIGN(Runner runner, runnerOf(*form, data, options));
    runners.push_back(std::move(runner));
  }
  times.resize(forms.size());
  std::vector<std::vector<runtime::StepTime>> last(forms.size());
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < forms.size(); ++i) {
      size_t form = (i + round) % forms.size();
      TENON_TRY(runners[form].run()); // caches and threads come back
      TENON_ASSIGN(last[form], runners[form].session().timeSteps(1));
      times[form].resize(last[form].size());
      for (size_t step = 0; step < last[form].size(); ++step) {
        times[form][step].push_back(last[form][step].seconds * 1000);
      }
    }
  }
  std::vector<std::vector<RegionTime>> result(forms.size());
  for (size_t form = 0; form < forms.size(); ++form) {
    TENON_ASSIGN(std::vector<std::vector<std::string>> nodes,
                 nodesOfInstructions(*forms[form]->engine));
    for (size_t step = 0; step < last[form].size(); ++step) {
      std::ranges::sort(times[form][step]);
      result[form].push_back(
          {nodes[last[form][step].instruction], quantile(times[form][step], 0.25)});
    }
  }
  return result;
}

Result<std::vector<Latency>> timeInterleaved(std::span<const Form *const> forms,
                                             const Dataset &data, double seconds,
                                             const FormOptions &options, TaskListener &listener) {
  std::vector<Subject> subjects;
  for (const Form *form : forms) {
    Subject subject;
    subject.engine = form->engine;
    TENON_ASSIGN(Runner runner, runnerOf(*form, data, options));
    subject.runner = std::make_unique<Runner>(std::move(runner));
    subjects.push_back(std::move(subject));
  }
  TENON_TRY(measureInterleaved({seconds, 0}, subjects, listener));
  listener.clearProgress();
  std::vector<Latency> result;
  for (const Subject &subject : subjects) {
    Latency latency;
    latency.milliseconds = summarizeLatency(subject.samples()).median;
    if (!result.empty()) {
      RatioSummary ratio = compareLatency(subjects[0].samples(), subject.samples());
      latency.ratio = ratio.ofMedians;
      latency.low = ratio.low;
      latency.high = ratio.high;
    }
    result.push_back(latency);
  }
  return result;
}

} // namespace tenon::tool
