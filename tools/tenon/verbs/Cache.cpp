// `tenon cache`: what the tuning store holds, why it has nothing for a region, and its care.

#include "support/Environment.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/target/LocalStore.h"
#include "tools/tenon/target/TargetFlags.h"

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

namespace tenon::tool {
namespace {

struct CacheFlags {
  std::string task, path, output, store;
  std::vector<std::string> shapes;
  TargetFlags target;
};

Json jsonOf(const tuning::Record &record) {
  Json trials = Json::array();
  for (const tuning::Trial &trial : record.trials) {
    trials.push_back({{"kernel", trial.kernel}, {"time_us", trial.microseconds}});
  }
  return {{"problem", record.problem},
          {"label", record.label},
          {"sizes", record.sizes},
          {"device", record.device},
          {"threads", record.threads},
          {"level", record.level},
          {"libraries", record.libraries},
          {"families", record.families},
          {"kernel", record.kernel},
          {"untuned", record.untuned},
          {"time_us", record.microseconds()},
          {"untuned_us", record.untunedMicroseconds()},
          {"measured", record.time},
          {"trials", trials}};
}

std::string rowOf(const tuning::Record &record) {
  return fmt::format("{}  {:%F}  {:>10.1f} us  {:>5.2f} x  {}  {}\n", record.problem.substr(0, 8),
                     fmt::gmtime(static_cast<std::time_t>(record.time)), record.microseconds(),
                     record.untunedMicroseconds() / record.microseconds(), record.kernel,
                     record.label);
}

Status list(const std::string &folder, Terminal &terminal) {
  TENON_ASSIGN(tuning::Records found, tuning::readStore(folder));
  noteFaults(found, terminal.notice());
  std::vector<tuning::Record> records = tuning::newestOf(found.records);
  auto place = [](const tuning::Record &record) {
    return std::tuple(record.device, record.threads, record.level, record.label);
  };
  std::stable_sort(
      records.begin(), records.end(),
      [&](const tuning::Record &a, const tuning::Record &b) { return place(a) < place(b); });
  if (terminal.json()) {
    Json rows = Json::array();
    for (const tuning::Record &record : records) {
      rows.push_back(jsonOf(record));
    }
    terminal.printJson(
        "cache-ls",
        {{"store", folder}, {"records", rows}, {"faults", found.faults}, {"torn", found.isTorn}});
  } else {
    std::string text, last;
    for (const tuning::Record &record : records) {
      std::string head = deviceText(record.device, record.threads, record.level) + "\n";
      text += head == last ? "" : head;
      text += rowOf(record);
      last = head;
    }
    terminal.print(text + fmt::format("{} records in {}\n", records.size(), folder));
  }
  return Status::ok();
}

/// As a word of a line, and in JSON.
const char *nameOf(pipeline::TunedState state) {
  switch (state) {
  case pipeline::TunedState::Hit:
    return "hit";
  case pipeline::TunedState::NoChoice:
    return "no choice";
  case pipeline::TunedState::FreeSizes:
    return "free sizes";
  case pipeline::TunedState::Miss:
    return "miss";
  case pipeline::TunedState::Stale:
    return "stale";
  case pipeline::TunedState::Unused:
    return "unused";
  }
  return "";
}

/// What a compilation of the model finds, region by region.
Status explain(const CacheFlags &flags, const std::string &folder, Terminal &terminal) {
  pipeline::CompileOptions request;
  request.model = flags.path;
  TENON_TRY(isModel(request.model, Takes::Model).takeStatus());
  TENON_ASSIGN(request.shapes, parseShapeArguments(flags.shapes));
  TENON_TRY(applyTarget(flags.target, request, terminal.notice()));
  TENON_ASSIGN(tuning::Records found, tuning::readStore(folder));
  noteFaults(found, terminal.notice());
  request.tuned = std::make_shared<const tuning::TuningDatabase>(
      found.records, localDevices(found.records, !request.gpus.empty()));
  request.stopAfter = pipeline::Phase::Dispatch;
  request.threads = usableCpus();
  request.notice = [&](std::string_view text) { terminal.note(text); };
  TENON_ASSIGN(pipeline::CompileSummary summary, compileModel(request));
  Json rows = Json::array();
  std::string text;
  size_t hits = 0, choices = 0;
  for (const pipeline::TunedRegion &region : summary.tuned) {
    bool isHit = region.miss.empty();
    hits += isHit ? 1 : 0;
    choices += region.state == pipeline::TunedState::NoChoice ? 0 : 1;
    rows.push_back({{"region", region.label},
                    {"problem", region.problem},
                    {"hit", isHit},
                    {"state", nameOf(region.state)},
                    {"miss", region.miss},
                    {"kernel", region.kernel},
                    {"untuned", region.untuned},
                    {"time_us", region.microseconds},
                    {"untuned_us", region.untunedMicroseconds}});
    std::string what = isHit
                           ? fmt::format("{:.1f} us by {}, {:.1f} us by {}", region.microseconds,
                                         region.kernel, region.untunedMicroseconds, region.untuned)
                           : region.miss;
    text += fmt::format("{:<10}  {}\n{:12}{}\n", nameOf(region.state), region.label, "", what);
  }
  terminal.json()
      ? terminal.printJson(
            "cache-explain",
            {{"store", folder}, {"hits", hits}, {"choices", choices}, {"regions", rows}})
      : terminal.print(text + fmt::format("{} of {} regions that have a choice of kernels, {} in "
                                          "all\n",
                                          hits, choices, summary.tuned.size()));
  return Status::ok();
}

Status exportStore(const CacheFlags &flags, const std::string &folder, Terminal &terminal) {
  if (flags.output.empty()) {
    return Status::error(ErrorId::BadArgument, "cache export needs a file name", "give it with -o");
  }
  TENON_TRY(checkOutput(flags.output, ""));
  TENON_ASSIGN(tuning::Records found, tuning::readStore(folder));
  noteFaults(found, terminal.notice());
  std::vector<tuning::Record> records = tuning::newestOf(found.records);
  TENON_TRY(tuning::exportRecords(records, flags.output));
  terminal.json()
      ? terminal.printJson("cache-export", {{"file", flags.output}, {"records", records.size()}})
      : terminal.note(fmt::format("{}: {} records", flags.output, records.size()));
  return Status::ok();
}

/// All records of the file that the store does not know yet; none of a file with a line that is no
/// record.
Status importStore(const CacheFlags &flags, const std::string &folder, Terminal &terminal) {
  TENON_ASSIGN(tuning::Records found, tuning::readRecords(flags.path));
  if (!found.faults.empty() || found.isTorn) {
    return Status::error(ErrorId::BadTuningStore,
                         found.isTorn
                             ? fmt::format("'{}' ends in the middle of a record", flags.path)
                             : found.faults.front(),
                         "nothing was imported; export it again where it was measured");
  }
  TENON_ASSIGN(tuning::StoreWriter store, tuning::StoreWriter::open(folder));
  noteFaults(store.found(), terminal.notice());
  std::set<std::string> known;
  for (const tuning::Record &record : store.found().records) {
    known.insert(tuning::lineOf(record));
  }
  size_t added = 0;
  for (const tuning::Record &record : found.records) {
    if (known.insert(tuning::lineOf(record)).second) {
      TENON_TRY(store.append(record));
      ++added;
    }
  }
  terminal.json()
      ? terminal.printJson("cache-import",
                           {{"store", folder}, {"records", found.records.size()}, {"new", added}})
      : terminal.note(
            fmt::format("{} records, {} of them new to {}", found.records.size(), added, folder));
  return Status::ok();
}

/// Drops what no compilation by this version of Tenon uses: damaged lines, records with a newer
/// one, and those of families that have changed since.
Status tidy(const std::string &folder, Terminal &terminal) {
  TENON_ASSIGN(tuning::StoreWriter store, tuning::StoreWriter::open(folder));
  const tuning::Records &found = store.found();
  std::vector<tuning::Record> kept = tuning::newestOf(found.records);
  std::erase_if(kept,
                [](const tuning::Record &record) { return !areFamiliesCurrent(record.families); });
  size_t before = found.records.size() + found.faults.size() + (found.isTorn ? 1 : 0);
  TENON_TRY(store.replace(kept));
  terminal.json() ? terminal.printJson("cache-gc", {{"store", folder},
                                                    {"kept", kept.size()},
                                                    {"dropped", before - kept.size()}})
                  : terminal.note(fmt::format("{}: {} records kept, {} dropped", folder,
                                              kept.size(), before - kept.size()));
  return Status::ok();
}

Status run(const CacheFlags &flags, Terminal &terminal) {
  bool takesPath = flags.task == "explain" || flags.task == "import";
  if (takesPath != !flags.path.empty()) {
    return Status::error(ErrorId::BadArgument,
                         takesPath
                             ? fmt::format("cache {} needs a {}", flags.task,
                                           flags.task == "import" ? "file" : "model")
                             : fmt::format("cache {} does not accept '{}'", flags.task, flags.path),
                         "tenon cache --help has an example of each task");
  }
  TENON_ASSIGN(std::string folder, storeFolder(flags.store));
  if (flags.task == "explain") {
    return explain(flags, folder, terminal);
  }
  if (flags.task == "export") {
    return exportStore(flags, folder, terminal);
  }
  if (flags.task == "import") {
    return importStore(flags, folder, terminal);
  }
  return flags.task == "gc" ? tidy(folder, terminal) : list(folder, terminal);
}

} // namespace

Action declareCache(CLI::App &command) {
  std::shared_ptr<CacheFlags> flags = std::make_shared<CacheFlags>();
  addChoice(command, "TASK", flags->task, {"ls", "explain", "export", "import", "gc"},
            "ls: list the records; explain MODEL: what each region finds, or which part of the key "
            "differs; export: write the records to -o; import FILE: add those of an exported file; "
            "gc: drop damaged, replaced and outdated records")
      ->required();
  command.add_option("PATH", flags->path, "The model to explain, or the file to import");
  addOutput(command, flags->output, "export: the file to write");
  declareStoreFlag(command, flags->store);
  command.add_option("--shape", flags->shapes, "explain: dimensions of an input, as for compile")
      ->allow_extra_args(false);
  flags->target.targets = {"cpu:native"};
  declareTargetFlags(command, flags->target);
  return [flags](Terminal &terminal) { return run(*flags, terminal); };
}

} // namespace tenon::tool
