// Texts of messages between front and worker: numbers of 64 bits, and strings behind their lengths.
// What is read is not trusted.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// Appends to `out`.
class TextWriter {
public:
  explicit TextWriter(std::string &out) : out(out) {}

  TextWriter &number(uint64_t value) {
    out.append(reinterpret_cast<const char *>(&value), sizeof(value));
    return *this;
  }
  TextWriter &real(double value) { return number(std::bit_cast<uint64_t>(value)); }
  TextWriter &string(std::string_view text) {
    number(text.size());
    out += text;
    return *this;
  }

private:
  std::string &out;
};

/// Reads what TextWriter wrote. After the first fault nothing is read any more, and isWhole() is
/// false.
class TextReader {
public:
  explicit TextReader(std::string_view text) : rest(text) {}

  TextReader &number(uint64_t &value) {
    if (rest.size() < sizeof(value)) {
      return fail();
    }
    std::memcpy(&value, rest.data(), sizeof(value));
    rest.remove_prefix(sizeof(value));
    return *this;
  }
  TextReader &real(double &value) {
    uint64_t bits = 0;
    number(bits);
    value = std::bit_cast<double>(bits);
    return *this;
  }
  TextReader &string(std::string &text) {
    uint64_t bytes = 0;
    number(bytes);
    if (bytes > rest.size()) {
      return fail();
    }
    text = rest.substr(0, bytes);
    rest.remove_prefix(bytes);
    return *this;
  }
  /// How many elements follow, each of which takes at least 8 bytes: never more than the text can
  /// hold.
  uint64_t count() {
    uint64_t value = 0;
    number(value);
    if (value > rest.size() / sizeof(value)) {
      fail();
    }
    return isOk ? value : 0;
  }
  TextReader &fail() {
    isOk = false;
    rest = {};
    return *this;
  }
  bool isGood() const { return isOk; }
  /// Everything was read, and nothing was missing.
  bool isWhole() const { return isOk && rest.empty(); }

private:
  std::string_view rest;
  bool isOk = true;
};

} // namespace tenon::server
