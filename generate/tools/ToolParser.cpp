// What may become a call is held back, and no more: a call's arguments go out as they come once its
// name is known.
#include "generate/tools/ToolParser.h"

#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <utility>

namespace tenon::generate {
namespace {

/// The longest end of a text that another begins with, but not all of that.
size_t heldEnd(std::string_view text, std::string_view what) {
  for (size_t size = std::min(text.size(), what.size() - 1); size > 0; --size) {
    if (text.ends_with(what.substr(0, size))) {
      return size;
    }
  }
  return 0;
}

/// A text's beginning beside a pattern, whatever blanks both have.
struct Match {
  bool isWhole = false; ///< the text begins with it
  bool mayBe = false;   ///< or may, once it has come further
  size_t size = 0;      ///< of what it took
};

Match matchOf(std::string_view text, std::string_view pattern) {
  size_t at = 0;
  for (char c : pattern) {
    if (isBlank(c)) {
      continue;
    }
    if (c == ToolFormat::kId) {
      while (at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0) {
        ++at;
      }
      continue;
    }
    while (at < text.size() && isBlank(text[at])) {
      ++at;
    }
    if (at == text.size()) {
      return {.mayBe = true};
    }
    if (text[at++] != c) {
      return {};
    }
  }
  return {.isWhole = true, .mayBe = true, .size = at};
}

} // namespace

void ToolText::append(ToolText &&other) {
  content += other.content;
  for (CallPart &part : other.parts) {
    bool isSame = !parts.empty() && parts.back().index == part.index;
    if (isSame) {
      parts.back().arguments += part.arguments;
    } else {
      parts.push_back(std::move(part));
    }
  }
}

ToolText ToolParser::add(std::string_view text) {
  ToolText out;
  if (isOver()) {
    return out;
  }
  held += text;
  bool goesOn = true;
  while (goesOn && !isOver()) {
    switch (state) {
    case State::Content:
      takeContent(out);
      goesOn = state == State::Call;
      break;
    case State::Call:
      goesOn = takeCall(out);
      break;
    case State::Behind:
      goesOn = takeBehind(out);
      break;
    }
  }
  return out;
}

ToolText ToolParser::finish() {
  ToolText out;
  if (state == State::Call && !isStarted) {
    reject(out);
  }
  if (state == State::Content) {
    out.content += held;
  }
  held.clear();
  return out;
}

/// Hands out what cannot begin a call.
void ToolParser::takeContent(ToolText &out) {
  auto give = [&](size_t size) {
    std::string_view text = std::string_view(held).substr(0, size);
    hasContent = hasContent || !withoutBlanks(text).empty();
    out.content += text;
    held.erase(0, size);
  };
  if (format.opener.empty()) { // JSON alone is a call where it is the whole answer
    std::string_view rest = withoutBlanks(held);
    if (hasContent || (!rest.empty() && rest[0] != '{')) {
      give(held.size());
    } else if (!rest.empty()) {
      opened = held.size() - rest.size();
      state = State::Call;
      scan = ObjectScan{.at = opened};
    }
    return;
  }
  size_t at = held.find(format.opener);
  if (at == held.npos) {
    // White space before a call is no content either.
    size_t kept = heldEnd(held, format.opener);
    std::string_view before = std::string_view(held).substr(0, held.size() - kept);
    give(withoutBlanksBehind(before).size());
    return;
  }
  give(withoutBlanksBehind(std::string_view(held).substr(0, at)).size());
  opened = held.find(format.opener) + format.opener.size();
  state = State::Call;
  scan = ObjectScan{.at = opened};
}

bool ToolParser::takeCall(ToolText &out) {
  return format.isObject ? takeObject(out) : takeNamed(out);
}

/// A call that is a JSON object. False where more has to come.
bool ToolParser::takeObject(ToolText &out) {
  if (scan.depth == 0 && !scan.isOver) {
    // Brackets of a list may stand before it.
    while (scan.at < held.size() && (isBlank(held[scan.at]) || held[scan.at] == '[')) {
      ++scan.at;
    }
    if (scan.at == held.size()) {
      return false;
    }
    if (held[scan.at] != '{') {
      reject(out);
      return true;
    }
  }
  scan.read(held, format.keys);
  if (scan.name && !isStarted && !startCall(out, *scan.name)) {
    reject(out);
    return true;
  }
  if (isStarted && scan.arguments) {
    auto [begin, end] = *scan.arguments;
    stream(out, std::string_view(held).substr(begin, end - begin), scan.isWhole);
  }
  if (!scan.isOver) {
    return false;
  }
  if (!isStarted) {
    reject(out);
    return true;
  }
  if (!scan.arguments) {
    out.append({{}, {{count - 1, {}, {}, "{}"}}});
  }
  held.erase(0, scan.at);
  endCall();
  return true;
}

/// A call whose name stands outside of JSON: behind what opens it, up to `middle`.
bool ToolParser::takeNamed(ToolText &out) {
  if (!isStarted) {
    std::string_view rest = std::string_view(held).substr(opened);
    size_t end = rest.find(format.middle);
    constexpr size_t kMaxName = 256;
    if (end == rest.npos && rest.size() < kMaxName + format.before.size()) {
      return false;
    }
    std::string_view named = end == rest.npos ? std::string_view() : rest.substr(0, end);
    Match lead = matchOf(named, format.before.substr(format.opener.size()));
    named.remove_prefix(lead.isWhole ? lead.size : 0);
    if (!startCall(out, std::string(withoutBlanksBehind(withoutBlanks(named))))) {
      reject(out);
      return true;
    }
    argumentsAt = opened + end + format.middle.size();
    scan = ObjectScan{.at = argumentsAt};
  }
  size_t begin = argumentsAt;
  while (begin < held.size() && isBlank(held[begin])) {
    ++begin;
  }
  scan.read(held, format.keys);
  stream(out, std::string_view(held).substr(begin, std::max(scan.at, begin) - begin), scan.isOver);
  if (!scan.isOver) {
    return false;
  }
  held.erase(0, scan.at);
  endCall();
  return true;
}

/// Between calls: what ends one is left out, and another may begin.
bool ToolParser::takeBehind(ToolText &out) {
  return format.isObject ? takeBehindObject(out) : takeBehindNamed();
}

bool ToolParser::takeBehindNamed() {
  Match next = matchOf(held, format.between), last = matchOf(held, format.behind);
  bool hasNext = next.isWhole && !format.between.empty();
  if (hasNext) {
    // The next name follows, as behind all of what begins a call.
    held.replace(0, next.size, format.before);
    opened = format.opener.size();
    state = State::Call;
    scan = ObjectScan{};
    return true;
  }
  if (last.isWhole) {
    held.erase(0, last.size);
    state = State::Content;
    return true;
  }
  if (next.mayBe || last.mayBe) {
    return false;
  }
  state = State::Content;
  hasContent = true;
  return true;
}

bool ToolParser::takeBehindObject(ToolText &out) {
  auto skip = [&](size_t size) { held.erase(0, size); };
  skip(held.size() - withoutBlanks(held).size());
  while (!held.empty() && (held[0] == ',' || held[0] == ';' || held[0] == ']')) {
    skip(1);
    skip(held.size() - withoutBlanks(held).size());
  }
  const std::string &closer = format.closer, &opener = format.opener;
  if (!closer.empty() && held.starts_with(closer)) {
    skip(closer.size());
    return true;
  }
  bool opens = !opener.empty() && held.starts_with(opener);
  bool mayGoOn = closer.starts_with(held) || opener.starts_with(held);
  if (held.empty() || (mayGoOn && !opens)) {
    return false;
  }
  state = State::Content;
  if (opens) {
    takeContent(out);
  } else if (held[0] == '{') {
    opened = 0;
    state = State::Call;
    scan = ObjectScan{};
  } else {
    hasContent = true;
  }
  return true;
}

void ToolParser::stream(ToolText &out, std::string_view arguments, bool isWhole) {
  if (!arguments.empty() && arguments[0] != '{') { // text of JSON, which counts once it is whole
    if (!isWhole || streamed > 0) {
      return;
    }
    Json text = parseJson(arguments);
    std::string inside = text.is_string() ? text.get<std::string>() : std::string(arguments);
    streamed = arguments.size();
    out.append({{}, {{count - 1, {}, {}, std::move(inside)}}});
    return;
  }
  arguments = withoutBlanksBehind(arguments); // which may be those behind the object
  if (arguments.size() > streamed) {
    out.append({{}, {{count - 1, {}, {}, std::string(arguments.substr(streamed))}}});
    streamed = arguments.size();
  }
}

/// False where there is no such tool.
bool ToolParser::startCall(ToolText &out, const std::string &name) {
  if (std::ranges::find(names, name) == names.end()) {
    return false;
  }
  isStarted = true;
  streamed = 0;
  out.parts.push_back({count++, makeId(), name, {}});
  return true;
}

void ToolParser::endCall() {
  state = State::Behind;
  isStarted = false;
  scan = ObjectScan{};
}

/// What is held is no call.
void ToolParser::reject(ToolText &out) {
  out.content += held;
  held.clear();
  hasContent = true;
  state = State::Content;
  scan = ObjectScan{};
}

std::string ToolParser::makeId() {
  constexpr std::string_view kSigns =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string id;
  for (size_t i = 0; i < ToolFormat::kIdSize; ++i) {
    chance = chance * 6364136223846793005U + 1442695040888963407U;
    id += kSigns[(chance >> 33) % kSigns.size()];
  }
  return id;
}

} // namespace tenon::generate
