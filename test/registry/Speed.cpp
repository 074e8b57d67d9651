// How fast a large registry is: `fill WHERE MODELS VERSIONS` makes one
// (LD_PRELOAD=libregistry_power.so POWER_DROP=all leaves its flushes out), `measure WHERE COUNT`
// lists a page of 100 objects, searches for pages of 100 versions, resolves an alias and promotes,
// each COUNT times at random places.
// `answer WHERE` does one of the three for each line that it reads, for who measures another
// registry beside it: "list NAME", "resolve NAME", "promote NAME VERSION".

#include "registry/Registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>

#include <time.h>
#include <unistd.h>

namespace {

using namespace tenon;
using registry::Registry;

template <typename T> T valueOf(Result<T> result) {
  if (!result.isOk()) {
    fmt::print(stderr, "{}\n", result.status().toString());
    std::exit(1);
  }
  return std::move(*result);
}

std::string nameOf(int64_t model) { return fmt::format("model-{:05}", model); }

/// Of each model: one of ten teams, of three stages, of a hundred data sets.
tenon::Json factsOf(int64_t model, int64_t version) {
  return {{"source", version},
          {"meta",
           {{"team", fmt::format("team-{}", model % 10)},
            {"stage", fmt::format("stage-{}", (model + version) % 3)},
            {"set", fmt::format("set-{}", model * 7 % 100)}}}};
}

/// A gate that measured a version's accuracy and speed.
void gate(Registry &registry, const std::string &name, int64_t version, double share) {
  std::vector<std::string> texts = {"top1 >= 1%", "p50 <= 100ms",
                                    registry::dataPin("set", std::string(64, 'a'))};
  registry::Terms terms = valueOf(registry::parseTerms(texts));
  std::vector<registry::RuleResult> results;
  for (const registry::Rule &rule : terms.rules) {
    double value = rule.metric == "top1" ? 0.5 + share / 2 : 1 + 9 * share;
    results.push_back(registry::decide(rule, registry::Measured{value, value, value}));
  }
  registry::GateResult result;
  result.version = version;
  result.alias = "candidate";
  result.outcome = registry::outcomeOf(results);
  result.terms = terms.texts;
  result.conditions = {"set", std::string(64, 'a'), 1, "a machine", "speed"};
  result.figures = registry::figuresOf(results);
  for (Status status :
       {registry.setTerms(name, "candidate", terms), registry.record(name, result)}) {
    if (!status.isOk()) {
      fmt::print(stderr, "{}\n", status.toString());
      std::exit(1);
    }
  }
}

void fill(const std::string &where, int64_t models, int64_t versions) {
  Registry registry = valueOf(Registry::create(where, {.by = "speed", .clock = {}}));
  std::string path =
      std::filesystem::temp_directory_path() / fmt::format("registry-speed-{}", ::getpid());
  for (int64_t model = 0; model < models; ++model) {
    for (int64_t version = 1; version <= versions; ++version) {
      std::ofstream(path, std::ios::trunc) << model << ' ' << version;
      valueOf(registry.push({nameOf(model), model % 4 == 0 ? "data" : "report", path,
                             FileStamp::of(path), factsOf(model, version), "a note"}));
    }
    gate(registry, nameOf(model), versions,
         static_cast<double>(model * 31 % models) / static_cast<double>(models));
    valueOf(registry.promote({nameOf(model), versions, ""}, "production", {}, ""));
  }
  std::filesystem::remove(path);
}

/// This thread's own, which other work on the machine does not lengthen.
double cpuMilliseconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

template <typename Work> void measure(const char *what, int64_t count, Work work) {
  std::vector<double> times, cpu;
  for (int64_t i = 0; i < count; ++i) {
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    double before = cpuMilliseconds();
    work();
    cpu.push_back(cpuMilliseconds() - before);
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::sort(times.begin(), times.end());
  std::sort(cpu.begin(), cpu.end());
  auto at = [](const std::vector<double> &sorted, double share) {
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  fmt::print("{:<8} p50 {:8.3f} ms  p99 {:8.3f} ms  CPU p50 {:8.3f} ms  p99 {:8.3f} ms  of {}\n",
             what, at(times, 0.5), at(times, 0.99), at(cpu, 0.5), at(cpu, 0.99), count);
}

registry::Search searchFor(std::initializer_list<std::string> conditions) {
  registry::Search search;
  for (const std::string &each : conditions) {
    Status status = registry::addCondition(each, search);
    if (!status.isOk()) {
      fmt::print(stderr, "{}\n", status.toString());
      std::exit(1);
    }
  }
  return search;
}

void measureSearches(Registry &registry, int64_t count, std::mt19937_64 &random) {
  auto one = [&](const char *what, uint64_t of) {
    return fmt::format("{}-{}", what, random() % of);
  };
  std::vector<std::function<registry::Search()>> kinds = {
      [&] { return searchFor({"team=" + one("team", 10)}); },
      [&] { return searchFor({"team=" + one("team", 10), "stage=" + one("stage", 3)}); },
      [&] { return searchFor({"team=" + one("team", 10), "set=" + one("set", 100)}); },
      [&] { return searchFor({"team=" + one("team", 10), "top1 >= 90%"}); },
      [&] { return searchFor({"team=" + one("team", 10), "top1 >= 99.9%", "p50 <= 2ms"}); },
      [&] { return searchFor({fmt::format("top1 >= {}%", 50 + random() % 50)}); },
      [&] { return searchFor({"top1 >= 75%", "p50 <= 5ms"}); },
      [&] {
        registry::Search search = searchFor({"stage=" + one("stage", 3)});
        search.kind = "data";
        search.alias = "production";
        return search;
      },
      [&] {
        registry::Search search;
        search.name = fmt::format("model-{:03}*", random() % 100);
        return search;
      },
      [&] {
        registry::Search search;
        search.name = fmt::format("*{:02}", random() % 100);
        search.kind = "report";
        return search;
      },
      [&] { return registry::Search(); },
      [&] { return searchFor({"team=nobody"}); },
  };
  auto any = [&] { return kinds[random() % kinds.size()](); };
  measure("search", count, [&] { valueOf(registry.search(any())); });
  measure("page", count, [&] {
    registry::Search search = any();
    std::optional<registry::SearchPlace> next = valueOf(registry.search(search)).next;
    search.after = next.value_or(registry::SearchPlace());
    valueOf(registry.search(search));
  });
  for (size_t i = 0; i < kinds.size(); ++i) {
    measure(fmt::format("kind {}", i).c_str(), std::max<int64_t>(count / 10, 1),
            [&] { valueOf(registry.search(kinds[i]())); });
  }
}

void measureAll(const std::string &where, int64_t count) {
  Registry registry = valueOf(Registry::open(where, {.by = "speed", .clock = {}}));
  std::vector<registry::Object> objects = valueOf(registry.objects("", 1'000'000));
  std::mt19937_64 random(1);
  auto any = [&] { return objects[random() % objects.size()].name; };
  measure("list", count, [&] { valueOf(registry.objects(any(), 100)); });
  measureSearches(registry, count, random);
  measure("resolve", count, [&] { valueOf(registry.find({any(), 0, "production"})); });
  measure("promote", count, [&] {
    std::string name = any();
    int64_t at = valueOf(registry.aliasOf(name, "production"));
    valueOf(registry.promote({name, at == 1 ? 2 : at - 1, ""}, "production", at, ""));
  });
}

void answer(const std::string &folder) {
  Registry registry = valueOf(Registry::open(folder, {.by = "speed", .clock = {}}));
  std::string what, name;
  while (std::cin >> what >> name) {
    if (what == "list") {
      fmt::print("{}\n", valueOf(registry.objects(name, 100)).size());
    } else if (what == "resolve") {
      fmt::print("{}\n", valueOf(registry.find({name, 0, "production"})).number);
    } else {
      int64_t version = 0;
      std::cin >> version;
      fmt::print("{}\n", valueOf(registry.promote({name, version, ""}, "production", {}, "")).to);
    }
    std::fflush(stdout);
  }
}

} // namespace

int main(int argc, char **argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 4 && words[0] == "fill") {
    fill(words[1], std::stoll(words[2]), std::stoll(words[3]));
  } else if (words.size() == 3 && words[0] == "measure") {
    measureAll(words[1], std::stoll(words[2]));
  } else if (words.size() == 2 && words[0] == "answer") {
    answer(words[1]);
  } else {
    return 2;
  }
  return 0;
}
