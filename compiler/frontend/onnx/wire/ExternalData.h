// Weights beside the model file: opened only inside the model's folder, never through a symbolic
// link, regular files only, every range checked. Relies on openat2 (Linux 5.6).
#pragma once

#include "compiler/frontend/onnx/wire/Model.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <map>
#include <memory>
#include <string>

namespace tenon::onnx {

/// Where a tensor's bytes are, as its external_data entries say.
struct ExternalLocation {
  std::string_view location;
  uint64_t offset = 0;
  bool hasLength = false;
  uint64_t length = 0;
  /// Set for the location "tenon-seeded".
  bool seeded = false;
  float scale = 0;
  float center = 0;
};

/// Reads and checks the entries of an external tensor.
Result<ExternalLocation> parseExternalLocation(const Tensor &tensor);

/// The data files of one model, each mapped once.
class ExternalFiles {
public:
  /// `folder` is the model's; empty for a model without a file, whose external data is refused.
  explicit ExternalFiles(std::string folderPath) : folder(std::move(folderPath)) {}
  ~ExternalFiles();
  ExternalFiles(const ExternalFiles &) = delete;
  ExternalFiles &operator=(const ExternalFiles &) = delete;

  /// A view of exactly `size` bytes, valid as long as the mapping from `owner` lives.
  Result<Bytes> view(const ExternalLocation &location, uint64_t size, std::string_view tensor);
  /// The mappings made so far, to be kept alive by whoever keeps views.
  std::vector<std::shared_ptr<void>> owners() const;

private:
  struct Mapping;
  Result<std::shared_ptr<Mapping>> open(std::string_view location);

  std::string folder;
  int directory = -1;
  std::map<std::string, std::shared_ptr<Mapping>, std::less<>> files;
};

} // namespace tenon::onnx
