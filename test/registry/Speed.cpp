// How fast a large registry is: `fill WHERE MODELS VERSIONS` makes one
// (LD_PRELOAD=libregistry_power.so POWER_DROP=all leaves its flushes out), `measure WHERE COUNT`
// lists a page of 100 objects, resolves an alias and promotes, each COUNT times at random places.
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

void fill(const std::string &where, int64_t models, int64_t versions) {
  Registry registry = valueOf(Registry::create(where, {.by = "speed", .clock = {}}));
  std::string path =
      std::filesystem::temp_directory_path() / fmt::format("registry-speed-{}", ::getpid());
  for (int64_t model = 0; model < models; ++model) {
    for (int64_t version = 1; version <= versions; ++version) {
      std::ofstream(path, std::ios::trunc) << model << ' ' << version;
      valueOf(registry.push({nameOf(model), "report", path, FileStamp::of(path),
                             tenon::Json{{"source", version}}, "a note"}));
    }
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

void measureAll(const std::string &where, int64_t count) {
  Registry registry = valueOf(Registry::open(where, {.by = "speed", .clock = {}}));
  std::vector<registry::Object> objects = valueOf(registry.objects("", 1'000'000));
  std::mt19937_64 random(1);
  auto any = [&] { return objects[random() % objects.size()].name; };
  measure("list", count, [&] { valueOf(registry.objects(any(), 100)); });
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
