// A language model's file with its matrices in blocks of few bits, as another file: GGUF, whatever
// it was read from. Free of MLIR.
#pragma once

#include "support/Result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon::language {

struct QuantizeOptions {
  std::string model;  ///< a GGUF file or a Hugging Face folder
  std::string output; ///< replaced when it is complete
  int bits = 4;       ///< of most matrices: 4 or 8
  unsigned threads = 1;
  std::function<void(double)> progress; ///< the share that is done
};

/// The tensors of a type in the output.
struct StoredType {
  std::string name;
  int64_t tensors = 0;
  uint64_t bytes = 0;
  double error = 0;  ///< root of the squared error by the squared values; 0 for what was kept
  std::string worst; ///< the tensor with the largest
  double worstError = 0;
};

struct QuantizedFile {
  uint64_t before = 0, after = 0; ///< bytes of the weights
  std::vector<StoredType> types;
  std::vector<std::string> notes; ///< what the output lacks, for people
};

/// Keys, tokenizer and template are those of the model. Matrices of 4 bits are in Q4_K, or in Q4_1
/// where rows are no multiples of 256; embedding and output in Q6_K or Q8_0; of 8 bits all are in
/// Q8_0. What has no more bits already stays as it is, and vectors are F32. Errors of the model's
/// reader; TN0301 for a folder whose text GGUF cannot say; TN0245 for a weight that is not finite.
Result<QuantizedFile> quantizeModel(const QuantizeOptions &options);

} // namespace tenon::language
