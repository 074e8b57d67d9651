// The record's switches are what is printed; a template is read again for what it uses.
#include "tools/tenon/generate/LanguageText.h"

#include "generate/template/Parser.h"
#include "generate/template/Uses.h"
#include "generate/tokenizer/Vocabulary.h"
#include "tools/tenon/generate/Fitting.h"
#include "tools/tenon/print/Format.h"
#include "tools/tenon/print/JsonFields.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace tenon::tool {
namespace {

using generate::jinja::Uses;
using view::visible;

constexpr size_t kTemplateLines = 3, kLineBytes = 90, kSpecialTokens = 8;

// Members of a record, without copies of long lists; what is missing reads as nothing.

const Json &memberAt(const Json &value, const char *key) {
  static const Json kNone;
  auto found = value.find(key);
  return found == value.end() ? kNone : *found;
}

const Json &objectAt(const Json &value, const char *key) {
  static const Json kNone = Json::object();
  const Json &member = memberAt(value, key);
  return member.is_object() ? member : kNone;
}

const Json &arrayAt(const Json &value, const char *key) {
  static const Json kNone = Json::array();
  const Json &member = memberAt(value, key);
  return member.is_array() ? member : kNone;
}

double numberIn(const Json &value, const char *key) {
  const Json &member = memberAt(value, key);
  return member.is_number() ? member.get<double>() : 0;
}

int64_t integerAt(const Json &value, const char *key, int64_t otherwise = 0) {
  const Json &member = memberAt(value, key);
  return member.is_number_integer() ? member.get<int64_t>() : otherwise;
}

bool isTrue(const Json &value, const char *key) { return memberAt(value, key) == true; }

std::string plainText(const Json &value) {
  return value.is_string() ? value.get<std::string>() : dumpJson(value);
}

/// "0-4, 6": numbers in order, runs of them as one.
std::string runsText(const Json &numbers) {
  std::vector<std::string> runs;
  std::vector<int64_t> all;
  for (const Json &number : numbers) {
    all.push_back(number.is_number_integer() ? number.get<int64_t>() : -1);
  }
  for (size_t i = 0; i < all.size();) {
    int64_t first = all[i], last = first;
    for (++i; i < all.size() && all[i] == last + 1; ++i) {
      ++last;
    }
    runs.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

std::string ropeText(const Json &rope) {
  std::string form = textAt(rope, "form");
  if (form == "none") {
    return "none: positions have embeddings";
  }
  std::string text = fmt::format("{} of {} elements, base {:g}", form, integerAt(rope, "elements"),
                                 numberIn(rope, "base"));
  if (rope.contains("window_base")) {
    text += fmt::format(" ({:g} in layers with a window)", numberIn(rope, "window_base"));
  }
  std::string scaling = textAt(rope, "scaling");
  text += ", scaling " + scaling;
  if (numberIn(rope, "factor") != 1) {
    text += fmt::format(" by {:g}", numberIn(rope, "factor"));
  }
  if (rope.contains("original_positions")) {
    text += fmt::format(" from {} positions", integerAt(rope, "original_positions"));
  }
  std::string without = runsText(arrayAt(rope, "layers_without"));
  return without.empty() ? text : text + ", none in layers " + without;
}

std::string capText(const Json &switches, const char *key) {
  double cap = numberIn(switches, key);
  return cap == 0 ? "none" : fmt::format("{:g}", cap);
}

std::string switchesText(const Json &facts) {
  const Json &switches = objectAt(facts, "switches");
  const Json &window = objectAt(switches, "window");
  std::string norm =
      fmt::format("{}, epsilon {:g}", textAt(switches, "norm") == "layer" ? "LayerNorm" : "RMSNorm",
                  numberIn(switches, "epsilon"));
  norm += isTrue(switches, "normalizes_heads") ? "; of queries and keys by head too" : "";
  norm += isTrue(switches, "normalizes_results") ? "; behind attention and feed-forward too" : "";
  std::string windows =
      integerAt(window, "length") == 0
          ? "none"
          : fmt::format("the last {} positions in layers {}", integerAt(window, "length"),
                        runsText(arrayAt(window, "layers")));
  std::vector<std::string> biases;
  for (const Json &part : arrayAt(switches, "biases")) {
    biases.push_back(plainText(part));
  }
  std::string_view gate = isTrue(switches, "gated") ? ", gated" : "";
  std::string_view parallel = isTrue(switches, "parallel") ? ", parallel to attention" : "";
  return fmt::format(
      "  family  {}, {} layers of width {}, {} in feed-forward ({}{}{}), trained for {} positions\n"
      "  heads   {} of queries, {} of keys, {} elements each{}\n"
      "  norm    {}\n"
      "  rope    {}\n"
      "  window  {}\n"
      "  caps    scores {}, logits {}\n"
      "  scales  scores {:g}, embeddings {:g}\n"
      "  output  {}\n"
      "  biases  {}\n",
      textAt(facts, "family"), integerAt(facts, "layers"), integerAt(switches, "width"),
      integerAt(switches, "inner"), textAt(switches, "activation"), gate, parallel,
      integerAt(facts, "context"), integerAt(switches, "heads"), integerAt(switches, "key_heads"),
      integerAt(switches, "key_width"),
      integerAt(switches, "value_width") == integerAt(switches, "key_width")
          ? ""
          : fmt::format(" ({} of values)", integerAt(switches, "value_width")),
      norm, ropeText(objectAt(switches, "rope")), windows, capText(switches, "score_cap"),
      capText(switches, "logit_cap"), numberIn(switches, "score_scale"),
      numberIn(switches, "embedding_scale"),
      isTrue(switches, "tied_output") ? "tied to the embedding" : "a matrix of its own",
      biases.empty() ? "none" : fmt::format("{}", fmt::join(biases, ", ")));
}

std::string tensorsText(const Json &facts) {
  std::vector<std::string> types;
  for (const Json &type : arrayAt(facts, "tensors")) {
    types.push_back(fmt::format("{} {} in {}", integerAt(type, "count"), textAt(type, "type"),
                                formatBytes(static_cast<uint64_t>(integerAt(type, "bytes")))));
  }
  return fmt::format("  tensors {}\n  cache   {} bytes a token\n", fmt::join(types, ", "),
                     integerAt(facts, "cache_bytes"));
}

/// Numbers of the tokens that only a template writes, and of those that end a text.
std::vector<size_t> specialTokens(const Json &tokenizer) {
  constexpr char kControl = '0' + static_cast<char>(generate::TokenKind::Control);
  std::string kinds = textAt(tokenizer, "kinds");
  std::vector<size_t> numbers;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == kControl) {
      numbers.push_back(i);
    }
  }
  return numbers;
}

std::string tokenName(const Json &tokenizer, int64_t number) {
  const Json &tokens = arrayAt(tokenizer, "tokens");
  return number < 0 || number >= std::ssize(tokens)
             ? std::string("none")
             : fmt::format("{} {}", number, visible(plainText(tokens[number])));
}

std::string kindText(const Json &tokenizer) {
  return textAt(tokenizer, "form") == "scored" ? "BPE by scores with byte fallback"
                                               : "byte-level BPE";
}

std::string tokenizerText(const Json &facts, const Json &tokenizer) {
  if (tokenizer.is_null()) {
    return "  tokenizer none that is understood\n";
  }
  std::vector<std::string> ends, special;
  for (const Json &end : arrayAt(tokenizer, "ends")) {
    ends.push_back(tokenName(tokenizer, end.is_number_integer() ? end.get<int64_t>() : -1));
  }
  std::vector<size_t> numbers = specialTokens(tokenizer);
  for (size_t i = 0; i < std::min(numbers.size(), kSpecialTokens); ++i) {
    special.push_back(tokenName(tokenizer, static_cast<int64_t>(numbers[i])));
  }
  std::string more = numbers.size() > kSpecialTokens
                         ? fmt::format(" and {} more", numbers.size() - kSpecialTokens)
                         : "";
  std::string pre = textAt(facts, "pre_tokenizer");
  return fmt::format("  tokenizer {}, {}, {} tokens, {} merges\n"
                     "          begins with {} ({}), ends with {} ({}); an answer ends at {}\n"
                     "          special {}{}\n",
                     kindText(tokenizer),
                     pre.empty() ? fmt::format("{} patterns", arrayAt(tokenizer, "patterns").size())
                                 : "pre-tokenizer " + pre,
                     arrayAt(tokenizer, "tokens").size(), arrayAt(tokenizer, "merges").size() / 2,
                     tokenName(tokenizer, integerAt(tokenizer, "bos", -1)),
                     isTrue(tokenizer, "adds_bos") ? "added" : "not added",
                     tokenName(tokenizer, integerAt(tokenizer, "eos", -1)),
                     isTrue(tokenizer, "adds_eos") ? "added" : "not added",
                     ends.empty() ? "none" : fmt::format("{}", fmt::join(ends, ", ")),
                     special.empty() ? "none" : fmt::format("{}", fmt::join(special, ", ")), more);
}

/// The first lines, each cut where it is long.
std::vector<std::string> firstLinesOf(const std::string &text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size() && lines.size() < kTemplateLines;) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line = visible(text.substr(at, end - at));
    size_t cut = std::min(line.size(), kLineBytes);
    while (cut < line.size() && (static_cast<uint8_t>(line[cut]) & 0xc0) == 0x80) {
      --cut; // within a character
    }
    lines.push_back(cut < line.size() ? line.substr(0, cut) + "..." : line);
    at = end + 1;
  }
  return lines;
}

