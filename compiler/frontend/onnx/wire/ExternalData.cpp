// Opens data files with openat2 under RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS and maps them
// read-only. Relies on the kernel for path resolution, so that no check here can be raced.
#include "compiler/frontend/onnx/wire/ExternalData.h"

#include "support/text/Text.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tenon::onnx {
namespace {

constexpr std::string_view kSeeded = "tenon-seeded";
constexpr std::string_view kInMemoryPrefix = "*/_ORT_MEM_ADDR_/*";

Status externalError(ErrorId id, std::string_view tensor, std::string_view what, std::string hint) {
  return Status::error(id, strCat("tensor '", tensor, "': ", what), std::move(hint));
}

bool parseNumber(std::string_view text, uint64_t &value) {
  std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool parseReal(std::string_view text, float &value) {
  std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() &&
         std::isfinite(value);
}

/// Sets what one entry says; false if the key is unknown or its value is not valid.
ErrorId readEntry(const KeyValue &entry, ExternalLocation &out) {
  if (entry.key == "location") {
    out.location = entry.value;
    return ErrorId::None;
  }
  if (entry.key == "offset") {
    return parseNumber(entry.value, out.offset) ? ErrorId::None : ErrorId::OnnxExternalRange;
  }
  if (entry.key == "length") {
    out.hasLength = true;
    return parseNumber(entry.value, out.length) ? ErrorId::None : ErrorId::OnnxExternalRange;
  }
  if (entry.key == "scale") {
    return parseReal(entry.value, out.scale) ? ErrorId::None : ErrorId::OnnxSeeded;
  }
  if (entry.key == "center") {
    return parseReal(entry.value, out.center) ? ErrorId::None : ErrorId::OnnxSeeded;
  }
  return entry.key == "checksum" ? ErrorId::None : ErrorId::OnnxExternalKey;
}

} // namespace

Result<ExternalLocation> parseExternalLocation(const Tensor &tensor) {
  ExternalLocation out;
  for (size_t i = 0; i < tensor.externalData.size(); ++i) {
    const KeyValue &entry = tensor.externalData[i];
    for (size_t j = 0; j < i; ++j) {
      if (tensor.externalData[j].key == entry.key) {
        return externalError(ErrorId::OnnxExternalKey, tensor.name,
                             strCat("the key '", entry.key, "' of its external data occurs twice"),
                             "export the model again");
      }
    }
    ErrorId id = readEntry(entry, out);
    if (id != ErrorId::None) {
      return externalError(id, tensor.name,
                           strCat("external data entry '", entry.key, "' = '",
                                  entry.value.substr(0, 60), "' is not valid"),
                           "export the model again");
    }
  }
  out.seeded = out.location == kSeeded;
  unsigned recipeKeys = 0;
  for (const KeyValue &entry : tensor.externalData) {
    recipeKeys += entry.key == "scale" || entry.key == "center";
  }
  bool complete = recipeKeys == 2 && tensor.externalData.size() == 3 && out.scale >= 0;
  if (out.seeded ? !complete : recipeKeys != 0) {
    return externalError(ErrorId::OnnxSeeded, tensor.name,
                         "seeded weights need exactly the keys location, scale and center",
                         "write the graph with models/export.py");
  }
  if (out.location.starts_with(kInMemoryPrefix)) {
    return externalError(ErrorId::OnnxExternalInMemory, tensor.name,
                         "its data is marked as held in another program's memory",
                         "save the model with its weights before passing it on");
  }
  return out;
}

struct ExternalFiles::Mapping {
  ~Mapping() {
    if (size != 0) {
      ::munmap(const_cast<std::byte *>(start), size);
    }
  }
  const std::byte *start = nullptr;
  uint64_t size = 0;
};

ExternalFiles::~ExternalFiles() {
  if (directory >= 0) {
    ::close(directory);
  }
}

std::vector<std::shared_ptr<void>> ExternalFiles::owners() const {
  std::vector<std::shared_ptr<void>> result;
  for (const auto &[name, mapping] : files) {
    result.push_back(mapping);
  }
  return result;
}

Result<std::shared_ptr<ExternalFiles::Mapping>> ExternalFiles::open(std::string_view location) {
  auto known = files.find(location);
  if (known != files.end()) {
    return known->second;
  }
  std::string name(location);
  std::string hint = "keep data files beside the model, as plain files without links";
  bool plain = !name.empty() && name.size() < 4096 && name.find('\0') == std::string::npos;
  if (folder.empty() || !plain) {
    return Status::error(ErrorId::OnnxExternalPath,
                         strCat("external data location '", name.substr(0, 80), "' cannot be used"),
                         hint);
  }
  if (directory < 0) {
    directory = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  }
  struct open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  int fd = static_cast<int>(::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof(how)));
  if (fd < 0) {
    bool outside = errno == EXDEV || errno == ELOOP;
    return Status::error(
        outside ? ErrorId::OnnxExternalPath : ErrorId::OnnxExternalMissing,
        strCat("external data file '", name, "' in '", folder,
               "': ", outside ? "leads out of the folder or through a link" : std::strerror(errno)),
        hint);
  }
  struct stat info = {};
  bool known_size = ::fstat(fd, &info) == 0;
  if (!known_size || !S_ISREG(info.st_mode) || info.st_nlink > 1) {
    ::close(fd);
    return Status::error(
        ErrorId::OnnxExternalNotRegular,
        strCat("external data file '", name, "' is not a regular file with one name"), hint);
  }
  std::shared_ptr<Mapping> mapping = std::make_shared<Mapping>();
  if (info.st_size > 0) {
    void *start = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (start == MAP_FAILED) {
      ::close(fd);
      return Status::error(ErrorId::OutOfMemory, strCat("cannot map '", name, "'"),
                           "free some memory");
    }
    mapping->start = static_cast<const std::byte *>(start);
    mapping->size = static_cast<uint64_t>(info.st_size);
  }
  ::close(fd);
  files.emplace(std::move(name), mapping);
  return mapping;
}

Result<Bytes> ExternalFiles::view(const ExternalLocation &location, uint64_t size,
                                  std::string_view tensor) {
  if (location.hasLength && location.length != size) {
    return externalError(
        ErrorId::OnnxTensorSize, tensor,
        strCat("needs ", size, " bytes, but its external data has ", location.length),
        "export the model again");
  }
  Result<std::shared_ptr<Mapping>> opened = open(location.location);
  if (!opened) {
    return opened.takeStatus().prefix(strCat("tensor '", tensor, "'"));
  }
  const Mapping &mapping = **opened;
  if (location.offset > mapping.size || size > mapping.size - location.offset) {
    return externalError(ErrorId::OnnxExternalRange, tensor,
                         strCat("bytes ", location.offset, " + ", size, " are not in '",
                                location.location, "', which has ", mapping.size),
                         "copy the data file again, or export the model again");
  }
  return Bytes(mapping.start + location.offset, size);
}

} // namespace tenon::onnx
