// Implements the search by two renderings: one call, and two. Their difference is what stands
// between calls.
#include "generate/tools/ToolFormat.h"

#include "support/json/Json.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace tenon::generate {
namespace {

// No template has these.
constexpr std::string_view kName = "probe_tool", kKey = "probe_key", kValue = "probe value";
constexpr std::array<std::string_view, 2> kIds = {"probeidA1", "probeidB2"};

std::string probeTools() {
  return dumpJson(
      Json::array({{{"type", "function"},
                    {"function",
                     {{"name", kName},
                      {"description", "Probes."},
                      {"parameters",
                       {{"type", "object"},
                        {"properties", {{kKey, {{"type", "string"}, {"description", "Probed."}}}}},
                        {"required", Json::array({kKey})}}}}}}}));
}

Result<std::string> renderCalls(std::string_view chatTemplate, const Tokenizer &tokenizer,
                                size_t calls, bool asText) {
  std::vector<Message> messages = {{"user", "a"}};
  if (calls > 0) {
    Message &answer = messages.emplace_back(Message{"assistant", ""});
    for (size_t i = 0; i < calls; ++i) {
      answer.calls.push_back(
          {std::string(kIds[i]), std::string(kName), strCat("{\"", kKey, "\": \"", kValue, "\"}")});
    }
  }
  TENON_ASSIGN(jinja::Text text, renderChat(chatTemplate, messages, tokenizer,
                                            {.tools = probeTools(),
                                             .givesArgumentsAsText = asText,
                                             .addsPrompt = calls == 0}));
  return std::move(text.bytes);
}

/// Behind the closing bracket of the object that begins at `at`; npos for none.
size_t endOfObject(std::string_view text, size_t at) {
  int depth = 0;
  bool isInString = false;
  for (; at < text.size(); ++at) {
    char c = text[at];
    if (isInString) {
      at += c == '\\' ? 1 : 0;
      isInString = c != '"';
    } else if (c == '"') {
      isInString = true;
    } else {
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (depth == 0) {
        return at + 1;
      }
    }
  }
  return text.npos;
}

/// Where the next call's name and arguments stand.
struct CallSpan {
  size_t name, arguments, end;
};

std::optional<CallSpan> findCall(std::string_view text, size_t from) {
  size_t name = text.find(kName, from), key = text.find(kKey, name);
  size_t open = key == text.npos ? key : text.rfind('{', key);
  if (name == text.npos || open == text.npos || open < name) {
    return std::nullopt;
  }
  size_t end = endOfObject(text, open);
  Json read = end == text.npos ? Json() : parseJson(text.substr(open, end - open));
  bool isIt = read == Json{{kKey, kValue}};
  return isIt ? std::optional(CallSpan{name, open, end}) : std::nullopt;
}

std::string withoutIds(std::string_view text) {
  std::string result(text);
  for (std::string_view id : kIds) {
    for (size_t at = result.find(id); at != result.npos; at = result.find(id)) {
      result.replace(at, id.size(), 1, ToolFormat::kId);
    }
  }
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  size_t first = std::min(text.find_first_not_of(kSpaces), text.size());
  text.remove_prefix(first);
  size_t last = text.find_last_not_of(kSpaces);
  return text.substr(0, last == text.npos ? 0 : last + 1);
}

/// The last text in double quotes.
std::string lastQuoted(std::string_view text) {
  size_t end = text.rfind('"');
  size_t begin = end == text.npos || end == 0 ? text.npos : text.rfind('"', end - 1);
  return begin == text.npos ? std::string() : std::string(text.substr(begin + 1, end - begin - 1));
}

/// What stands behind the generation prompt in a rendering of an answer.
std::string_view answerIn(std::string_view text, std::string_view prompt) {
  size_t same = static_cast<size_t>(std::ranges::mismatch(text, prompt).in1 - text.begin());
  if (!trimmed(prompt.substr(same))
           .empty()) { // the prompt goes on otherwise: back to where the turn began
    size_t line = text.substr(0, same).find_last_of("\n>");
    same = line == text.npos ? 0 : line + 1;
  }
  return text.substr(same);
}

/// Up to the token that ends the turn.
std::string_view beforeEnd(std::string_view text, const Tokenizer &tokenizer) {
  size_t end = text.size();
  const Vocabulary &vocabulary = tokenizer.vocabulary();
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    bool isEnd =
        std::ranges::find(vocabulary.ends, static_cast<int32_t>(i)) != vocabulary.ends.end();
    if (isEnd || static_cast<int32_t>(i) == vocabulary.eos) {
      end = std::min(end, text.find(vocabulary.tokens[i]));
    }
  }
  return text.substr(0, end);
}

/// Control tokens that a text has, in their order.
std::vector<int32_t> controlTokensIn(std::string_view text, const Tokenizer &tokenizer) {
  std::vector<int32_t> found;
  for (size_t i = 0; i < tokenizer.size(); ++i) {
    int32_t token = static_cast<int32_t>(i);
    const std::string &name = tokenizer.vocabulary().tokens[i];
    if (tokenizer.isControl(token) && !name.empty() && text.find(name) != text.npos) {
      found.push_back(token);
    }
  }
  return found;
}

