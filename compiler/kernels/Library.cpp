// Reads descriptions. Each complaint names the key that it is about.
//
// One file: each key of a description stands beside what may be wrong with it.
#include "compiler/kernels/Library.h"

#include "compiler/kernels/Names.h"
#include "support/Hash.h"
#include "support/files/MappedFile.h"
#include "support/json/StrictJson.h"
#include "support/text/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <nlohmann/json.hpp>

namespace tenon::kernels {
namespace {

constexpr int64_t kMostElements = 64; ///< of an attribute, each of which is an argument
constexpr char kSchema[] = "tenon.kernels/1";
constexpr JsonLimits kLimits{.maxDepth = 16, .maxValues = 65536, .isObject = true};

Status refused(std::string_view where, std::string_view what) {
  return Status::error(ErrorId::BadKernelDescription, strCat(where, ": ", what),
                       "docs/guides/kernels.md lists the keys of a description");
}

/// The members of an object, of which each must be read.
class Members {
public:
  Members(const Json &value, std::string path) : object(value), place(std::move(path)) {}

  std::string at(std::string_view key) const { return strCat(place, ".", key); }

  /// Null if it is absent.
  const Json *find(const char *key) {
    known.push_back(key);
    auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }

  Status text(const char *key, std::string &value, bool isNeeded = true) {
    const Json *found = find(key);
    if (!found) {
      return isNeeded ? refused(at(key), "is missing") : Status::ok();
    }
    if (!found->is_string()) {
      return refused(at(key), "is not a text");
    }
    value = found->get_ref<const std::string &>();
    return Status::ok();
  }

  /// Texts, or whole numbers as texts.
  Status texts(const char *key, std::vector<std::string> &list, bool isNeeded) {
    const Json *found = find(key);
    if (!found) {
      return isNeeded ? refused(at(key), "is missing") : Status::ok();
    }
    if (!found->is_array()) {
      return refused(at(key), "is not a list");
    }
    for (const Json &entry : *found) {
      if (!entry.is_string() && !entry.is_number_integer()) {
        return refused(at(key),
                       "is a list of texts and whole numbers, and this one has another entry");
      }
      list.push_back(entry.is_string() ? entry.get<std::string>()
                                       : std::to_string(entry.get<int64_t>()));
    }
    return Status::ok();
  }

