// JSON of clients, which is hostile: read strictly, and the elements of tensors kept flat beside
// the tree.

#pragma once

#include "server/protocol/MemoryBudget.h"
#include "support/DType.h"
#include "support/Result.h"
#include "support/json/StrictJson.h"
#include "support/memory/ByteSpan.h"

#include <string_view>
#include <vector>

namespace tenon::server {

/// Writes the elements of a list as `dtype` to `out`, which holds size() of them.
/// BadRequestTensor for a value that the type does not have, and for types that JSON has no numbers
/// for; `name` is the tensor's.
Status storeNumbers(const NumberList &list, DType dtype, MutableBytes out, std::string_view name);

/// Parses one value that is the whole of `text`; TN0806 otherwise. With `lists`, arrays under a key
/// "data" are kept there: see parseStrict. `charge` is what they take; TN0812 where it cannot grow.
Status parseRequestJson(std::string_view text, Json &value,
                        std::vector<NumberList> *lists = nullptr, MemoryCharge *charge = nullptr);

} // namespace tenon::server
