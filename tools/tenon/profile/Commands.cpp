// Implements the way from the options that an engine records back to flags.

#include "tools/tenon/profile/Commands.h"

#include "support/Shape.h"
#include "tools/tenon/print/JsonFields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tenon::tool {
namespace {

std::string dimText(const Json &dim) {
  return dim.is_number()  ? fmt::format("{}", dim.get<int64_t>())
         : dim.is_array() ? fmt::format("[{}..{}]", dumpJson(dim.at(0)), dumpJson(dim.at(1)))
                          : std::string("?");
}

std::string shapeText(const std::string &input, const Json &dims) {
  std::vector<std::string> texts;
  for (const Json &dim : dims) {
    texts.push_back(dimText(dim));
  }
  return fmt::format("{}:{}", input, fmt::join(texts, "x"));
}

class Words {
public:
  explicit Words(std::string start) : text(std::move(start)) {}

  void add(const std::string &flag, const std::string &value) {
    text += ' ' + flag + ' ' + quoted(value);
  }
  /// Flags as they are.
  void add(const std::string &flags) { text += flags.empty() ? "" : ' ' + flags; }
  std::string take() { return std::move(text); }

private:
  std::string text;
};

std::string targetOf(const Json &options) {
  std::vector<std::string> cpus, gpus;
  for (const Json &level : listAt(options, "levels")) {
    std::string name = level.is_string() ? level.get<std::string>() : "";
    (name.starts_with("sm_") ? gpus : cpus).push_back(name);
  }
  bool isAll = options.value("adds_levels", false) || cpus.empty();
  std::string text = cpus.empty() ? ""
                     : isAll      ? "cpu"
                                  : fmt::format("cpu:{}", fmt::join(cpus, ","));
  return text + (gpus.empty()
                     ? ""
                     : fmt::format("{}cuda:{}", text.empty() ? "" : ",", fmt::join(gpus, ",")));
}

} // namespace

std::string quoted(const std::string &text) {
  bool isPlain = !text.empty() && std::ranges::all_of(text, [](unsigned char letter) {
    return std::isalnum(letter) != 0 ||
           std::string_view("_-./:,=+@%").find(static_cast<char>(letter)) != std::string_view::npos;
  });
  if (isPlain) {
    return text;
  }
  std::string word = "'";
  for (char letter : text) {
    word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  }
  return word + "'";
}

std::string compileCommand(const Profile &profile, const CompileChange &change) {
  const Json &options = profile.options;
  auto has = [&](const std::string &key) {
    return options.contains(key) && std::ranges::find(change.without, key) == change.without.end();
  };
  Words words(fmt::format("tenon compile {} -o {}", quoted(profile.model), change.output));
  std::string target = change.target.empty() ? targetOf(options) : change.target;
  if (target != "cpu") {
    words.add("--target", target);
  }
  const Json shapes = options.value("shapes", Json::object()),
             states = options.value("states", Json::object());
  for (const auto &[input, dims] : shapes.items()) {
    words.add("--shape", shapeText(input, dims));
  }
  std::string precision = textAt(options, "precision");
  if (precision != "keep" && !precision.empty() &&
      change.more.find("--precision") == std::string::npos) {
    words.add("--precision", precision);
  }
  for (const auto &[key, flag] : {std::pair("disabled_families", "--disable-family"),
                                  std::pair("kernels", "--kernel"), std::pair("taps", "--tap")}) {
    for (const Json &value : has(key) ? listAt(options, key) : Json::array()) {
      words.add(flag, value.get<std::string>());
    }
  }
  for (const auto &[key, flag] :
       {std::pair("allow_tf32", "tf32"), std::pair("allow_tanh_gelu", "tanh-gelu"),
        std::pair("allow_int8_activations", "int8-activations")}) {
    words.add(options.value(key, false) ? fmt::format("--allow {}", flag) : "");
  }
  for (const auto &[input, output] : states.items()) {
    words.add("--state", input + '=' + output.get<std::string>());
  }
  for (const Json &sizes : has("optimize_for") ? listAt(options, "optimize_for") : Json::array()) {
    if (sizes.is_number()) {
      words.add("--optimize-for", dumpJson(sizes));
      continue;
    }
    for (const auto &[input, dims] : sizes.items()) {
      words.add("--optimize-for", shapeText(input, dims));
    }
  }
  if (has("max_weights")) {
    words.add("--max-weights", dumpJson(options["max_weights"]) + "x");
  }
  words.add(has("pages") ? fmt::format("--pages {}", dumpJson(options["pages"])) : "");
  std::string cache = textAt(options, "cache");
  words.add(cache.empty() ? "" : fmt::format("--cache {}", cache == "i8" ? "int8" : "fp8"));
  words.add(has("invariant") && options.value("invariant", false) ? "--invariant" : "");
  words.add(has("guard") && options.value("guard", false) ? "--guard" : "");
  words.add(change.more);
  return words.take();
}

std::string runCommand(const Profile &profile, const InputDims &inputs, const std::string &flags) {
  Words words("tenon bench " + quoted(profile.engine));
  for (const auto &[name, dims] : inputs) {
    if (!profile.sizes.empty()) {
      words.add("--shape", name + ':' + formatDims(dims));
    }
  }
  words.add(flags);
  return words.take();
}

std::string explainCommand(const Profile &profile, const std::string &topic,
                           const std::string &node) {
  // The records that explain reads are in an engine.
  bool isOfModel = profile.model == profile.path;
  std::string engine = isOfModel ? "model.tenon" : quoted(profile.engine);
  Words words(isOfModel ? fmt::format("{} && tenon explain {} {}",
                                      compileCommand(profile, {.output = engine}), topic, engine)
                        : fmt::format("tenon explain {} {}", topic, engine));
  words.add(node.empty() ? "" : quoted(node));
  return words.take();
}

std::string firstShape(const Profile &profile) {
  const auto &[name, dims] = profile.inputs.front();
  return quoted(name + ':' + formatDims(dims));
}

std::string nodeOf(const Profile &profile, size_t region) {
  const std::vector<size_t> &nodes = profile.regions[region].operators;
  if (nodes.empty()) {
    return profile.regions[region].label;
  }
  return profile
      .operators[*std::ranges::max_element(
          nodes, {}, [&](size_t node) { return profile.operators[node].seconds; })]
      .name;
}

} // namespace tenon::tool
