// The container of Hugging Face's weights: a header in JSON, and the tensors behind it. Relies on
// the file staying mapped: tensors are views of it.
//
// Source: the format's description in the repository of safetensors.
#pragma once

#include "compiler/frontend/weights/Tensor.h"
#include "support/Result.h"

#include <map>
#include <string>
#include <vector>

namespace tenon::safetensors {

struct File {
  std::map<std::string, weights::Tensor, std::less<>> tensors;
  /// Of types that Tenon does not read, each with the name of its type.
  std::map<std::string, std::string, std::less<>> others;
};

/// Reads the header, and believes nothing in it: TN0252 where sizes leave the file, tensors overlap
/// or leave gaps, or names are there twice.
Result<File> read(Bytes bytes);

} // namespace tenon::safetensors