  Status checkRead() const {
    for (const auto &[key, value] : object.items()) {
      if (!llvm::is_contained(known, key)) {
        return refused(at(key), "is not a key that a description has");
      }
    }
    return Status::ok();
  }

private:
  const Json &object;
  std::string place;
  std::vector<std::string> known;
};

Status readType(Members &members, DType &type) {
  std::string name;
  TENON_TRY(members.text("type", name));
  std::optional<DType> parsed = parseDType(name);
  if (!parsed || tenon::isLowBit(*parsed)) {
    return refused(members.at("type"),
                   strCat("'", name,
                          "' is not a type: f32, f16, bf16, f64, i8 to i64, u8 to u64 "
                          "and bool are"));
  }
  type = *parsed;
  return Status::ok();
}

Status readPorts(Members &members, const char *key, std::vector<Port> &ports) {
  const Json *list = members.find(key);
  if (!list || !list->is_array() || list->empty()) {
    return refused(members.at(key), "is not a list of one or more");
  }
  for (const auto &[index, entry] : llvm::enumerate(*list)) {
    std::string place = strCat(members.at(key), "[", index, "]");
    if (!entry.is_object()) {
      return refused(place, "is not an object");
    }
    Members port(entry, place);
    ports.emplace_back();
    TENON_TRY(port.text("name", ports.back().name));
    TENON_TRY(readType(port, ports.back().type));
    TENON_TRY(port.texts("shape", ports.back().dims, /*isNeeded=*/true));
    TENON_TRY(port.checkRead());
  }
  return Status::ok();
}

Status readRanges(Members &members, std::vector<SizeRange> &ranges) {
  const Json *object = members.find("sizes");
  if (!object) {
    return Status::ok();
  }
  if (!object->is_object()) {
    return refused(members.at("sizes"), "is not an object");
  }
  for (const auto &[name, ends] : object->items()) {
    bool isRight = ends.is_array() && ends.size() == 2 && ends[0].is_number_integer() &&
                   ends[1].is_number_integer();
    SizeRange range{name, isRight ? ends[0].get<int64_t>() : -1,
                    isRight ? ends[1].get<int64_t>() : -1};
    if (range.min < 0 || range.max < range.min || range.max > kMostOfSize) {
      return refused(strCat(members.at("sizes"), ".", name),
                     "is not a list of the least and the most that it may be");
    }
    ranges.push_back(std::move(range));
  }
  return Status::ok();
}

Status readDefault(Members &members, AttributeRule &rule) {
  const Json *value = members.find("default");
  if (!value) {
    return Status::ok();
  }
  if (rule.count && (!value->is_array() || value->size() != *rule.count)) {
    return refused(members.at("default"), strCat("is not a list of ", *rule.count, " numbers"));
  }
  rule.otherwise.emplace();
  for (const Json &element : rule.count ? *value : Json::array({*value})) {
    if (!element.is_number() || (rule.type == DType::I64 && !element.is_number_integer())) {
      return refused(members.at("default"), "is not of its type");
    }
    rule.otherwise->push_back(element.get<double>());
  }
  return Status::ok();
}

Status readAttributes(Members &members, std::vector<AttributeRule> &attributes) {
  const Json *object = members.find("attributes");
  if (!object) {
    return Status::ok();
  }
  if (!object->is_object()) {
    return refused(members.at("attributes"), "is not an object");
  }
  for (const auto &[name, entry] : object->items()) {
    std::string place = strCat(members.at("attributes"), ".", name);
    if (!entry.is_object()) {
      return refused(place, "is not an object");
    }
    Members attribute(entry, place);
    AttributeRule rule;
    rule.name = name;
    TENON_TRY(readType(attribute, rule.type));
    if (rule.type != DType::I64 && rule.type != DType::F32 && rule.type != DType::F64) {
      return refused(attribute.at("type"), "attributes are i64, f32 or f64");
    }
    if (const Json *count = attribute.find("count")) {
      bool isRight = count->is_number_integer() && count->get<int64_t>() > 0 &&
                     count->get<int64_t>() <= kMostElements;
      if (!isRight) {
        return refused(attribute.at("count"), strCat("is not a number from 1 to ", kMostElements));
      }
      rule.count = count->get<size_t>();
    }
    TENON_TRY(readDefault(attribute, rule));
    TENON_TRY(attribute.checkRead());
    attributes.push_back(std::move(rule));
  }
  return Status::ok();
}

Status readBlock(Members &members, Kernel &kernel) {
  const Json *block = members.find("block");
  if (!block) {
    return kernel.backend == kCuda ? refused(members.at("block"), "is missing") : Status::ok();
  }
  int64_t threads = 1;
  bool isRight = block->is_array() && !block->empty() && block->size() <= 3;
  for (size_t i = 0; isRight && i < block->size(); ++i) {
    isRight = (*block)[i].is_number_integer() && (*block)[i].get<int64_t>() > 0 &&
              (*block)[i].get<int64_t>() <= 1024;
    if (isRight) {
      kernel.block.push_back((*block)[i].get<int64_t>());
      threads *= kernel.block.back();
    }
  }
  return isRight && threads <= 1024
             ? Status::ok()
             : refused(members.at("block"), "is not a list of one to three numbers of threads, "
                                            "whose product is 1024 or less");
}

/// An ONNX model, or {"symbol": ..., "library": ...}.
Status readReference(Members &members, Kernel &kernel) {
  const Json *reference = members.find("reference");
  if (!reference || !reference->is_object()) {
    return members.text("reference", kernel.reference, /*isNeeded=*/false);
  }
  Members function(*reference, members.at("reference"));
  TENON_TRY(function.text("symbol", kernel.referenceSymbol));
  // A kernel for CPUs has it in its own library.
  TENON_TRY(function.text("library", kernel.referenceLibrary, kernel.backend == kCuda));
  TENON_TRY(function.text("file", kernel.referenceFile, /*isNeeded=*/false));
  return function.checkRead();
}

Result<Kernel> readEntry(const Json &entry, const std::string &place) {
  if (!entry.is_object()) {
    return refused(place, "is not an object");
  }
  Members members(entry, place);
  Kernel kernel;
  TENON_TRY(members.text("operator", kernel.op));
  if (llvm::StringRef(kernel.op).split("::").second.empty()) {
    return refused(members.at("operator"), strCat("'", kernel.op,
                                                  "' does not name a domain and an operator, as "
                                                  "com.example::VectorAdd does"));
  }
  TENON_TRY(members.text("backend", kernel.backend));
  if (kernel.backend != kCpu && kernel.backend != kCuda) {
    return refused(members.at("backend"), "is neither \"cpu\" nor \"cuda\"");
  }
  TENON_TRY(members.text("symbol", kernel.symbol));
  TENON_TRY(readPorts(members, "inputs", kernel.inputs));
  TENON_TRY(readPorts(members, "outputs", kernel.outputs));
  TENON_TRY(readRanges(members, kernel.ranges));
  TENON_TRY(readAttributes(members, kernel.attributes));
  TENON_TRY(members.texts("arguments", kernel.arguments, /*isNeeded=*/true));
  TENON_TRY(members.texts("grid", kernel.grid, /*isNeeded=*/kernel.backend == kCuda));
  if (kernel.grid.size() > (kernel.backend == kCpu ? 1 : 3)) {
    return refused(members.at("grid"), "has more dims than one on a CPU, three on a GPU");
  }
  auto takes = [&](const char *name) { return llvm::is_contained(kernel.arguments, name); };
  bool isShared = takes("begin") && takes("end");
  if (kernel.backend == kCpu && kernel.grid.empty() == isShared) {
    return refused(members.at("grid"), "goes with the arguments \"begin\" and \"end\"");
  }
  TENON_TRY(readBlock(members, kernel));
  if (const Json *bytes = members.find("scratch_bytes")) {
    kernel.scratchBytes = bytes->is_string() ? bytes->get<std::string>() : dumpJson(*bytes);
  }
  TENON_TRY(members.text("metadata", kernel.metadata, /*isNeeded=*/false));
  TENON_TRY(members.text("rows", kernel.rows, /*isNeeded=*/false));
  TENON_TRY(readReference(members, kernel));
  if (const Json *tolerance = members.find("tolerance")) {
    kernel.tolerance = tolerance->is_number() ? tolerance->get<double>() : -1;
    if (!(kernel.tolerance >= 0)) {
      return refused(members.at("tolerance"), "is not a number of 0 or more");
    }
  }
  TENON_TRY(members.text("library", kernel.library, /*isNeeded=*/false));
  TENON_TRY(members.text("file", kernel.file, /*isNeeded=*/false));
  TENON_TRY(members.checkRead());
  DescriptionFault fault = nameSizes(kernel);
  if (!fault.what.empty()) {
    return refused(members.at(fault.key), fault.what);
  }
  return kernel;
}

/// A file that a description names, which is beside it.
std::string besides(const std::string &path, const std::string &name) {
  size_t slash = path.rfind('/');
  bool isBeside = !name.empty() && name.front() != '/' && slash != std::string::npos;
  return isBeside ? path.substr(0, slash + 1) + name : name;
}

/// What Triton's metadata says of a kernel, where the entry does not: symbol, block and shared
/// memory. TN0306 for what an engine cannot give it.
Status addMetadata(Json &entry, const std::string &path, const std::string &place) {
  auto named = entry.is_object() ? entry.find("metadata") : entry.end();
  if (!entry.is_object() || named == entry.end() || !named->is_string()) {
    return Status::ok(); // readEntry tells what is wrong
  }
  std::string file = besides(path, named->get<std::string>());
  TENON_ASSIGN(MappedFile text, MappedFile::open(file));
  Json metadata;
  if (std::optional<JsonFault> fault =
          parseStrict({reinterpret_cast<const char *>(text.bytes().data()), text.bytes().size()},
                      kLimits, metadata)) {
    return refused(file, fault->text);
  }
  for (const char *key : {"global_scratch_size", "profile_scratch_size", "launch_cooperative_grid",
                          "launch_pdl", "tensordesc_meta"}) {
    auto found = metadata.find(key);
    bool isWanted = found != metadata.end() && *found != 0 && *found != false &&
                    *found != nullptr && !(found->is_array() && found->empty());
    if (isWanted) {
      return refused(strCat(place, ".metadata"),
                     strCat("Triton's '", key, "' is ", dumpJson(*found),
                            ", which an engine does not give a kernel"));
    }
  }
  if (metadata.value("num_ctas", Json(1)) != 1) {
    return refused(strCat(place, ".metadata"), "Triton's 'num_ctas' is not 1");
  }
  if (auto name = metadata.find("name"); name != metadata.end() && !entry.contains("symbol")) {
    entry["symbol"] = *name;
  }
  auto warps = metadata.find("num_warps");
  if (warps != metadata.end() && warps->is_number_integer() && !entry.contains("block")) {
    entry["block"] = Json::array({32 * warps->get<int64_t>()});
  }
  if (auto bytes = metadata.find("shared");
      bytes != metadata.end() && *bytes != 0 && !entry.contains("scratch_bytes")) {
    entry["scratch_bytes"] = *bytes;
  }
  return Status::ok();
}

std::string fileName(const std::string &path) { return path.substr(path.rfind('/') + 1); }

Result<std::shared_ptr<Library>> readCode(const std::string &path) {
  std::shared_ptr<Library> library = std::make_shared<Library>();
  library->path = path;
  TENON_ASSIGN(MappedFile code, MappedFile::open(path));
  library->bytes.assign(code.bytes().begin(), code.bytes().end());
  library->hash = hashBytes(code.bytes()).hex();
  return library;
}

/// The library of the function that a kernel of `library` is checked beside.
Result<std::shared_ptr<const Library>> referenceCode(const Library &library, const Kernel &kernel) {
  std::string file = kernel.referenceLibrary;
  TENON_ASSIGN(std::shared_ptr<const Library> code,
               readCode(file.empty() ? library.path : besides(library.path, file)));
  return code;
}

std::string descriptionOf(const std::string &path) {
  size_t dot = path.rfind('.');
  size_t slash = path.rfind('/');
  bool hasEnding = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return path.substr(0, hasEnding ? dot : path.size()) + ".json";
}

} // namespace

std::string AttributeRule::elementName(size_t index) const {
  return count ? strCat(name, "[", index, "]") : name;
}

Result<Kernel> parseKernel(std::string_view json) {
  Json entry;
  if (std::optional<JsonFault> fault = parseStrict(json, kLimits, entry)) {
    return refused("the kernel", fault->text);
  }
  TENON_ASSIGN(Kernel kernel, readEntry(entry, "the kernel"));
  kernel.json = json;
  return kernel;
}

std::string referenceEntry(const Kernel &kernel) {
  Json entry = Json::parse(kernel.json);
  entry["backend"] = kCpu;
  entry["symbol"] = kernel.referenceSymbol;
  entry["library"] = kernel.referenceLibrary;
  entry["file"] = kernel.referenceFile;
  entry.erase("reference");
  if (kernel.backend == kCuda) { // a call of a function is one, and needs no memory
    for (const char *key : {"grid", "block", "scratch_bytes", "metadata"}) {
      entry.erase(key);
    }
  }
  return dumpJson(entry);
}

Result<std::shared_ptr<const Library>> readLibrary(const std::string &path) {
  TENON_ASSIGN(std::shared_ptr<Library> library, readCode(path));
  std::string description = descriptionOf(path);
  TENON_ASSIGN(MappedFile text, MappedFile::open(description));
  Json whole;
  if (std::optional<JsonFault> fault =
          parseStrict({reinterpret_cast<const char *>(text.bytes().data()), text.bytes().size()},
                      kLimits, whole)) {
    return refused(description, fault->text);
  }
  Members members(whole, description);
  std::string schema;
  TENON_TRY(members.text("schema", schema));
  if (schema != kSchema) {
    return refused(members.at("schema"), strCat("is not \"", kSchema, "\""));
  }
  const Json *list = members.find("kernels");
  if (!list || !list->is_array() || list->empty()) {
    return refused(members.at("kernels"), "is not a list of one or more");
  }
  TENON_TRY(members.checkRead());
  std::string contents = library->hash;
  std::string_view backend = llvm::StringRef(path).ends_with(".ptx") ? kCuda : kCpu;
  for (const auto &[index, entry] : llvm::enumerate(*list)) {
    std::string place = strCat(description, ".kernels[", index, "]");
    for (const char *key : {"library", "file"}) {
      if (entry.is_object() && entry.contains(key)) {
        return refused(strCat(place, ".", key), "is not a key that a description has");
      }
    }
    Json own = entry;
    TENON_TRY(addMetadata(own, path, place));
    TENON_ASSIGN(Kernel kernel, readEntry(own, place));
    if (kernel.backend != backend) {
      continue; // one description serves the PTX and the object file of a kernel
    }
    own["file"] = kernel.file = fileName(path);
    own["library"] = kernel.library = library->hash;
    kernel.reference = besides(path, kernel.reference);
    if (!kernel.referenceSymbol.empty()) {
      TENON_ASSIGN(std::shared_ptr<const Library> code, referenceCode(*library, kernel));
      own["reference"] = {{"symbol", kernel.referenceSymbol},
                          {"library", kernel.referenceLibrary = code->hash},
                          {"file", kernel.referenceFile = fileName(code->path)}};
      contents += code->hash;
      library->references.push_back(std::move(code));
    }
    kernel.json = dumpJson(own);
    contents += kernel.json;
    if (!kernel.reference.empty()) {
      TENON_ASSIGN(MappedFile reference, MappedFile::open(kernel.reference));
      contents += hashBytes(reference.bytes()).hex();
    }
    library->kernels.push_back(std::move(kernel));
  }
  if (library->kernels.empty()) {
    return refused(members.at("kernels"), strCat("has none whose \"backend\" is \"", backend,
                                                 "\", which ", path, " is for"));
  }
  library->digest = hashText(contents).hex();
  return std::shared_ptr<const Library>(std::move(library));
}

std::vector<const TableEntry *> KernelTable::find(std::string_view op) const {
  std::vector<const TableEntry *> found;
  for (const TableEntry &entry : entries) {
    if (entry.kernel.op == op) {
      found.push_back(&entry);
    }
  }
  return found;
}

} // namespace tenon::kernels
