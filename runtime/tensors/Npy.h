// NumPy's file formats: npy (one array) and npz (a zip of them, stored or deflated).
// It relies on zlib; big-endian, Fortran-ordered, pickled and encrypted files are refused.

#pragma once

#include "runtime/tensors/Tensor.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// What the header of an array says.
struct NpyHeader {
  static constexpr size_t kMaxBytes = (1 << 16) + 12;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  size_t bytes = 0;     ///< of the header itself
  size_t dataBytes = 0; ///< of the elements
};

/// `start` is the start of an npy file: all of it, or at least NpyHeader::kMaxBytes.
Result<NpyHeader> parseNpyHeader(Bytes start, const std::string &where);
/// `bytes` is a whole npy file; `where` names it in errors.
Result<Tensor> parseNpy(Bytes bytes, const std::string &where);
/// The header of an npy file for this tensor; its data follows as it is.
std::string npyHeader(DType dtype, std::span<const int64_t> dims);

Result<Tensor> readNpy(const std::string &path);
/// Whether an array is wanted, by what its header says.
using AcceptArray = std::function<Status(const std::string &name, const NpyHeader &header)>;
/// The arrays of an npz, each named as its entry without ".npy". Each is asked for before memory is
/// taken for it: a small archive can state any size.
Result<std::vector<Tensor>> readNpz(const std::string &path, const AcceptArray &accept);

/// Both write atomically.
Status writeNpy(const std::string &path, const Tensor &tensor);
Status writeNpz(const std::string &path, std::span<const Tensor> tensors);

} // namespace tenon