std::string namesText(const char *what, const std::set<std::string> &names) {
  return names.empty() ? "" : fmt::format("          {} {}\n", what, fmt::join(names, ", "));
}

std::string templateText(const Json &facts) {
  std::string source = textAt(facts, "template");
  if (source.empty()) {
    return "  template none\n";
  }
  std::string text = fmt::format("  template {} bytes\n", source.size());
  for (const std::string &line : firstLinesOf(source)) {
    text += "          | " + line + "\n";
  }
  Result<generate::jinja::Body> body = generate::jinja::parseTemplate(source);
  if (!body) {
    return text + fmt::format("          refused: {}\n", visible(body.status().message()));
  }
  Uses uses = generate::jinja::usesOf(*body);
  return text + namesText("variables ", uses.variables) + namesText("statements", uses.statements) +
         namesText("filters   ", uses.filters) + namesText("tests     ", uses.tests) +
         namesText("functions ", uses.functions) + namesText("methods   ", uses.methods);
}

Json tokenizerJson(const Json &facts, const Json &tokenizer) {
  Json special = Json::array();
  for (size_t number : specialTokens(tokenizer)) {
    if (number < arrayAt(tokenizer, "tokens").size()) {
      special.push_back({{"token", number}, {"text", arrayAt(tokenizer, "tokens")[number]}});
    }
  }
  Json value = {{"kind", textAt(tokenizer, "form")},
                {"pre_tokenizer", textAt(facts, "pre_tokenizer")},
                {"tokens", arrayAt(tokenizer, "tokens").size()},
                {"merges", arrayAt(tokenizer, "merges").size() / 2},
                {"special", std::move(special)}};
  for (const char *key :
       {"patterns", "composes", "adds_bos", "adds_eos", "bos", "eos", "unknown", "ends"}) {
    value[key] = memberAt(tokenizer, key);
  }
  return value;
}

