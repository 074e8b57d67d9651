// What was measured of the kernels that compute one problem on one device: a line of a tuning store
// (docs/guides/tune.md). Records are data: what is read is checked before anybody uses it.
#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tuning {

/// A kernel that was measured.
struct Trial {
  std::string kernel;      ///< dispatch::KernelChoice::text
  double microseconds = 0; ///< the least of its rounds
  double predicted = 0;    ///< microseconds by the built-in rates; 0 if others were in use
};

/// The key is all of `problem`, `device`, `threads`, `level`, `libraries` and `families`.
struct Record {
  std::string problem;        ///< 32 hexadecimal digits: Problem::hash
  std::string form;           ///< 32 hexadecimal digits: Problem::form
  std::vector<int64_t> sizes; ///< Problem::sizes
  std::string label;          ///< the model's nodes where it was met first, for people
  std::string device;         ///< Device::name
  uint64_t threads = 1;
  std::string level;         ///< of the code that was measured: "x86-64-v3"
  std::string libraries;     ///< and their versions, that kernels call; empty for none
  std::string families;      ///< Problem::families
  std::string kernel;        ///< the one to use
  std::string untuned;       ///< the one that is used without a record
  std::vector<Trial> trials; ///< with both of them
  int64_t time = 0;          ///< of the measurement, in seconds since 1970

  double microseconds() const { return timeOf(kernel); }
  double untunedMicroseconds() const { return timeOf(untuned); }
  /// What records of one question and answer share.
  std::string key() const;

private:
  double timeOf(std::string_view name) const;
};

/// One line without its end: the hash of the text behind it, and the text, JSON. Equal records give
/// equal lines.
std::string lineOf(const Record &record);
/// TN0140 says why a line is none.
Result<Record> recordOf(std::string_view line);

/// One record a key, the newest; of equally old ones the last in the order of their lines. In the
/// order of lines, so that the order in which records came does not count.
std::vector<Record> newestOf(std::vector<Record> records);

} // namespace tenon::tuning
