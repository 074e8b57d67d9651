// Works on a registry until somebody kills it, and says what it tries and what was acknowledged;
// `check` says what is there. For kills.py, which holds the two against each other.

#include "registry/Registry.h"
#include "support/files/FileStamp.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include <unistd.h>

namespace {

using namespace tenon;
using registry::Registry;

/// At once: what is buffered would go with the process.
void say(const std::string &line) {
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::_Exit(3);
  }
}

int fail(const Status &status) {
  say(fmt::format("error {}\n", status.toString()));
  return 1;
}

Status pushOne(Registry &registry, const std::string &scratch, std::mt19937_64 &random) {
  std::string content = fmt::format("{:016x}", random()), path = fmt::format("{}/push", scratch);
  std::ofstream(path, std::ios::trunc) << content << std::string(random() % 20'000, 'x');
  std::string name = fmt::format("m{}", random() % 3);
  TENON_ASSIGN(registry::Pushed pushed,
               registry.push({name, "report", path, FileStamp::of(path),
                              Json{{"meta", {{"team", fmt::format("t{}", random() % 5)}}}}, ""}));
  say(fmt::format("push {} {} {}\n", name, pushed.version.number, pushed.version.blob.hash));
  return Status::ok();
}

Status moveOne(Registry &registry, std::mt19937_64 &random) {
  std::string name = fmt::format("m{}", random() % 3);
  Result<registry::Object> object = registry.object(name);
  if (!object.isOk()) {
    return Status::ok(); // nothing of it was pushed yet
  }
  bool isBack = random() % 4 == 0;
  int64_t to = object->newest - static_cast<int64_t>(random() % 3);
  say(fmt::format("try {} {}\n", name, isBack ? 0 : to));
  Result<registry::Move> move = isBack ? registry.rollback(name, "live", {}, "")
                                       : registry.promote({name, to, ""}, "live", {}, "");
  if (move.isOk()) {
    say(fmt::format("move {} {}\n", name, move->to));
    return Status::ok();
  }
  ErrorId id = move.status().id();
  say(fmt::format("move {} -\n", name));
  return id == ErrorId::NothingToRollBack || id == ErrorId::NoSuchObject ||
                 id == ErrorId::BadObjectName
             ? Status::ok()
             : move.takeStatus();
}

/// Rules of an alias, and a result by them: what `verify` holds against the history.
Status gateOne(Registry &registry, std::mt19937_64 &random) {
  std::string name = fmt::format("m{}", random() % 3);
  Result<registry::Object> object = registry.object(name);
  if (!object.isOk()) {
    return Status::ok();
  }
  std::vector<std::string> texts = {fmt::format("size <= {}KiB", 1 + random() % 20)};
  TENON_ASSIGN(registry::Terms terms, registry::parseTerms(texts));
  TENON_TRY(registry.setTerms(name, "checked", terms));
  double bytes = static_cast<double>(random() % 20'000);
  std::vector<registry::RuleResult> results = {
      registry::decide(terms.rules[0], registry::Measured{bytes, bytes, bytes})};
  registry::GateResult result;
  result.version = object->newest;
  result.alias = "checked";
  result.outcome = registry::outcomeOf(results);
  result.terms = terms.texts;
  result.figures = registry::figuresOf(results);
  return registry.record(name, result);
}

int work(const std::string &where, const std::string &scratch, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (;;) {
    // The last to close empties the log of SQLite into the database.
    Result<Registry> registry = Registry::create(where, {.by = "driver", .clock = {}});
    if (!registry.isOk()) {
      return fail(registry.status());
    }
    say("open\n");
    for (int i = 0; i < 6; ++i) {
      uint64_t what = random() % 12;
      Status status = what < 5    ? pushOne(*registry, scratch, random)
                      : what < 9  ? moveOne(*registry, random)
                      : what < 11 ? gateOne(*registry, random)
                                  : registry->collect(4, false).takeStatus();
      if (!status.isOk()) {
        return fail(status);
      }
    }
  }
}

int check(const std::string &where) {
  bool isShared = registry::isSharedRegistry(where);
  if (!isShared && !std::filesystem::exists(where + "/registry.db")) {
    say("none\n");
    return 0;
  }
  // A folder that was left half made is made whole.
  Result<Registry> registry = isShared ? Registry::open(where, {.by = "check", .clock = {}})
                                       : Registry::create(where, {.by = "check", .clock = {}});
  if (isShared && registry.status().id() == ErrorId::BadRegistry) {
    say("none\n");
    return 0;
  }
  if (!registry.isOk()) {
    return fail(registry.status());
  }
  Result<registry::Verified> verified = registry->verify("");
  if (!verified.isOk()) {
    return fail(verified.status());
  }
  for (const Status &problem : verified->problems) {
    say(fmt::format("error {}\n", problem.toString()));
  }
  Result<std::vector<registry::Object>> objects = registry->objects("", 100);
  if (!objects.isOk()) {
    return fail(objects.status());
  }
  for (const registry::Object &object : *objects) {
    Result<std::vector<registry::Version>> versions = registry->versions(object.name);
    if (!versions.isOk()) {
      return fail(versions.status());
    }
    for (const registry::Version &version : *versions) {
      say(fmt::format("version {} {} {}\n", version.name, version.number, version.blob.hash));
    }
    for (const registry::Alias &alias : object.aliases) {
      say(fmt::format("alias {} {}\n", object.name, alias.version));
    }
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 4 && words[0] == "work") {
    return work(words[1], words[2], std::stoull(words[3]));
  }
  return words.size() == 2 && words[0] == "check" ? check(words[1]) : 2;
}
