// The names and expressions of an entry of a description. Private to compiler/kernels.
#pragma once

#include "compiler/kernels/Library.h"

namespace tenon::kernels {

/// What is wrong under a key; nothing if `what` is empty.
struct DescriptionFault {
  std::string key;
  std::string what;
};

/// Finds the sizes of an entry that is read but for these, and tries each expression over them.
DescriptionFault nameSizes(Kernel &kernel);

} // namespace tenon::kernels
