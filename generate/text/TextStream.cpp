// Implements what is held back.
#include "generate/text/TextStream.h"

#include "generate/text/Utf8.h"

#include <algorithm>

namespace tenon::generate {

TextStream::TextStream(const Tokenizer &theTokenizer, std::vector<std::string> theStops,
                       std::vector<int32_t> theShown)
    : tokenizer(&theTokenizer), stops(std::move(theStops)), shown(std::move(theShown)) {
  std::erase_if(stops, [](const std::string &stop) { return stop.empty(); });
}

std::string_view TextStream::bytesOf(int32_t token) const {
  if (!tokenizer->isControl(token)) {
    return tokenizer->bytesOf(token);
  }
  bool isShown = std::ranges::find(shown, token) != shown.end();
  return isShown ? std::string_view(tokenizer->vocabulary().tokens[token]) : std::string_view();
}

std::string TextStream::take(size_t bytes) {
  std::string text = wellFormed(std::string_view(pending).substr(0, bytes));
  pending.erase(0, bytes);
  return text;
}

/// The longest end of what is pending that a stop string begins with, or that is no whole code
/// point.
size_t TextStream::heldBack() const {
  size_t held = incompleteTail(pending);
  for (const std::string &stop : stops) {
    for (size_t size = std::min(stop.size() - 1, pending.size()); size > held; --size) {
      if (pending.ends_with(std::string_view(stop).substr(0, size))) {
        held = size;
      }
    }
  }
  return held;
}

std::string TextStream::add(int32_t token) {
  if (stopped) {
    return {};
  }
  pending += bytesOf(token);
  // The stop string that was whole first counts, however tokens cut the text.
  std::pair<size_t, size_t> first(std::string::npos, 0); // its end and its beginning
  for (const std::string &stop : stops) {
    size_t at = pending.find(stop);
    if (at != std::string::npos) {
      first = std::min(first, {at + stop.size(), at});
    }
  }
  if (first.first != std::string::npos) {
    stopped = true;
    std::string text = take(first.second);
    pending.clear();
    return text;
  }
  return take(pending.size() - heldBack());
}

std::string TextStream::finish() { return take(pending.size()); }

} // namespace tenon::generate
