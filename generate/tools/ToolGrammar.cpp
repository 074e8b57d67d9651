// Free text is an automaton that knows how much of the opener of a call has come.
#include "generate/tools/ToolGrammar.h"

#include "generate/grammar/Schema.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace tenon::generate {
namespace {

using grammar::Count;
using grammar::Edge;
using grammar::Grammar;
using grammar::JsonRules;

class ToolGrammarBuilder {
public:
  ToolGrammarBuilder(const ToolRules &theRules, const ToolFormat &theFormat,
                     const Tokenizer &theTokenizer)
      : tools(theRules), format(theFormat), tokenizer(theTokenizer),
        result(std::make_shared<Grammar>()), rules(*result), end(result->addEnd()) {
    result->markers = format.markers;
  }

  Result<std::shared_ptr<const Grammar>> build() {
    result->root = result->add();
    uint32_t name = result->add(), behind = result->add();
    TENON_TRY(addTools(name, behind));
    uint32_t after = tools.mustCall ? end : result->add();
    add(behind, format.behind, after);
    if (tools.isParallel && !format.between.empty()) {
      add(behind, format.between, name);
    }
    if (tools.mustCall || tools.content) {
      add(result->root, format.before, name);
      if (after != end) {
        result->empty(after, end);
      }
    }
    if (tools.content) {
      TENON_ASSIGN(uint32_t content, addSchema(*result, rules, *tools.content, "#"));
      uint32_t first = result->add();
      result->call(result->root, rules.space, first).isLeaf = true;
      result->call(first, content, end);
    } else if (!tools.mustCall) {
      addFreeText(name, after);
    }
    TENON_TRY(completeGrammar(*result));
    return std::shared_ptr<const Grammar>(std::move(result));
  }

private:
  /// A text of the template with its control tokens and ids.
  void add(uint32_t from, std::string_view text, uint32_t to) {
    for (auto &[token, part] : cutAtTokens(text, format.markers, tokenizer)) {
      if (token >= 0) {
        size_t number =
            static_cast<size_t>(std::ranges::find(format.markers, token) - format.markers.begin());
        unsigned symbol = static_cast<unsigned>(grammar::kMarkers + number);
        uint32_t next = result->add();
        result->bytes(from, symbol, symbol, next);
        from = next;
        continue;
      }
      for (char c : part) {
        from = c == ToolFormat::kId ? addId(from) : addByte(from, static_cast<unsigned char>(c));
      }
    }
    result->empty(from, to);
  }

  uint32_t addByte(uint32_t from, unsigned byte) {
    uint32_t next = result->add();
    result->bytes(from, byte, byte, next);
    return next;
  }

  uint32_t addId(uint32_t from) {
    constexpr std::array<std::pair<unsigned, unsigned>, 3> kSigns = {
        {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}};
    for (size_t i = 0; i < ToolFormat::kIdSize; ++i) {
      uint32_t next = result->add();
      for (auto [first, last] : kSigns) {
        result->bytes(from, first, last, next);
      }
      from = next;
    }
    return from;
  }

  /// From a call's name to the end of its arguments, for each tool.
  Status addTools(uint32_t from, uint32_t to) {
    for (size_t i = 0; i < tools.tools.size(); ++i) {
      const Json &function = tools.tools[i]["function"];
      std::string name = function["name"].get<std::string>();
      if (!tools.name.empty() && name != tools.name) {
        continue;
      }
      uint32_t named = result->add(), arguments = result->add();
      result->text(from, name, named);
      add(named, format.middle, arguments);
      TENON_ASSIGN(uint32_t rule, argumentsOf(function, name));
      result->call(arguments, rule, to);
    }
    return Status::ok();
  }

  Result<uint32_t> argumentsOf(const Json &function, const std::string &name) {
    Json schema = function.value("parameters", Json());
    schema = schema.is_null() ? Json{{"type", "object"}, {"properties", Json::object()}} : schema;
    bool isStrict = function.value("strict", Json(false)) == true;
    Result<uint32_t> rule =
        addSchema(*result, rules, schema, strCat("tools/", name, "/parameters"));
    return rule.isOk() || isStrict ? std::move(rule) : Result<uint32_t>(rules.object);
  }

  /// Any text; where the opener of a call has come, a call.
  void addFreeText(uint32_t name, uint32_t after) {
    std::string_view before = format.before;
    auto parts = cutAtTokens(before, format.markers, tokenizer);
    bool isMarker = !parts.empty() && parts[0].first >= 0;
    uint32_t free = result->addEnd(); // the text may end anywhere
    result->empty(after, free);
    if (isMarker) {
      uint32_t behind = result->add();
      result->bytes(free, 0, 255, free);
      size_t number = static_cast<size_t>(std::ranges::find(format.markers, parts[0].first) -
                                          format.markers.begin());
      unsigned symbol = static_cast<unsigned>(grammar::kMarkers + number);
      result->bytes(free, symbol, symbol, behind);
      add(behind, before.substr(tokenizer.vocabulary().tokens[parts[0].first].size()), name);
      result->empty(result->root, free);
      return;
    }
    if (format.opener.empty()) { // JSON at the beginning is a call
      uint32_t first = result->addEnd();
      result->empty(result->root, first);
      for (unsigned byte = 0; byte < 256; ++byte) {
        bool isSpace = byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
        if (byte != '{') {
          result->bytes(first, byte, byte, isSpace ? first : free);
        }
      }
      result->bytes(free, 0, 255, free);
      add(first, before.substr(before.find('{')), name);
      return;
    }
    result->empty(result->root, free);
    addSearch(free, before.substr(before.find(format.opener)), name);
  }

  /// The automaton of Knuth, Morris and Pratt for the opener, whose first state is `free`.
  void addSearch(uint32_t free, std::string_view before, uint32_t name) {
    const std::string &what = format.opener;
    std::vector<uint32_t> states = {free};
    for (size_t i = 1; i < what.size(); ++i) {
      states.push_back(result->addEnd());
    }
    uint32_t found = result->add();
    add(found, before.substr(what.size()), name);
    std::vector<std::array<size_t, 256>> next(what.size());
    size_t fallback = 0; // the state that the same text without its first byte leads to
    for (size_t i = 0; i < what.size(); ++i) {
      unsigned char own = static_cast<unsigned char>(what[i]);
      for (size_t byte = 0; byte < 256; ++byte) {
        next[i][byte] = byte == own ? i + 1 : i == 0 ? 0 : next[fallback][byte];
      }
      fallback = i == 0 ? 0 : next[fallback][own];
      for (unsigned first = 0, last = 0; first < 256; first = last + 1) {
        last = first;
        while (last + 1 < 256 && next[i][last + 1] == next[i][first]) {
          ++last;
        }
        size_t target = next[i][first];
        result->bytes(states[i], first, last, target == what.size() ? found : states[target]);
      }
    }
  }

  const ToolRules &tools;
  const ToolFormat &format;
  const Tokenizer &tokenizer;
  std::shared_ptr<Grammar> result;
  JsonRules rules;
  uint32_t end;
};

} // namespace

bool needGrammar(const ToolRules &rules) {
  return rules.mustCall || rules.content || std::ranges::any_of(rules.tools, [](const Json &tool) {
           return tool["function"].value("strict", Json(false)) == true;
         });
}

Result<std::shared_ptr<const grammar::Grammar>>
toolGrammar(const ToolRules &rules, const ToolFormat &format, const Tokenizer &tokenizer) {
  return ToolGrammarBuilder(rules, format, tokenizer).build();
}

} // namespace tenon::generate
