// NumPy's file formats: npy (one array) and npz (a zip of them, stored or deflated).
// It relies on zlib; big-endian, Fortran-ordered, pickled and encrypted files are refused.

#pragma once

#include "support/ByteSpan.h"
#include "support/Result.h"
#include "tools/tenon/Tensor.h"

#include <span>
#include <string>
#include <vector>

namespace tenon::tool {

/// `bytes` is a whole npy file; `where` names it in errors.
Result<Tensor> parseNpy(Bytes bytes, const std::string &where);
/// The header of an npy file for this tensor; its data follows as it is.
std::string npyHeader(DType dtype, std::span<const int64_t> dims);

Result<Tensor> readNpy(const std::string &path);
/// The arrays of an npz, each named as its entry without ".npy".
Result<std::vector<Tensor>> readNpz(const std::string &path);

/// Both write atomically.
Status writeNpy(const std::string &path, const Tensor &tensor);
Status writeNpz(const std::string &path, std::span<const Tensor> tensors);

} // namespace tenon::tool
