// Data sets of a line of JSON for each sample, as text models have them: {"ids": [1, 2], "label":
// 0}. Samples may differ in their free dims. All is kept in memory.

#include "support/Shape.h"
#include "support/json/Json.h"
#include "tools/tenon/data/SampleSource.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

namespace tenon::tool {
namespace {

/// By name.
using Members = std::map<std::string_view, const Json *>;

struct Row {
  std::vector<int64_t> dims;
  std::vector<double> numbers;
};

/// Nested lists of numbers, all lists of a depth equally long; false where they are not.
bool flatten(const Json &value, size_t depth, Row &row) {
  constexpr size_t kMaxDims = 32;
  if (depth > kMaxDims) {
    return false;
  }
  if (!value.is_array()) {
    bool isNumber = value.is_number() || value.is_boolean();
    if (isNumber) {
      row.numbers.push_back(value.is_boolean() ? static_cast<double>(value.get<bool>())
                                               : value.get<double>());
    }
    return isNumber && depth == row.dims.size();
  }
  int64_t length = static_cast<int64_t>(value.size());
  if (depth == row.dims.size() && row.numbers.empty()) {
    row.dims.push_back(length);
  }
  if (depth >= row.dims.size() || row.dims[depth] != length || length == 0) {
    return false;
  }
  for (const Json &item : value) {
    if (!flatten(item, depth + 1, row)) {
      return false;
    }
  }
  return true;
}

/// Whether the type has this number without a change but rounding of fractions.
bool holds(DType dtype, double value) {
  if (isFloating(dtype)) {
    return true;
  }
  bool isSigned =
      dtype == DType::I8 || dtype == DType::I16 || dtype == DType::I32 || dtype == DType::I64;
  int bits = dtype == DType::Bool ? 1 : static_cast<int>(bitWidth(dtype)) - (isSigned ? 1 : 0);
  double most = std::ldexp(1.0, bits);
  return value == std::floor(value) && value < most && value >= (isSigned ? -most : 0);
}

class JsonLines final : public SampleSource {
public:
  JsonLines(std::string file, std::span<const WantedInput> inputs)
      : path(std::move(file)), wanted(inputs.begin(), inputs.end()), rows(inputs.size()) {}

  Status open();

  size_t samples() const override { return count; }
  std::span<const int64_t> dimsOf(size_t input, size_t sample) const override {
    return rows[input][sample].dims;
  }
  Status read(size_t input, size_t first, size_t number, MutableBytes out) const override {
    for (size_t i = 0; i < number; ++i) {
      Bytes bytes = rows[input][first + i].bytes();
      std::ranges::copy(bytes, out.begin());
      out = out.subspan(bytes.size());
    }
    return Status::ok();
  }

private:
  Status addLine(const std::string &line, const std::string &where);
  Result<const Json *> valueFor(const WantedInput &input, const Members &sample,
                                const std::string &where);
  Status addInput(size_t input, const Json &value, const std::string &where);
  Status addLabel(const Members &sample, const std::string &where);
  Status makeLabels();

