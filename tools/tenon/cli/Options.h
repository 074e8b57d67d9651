// Options whose values are numbers in a range or words of a list. The help shows what is allowed,
// and errors repeat it in plain words. It relies on CLI11 turning what is thrown into a usage
// error.

#pragma once

#include "tools/tenon/inputs/Limits.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace tenon::tool {

/// `-o`, with a name that is not empty.
void addOutput(CLI::App &command, std::string &path, const std::string &description);
/// A whole number.
void addNumber(CLI::App &command, const std::string &name, Range<uint64_t> range,
               const std::function<void(uint64_t)> &take, const std::string &description);
/// Bytes, also as 500MiB or 20GiB.
void addBytes(CLI::App &command, const std::string &name, Range<uint64_t> range, uint64_t &value,
              const std::string &description);
/// Seconds: "60s", "2m", or a number without a unit. `range` is in seconds, and so is `value`,
/// whose first one is the default unless it is 0.
void addSeconds(CLI::App &command, const std::string &name, Range<double> range, double &value,
                const std::string &description);
/// How many times something: "1.5x", or "1.5".
void addTimes(CLI::App &command, const std::string &name, Range<double> range,
              std::optional<double> &value, const std::string &description);
/// Numbers with commas between them.
void addNumbers(CLI::App &command, const std::string &name, Range<double> range,
                std::vector<double> &values, const std::string &description);
/// One of `choices`.
CLI::Option *addChoice(CLI::App &command, const std::string &name, std::string &value,
                       const std::vector<std::string> &choices, const std::string &description);
/// Some of `choices`, one for each time that the option is given.
void addChoices(CLI::App &command, const std::string &name, std::vector<std::string> &values,
                const std::vector<std::string> &choices, const std::string &description);

} // namespace tenon::tool
