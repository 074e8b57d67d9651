// The model's operators: a region's time is theirs, split by what each has to compute and to move
// where several share a kernel; those that are alike are added up.

#include "tools/tenon/profile/Profile.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace tenon::tool {
namespace {

/// Operations of vectors for an element, where the count of FLOPs says one for a function.
constexpr std::pair<std::string_view, double> kFunctions[] = {
    {"gelu", 20}, {"erf", 16}, {"exp", 12}, {"tanh", 16}, {"sigmoid", 14}, {"silu", 15}, {"softmax", 4},
    {"log", 14},  {"sin", 16}, {"cos", 16}, {"pow", 30},  {"div", 4},      {"sqrt", 4},  {"rsqrt", 4},
};

double operationsOf(const OperatorFigures &node) {
  for (const auto &[name, operations] : kFunctions) {
    if (node.kind == name) {
      return node.flops * operations;
    }
  }
  return node.flops;
}

bool isProduct(const OperatorFigures &node) {
  return node.kind == "matmul" || node.kind == "conv" || node.kind == "attention" || node.kind == "conv_transpose";
}

/// Seconds that the node would take by the limits, with what it shares with others in registers.
double weightOf(const Profile &profile, const RegionFigures &region, const OperatorFigures &node) {
  const ComputeLimit *unit = profile.limits.best(isProduct(node) ? region.numbers() : Numbers::F32, profile.features);
  double rate = unit ? unit->operations * (isProduct(node) ? 1 : 0.5) : 1;
  double compute = operationsOf(node) / rate;
  double memory = node.bytes / profile.limits.memory.front().bytes;
  return isProduct(node) ? std::max(compute, memory) : std::max(compute, memory / 2);
}

void splitRegion(Profile &profile, const RegionFigures &region) {
  double sum = 0, bytes = 0, flops = 0;
  std::vector<double> weights;
  for (size_t index : region.operators) {
    const OperatorFigures &node = profile.operators[index];
    weights.push_back(weightOf(profile, region, node));
    sum += weights.back();
    bytes += node.bytes;
    flops += node.flops;
  }
  for (size_t i = 0; i < region.operators.size(); ++i) {
    OperatorFigures &node = profile.operators[region.operators[i]];
    double even = 1 / static_cast<double>(region.operators.size());
    node.seconds = region.seconds * (sum > 0 ? weights[i] / sum : even);
    node.isSplit = region.operators.size() > 1;
    // What is counted for each node alone is more than what the kernel moves.
    node.bytes = region.bytes * (bytes > 0 ? node.bytes / bytes : even);
    node.flops = region.flops * (flops > 0 ? node.flops / flops : even);
  }
}

/// A name with * for each run of digits.
std::string patternOf(const std::string &name) {
  std::string pattern;
  for (char letter : name) {
    bool isDigit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (!isDigit) {
      pattern += letter;
    } else if (!pattern.ends_with('*')) {
      pattern += '*';
    }
  }
  return pattern;
}

/// The names of a group as one: the parts that all share, and * for numbers that differ.
std::string nameOf(const Profile &profile, const OperatorGroup &group) {
  const std::string &first = profile.operators[group.operators.front()].name;
  bool isOne = std::ranges::all_of(group.operators, [&](size_t index) { return profile.operators[index].name == first; });
  if (isOne) {
    return first;
  }
  // Position by position of the runs of digits: kept where they are equal everywhere.
  auto runsOf = [](const std::string &name) {
    std::vector<std::string> runs;
    bool wasDigit = false;
    for (char letter : name) {
      bool isDigit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
      if (isDigit && !wasDigit) {
        runs.emplace_back();
      }
      if (isDigit) {
        runs.back() += letter;
      }
      wasDigit = isDigit;
    }
    return runs;
  };
  std::vector<std::string> common = runsOf(first);
  for (size_t index : group.operators) {
    std::vector<std::string> own = runsOf(profile.operators[index].name);
    for (size_t i = 0; i < common.size(); ++i) {
      common[i] = common[i] == own[i] ? common[i] : "*";
    }
  }
  std::string text;
  size_t run = 0;
  for (char letter : patternOf(first)) {
    text += letter == '*' && run < common.size() ? common[run++] : std::string(1, letter);
  }
  return text;
}

void addGroups(Profile &profile) {
  std::map<std::string, OperatorGroup> groups;
  for (size_t i = 0; i < profile.operators.size(); ++i) {
    const OperatorFigures &node = profile.operators[i];
    OperatorGroup &group = groups[node.kind + ' ' + patternOf(node.name)];
    group.operators.push_back(i);
    group.seconds += node.seconds;
    group.flops += node.flops;
    group.bytes += node.bytes;
    group.isSplit |= node.isSplit;
  }
  for (auto &[key, group] : groups) {
    group.name = nameOf(profile, group);
    size_t longest = *std::ranges::max_element(group.operators, {}, [&](size_t index) { return profile.operators[index].seconds; });
    group.region = profile.operators[longest].region;
    profile.groups.push_back(std::move(group));
  }
  std::ranges::sort(profile.groups, std::greater(), &OperatorGroup::seconds);
}

} // namespace

void splitOperators(Profile &profile) {
  for (const RegionFigures &region : profile.regions) {
    splitRegion(profile, region);
  }
  addGroups(profile);
}

} // namespace tenon::tool