Json templateJson(const std::string &source) {
  Json value = {{"text", source}, {"bytes", source.size()}};
  Result<generate::jinja::Body> body = generate::jinja::parseTemplate(source);
  if (!body) {
    value["refused"] = std::string(body.status().message());
    return value;
  }
  Uses uses = generate::jinja::usesOf(*body);
  value["uses"] = {{"variables", uses.variables}, {"statements", uses.statements},
                   {"filters", uses.filters},     {"tests", uses.tests},
                   {"functions", uses.functions}, {"methods", uses.methods}};
  return value;
}

} // namespace

std::string languageText(const LanguageInfo &info) {
  if (!info.language.is_object() || !info.language.contains("switches")) {
    return "";
  }
  std::string fit = info.fit ? fmt::format("  memory  {}\n", fitText(*info.fit)) : "";
  fit += info.users ? fmt::format("  users   {}\n", serviceFitText(*info.users)) : "";
  return switchesText(info.language) + tensorsText(info.language) + fit +
         tokenizerText(info.language, info.tokenizer) + templateText(info.language);
}

Json languageJson(const LanguageInfo &info) {
  if (!info.language.is_object()) {
    return nullptr;
  }
  Json value = info.language;
  value["template"] = templateJson(textAt(info.language, "template"));
  value["tokenizer"] =
      info.tokenizer.is_null() ? Json() : tokenizerJson(info.language, info.tokenizer);
  if (info.fit) {
    value["memory"] = fitJson(*info.fit);
  }
  if (info.users) {
    value["users"] = serviceFitJson(*info.users);
  }
  return value;
}

} // namespace tenon::tool
