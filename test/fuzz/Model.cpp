// The reader of ONNX files, and of the data in them.
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/frontend/onnx/wire/TensorData.h"
#include "test/fuzz/Fuzz.h"

using namespace tenon;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<onnx::Model> model = onnx::readModel(fuzz::bytesOf(data, size));
  if (!model) {
    return 0;
  }
  onnx::ExternalFiles none("");
  for (const onnx::Tensor &tensor : model->graph.initializers) {
    if (onnx::toDType(tensor.type)) {
      (void)onnx::loadTensor(tensor, none).isOk();
    }
  }
  return 0;
}
