// Lone tensors: typed, raw, packed and external data, with a data file beside them.
#include "compiler/frontend/onnx/wire/TensorData.h"
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>
#include <fstream>

using namespace tenon;

namespace {

/// A folder with a file `data.bin` of 512 bytes, kept as long as the program runs.
const std::string &dataFolder() {
  // Never destroyed: the exit handler reads it.
  static const std::string &folder = *new std::string([] {
    std::string name = "/tmp/tenon-fuzz-XXXXXX";
    std::string made = mkdtemp(name.data());
    std::ofstream(made + "/data.bin") << std::string(512, 'd');
    std::atexit([] {
      unlink((dataFolder() + "/data.bin").c_str());
      rmdir(dataFolder().c_str());
    });
    return made;
  }());
  return folder;
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<onnx::Tensor> tensor = onnx::readTensor(fuzz::bytesOf(data, size));
  if (!tensor || !onnx::toDType(tensor->type)) {
    return 0;
  }
  onnx::ExternalFiles files(dataFolder());
  Result<onnx::TensorData> loaded = onnx::loadTensor(*tensor, files);
  if (loaded && !loaded->seeded) {
    // Every byte that is said to be there is there.
    unsigned sum = 0;
    for (std::byte byte : loaded->view) {
      sum += static_cast<unsigned>(byte);
    }
    [[maybe_unused]] static volatile unsigned seen;
    seen = sum;
  }
  return 0;
}
