// Reads a model's messages and the data of its tensors; what only the importer checks passes.
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/frontend/onnx/wire/TensorData.h"
#include "compiler/frontend/pt2/wire/ArchiveReader.h"
#include "support/files/MappedFile.h"
#include "test/fault/files/ImportDoor.h"

#include <filesystem>

namespace tenon::test {

Status importDoor(const std::string &path) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  TENON_ASSIGN(onnx::Model model, onnx::readModel(file.bytes()));
  onnx::ExternalFiles files(std::filesystem::path(path).parent_path());
  for (const onnx::Tensor &tensor : model.graph.initializers) {
    if (onnx::toDType(tensor.type)) {
      TENON_TRY(onnx::loadTensor(tensor, files).takeStatus());
    }
  }
  return Status::ok();
}

Status pt2Door(const std::string &path) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  return pt2::readArchive(file.bytes()).takeStatus();
}

} // namespace tenon::test