  std::string path;
  std::vector<WantedInput> wanted;
  std::vector<std::vector<Tensor>> rows; ///< for each input its samples
  std::vector<Row> labelRows;
  std::set<std::string> unused;
  size_t count = 0;
};

/// By name; the only list of a model of one input by any name.
Result<const Json *> JsonLines::valueFor(const WantedInput &input, const Members &sample,
                                         const std::string &where) {
  if (Members::const_iterator found = sample.find(input.name); found != sample.end()) {
    return found->second;
  }
  const Json *only = nullptr;
  size_t others = 0;
  for (const auto &[name, value] : sample) {
    if (!isLabelName(name)) {
      only = value;
      ++others;
    }
  }
  if (wanted.size() == 1 && others == 1) {
    return only;
  }
  return badData(
      fmt::format("{} has no '{}'", where, input.name),
      fmt::format(
          "each line must be an object with the inputs by name: {{\"{}\": [...], \"label\": 0}}",
          input.name));
}

Status JsonLines::addInput(size_t input, const Json &value, const std::string &where) {
  const WantedInput &want = wanted[input];
  Row row;
  if (!flatten(value, 0, row)) {
    return badData(fmt::format("{}: '{}' is not a list of numbers, or its lists differ in length",
                               where, want.name),
                   "give nested lists, one level for each dim except the batch");
  }
  TENON_TRY(checkRows(want, want.dtype, row.dims, fmt::format("{}: '{}'", where, want.name)));
  TENON_ASSIGN(Tensor tensor, Tensor::create(want.name, want.dtype, row.dims));
  for (size_t i = 0; i < row.numbers.size(); ++i) {
    if (!isNumeric(want.dtype) || !holds(want.dtype, row.numbers[i])) {
      return Status::error(ErrorId::WrongTensorType,
                           fmt::format("{}: '{}' has {:g}, but the input is {}", where, want.name,
                                       row.numbers[i], tenon::nameOf(want.dtype)),
                           "give numbers that fit the type of the input");
    }
    setElement(tensor, static_cast<int64_t>(i), row.numbers[i]);
  }
  rows[input].push_back(std::move(tensor));
  return Status::ok();
}

Status JsonLines::addLabel(const Members &sample, const std::string &where) {
  for (const auto &[name, value] : sample) {
    bool isInput =
        std::ranges::any_of(wanted, [&](const WantedInput &input) { return input.name == name; });
    if (!isInput && isLabelName(name)) {
      Row row;
      if (!flatten(*value, 0, row) || (!labelRows.empty() && row.dims != labelRows[0].dims)) {
        return badData(
            fmt::format("{}: '{}' is not a number, or has another length than the earlier labels",
                        where, name),
            "give the class number, or lists of equal length");
      }
      labelRows.push_back(std::move(row));
      return Status::ok();
    }
    if (!isInput && wanted.size() > 1) {
      unused.emplace(name);
    }
  }
  return Status::ok();
}

Status JsonLines::addLine(const std::string &line, const std::string &where) {
  Json object = parseJson(line);
  if (!object.is_object()) {
    return badData(fmt::format("{} is not a JSON object", where),
                   "each line is a sample: {\"x\": [0.5, 1], \"label\": 0}; JSON has no NaN");
  }
  Members sample;
  for (const auto &[name, value] : object.get_ref<const Json::object_t &>()) {
    sample[name] = &value;
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    TENON_ASSIGN(const Json *value, valueFor(wanted[i], sample, where));
    TENON_TRY(addInput(i, *value, where));
  }
  TENON_TRY(addLabel(sample, where));
  ++count;
  if (!labelRows.empty() && labelRows.size() != count) {
    return badData(fmt::format("{}: some samples have no label", where),
                   "give every sample a label, or none");
  }
  return Status::ok();
}

Status JsonLines::makeLabels() {
  if (labelRows.empty()) {
    return Status::ok();
  }
  bool areIntegers = std::ranges::all_of(labelRows, [](const Row &row) {
    return std::ranges::all_of(row.numbers,
                               [](double number) { return holds(DType::I64, number); });
  });
  std::vector<int64_t> dims = labelRows[0].dims;
  dims.insert(dims.begin(), static_cast<int64_t>(count));
  TENON_ASSIGN(Tensor tensor,
               Tensor::create("labels", areIntegers ? DType::I64 : DType::F64, std::move(dims)));
  int64_t at = 0;
  for (const Row &row : labelRows) {
    for (double number : row.numbers) {
      setElement(tensor, at++, number);
    }
  }
  labels = std::move(tensor);
  return Status::ok();
}

Status JsonLines::open() {
  std::ifstream file(path);
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      TENON_TRY(addLine(line, fmt::format("{}: line {}", path, number)));
    }
  }
  if (count == 0) {
    return badData(fmt::format("{} is empty", path), "give at least one sample");
  }
  for (const std::string &name : unused) {
    notes.push_back(fmt::format("{}: '{}' is not used: the model has no such input", path, name));
  }
  return makeLabels();
}

} // namespace

Result<std::unique_ptr<SampleSource>> openJsonLines(const std::string &path,
                                                    std::span<const WantedInput> wanted) {
  std::unique_ptr<JsonLines> source = std::make_unique<JsonLines>(path, wanted);
  TENON_TRY(source->open());
  return std::unique_ptr<SampleSource>(std::move(source));
}

} // namespace tenon::tool
