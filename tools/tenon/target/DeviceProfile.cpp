// Reads and writes device profiles. Relies on nlohmann's reader, which holds no recursion, and on a
// limit for the file's size.

#include "tools/tenon/target/DeviceProfile.h"

#include "support/files/MappedFile.h"
#include "support/json/Json.h"
#include "support/text/NearestName.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace tenon::tool {
namespace {

constexpr size_t kMaxBytes = 64 << 10;
/// More than any device has or reaches.
constexpr double kMaxRate = 1e18;
constexpr int64_t kMaxSize = int64_t(1) << 40;
constexpr const char *kHint = "write one with tenon doctor --calibrate -o FILE; "
                              "docs/reference/targets.md describes the format";

Status profileError(std::string_view path, const std::string &what,
                    const std::string &hint = kHint) {
  return Status::error(ErrorId::BadArgument, fmt::format("the device profile '{}': {}", path, what),
                       hint);
}

/// Text of the file, without what a terminal would obey.
std::string quoted(const std::string &text) { return dumpJson(text); }

/// One object of a profile.
class Section {
public:
  Section(const std::string &file, const std::string &deviceName, const Json &values)
      : path(file), device(deviceName), object(values) {}

  /// Reads names, and refuses keys that there are not.
  Status open() {
    if (!object.is_object()) {
      return profileError(path, fmt::format("'{}' is not an object", device));
    }
    for (const auto &[key, value] : object.items()) {
      bool isName = key == "name" || key == "part" || (key == "architecture" && device == "cuda");
      if (isName && !value.is_string()) {
        return profileError(path, fmt::format("{}.{} is not text", device, key));
      }
      if (!isName && !fieldOf(key)) {
        std::vector<std::string> known = {"name", "part", "architecture"};
        for (const target::Field &field : target::fields()) {
          known.push_back(std::string(field.key));
        }
        return profileError(path, fmt::format("{} is not a key of '{}'", quoted(key), device),
                            didYouMean(key, known, kHint));
      }
    }
    return openNames();
  }

  /// Whether its numbers are of such a target.
  bool isFor(const target::Target &target) const {
    return arch.empty() || arch == target.variant();
  }

  Status apply(target::Target &target) const {
    if (part) {
      target = *part;
    }
    if (auto name = object.find("name"); name != object.end()) {
      target.name = name->get<std::string>();
    }
    for (const auto &[key, value] : object.items()) {
      if (const target::Field *field = fieldOf(key)) {
        TENON_TRY(set(*field, value, target));
      }
    }
    return Status::ok();
  }

private:
  Status openNames() {
    if (auto name = object.find("part"); name != object.end()) {
      part = target::findPart(device, name->get<std::string>());
      if (!part) {
        return profileError(path, fmt::format("there is no part {} of '{}'", name->dump(), device));
      }
      arch = device == "cuda" ? part->variant() : "";
    }
    if (auto name = object.find("architecture"); name != object.end()) {
      std::string given = name->get<std::string>();
      if (!engine::parseCudaArch(given) || (part && arch != given)) {
        return profileError(path, fmt::format("{} is not an architecture{}", name->dump(),
                                              part ? " of its part" : ""));
      }
      arch = given;
    }
    return Status::ok();
  }

  const target::Field *fieldOf(std::string_view key) const {
    for (const target::Field &field : target::fields()) {
      if (field.key == key && (device == "cuda" || !field.isOfGpu)) {
        return &field;
      }
    }
    return nullptr;
  }

  Status set(const target::Field &field, const Json &value, target::Target &target) const {
    std::string name = fmt::format("{}.{}", device, field.key);
    if (field.rate) {
      double rate = value.is_number() ? value.get<double>() : NAN;
      if (!(rate > 0 && rate <= kMaxRate)) {
        return profileError(
            path, fmt::format("{} is not a number above 0 and up to {:g}", name, kMaxRate));
      }
      target.*field.rate = rate;
      return Status::ok();
    }
    int64_t most = field.isLimit() ? target.*field.size : kMaxSize,
            least = field.isLimit() ? field.least : 1;
    bool isWhole = value.is_number_unsigned() &&
                   value.get<uint64_t>() >= static_cast<uint64_t>(least) &&
                   value.get<uint64_t>() <= static_cast<uint64_t>(most);
    if (!isWhole) {
      return profileError(path,
                          fmt::format("{} is not a whole number from {} to {}{}", name, least, most,
                                      field.isLimit() ? ", the architecture's limit" : ""));
    }
    target.*field.size = value.get<int64_t>();
    return Status::ok();
  }

  const std::string &path;
  std::string device;
  const Json &object;
  const target::Target *part = nullptr;
  std::string arch; ///< empty for every one
};

/// Whether a target took the numbers of one.
Result<bool> applySection(Section &section, const std::string &device, Targets &targets) {
  TENON_TRY(section.open());
  bool isUsed = false;
  if (device == "cpu" && !targets.levels.empty()) {
    isUsed = true;
    TENON_TRY(section.apply(targets.cpu));
  }
  for (target::Target &gpu : targets.gpus) {
    if (device == "cuda" && section.isFor(gpu)) {
      isUsed = true;
      TENON_TRY(section.apply(gpu));
    }
  }
  return isUsed;
}

} // namespace

Status applyProfile(const std::string &path, Targets &targets) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  Bytes bytes = file.bytes();
  if (bytes.size() > kMaxBytes) {
    return profileError(path, fmt::format("it has more than {} bytes", kMaxBytes));
  }
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  Json profile = parseJson(text);
  if (!profile.is_object()) {
    return profileError(path, "it is not a JSON object");
  }
  bool isUsed = false;
  for (const auto &[key, value] : profile.items()) {
    if (key == "schema" && value == kProfileSchema) {
      continue;
    }
    if (key != "cpu" && key != "cuda") {
      return profileError(
          path, key == "schema" ? fmt::format("its schema is not {}", kProfileSchema)
                                : fmt::format("{} is neither schema, cpu nor cuda", quoted(key)));
    }
    Section section(path, key, value);
    TENON_ASSIGN(bool applies, applySection(section, key, targets));
    isUsed = isUsed || applies;
  }
  return isUsed ? Status::ok()
                : profileError(path, "it describes a device that no target uses", "see --target");
}

} // namespace tenon::tool
