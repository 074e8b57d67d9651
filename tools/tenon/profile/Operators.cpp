// The model's operators: a region's time is theirs, split by what each has to compute and to move
// where several share a kernel; those that are alike are added up.

#include "tools/tenon/profile/Profile.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

namespace tenon::tool {
namespace {

/// Operations of vectors for an element, where the count of FLOPs says one for a function.
constexpr std::pair<std::string_view, double> kFunctions[] = {
    {"gelu", 20}, {"erf", 16},    {"exp", 12}, {"tanh", 16}, {"sigmoid", 14},
    {"silu", 15}, {"softmax", 4}, {"log", 14}, {"sin", 16},  {"cos", 16},
    {"pow", 30},  {"div", 4},     {"sqrt", 4}, {"rsqrt", 4},
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
  return node.kind == "matmul" || node.kind == "conv" || node.kind == "attention" ||
         node.kind == "conv_transpose";
}

/// Seconds that the node would take by the limits, with what it shares with others in registers.
double weightOf(const Profile &profile, const RegionFigures &region, const OperatorFigures &node) {
  const ComputeLimit *unit =
      profile.limits.best(isProduct(node) ? region.numbers() : Numbers::F32, profile.features);
  double rate = unit ? unit->operations * (isProduct(node) ? 1 : 0.5) : 1;
  double compute = operationsOf(node) / rate;
  double memory = node.bytes / profile.limits.memory.front().bytes;
  return isProduct(node) ? std::max(compute, memory) : std::max(compute, memory / 2);
}

/// Of a GPU's product with others behind it, the part of the time that is theirs by the model's
/// parts; none where these do not say.
std::optional<double> shareBehindProduct(const Profile &profile, const RegionFigures &region) {
  double all = 0, behind = 0;
  for (const KernelPart &part : region.parts) {
    all += part.seconds;
    behind += part.name == "epilogue" ? part.seconds : 0;
  }
  auto isOfProduct = [&](size_t index) { return isProduct(profile.operators[index]); };
  bool isKnown = all > 0 && std::ranges::any_of(region.operators, isOfProduct) &&
                 !std::ranges::all_of(region.operators, isOfProduct);
  return isKnown ? std::optional(behind / all) : std::nullopt;
}

/// Makes the weights of what stands behind a product its part of the time.
void weighBehind(const Profile &profile, const RegionFigures &region,
                 std::vector<double> &weights) {
  std::optional<double> share = shareBehindProduct(profile, region);
  if (!share) {
    return;
  }
  double products = 0, others = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    (isProduct(profile.operators[region.operators[i]]) ? products : others) += weights[i];
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    bool isOfProduct = isProduct(profile.operators[region.operators[i]]);
    double sum = isOfProduct ? products : others;
    weights[i] = sum > 0 ? weights[i] / sum * (isOfProduct ? 1 - *share : *share) : 0;
  }
}

void splitRegion(Profile &profile, const RegionFigures &region) {
  double sum = 0, bytes = 0, flops = 0;
  std::vector<double> weights;
  for (size_t index : region.operators) {
    const OperatorFigures &node = profile.operators[index];
    weights.push_back(weightOf(profile, region, node));
    bytes += node.bytes;
    flops += node.flops;
  }
  weighBehind(profile, region, weights);
  for (double weight : weights) {
    sum += weight;
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

/// A name as the texts around its runs of digits: one more of them than of the runs.
struct NameParts {
  std::vector<std::string> texts = {""}, numbers;
};

NameParts partsOf(const std::string &name) {
  NameParts parts;
  bool wasDigit = false;
  for (char letter : name) {
    bool isDigit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (isDigit && !wasDigit) {
      parts.numbers.emplace_back();
      parts.texts.emplace_back();
    }
    (isDigit ? parts.numbers : parts.texts).back() += letter;
    wasDigit = isDigit;
  }
  return parts;
}

/// The names of a group as one: the texts, which all share, and * for numbers that differ.
std::string nameOf(const Profile &profile, const OperatorGroup &group) {
  NameParts common = partsOf(profile.operators[group.operators.front()].name);
  for (size_t index : group.operators) {
    NameParts own = partsOf(profile.operators[index].name);
    for (size_t i = 0; i < common.numbers.size(); ++i) {
      common.numbers[i] = common.numbers[i] == own.numbers[i] ? common.numbers[i] : "*";
    }
  }
  std::string text = common.texts.front();
  for (size_t i = 0; i < common.numbers.size(); ++i) {
    text += common.numbers[i] + common.texts[i + 1];
  }
  return text;
}

void addGroups(Profile &profile) {
  std::map<std::pair<std::string, std::vector<std::string>>, OperatorGroup> groups;
  for (size_t i = 0; i < profile.operators.size(); ++i) {
    const OperatorFigures &node = profile.operators[i];
    OperatorGroup &group = groups[{node.kind, partsOf(node.name).texts}];
    group.operators.push_back(i);
    group.seconds += node.seconds;
    group.flops += node.flops;
    group.bytes += node.bytes;
    group.isSplit |= node.isSplit;
  }
  for (auto &[key, group] : groups) {
    group.name = nameOf(profile, group);
    size_t longest = *std::ranges::max_element(
        group.operators, {}, [&](size_t index) { return profile.operators[index].seconds; });
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
