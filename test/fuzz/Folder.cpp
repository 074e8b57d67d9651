// Hugging Face folders: the input's parts between 0x1e are files of one, which is read up to its
// tokenizer, whose text is encoded. Folders are small and in memory. Every second change is one of
// a value of JSON, since a change of bytes mostly leaves no JSON at all.
#include "compiler/frontend/language/Folder.h"

#include "compiler/frontend/language/Model.h"
#include "generate/tokenizer/Tokenizer.h"
#include "test/fuzz/Fuzz.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

namespace {

constexpr std::string_view kFiles[] = {"config.json",           "tokenizer.json",
                                       "model.safetensors",     "model.safetensors.index.json",
                                       "tokenizer_config.json", "generation_config.json",
                                       "chat_template.jinja"};

/// Of this process, and gone with it.
class OwnFolder {
public:
  OwnFolder() {
    if (!mkdtemp(path.data())) {
      std::abort();
    }
  }
  OwnFolder(const OwnFolder &) = delete;
  OwnFolder &operator=(const OwnFolder &) = delete;
  ~OwnFolder() { std::filesystem::remove_all(path); }

  std::string path = "/dev/shm/tenon-fuzz-XXXXXX";
};

const std::string &folderPath() {
  static const OwnFolder kFolder;
  return kFolder.path;
}

void write(std::string_view text) {
  for (std::string_view name : kFiles) {
    std::string path = folderPath() + "/" + std::string(name);
    size_t end = std::min(text.find('\x1e'), text.size());
    if (end == 0) {
      std::filesystem::remove(path);
    } else {
      std::ofstream(path, std::ios::binary) << text.substr(0, end);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

using Json = nlohmann::json;

Json oddValue(std::minstd_rand &random) {
  static const Json kOdd[] = {nullptr,    -1,
                              0,          1,
                              2,          3,
                              7,          uint64_t{1} << 31,
                              1e308,      0.5,
                              "",         " ",
                              "linear",   "yarn",
                              "longrope", ~uint64_t{0},
                              true,       false,
                              "gpt2",     "a",
                              "\u2581",   "gpt_neox",
                              "phi3",     Json::array(),
                              {1},        Json::object()};
  return kOdd[random() % std::size(kOdd)];
}

void collect(Json &value, std::vector<Json *> &all) {
  all.push_back(&value);
  if (value.is_structured()) {
    for (Json &member : value) {
      collect(member, all);
    }
  }
}

/// Another value in the place of one, or a copy of another one.
std::string changed(std::string_view text, std::minstd_rand &random) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return std::string(text);
  }
  std::vector<Json *> all;
  collect(value, all);
  Json other = random() % 2 ? oddValue(random) : *all[random() % all.size()];
  *all[random() % all.size()] = std::move(other);
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 2) {
    return LLVMFuzzerMutate(data, size, most);
  }
  std::string_view rest = tenon::fuzz::textOf(data, size);
  std::vector<std::string> parts(1);
  for (char c : rest) {
    if (c == '\x1e') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  std::string &part = parts[random() % parts.size()];
  part = changed(part, random);
  std::string whole;
  for (const std::string &each : parts) {
    whole += (&each == &parts.front() ? "" : "\x1e") + each;
  }
  size_t count = std::min(most, whole.size());
  std::copy_n(whole.data(), count, data);
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace tenon;
  write(fuzz::textOf(data, size));
  std::vector<frontend::Gap> gaps;
  Result<std::shared_ptr<language::Folder>> folder = language::openFolder(folderPath(), gaps);
  if (!folder) {
    return 0;
  }
  (void)language::chatTemplateOf(**folder, gaps);
  Result<std::optional<generate::Vocabulary>> vocabulary =
      language::readVocabulary(**folder, 300, gaps);
  if (vocabulary && *vocabulary) {
    if (Result<generate::Tokenizer> tokenizer =
            generate::Tokenizer::create(std::move(**vocabulary))) {
      generate::TextPart part{"a b\xc3\xa9 <b> <|end|> \xe2\x96\x81x", true};
      (void)tokenizer->encode(std::span(&part, 1)).status().isOk();
    }
  }
  (void)language::readModel((*folder)->file, *folder, gaps).status().isOk();
  return 0;
}
