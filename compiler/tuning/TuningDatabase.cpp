// Relies on the sizes in a region's text standing in its types, each before an 'x'.
#include "compiler/tuning/TuningDatabase.h"

#include "engine/Level.h"
#include "support/Hash.h"
#include "support/text/Text.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace tenon::tuning {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }

std::string textOf(const std::vector<int64_t> &sizes) {
  std::string text;
  for (int64_t size : sizes) {
    text += strCat(text.empty() ? "" : " ", size);
  }
  return text;
}

/// Whether code of both levels is for the same kind of device: what another kind measured says
/// nothing of this one.
bool areAlike(std::string_view level, std::string_view other) {
  const engine::Level *own = engine::findLevel(level), *foreign = engine::findLevel(other);
  return !own || !foreign || own->architecture == foreign->architecture;
}

/// How far sizes are apart: the sum of the doublings between each two.
double distance(const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(std::log2(double(a[i] + 1)) - std::log2(double(b[i] + 1)));
  }
  return sum;
}

} // namespace

Problem problemOf(std::string_view text) {
  Problem problem{.hash = hashText(text).hex(), .form = "", .sizes = {}, .families = ""};
  std::string form;
  for (size_t i = 0; i < text.size();) {
    bool isSize = i > 0 && (text[i - 1] == '<' || text[i - 1] == 'x') && isDigit(text[i]);
    size_t end = i;
    int64_t size = 0;
    while (isSize && end < text.size() && isDigit(text[end]) && size < (int64_t{1} << 40)) {
      size = size * 10 + (text[end++] - '0');
    }
    if (isSize && end < text.size() && text[end] == 'x') {
      problem.sizes.push_back(size);
      form += '?';
      i = end;
    } else {
      form += text[i++];
    }
  }
  problem.form = hashText(form).hex();
  return problem;
}

TuningDatabase::TuningDatabase(const std::vector<Record> &all, std::vector<Device> ownDevices)
    : devices(std::move(ownDevices)) {
  for (Record &record : newestOf(all)) {
    std::string problem = record.problem;
    records.emplace(std::move(problem), std::move(record));
  }
}

std::string TuningDatabase::levelOf(std::span<const std::string> levels) const {
  std::string best;
  for (const Device &device : devices) {
    for (const std::string &level : device.levels) {
      best = llvm::is_contained(levels, level) ? level : best;
    }
  }
  return best;
}

const Device *TuningDatabase::deviceOf(std::string_view level) const {
  auto found = llvm::find_if(
      devices, [&](const Device &device) { return llvm::is_contained(device.levels, level); });
  return found == devices.end() ? nullptr : &*found;
}

bool TuningDatabase::hasProblem(const Problem &problem) const {
  return records.contains(problem.hash);
}

/// The record that has the most in common says what differs.
std::string TuningDatabase::missOf(const Problem &problem, const std::string &level) const {
  const Device &own = *deviceOf(level);
  std::vector<std::string> least;
  bool isFirst = true;
  auto [begin, end] = records.equal_range(problem.hash);
  for (const auto &[hash, record] : llvm::make_range(begin, end)) {
    if (!areAlike(record.level, level)) {
      continue;
    }
    std::vector<std::string> different;
    auto compare = [&](std::string_view what, std::string_view measured, std::string_view here) {
      if (measured != here) {
        different.push_back(strCat(what, " '", measured, "', here '", here, "'"));
      }
    };
    compare("device", record.device, own.name);
    compare("threads", std::to_string(record.threads), std::to_string(own.threads));
    compare("level", record.level, level);
    compare("libraries", record.libraries, own.libraries);
    compare("families", record.families, problem.families);
    if (isFirst || different.size() < least.size()) {
      least = std::move(different);
    }
    isFirst = false;
  }
  if (!isFirst) {
    std::string text;
    for (const std::string &part : least) {
      text += strCat(text.empty() ? "it was measured for other " : "; for other ", part);
    }
    return text;
  }
  const Record *other = nearest(problem, level);
  return other ? strCat("no record of these sizes (", textOf(problem.sizes), "); the nearest has ",
                        textOf(other->sizes))
               : std::string("no record of such a region");
}

TuningDatabase::Answer TuningDatabase::find(const Problem &problem,
                                            std::span<const std::string> levels) const {
  std::string level = levelOf(levels);
  if (level.empty()) {
    return {nullptr, "this machine cannot run any of the levels that it is compiled for"};
  }
  const Device &own = *deviceOf(level);
  auto [begin, end] = records.equal_range(problem.hash);
  for (const auto &[hash, record] : llvm::make_range(begin, end)) {
    if (record.device == own.name && record.threads == own.threads && record.level == level &&
        record.libraries == own.libraries && record.families == problem.families) {
      return {&record, ""};
    }
  }
  bool isStale =
      std::any_of(begin, end, [&](const auto &each) { return areAlike(each.second.level, level); });
  return {nullptr, missOf(problem, level), isStale};
}

const Record *TuningDatabase::nearest(const Problem &problem, std::string_view level) const {
  const Device *own = deviceOf(level);
  const Record *best = nullptr;
  double least = 0;
  for (const auto &[hash, record] : records) {
    bool isAlike = own && record.form == problem.form &&
                   record.sizes.size() == problem.sizes.size() && record.device == own->name &&
                   record.level == level;
    double apart = isAlike ? distance(record.sizes, problem.sizes) : 0;
    if (isAlike && (!best || apart < least)) {
      best = &record;
      least = apart;
    }
  }
  return best;
}

std::string TuningDatabase::digest() const {
  Hasher hasher;
  for (const Device &own : devices) {
    hasher.update(strCat(own.name, '\n', own.threads, '\n', own.libraries, '\n'));
    for (const std::string &level : own.levels) {
      hasher.update(strCat(level, '\n'));
    }
    for (const auto &[hash, record] : records) {
      if (record.device == own.name && record.threads == own.threads) {
        hasher.update(strCat(lineOf(record), '\n'));
      }
    }
  }
  return hasher.digest().hex();
}

} // namespace tenon::tuning
