// Text and numbers of tensors as JSON, appended to a string: replies of many elements are written
// without a tree in between.

#pragma once

#include "support/DType.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <string>
#include <string_view>

namespace tenon::server {

bool isUtf8(std::string_view text);

/// Quoted and escaped; bytes that are not UTF-8 become U+FFFD.
void appendJsonString(std::string &out, std::string_view text);

/// The elements of a tensor as a flat array; floats may be NaN, Infinity and -Infinity there.
/// BadRequestTensor for types that JSON has no numbers for; `name` is the tensor's.
Status appendJsonElements(std::string &out, DType dtype, Bytes bytes, std::string_view name);

} // namespace tenon::server
