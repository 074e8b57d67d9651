// Finds the program and its weights in the archive. Names of entries begin with a folder of any
// name.
#include "compiler/frontend/pt2/wire/ArchiveReader.h"

#include "compiler/frontend/pt2/wire/Metadata.h"
#include "support/text/Text.h"
#include "support/zip/Zip.h"

#include <map>

namespace tenon::pt2 {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kModel = "models/model.json";
/// The largest description that is read.
constexpr uint64_t kMaxJsonBytes = uint64_t{1} << 30;

/// What compressed entries may become: a base, and so many times the size of the archive. PyTorch
/// does not compress.
constexpr uint64_t kMaxUnpacked = uint64_t{8} << 20, kMaxExpansion = 8;

/// Whether whoever unpacks the archive would write elsewhere.
bool leavesArchive(std::string_view name) {
  if (name.starts_with('/') || name.find_first_of("\\:\0"sv) != name.npos) {
    return true;
  }
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

class ArchiveReader {
public:
  explicit ArchiveReader(Bytes bytes)
      : fileBytes(bytes.size()), archive(bytes, "", ErrorId::Pt2BadArchive,
                                         "save the program again with torch.export.save") {}

  Result<Program> read();

private:
  Status findEntries();
  Result<Bytes> bytesOf(const std::string &name);
  Result<std::string_view> textOf(const std::string &name);
  Status readWeights(const std::string &folder, const std::string &config, Program &program);

  uint64_t fileBytes;
  zip::Archive archive;
  std::map<std::string, zip::Entry> entries; ///< by the name without the folder
  /// Storages that several tensors share are unpacked and summed up once.
  std::map<std::string, Bytes> known;
  std::vector<std::shared_ptr<void>> owners;
};

Status ArchiveReader::findEntries() {
  TENON_ASSIGN(std::vector<zip::Entry> list, archive.entries());
  uint64_t unpacked = 0;
  for (zip::Entry &entry : list) {
    if (leavesArchive(entry.name)) {
      return archive.bad(strCat("the entry '", entry.name, "' lies outside the archive"));
    }
    unpacked += entry.method == zip::kStored ? 0 : entry.unpacked;
    if (unpacked > kMaxUnpacked + kMaxExpansion * fileBytes) {
      return archive.bad(strCat("it unpacks to more than ", kMaxUnpacked >> 20, " MiB and ",
                                kMaxExpansion, " times its size"));
    }
    size_t slash = entry.name.find('/');
    std::string name = slash == std::string::npos ? entry.name : entry.name.substr(slash + 1);
    if (!entries.emplace(name, std::move(entry)).second) {
      return archive.bad(strCat("the entry '", name, "' is there twice"));
    }
  }
  if (!entries.count(std::string(kModel))) {
    bool isPickle = entries.count("data.pkl") != 0;
    return archive.bad(isPickle
                           ? "it is a pickled model or state_dict, not a program of torch.export"
                           : "it contains no 'models/model.json', which torch.export.save writes");
  }
  return Status::ok();
}

Result<Bytes> ArchiveReader::bytesOf(const std::string &name) {
  auto done = known.find(name);
  if (done != known.end()) {
    return done->second;
  }
  auto found = entries.find(name);
  if (found == entries.end()) {
    return archive.bad(strCat("the entry '", name, "' is missing"));
  }
  std::shared_ptr<std::vector<std::byte>> owned = std::make_shared<std::vector<std::byte>>();
  TENON_ASSIGN(Bytes bytes, archive.read(found->second, *owned));
  if (!owned->empty()) {
    owners.push_back(owned);
  }
  known[name] = bytes;
  return bytes;
}

Result<std::string_view> ArchiveReader::textOf(const std::string &name) {
  TENON_ASSIGN(Bytes bytes, bytesOf(name));
  if (bytes.size() > kMaxJsonBytes) {
    return archive.bad(strCat("the entry '", name, "' is too large"));
  }
  return std::string_view(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

Status ArchiveReader::readWeights(const std::string &folder, const std::string &config,
                                  Program &program) {
  if (!entries.count(folder + config)) {
    return Status::ok();
  }
  TENON_ASSIGN(std::string_view text, textOf(folder + config));
  TENON_ASSIGN(Json root, parseProgramJson(text, config));
  JsonReader json;
  for (const auto &[name, value] : json.object(root, "config").items()) {
    Weight weight;
    std::string path = json.text(value, "path_name");
    const Json *pickled = json.optionalMember(value, "use_pickle");
    weight.isPickled = pickled && pickled->is_boolean() && pickled->get<bool>();
    if (const Json *meta = json.optionalMember(value, "tensor_meta")) {
      weight.meta = tensorMeta(json, *meta);
    }
    if (json.failed()) {
      return json.takeFailure();
    }
    if (!weight.isPickled) {
      TENON_ASSIGN(weight.bytes, bytesOf(folder + path));
    }
    program.weights[name] = std::move(weight);
  }
  return json.takeFailure();
}

Result<Program> ArchiveReader::read() {
  TENON_TRY(findEntries());
  if (entries.count("byteorder")) {
    TENON_ASSIGN(std::string_view order, textOf("byteorder"));
    if (order != "little") {
      return archive.bad("its weights are not of little-endian byte order");
    }
  }
  TENON_ASSIGN(std::string_view model, textOf(std::string(kModel)));
  TENON_ASSIGN(Program program, readProgram(model));
  TENON_TRY(readWeights("data/weights/", "model_weights_config.json", program));
  TENON_TRY(readWeights("data/constants/", "model_constants_config.json", program));
  program.owners = std::move(owners);
  return program;
}

} // namespace

bool looksLikeArchive(Bytes beginning) {
  std::string_view text(reinterpret_cast<const char *>(beginning.data()), beginning.size());
  return text.starts_with("PK\x03\x04"sv);
}

Result<Program> readArchive(Bytes bytes) { return ArchiveReader(bytes).read(); }

} // namespace tenon::pt2
