// Chunks of zeros become holes, as in the file that they were read from.
#include "tools/tenon/model/DataFile.h"

#include "support/files/OutputPath.h"
#include "support/text/Text.h"

#include <algorithm>
#include <filesystem>

namespace tenon::tool {

DataFile::DataFile(const std::string &model, std::string name, std::vector<std::string> inputs)
    : where(folderOf(model) + "/" + name), name(std::move(name)), inputs(std::move(inputs)) {}

Status DataFile::append(Bytes bytes) {
  constexpr size_t kChunk = size_t{1} << 20;
  if (!file) {
    TENON_ASSIGN(file, AtomicFile::create(where, inputs));
  }
  for (size_t begin = 0; begin < bytes.size(); begin += kChunk) {
    Bytes chunk = bytes.subspan(begin, std::min(kChunk, bytes.size() - begin));
    bool isZero =
        std::all_of(chunk.begin(), chunk.end(), [](std::byte one) { return one == std::byte{0}; });
    TENON_TRY(isZero ? file->resize(file->size() + chunk.size()) : file->append(chunk));
  }
  return Status::ok();
}

Status DataFile::commit() { return file ? file->commit() : Status::ok(); }

std::string noteOfData(const DataFile &file) {
  return strCat("an ONNX file must be smaller than 2 GiB: the weights are in '", file.location(),
                "' beside it; keep the two files together");
}

std::string dataNameOf(const std::string &model) {
  return std::filesystem::path(model).filename().string() + ".data";
}

} // namespace tenon::tool
