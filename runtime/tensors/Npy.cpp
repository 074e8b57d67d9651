// Reads and writes npy, the header of which is the text of a Python dict.

#include "runtime/tensors/Npy.h"

#include "support/Shape.h"
#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace tenon {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
/// NumPy itself takes no more.
constexpr size_t kMaxDims = 64;

struct TypeName {
  DType dtype;
  std::string_view descr;
};

/// NumPy has no bfloat16 of its own; its extension stores it as two raw bytes.
constexpr TypeName kTypeNames[] = {
    {DType::F32, "<f4"},  {DType::F64, "<f8"},       {DType::F16, "<f2"},
    {DType::BF16, "|V2"}, {DType::I8, "|i1"},        {DType::I16, "<i2"},
    {DType::I32, "<i4"},  {DType::I64, "<i8"},       {DType::U8, "|u1"},
    {DType::U16, "<u2"},  {DType::U32, "<u4"},       {DType::U64, "<u8"},
    {DType::Bool, "|b1"}, {DType::Complex64, "<c8"}, {DType::Complex128, "<c16"},
};

Status badFile(const std::string &where, std::string_view what) {
  return Status::error(ErrorId::BadTensorFile, fmt::format("{}: {}", where, what),
                       "write it with numpy.save or numpy.savez");
}

/// The text after `'key':`, up to the end of the header.
std::optional<std::string_view> valueOf(std::string_view header, std::string_view key) {
  size_t at = header.find(fmt::format("'{}'", key));
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  at = header.find(':', at);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view rest = header.substr(at + 1);
  size_t start = rest.find_first_not_of(' ');
  return start == std::string_view::npos ? std::nullopt : std::optional(rest.substr(start));
}

std::optional<DType> parseDescr(std::string_view value) {
  // Extensions' types are raw bytes, and spell their byte order although they have none.
  for (std::string_view raw : {"'|V1'", "'<V1'", "'<f1'"}) {
    if (value.starts_with(raw)) {
      return DType::U8;
    }
  }
  if (value.starts_with("'<V2'")) {
    return DType::BF16;
  }
  for (const TypeName &type : kTypeNames) {
    if (value.starts_with(fmt::format("'{}'", type.descr))) {
      return type.dtype;
    }
  }
  return std::nullopt;
}

std::optional<std::vector<int64_t>> parseShape(std::string_view value) {
  size_t close = value.find(')');
  if (value.empty() || value[0] != '(' || close == std::string_view::npos) {
    return std::nullopt;
  }
  std::vector<int64_t> dims;
  const char *at = value.data() + 1;
  const char *end = value.data() + close;
  while (at != end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    int64_t dim = 0;
    std::from_chars_result parsed = std::from_chars(at, end, dim);
    if (parsed.ec != std::errc() || dim < 0 || dims.size() == kMaxDims) {
      return std::nullopt;
    }
    dims.push_back(dim);
    at = parsed.ptr;
  }
  return dims;
}

/// Splits an npy file into the text of its header and its data.
bool split(Bytes bytes, std::string_view &header, Bytes &data) {
  constexpr size_t kFixed = 8;
  if (bytes.size() < kFixed + 4 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return false;
  }
  unsigned version = static_cast<unsigned>(bytes[6]);
  size_t lengthBytes = version == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + kFixed, lengthBytes);
  size_t start = kFixed + lengthBytes;
  if (version < 1 || version > 3 || start > bytes.size() || length > NpyHeader::kMaxBytes - start ||
      bytes.size() - start < length) {
    return false;
  }
  header = {reinterpret_cast<const char *>(bytes.data() + start), length};
  data = bytes.subspan(start + length);
  return true;
}

} // namespace

Result<NpyHeader> parseNpyHeader(Bytes start, const std::string &where) {
  std::string_view header;
  Bytes data;
  if (!split(start, header, data)) {
    return badFile(where, "not an npy file");
  }
  std::optional<std::string_view> descr = valueOf(header, "descr");
  std::optional<std::string_view> order = valueOf(header, "fortran_order");
  std::optional<std::string_view> shape = valueOf(header, "shape");
  if (!descr || !order || !shape) {
    return badFile(where, "its header lacks descr, fortran_order or shape");
  }
  std::optional<DType> dtype = parseDescr(*descr);
  if (!dtype) {
    return badFile(where, fmt::format("the type {} is not supported",
                                      descr->substr(0, std::min<size_t>(descr->find(','), 40))));
  }
  if (!order->starts_with("False")) {
    return badFile(where, "the array is in Fortran order; numpy.ascontiguousarray changes that");
  }
  std::optional<std::vector<int64_t>> dims = parseShape(*shape);
  std::optional<int64_t> size = dims ? byteSize(*dtype, *dims) : std::nullopt;
  if (!size) {
    return badFile(where, "its shape is not valid");
  }
  return NpyHeader{*dtype, std::move(*dims), start.size() - data.size(),
                   static_cast<size_t>(*size)};
}

Result<Tensor> parseNpy(Bytes bytes, const std::string &where) {
  TENON_ASSIGN(NpyHeader header, parseNpyHeader(bytes, where));
  Bytes data = bytes.subspan(header.bytes);
  if (header.dataBytes != data.size()) {
    return badFile(where, "the size of its data does not match its shape");
  }
  TENON_ASSIGN(Tensor tensor, Tensor::create("", header.dtype, std::move(header.dims)));
  if (!data.empty()) {
    std::memcpy(tensor.data.data(), data.data(), data.size());
  }
  return tensor;
}

std::string npyHeader(DType dtype, std::span<const int64_t> dims) {
  const TypeName *type = std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                                      [&](const TypeName &row) { return row.dtype == dtype; });
  bool isBytes = type == std::end(kTypeNames);
  std::string shape = fmt::format("({}{})", fmt::join(dims, ", "), dims.size() == 1 ? "," : "");
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                 isBytes ? "|u1" : type->descr, shape);
  constexpr size_t kPrefix = 10;
  constexpr size_t kAlignment = 64;
  size_t unpadded = kPrefix + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  uint16_t length = static_cast<uint16_t>(text.size());
  std::string header(kMagic);
  header += {'\1', '\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return header + text;
}

Result<Tensor> readNpy(const std::string &path) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  return parseNpy(file.bytes(), path);
}

Status writeNpy(const std::string &path, const Tensor &tensor) {
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
  std::string header = npyHeader(tensor.dtype, tensor.dims);
  TENON_TRY(file.append(std::as_bytes(std::span(header))));
  TENON_TRY(file.append(tensor.bytes()));
  return file.commit();
}

} // namespace tenon
