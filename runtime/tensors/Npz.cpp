// Reads and writes npz: a zip archive of npy files, stored or deflated. Sizes in it are not
// trusted.

#include "runtime/tensors/Npy.h"
#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "support/zip/Zip.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon {
namespace {

using zip::Entry;

/// The header first: the array's memory is taken only if that is wanted and agrees with the
/// archive.
Result<Tensor> readEntry(const zip::Archive &archive, const Entry &entry, const std::string &path,
                         const AcceptArray &accept) {
  TENON_ASSIGN(Bytes packed, archive.packedBytes(entry));
  zip::Unpacker unpacker(packed, entry.method);
  std::vector<std::byte> start(std::min<uint64_t>(entry.unpacked, NpyHeader::kMaxBytes));
  Status damaged = archive.bad(fmt::format("'{}' is damaged", entry.name));
  if (!unpacker.read(start)) {
    return damaged;
  }
  TENON_ASSIGN(NpyHeader header, parseNpyHeader(start, fmt::format("{}: {}", path, entry.name)));
  if (header.dataBytes != entry.unpacked - header.bytes) {
    return archive.bad(
        fmt::format("{}: the size of its data does not match its shape", entry.name));
  }
  constexpr std::string_view kSuffix = ".npy";
  std::string name = entry.name.substr(0, entry.name.size() -
                                              (entry.name.ends_with(kSuffix) ? kSuffix.size() : 0));
  TENON_TRY(accept(name, header));
  TENON_ASSIGN(Tensor tensor, Tensor::create(name, header.dtype, std::move(header.dims)));
  MutableBytes data = tensor.data.bytes();
  Bytes first = Bytes(start).subspan(header.bytes);
  std::ranges::copy(first, data.begin());
  if (!unpacker.read(data.subspan(first.size())) || !unpacker.isDone(entry.crc)) {
    return damaged;
  }
  return tensor;
}

template <typename T> void put(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

/// What local and central headers have in common: version to the length of the extra field.
void putCommon(std::string &out, const Entry &entry, uint16_t extraBytes) {
  constexpr uint16_t kZip64Version = 45;
  constexpr uint16_t kUtf8Name = 1 << 11;
  constexpr uint16_t kJanuaryFirst1980 = 0x21;
  put<uint16_t>(out, kZip64Version);
  // Without the flag a name is of code page 437, which holds ASCII.
  bool isAscii = std::ranges::all_of(entry.name, [](char c) { return (c & 0x80) == 0; });
  put<uint16_t>(out, isAscii ? 0 : kUtf8Name);
  put<uint16_t>(out, zip::kStored);
  put<uint16_t>(out, 0);
  put<uint16_t>(out, kJanuaryFirst1980);
  put<uint32_t>(out, entry.crc);
  put<uint32_t>(out, UINT32_MAX);
  put<uint32_t>(out, UINT32_MAX);
  put<uint16_t>(out, static_cast<uint16_t>(entry.name.size()));
  put<uint16_t>(out, extraBytes);
}

std::string localHeader(const Entry &entry) {
  std::string out;
  put<uint32_t>(out, zip::kLocalHeader);
  putCommon(out, entry, 20);
  out += entry.name;
  put<uint16_t>(out, 1);
  put<uint16_t>(out, 16);
  put<uint64_t>(out, entry.unpacked);
  put<uint64_t>(out, entry.packed);
  return out;
}

std::string centralHeader(const Entry &entry) {
  std::string out;
  put<uint32_t>(out, zip::kCentralHeader);
  put<uint16_t>(out, 45);
  putCommon(out, entry, 28);
  out.append(10, '\0');
  put<uint32_t>(out, UINT32_MAX);
  out += entry.name;
  put<uint16_t>(out, 1);
  put<uint16_t>(out, 24);
  put<uint64_t>(out, entry.unpacked);
  put<uint64_t>(out, entry.packed);
  put<uint64_t>(out, entry.offset);
  return out;
}

/// Ends the archive; everything is in the 64-bit form, so large tensors need no second way.
std::string endOfDirectory(uint64_t count, uint64_t offset, uint64_t bytes) {
  std::string out;
  put<uint32_t>(out, zip::kEnd64);
  put<uint64_t>(out, zip::kEnd64Bytes - 12);
  put<uint16_t>(out, 45);
  put<uint16_t>(out, 45);
  put<uint64_t>(out, 0);
  put<uint64_t>(out, count);
  put<uint64_t>(out, count);
  put<uint64_t>(out, bytes);
  put<uint64_t>(out, offset);
  put<uint32_t>(out, zip::kEnd64Locator);
  put<uint32_t>(out, 0);
  put<uint64_t>(out, offset + bytes);
  put<uint32_t>(out, 1);
  put<uint32_t>(out, zip::kEnd);
  put<uint32_t>(out, 0);
  put<uint32_t>(out, UINT32_MAX);
  put<uint32_t>(out, UINT32_MAX);
  put<uint32_t>(out, UINT32_MAX);
  put<uint16_t>(out, 0);
  return out;
}

Status appendText(AtomicFile &file, const std::string &text) {
  return file.append(std::as_bytes(std::span(text)));
}

} // namespace

Result<std::vector<Tensor>> readNpz(const std::string &path, const AcceptArray &accept) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  zip::Archive archive(file.bytes(), path, ErrorId::BadTensorFile,
                       "write it with numpy.savez or numpy.savez_compressed");
  TENON_ASSIGN(std::vector<Entry> entries, archive.entries());
  std::vector<Tensor> tensors;
  for (const Entry &entry : entries) {
    TENON_ASSIGN(Tensor tensor, readEntry(archive, entry, path, accept));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Status writeNpz(const std::string &path, std::span<const Tensor> tensors) {
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
  std::string directory;
  for (const Tensor &tensor : tensors) {
    std::string header = npyHeader(tensor.dtype, tensor.dims);
    Bytes data = tensor.bytes();
    Entry entry;
    entry.name = tensor.name + ".npy";
    entry.packed = entry.unpacked = header.size() + data.size();
    entry.offset = file.size();
    entry.crc = zip::crcOf(data, zip::crcOf(std::as_bytes(std::span(header))));
    TENON_TRY(appendText(file, localHeader(entry)));
    TENON_TRY(appendText(file, header));
    TENON_TRY(file.append(data));
    directory += centralHeader(entry);
  }
  uint64_t offset = file.size();
  TENON_TRY(appendText(file, directory));
  TENON_TRY(appendText(file, endOfDirectory(tensors.size(), offset, directory.size())));
  return file.commit();
}

} // namespace tenon