/// What follows from the texts of a call.
void describe(ToolFormat &format, const Tokenizer &tokenizer) {
  format.markers = controlTokensIn(strCat(format.before, format.between, format.behind), tokenizer);
  size_t object = format.before.rfind('{');
  format.isObject = object != format.before.npos;
  if (format.isObject) {
    format.keys.name =
        lastQuoted(std::string_view(format.before).substr(0, format.before.rfind('"')));
    format.keys.arguments = lastQuoted(format.middle);
  }
  std::string_view head = trimmed(std::string_view(format.before).substr(0, object));
  auto cut = cutAtTokens(head, format.markers, tokenizer);
  bool beginsWithMarker = !cut.empty() && cut[0].first >= 0;
  format.opener =
      beginsWithMarker ? tokenizer.vocabulary().tokens[cut[0].first] : std::string(head);
  size_t close = format.isObject ? format.behind.find('}') : format.behind.npos;
  format.closer =
      trimmed(std::string_view(format.behind).substr(close == format.behind.npos ? 0 : close + 1));
}

/// For a template that shows tools and writes no calls: what its text asks models to write.
ToolFormat guessed(std::string_view chatTemplate, const Tokenizer &tokenizer) {
  bool hasTag = chatTemplate.find("<tool_call>") != chatTemplate.npos;
  bool saysParameters = chatTemplate.find("arguments") == chatTemplate.npos;
  ToolFormat format;
  format.showsCalls = false;
  format.before = strCat(hasTag ? "<tool_call>\n" : "", "{\"name\": \"");
  format.middle = saysParameters ? "\", \"parameters\": " : "\", \"arguments\": ";
  format.behind = hasTag ? "}\n</tool_call>" : "}";
  format.between = hasTag ? strCat(format.behind, "\n", format.before) : "";
  describe(format, tokenizer);
  return format;
}

} // namespace

std::vector<std::pair<int32_t, std::string>>
cutAtTokens(std::string_view text, const std::vector<int32_t> &tokens, const Tokenizer &tokenizer) {
  std::vector<std::pair<int32_t, std::string>> parts;
  while (!text.empty()) {
    size_t first = text.size(), size = 0;
    int32_t token = -1;
    for (int32_t each : tokens) {
      const std::string &name = tokenizer.vocabulary().tokens[each];
      size_t at = text.find(name);
      if (at < first || (at == first && name.size() > size && at != text.npos)) {
        first = at;
        size = name.size();
        token = each;
      }
    }
    if (first > 0) {
      parts.emplace_back(-1, text.substr(0, first));
    }
    if (token >= 0) {
      parts.emplace_back(token, std::string());
    }
    text.remove_prefix(std::min(text.size(), first + size));
  }
  return parts;
}

Result<ToolFormat> findToolFormat(std::string_view chatTemplate, const Tokenizer &tokenizer) {
  TENON_ASSIGN(std::string prompt, renderCalls(chatTemplate, tokenizer, 0, false));
  if (prompt.find(kName) == prompt.npos) {
    return Status::error(ErrorId::ToolsUnsupported, "the model's chat template shows no tools",
                         "leave out the tools, or serve a model that was trained on them");
  }
  bool writesOther = false; // calls in a form without JSON
  for (bool asText : {false, true}) {
    Result<std::string> one = renderCalls(chatTemplate, tokenizer, 1, asText);
    if (!one.isOk()) {
      continue;
    }
    std::string_view answer = answerIn(*one, prompt);
    std::optional<CallSpan> call = findCall(answer, 0);
    if (!call) {
      writesOther =
          writesOther || (answer.find(kName) != answer.npos && answer.find(kValue) != answer.npos);
      continue;
    }
    ToolFormat format;
    format.givesArgumentsAsText = asText;
    format.before = withoutIds(answer.substr(0, call->name));
    size_t nameEnd = call->name + kName.size();
    format.middle = withoutIds(answer.substr(nameEnd, call->arguments - nameEnd));
    format.behind = withoutIds(beforeEnd(answer.substr(call->end), tokenizer));
    Result<std::string> two = renderCalls(chatTemplate, tokenizer, 2, asText);
    std::string_view both = two.isOk() ? answerIn(*two, prompt) : std::string_view();
    std::optional<CallSpan> first = findCall(both, 0);
    std::optional<CallSpan> second = first ? findCall(both, first->end) : std::nullopt;
    // Both are in one turn.
    if (second && beforeEnd(both, tokenizer).size() >= second->end) {
      format.between = withoutIds(both.substr(first->end, second->name - first->end));
    }
    describe(format, tokenizer);
    return format;
  }
  return writesOther ? Result<ToolFormat>(Status::error(
                           ErrorId::ToolsUnsupported,
                           "the model's chat template writes calls of tools in a form without JSON",
                           "leave out the tools, and read the calls from the text"))
                     : guessed(chatTemplate, tokenizer);
}

} // namespace tenon::generate
