// Data sets that are folders of pictures: a subfolder for each class, or none without labels. What
// makes an input of a picture is written in the folder's preprocessing.json, or else carried by the
// model.

#include "runtime/tensors/Image.h"
#include "support/files/MappedFile.h"
#include "support/json/Json.h"
#include "support/text/NearestName.h"
#include "tools/tenon/data/SampleSource.h"
#include "tools/tenon/inputs/FileKind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace tenon::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char *kSettings = "preprocessing.json";
constexpr const char *kExample =
    R"({"size": 256, "crop": 224, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "layout": "nchw"})";

bool areNumbers(const Json &value, bool isWhole, size_t most) {
  auto isOne = [&](const Json &item) {
    return isWhole ? item.is_number_integer() && item.get<int64_t>() > 0 : item.is_number();
  };
  return value.is_array()
             ? !value.empty() && value.size() <= most && std::ranges::all_of(value, isOne)
             : isOne(value);
}

Status badSettings(const std::string &path, std::string_view what) {
  return badData(fmt::format("{}: {}", path, what), fmt::format("for example {}", kExample));
}

/// That each key is one of those known and has a value of its kind: a misspelled mean would be no
/// mean.
Status checkSettings(const std::string &path, const Json &settings) {
  const std::vector<std::string> known = {"size",   "crop",   "mean",    "std",
                                          "layout", "resize", "classes", "note"};
  if (!settings.is_object()) {
    return badSettings(path, "not a JSON object");
  }
  for (const auto &[key, value] : settings.items()) {
    bool isGood = key == "size" || key == "crop" ? areNumbers(value, true, 2)
                  : key == "mean"                ? areNumbers(value, false, 3)
                  : key == "std"                 ? areNumbers(value, false, 3)
                  : key == "layout"              ? value == "nchw" || value == "nhwc"
                  : key == "resize"              ? value.is_boolean()
                  : key == "classes"             ? value.is_array()
                                                 : true;
    if (std::ranges::find(known, key) == known.end()) {
      return badData(
          fmt::format("{}: there is no setting '{}'", path, key),
          didYouMean(key, known, fmt::format("the settings are {}", fmt::join(known, ", "))));
    }
    if (!isGood) {
      return badSettings(path, fmt::format("'{}' cannot be {}", key, dumpJson(value)));
    }
  }
  return Status::ok();
}

