// Implements the reading of numbers and words of the command line.

#include "tools/tenon/cli/Options.h"

#include "tools/tenon/inputs/Units.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace tenon::tool {
namespace {

/// The whole text as a number; none if it is none or does not fit the type.
template <typename T> std::optional<T> parseNumber(std::string_view text) {
  T value = 0;
  std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  bool isNumber = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  return isNumber ? std::optional(value) : std::nullopt;
}

[[noreturn]] void refuse(const std::string &name, const std::string &text,
                         const std::string &what) {
  throw CLI::ValidationError(fmt::format("{} {}: {}", name, text, what));
}

std::optional<double> parseSeconds(std::string_view text) {
  double unit = 1;
  if (text.ends_with('s') || text.ends_with('m')) {
    unit = text.back() == 'm' ? 60 : 1;
    text.remove_suffix(1);
  }
  std::optional<double> number = parseNumber<double>(text);
  return number ? std::optional(*number * unit) : std::nullopt;
}

template <typename T> bool contains(Range<T> range, std::optional<T> value) {
  return value && *value >= range.low && *value <= range.high;
}

/// What a validator gives is what is wrong; CLI11 puts the option's name before it.
CLI::Validator isOneOf(const std::vector<std::string> &choices) {
  CLI::Validator validator;
  validator.operation([choices](std::string &text) { return choiceProblem(text, choices); });
  return validator;
}

} // namespace

void addOutput(CLI::App &command, std::string &path, const std::string &description) {
  CLI::Validator isNamed;
  isNamed.operation([](const std::string &text) { return text.empty() ? "give a file name" : ""; });
  command.add_option("-o,--output", path, description)->check(isNamed);
}

void addNumber(CLI::App &command, const std::string &name, Range<uint64_t> range,
               const std::function<void(uint64_t)> &take, const std::string &description) {
  std::string allowed = fmt::format("a whole number from {} to {}", range.low, range.high);
  command
      .add_option_function<std::string>(
          name,
          [=](const std::string &text) {
            std::optional<uint64_t> number = parseNumber<uint64_t>(text);
            if (!contains(range, number)) {
              refuse(name, text, "give " + allowed);
            }
            take(*number);
          },
          description)
      ->type_name(fmt::format("{}..{}", range.low, range.high));
}

void addBytes(CLI::App &command, const std::string &name, Range<uint64_t> range, uint64_t &value,
              const std::string &description) {
  constexpr double kKibi = 1024;
  static constexpr Unit kSizes[] = {{"KiB", kKibi},
                                    {"MiB", kKibi * kKibi},
                                    {"GiB", kKibi * kKibi * kKibi},
                                    {"TiB", kKibi * kKibi * kKibi * kKibi}};
  command
      .add_option_function<std::string>(
          name,
          [=, &value](const std::string &text) {
            std::optional<uint64_t> bytes = parseNumber<uint64_t>(text);
            if (std::optional<double> sized = numberWithUnit(text, kSizes); !bytes && sized) {
              bytes = static_cast<uint64_t>(*sized);
            }
            if (!contains(range, bytes)) {
              refuse(name, text,
                     fmt::format("give a size from {} to {} bytes, such as 500MiB or 20GiB",
                                 range.low, range.high));
            }
            value = *bytes;
          },
          description)
      ->type_name("BYTES");
}

void addSeconds(CLI::App &command, const std::string &name, Range<double> range, double &value,
                const std::string &description) {
  std::string allowed =
      fmt::format("give a time from {} to {} seconds, such as 5, 60s or 2m", range.low, range.high);
  command
      .add_option_function<std::string>(
          name,
          [=, &value](const std::string &text) {
            std::optional<double> seconds = parseSeconds(text);
            if (!contains(range, seconds)) {
              refuse(name, text, allowed);
            }
            value = *seconds;
          },
          description)
      ->type_name(fmt::format("{}s..{}s", range.low, range.high))
      ->default_str(value > 0 ? fmt::format("{}s", value) : "");
}

void addTimes(CLI::App &command, const std::string &name, Range<double> range,
              std::optional<double> &value, const std::string &description) {
  command
      .add_option_function<std::string>(
          name,
          [=, &value](const std::string &text) {
            std::string_view number = text;
            number.remove_suffix(number.ends_with('x') ? 1 : 0);
            value = parseNumber<double>(number);
            if (!contains(range, value)) {
              refuse(
                  name, text,
                  fmt::format("give a number from {} to {}, such as 1.5x", range.low, range.high));
            }
          },
          description)
      ->type_name(fmt::format("{}x..{}x", range.low, range.high));
}

void addNumbers(CLI::App &command, const std::string &name, Range<double> range,
                std::vector<double> &values, const std::string &description) {
  std::string allowed =
      fmt::format("give numbers from {} to {}, separated by commas", range.low, range.high);
  command
      .add_option_function<std::string>(
          name,
          [=, &values](const std::string &text) {
            values.clear();
            for (size_t begin = 0; begin <= text.size();) {
              size_t end = std::min(text.find(',', begin), text.size());
              std::optional<double> number =
                  parseNumber<double>(std::string_view(text).substr(begin, end - begin));
              if (!contains(range, number)) {
                refuse(name, text, allowed);
              }
              values.push_back(*number);
              begin = end + 1;
            }
          },
          description)
      ->type_name(fmt::format("{}..{},...", range.low, range.high));
}

CLI::Option *addChoice(CLI::App &command, const std::string &name, std::string &value,
                       const std::vector<std::string> &choices, const std::string &description) {
  return command.add_option(name, value, description)
      ->type_name(fmt::format("{}", fmt::join(choices, "|")))
      ->check(isOneOf(choices));
}

void addChoices(CLI::App &command, const std::string &name, std::vector<std::string> &values,
                const std::vector<std::string> &choices, const std::string &description) {
  command.add_option(name, values, description)
      ->type_name(fmt::format("{}", fmt::join(choices, "|")))
      ->check(isOneOf(choices))
      ->allow_extra_args(false);
}

} // namespace tenon::tool
