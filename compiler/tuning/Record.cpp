// Relies on llvm::json printing keys in order, so that equal records are equal bytes.
#include "compiler/tuning/Record.h"

#include "support/Hash.h"
#include "support/text/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tenon::tuning {
namespace {

constexpr size_t kHashDigits = 32;
// More than any honest record has.
constexpr size_t kMaxText = 4096, kMaxSizes = 512, kMaxTrials = 256;
constexpr uint64_t kMaxThreads = 4096;
/// An hour.
constexpr double kMaxMicroseconds = 3.6e9;

Status bad(std::string_view why) {
  return Status::error(ErrorId::BadTuningStore, why,
                       "tenon cache gc removes damaged records; tune again to measure them again");
}

bool isHash(std::string_view text) {
  return text.size() == kHashDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool isText(std::string_view text) {
  return text.size() <= kMaxText &&
         llvm::none_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

bool isTime(double microseconds) {
  return std::isfinite(microseconds) && microseconds > 0 && microseconds <= kMaxMicroseconds;
}

/// What a record of any origin holds; empty if all does.
std::string faultOf(const Record &record) {
  auto isTried = [&](const std::string &kernel) {
    return llvm::any_of(record.trials, [&](const Trial &trial) { return trial.kernel == kernel; });
  };
  if (!isHash(record.problem) || !isHash(record.form)) {
    return "its problem is not a hash";
  }
  for (const std::string *text : {&record.label, &record.device, &record.level, &record.libraries,
                                  &record.families, &record.kernel, &record.untuned}) {
    if (!isText(*text)) {
      return "one of its texts is too long or has control characters";
    }
  }
  if (record.device.empty() || record.level.empty() || record.threads == 0 ||
      record.threads > kMaxThreads) {
    return "it does not name the device that it was measured on";
  }
  if (record.sizes.size() > kMaxSizes ||
      llvm::any_of(record.sizes, [](int64_t size) { return size < 0; })) {
    return "its sizes are not valid";
  }
  if (record.trials.empty() || record.trials.size() > kMaxTrials || record.time < 0 ||
      llvm::any_of(
          record.trials,
          [](const Trial &trial) {
            return !isText(trial.kernel) || !isTime(trial.microseconds) ||
                   (trial.predicted != 0 && !isTime(trial.predicted));
          })) {
    return "its times are not valid";
  }
  return isTried(record.kernel) && isTried(record.untuned) ? ""
                                                           : "it chooses a kernel without a time";
}

std::string jsonOf(const Record &record) {
  llvm::json::Array trials;
  for (const Trial &trial : record.trials) {
    trials.push_back(llvm::json::Object{
        {"kernel", trial.kernel}, {"us", trial.microseconds}, {"predicted_us", trial.predicted}});
  }
  llvm::json::Object object{{"problem", record.problem},
                            {"form", record.form},
                            {"sizes", llvm::json::Array(record.sizes)},
                            {"label", record.label},
                            {"device", record.device},
                            {"threads", static_cast<int64_t>(record.threads)},
                            {"level", record.level},
                            {"libraries", record.libraries},
                            {"families", record.families},
                            {"kernel", record.kernel},
                            {"untuned", record.untuned},
                            {"trials", std::move(trials)},
                            {"time", record.time}};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object));
  return text;
}

} // namespace

// Outside, where llvm::json finds them.

static bool fromJSON(const llvm::json::Value &value, Trial &trial, llvm::json::Path path) {
  llvm::json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("kernel", trial.kernel) && mapper.map("us", trial.microseconds) &&
         mapper.map("predicted_us", trial.predicted);
}

static bool fromJSON(const llvm::json::Value &value, Record &record, llvm::json::Path path) {
  llvm::json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("problem", record.problem) && mapper.map("form", record.form) &&
         mapper.map("sizes", record.sizes) && mapper.map("label", record.label) &&
         mapper.map("device", record.device) && mapper.map("threads", record.threads) &&
         mapper.map("level", record.level) && mapper.map("libraries", record.libraries) &&
         mapper.map("families", record.families) && mapper.map("kernel", record.kernel) &&
         mapper.map("untuned", record.untuned) && mapper.map("trials", record.trials) &&
         mapper.map("time", record.time);
}

double Record::timeOf(std::string_view name) const {
  auto found = llvm::find_if(trials, [&](const Trial &trial) { return trial.kernel == name; });
  return found == trials.end() ? 0 : found->microseconds;
}

std::string Record::key() const {
  return strCat(problem, '\n', device, '\n', threads, '\n', level, '\n', libraries, '\n', families);
}

std::string lineOf(const Record &record) {
  std::string text = jsonOf(record);
  return strCat(hashText(text).hex(), ' ', text);
}

Result<Record> recordOf(std::string_view line) {
  std::string_view text = line.substr(std::min(line.size(), kHashDigits + 1));
  if (text.empty() || line[kHashDigits] != ' ') {
    return bad("it is not a record");
  }
  if (hashText(text).hex() != line.substr(0, kHashDigits)) {
    return bad("its checksum does not match");
  }
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(text);
  if (!json) {
    llvm::consumeError(json.takeError());
    return bad("it is not JSON");
  }
  Record record;
  llvm::json::Path::Root root;
  if (!fromJSON(*json, record, root)) {
    return bad(llvm::toString(root.getError()));
  }
  std::string fault = faultOf(record);
  return fault.empty() ? Result<Record>(std::move(record)) : bad(fault);
}

std::vector<Record> newestOf(std::vector<Record> records) {
  std::map<std::string, std::pair<std::string, Record>> newest;
  for (Record &record : records) {
    std::string line = lineOf(record);
    auto [place, isNew] = newest.try_emplace(record.key());
    auto &[otherLine, other] = place->second;
    if (isNew || std::pair(other.time, otherLine) < std::pair(record.time, line)) {
      place->second = {std::move(line), std::move(record)};
    }
  }
  std::map<std::string, Record> sorted;
  for (auto &[key, value] : newest) {
    sorted.emplace(std::move(value.first), std::move(value.second));
  }
  std::vector<Record> result;
  for (auto &[line, record] : sorted) {
    result.push_back(std::move(record));
  }
  return result;
}

} // namespace tenon::tuning