std::vector<fs::path> entriesOf(const fs::path &folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with('.')) {
      paths.push_back(entry.path());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

class Pictures final : public SampleSource {
public:
  explicit Pictures(std::string path) : folder(std::move(path)) {}

  Status open(std::span<const WantedInput> wanted, const ModelHints &hints);

  size_t samples() const override { return files.size(); }
  std::span<const int64_t> dimsOf(size_t, size_t) const override {
    return std::span(dims).subspan(1);
  }
  bool needsCheck() const override { return false; }
  Status read(size_t, size_t first, size_t count, MutableBytes out) const override {
    for (size_t i = 0; i < count; ++i) {
      TENON_ASSIGN(Tensor tensor, loadImage(files[first + i], settings, dtype, dims));
      std::ranges::copy(tensor.bytes(), out.begin());
      out = out.subspan(tensor.bytes().size());
    }
    return Status::ok();
  }

private:
  Status readSettings(const ModelHints &hints);
  Status addFolder(const fs::path &path);
  Status findFiles();
  Status setLabels();
  Result<int64_t> numberOf(const std::string &name) const;

  std::string folder;
  Preprocessing settings;
  std::vector<std::string> classes; ///< in the order of the model's outputs; empty where not known
  std::vector<std::string> names;   ///< of the subfolders
  std::vector<std::string> files;
  std::vector<size_t> nameOfFile;
  std::vector<int64_t> dims; ///< of a picture, the batch as 1
  DType dtype = DType::F32;
};

Status Pictures::readSettings(const ModelHints &hints) {
  std::string path = (fs::path(folder) / kSettings).string();
  std::error_code ignored;
  Json list = parseJson(hints.classes);
  if (fs::exists(path, ignored)) {
    TENON_ASSIGN(MappedFile file, MappedFile::open(path));
    std::string text(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
    Json parsed = parseJson(text);
    TENON_TRY(checkSettings(path, parsed));
    settings = parsePreprocessing(text);
    list = parsed.value("classes", list);
  } else if (!hints.preprocessing.empty()) {
    settings = parsePreprocessing(hints.preprocessing);
  } else {
    return badData(
        fmt::format("{} has no {}, and the model contains no preprocessing", folder, kSettings),
        fmt::format("write down how the model was trained: {}", kExample));
  }
  for (const Json &name : list.is_array() ? list : Json::array()) {
    classes.push_back(name.is_string() ? name.get<std::string>() : dumpJson(name));
  }
  return Status::ok();
}

Status Pictures::addFolder(const fs::path &path) {
  size_t before = files.size();
  for (const fs::path &file : entriesOf(path)) {
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) {
      continue;
    }
    TENON_ASSIGN(FileContent content, contentOf(file.string()));
    if (content.kind == FileKind::Picture) {
      files.push_back(file.string());
      nameOfFile.push_back(names.empty() ? 0 : names.size() - 1);
    } else if (file.filename() != kSettings) {
      notes.push_back(
          fmt::format("{} is not a PNG, JPEG, PPM or PGM picture and is left out", file.string()));
    }
  }
  return files.size() > before || names.empty()
             ? Status::ok()
             : badData(fmt::format("{} has no pictures", path.string()),
                       "remove the folder, or put PNG, JPEG, PPM or PGM files in it");
}

Status Pictures::findFiles() {
  std::error_code ignored;
  TENON_TRY(addFolder(folder));
  size_t loose = files.size();
  for (const fs::path &path : entriesOf(folder)) {
    if (fs::is_directory(path, ignored)) {
      names.push_back(path.filename().string());
      TENON_TRY(addFolder(path));
    }
  }
  if (files.empty()) {
    return badData(fmt::format("{} has no pictures", folder),
                   "put PNG, JPEG, PPM or PGM files in a subfolder for each class");
  }
  return loose == 0 || names.empty()
             ? Status::ok()
             : badData(fmt::format("{} has pictures outside the folders of its classes: {}", folder,
                                   files[0]),
                       "move each into the folder of its class");
}

/// The place of a subfolder among the classes: by the model's or the settings' list, else the
/// number that all subfolders have as their names, else their order.
Result<int64_t> Pictures::numberOf(const std::string &name) const {
  if (!classes.empty()) {
    std::vector<std::string>::const_iterator found = std::ranges::find(classes, name);
    if (found != classes.end()) {
      return found - classes.begin();
    }
    bool isAnyKnown = std::ranges::any_of(names, [&](const std::string &each) {
      return std::ranges::find(classes, each) != classes.end();
    });
    if (isAnyKnown) {
      return badData(
          fmt::format("{}: '{}' is not a class of the model", folder, name),
          didYouMean(name, classes, fmt::format("its classes are {}", fmt::join(classes, ", "))));
    }
  }
  auto parse = [](const std::string &text) -> std::optional<int64_t> {
    int64_t number = 0;
    std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    bool isNumber =
        parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && number >= 0;
    return isNumber ? std::optional(number) : std::nullopt;
  };
  if (std::ranges::all_of(names,
                          [&](const std::string &each) { return parse(each).has_value(); })) {
    return *parse(name);
  }
  return std::ranges::find(names, name) - names.begin();
}

Status Pictures::setLabels() {
  if (names.empty()) {
    return Status::ok();
  }
  TENON_ASSIGN(Tensor tensor,
               Tensor::create("labels", DType::I64, {static_cast<int64_t>(files.size())}));
  for (size_t i = 0; i < files.size(); ++i) {
    TENON_ASSIGN(int64_t number, numberOf(names[nameOfFile[i]]));
    setElement(tensor, static_cast<int64_t>(i), static_cast<double>(number));
  }
  labels = std::move(tensor);
  return Status::ok();
}

Status Pictures::open(std::span<const WantedInput> wanted, const ModelHints &hints) {
  if (wanted.size() != 1) {
    return badData(fmt::format("{} is a folder of pictures, but the model has {} inputs", folder,
                               wanted.size()),
                   "give an npz");
  }
  dtype = wanted[0].dtype;
  dims = wanted[0].dims;
  if (dims.size() == 3) {
    dims.insert(dims.begin(), 1);
  }
  TENON_TRY(readSettings(hints));
  TENON_TRY(findFiles());
  TENON_TRY(setLabels());
  // With free sizes the first picture shows which; the others have to have the same.
  TENON_ASSIGN(Tensor first, loadImage(files[0], settings, dtype, dims));
  dims = first.dims;
  for (const std::string &file : files) {
    TENON_TRY(checkImage(file, settings, dtype, dims));
  }
  return Status::ok();
}

} // namespace

Result<std::unique_ptr<SampleSource>> openPictures(const std::string &path,
                                                   std::span<const WantedInput> wanted,
                                                   const ModelHints &hints) {
  std::unique_ptr<Pictures> source = std::make_unique<Pictures>(path);
  TENON_TRY(source->open(wanted, hints));
  return std::unique_ptr<SampleSource>(std::move(source));
}

} // namespace tenon::tool
