// Data sets in one npz. Arrays that are stored as they are stay in the file and are read sample by
// sample, so that a set larger than memory can be used; packed ones are unpacked once.

#include "runtime/tensors/Npy.h"
#include "support/Shape.h"
#include "support/files/MappedFile.h"
#include "support/text/NearestName.h"
#include "support/zip/Zip.h"
#include "tools/tenon/data/SampleSource.h"

#include <algorithm>
#include <map>

namespace tenon::tool {
namespace {

constexpr uint64_t kUnpackedPiece = uint64_t(4) << 20;

struct Array {
  std::string name;
  zip::Entry entry;
  NpyHeader header;
  uint64_t offset = 0; ///< in the file, where the elements are stored as they are
  AlignedBuffer owned; ///< the elements otherwise
  Status fault;        ///< why its header cannot be used, as that of text
  bool isStored() const { return entry.method == zip::kStored; }
};

class NpzSource final : public SampleSource {
public:
  NpzSource(std::string where, FileReader reader)
      : path(std::move(where)), file(std::move(reader)) {}

  Status open(std::span<const WantedInput> wanted);

  size_t samples() const override { return count; }
  std::span<const int64_t> dimsOf(size_t input, size_t) const override {
    return std::span(arrays[input].header.dims).subspan(1);
  }
  Status read(size_t input, size_t first, size_t rows, MutableBytes out) const override {
    const Array &array = arrays[input];
    uint64_t bytes = array.header.dataBytes / count;
    if (array.isStored()) {
      return file.read(array.offset + first * bytes, out.first(rows * bytes));
    }
    std::ranges::copy(array.owned.bytes().subspan(first * bytes, rows * bytes), out.begin());
    return Status::ok();
  }

private:
  Result<std::vector<Array>> directory(const zip::Archive &archive);
  Status match(std::vector<Array> found, std::span<const WantedInput> wanted);
  Status checkCounts(std::span<const WantedInput> wanted);
  Status load(const zip::Archive &archive, Bytes mapped, Array &array);
  std::string where(const Array &array) const {
    return fmt::format("{}: array '{}'", path, array.name);
  }

  std::string path;
  FileReader file;
  size_t count = 0;
  std::vector<Array> arrays; ///< one for each input, in their order
  std::optional<Array> labelArray;
};

/// The arrays by their headers. A fault of one, as a type that no model takes, matters if it is
/// used.
Result<std::vector<Array>> NpzSource::directory(const zip::Archive &archive) {
  TENON_ASSIGN(std::vector<zip::Entry> entries, archive.entries());
  std::vector<Array> found;
  for (zip::Entry &entry : entries) {
    TENON_ASSIGN(Bytes packed, archive.packedBytes(entry));
    zip::Unpacker unpacker(packed, entry.method);
    std::vector<std::byte> start(std::min<uint64_t>(entry.unpacked, NpyHeader::kMaxBytes));
    if (!unpacker.read(start)) {
      return archive.bad(fmt::format("'{}' is damaged", entry.name));
    }
    Array array;
    array.name = entry.name.substr(0, entry.name.size() - (entry.name.ends_with(".npy") ? 4 : 0));
    Result<NpyHeader> header = parseNpyHeader(start, fmt::format("{}: {}", path, entry.name));
    array.fault = header.status();
    array.header = header ? std::move(*header) : NpyHeader();
    if (header && array.header.dataBytes != entry.unpacked - array.header.bytes) {
      return archive.bad(
          fmt::format("{}: the size of its data does not match its shape", entry.name));
    }
    array.entry = std::move(entry);
    found.push_back(std::move(array));
  }
  return found;
}

Status NpzSource::match(std::vector<Array> found, std::span<const WantedInput> wanted) {
  auto take = [&](const auto &isIt) -> std::optional<Array> {
    std::vector<Array>::iterator at = std::ranges::find_if(found, isIt);
    if (at == found.end()) {
      return std::nullopt;
    }
    Array array = std::move(*at);
    found.erase(at);
    return array;
  };
  std::vector<std::optional<Array>> given;
  for (const WantedInput &input : wanted) {
    given.push_back(take([&](const Array &array) { return array.name == input.name; }));
  }
  labelArray = take([](const Array &array) { return isLabelName(array.name); });
  if (wanted.size() == 1 && !given[0] && found.size() == 1) {
    given[0] = take([](const Array &) { return true; });
  }
  std::vector<std::string> others;
  for (const Array &array : found) {
    others.push_back(array.name);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!given[i]) {
      return badData(
          fmt::format("{} has no array for the input '{}'", path, wanted[i].name),
          others.empty()
              ? fmt::format("save it as numpy.savez(..., {}=x)", wanted[i].name)
              : didYouMean(wanted[i].name, others,
                           fmt::format("its other arrays: {}", fmt::join(others, ", "))));
    }
    arrays.push_back(std::move(*given[i]));
  }
  for (const std::string &name : others) {
    notes.push_back(
        fmt::format("{}: the array '{}' is not used: the model has no such input", path, name));
  }
  return Status::ok();
}

Status NpzSource::checkCounts(std::span<const WantedInput> wanted) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Array &array = arrays[i];
    TENON_TRY(array.fault);
    const std::vector<int64_t> &dims = array.header.dims;
    if (dims.empty()) {
      return badData(fmt::format("{} is a single number", where(array)),
                     "dim 0 of an array counts the samples");
    }
    if (i == 0) {
      count = static_cast<size_t>(dims[0]);
    }
    if (count == 0 || array.header.dataBytes == 0) {
      return badData(fmt::format("{} is empty: {}", where(array), formatDims(dims)),
                     "give at least one sample");
    }
    if (static_cast<size_t>(dims[0]) != count) {
      return badData(fmt::format("{} has {} samples, but '{}' has {}", where(array), dims[0],
                                 arrays[0].name, count),
                     "dim 0 of an array counts the samples");
    }
    TENON_TRY(checkRows(wanted[i], array.header.dtype, std::span(dims).subspan(1), where(array)));
  }
  if (!labelArray) {
    return Status::ok();
  }
  TENON_TRY(labelArray->fault);
  const std::vector<int64_t> &dims = labelArray->header.dims;
  if (!isNumeric(labelArray->header.dtype)) {
    return badData(fmt::format("{} is {}", where(*labelArray), nameOf(labelArray->header.dtype)),
                   "labels must be real numbers: classes, or the expected outputs");
  }
  if (dims.empty() || static_cast<size_t>(dims[0]) != count) {
    return badData(fmt::format("{} is {}, but there are {} samples", where(*labelArray),
                               formatDims(dims), count),
                   "give a label for each sample");
  }
  return Status::ok();
}

/// Checks the sum of an array on the way.
Status NpzSource::load(const zip::Archive &archive, Bytes mapped, Array &array) {
  const zip::Entry &entry = array.entry;
  TENON_ASSIGN(Bytes packed, archive.packedBytes(entry));
  Status damaged = archive.bad(fmt::format("'{}' is damaged", entry.name));
  if (array.isStored()) {
    uint64_t start = static_cast<uint64_t>(packed.data() - mapped.data());
    array.offset = start + array.header.bytes;
    uint32_t sum = 0;
    std::vector<std::byte> piece(std::min(kUnpackedPiece, entry.unpacked));
    for (uint64_t at = 0; at < entry.unpacked; at += piece.size()) {
      MutableBytes part =
          MutableBytes(piece).first(std::min<uint64_t>(piece.size(), entry.unpacked - at));
      TENON_TRY(file.read(start + at, part));
      sum = zip::crcOf(part, sum);
    }
    return sum == entry.crc ? Status::ok() : std::move(damaged);
  }
  zip::Unpacker unpacker(packed, entry.method);
  std::vector<std::byte> header(array.header.bytes);
  TENON_ASSIGN(array.owned, AlignedBuffer::create(array.header.dataBytes));
  bool isWhole =
      unpacker.read(header) && unpacker.read(array.owned.bytes()) && unpacker.isDone(entry.crc);
  return isWhole ? Status::ok() : std::move(damaged);
}

Status NpzSource::open(std::span<const WantedInput> wanted) {
  TENON_ASSIGN(MappedFile mapped, MappedFile::map(file, 0, file.size()));
  zip::Archive archive(mapped.bytes(), path, ErrorId::BadTensorFile,
                       "write it with numpy.savez or numpy.savez_compressed");
  TENON_ASSIGN(std::vector<Array> found, directory(archive));
  TENON_TRY(match(std::move(found), wanted));
  TENON_TRY(checkCounts(wanted));
  for (Array &array : arrays) {
    TENON_TRY(load(archive, mapped.bytes(), array));
  }
  if (labelArray) {
    TENON_TRY(load(archive, mapped.bytes(), *labelArray));
    TENON_ASSIGN(Tensor tensor, Tensor::create(labelArray->name, labelArray->header.dtype,
                                               labelArray->header.dims));
    if (labelArray->isStored()) {
      TENON_TRY(
          file.read(labelArray->offset, tensor.data.bytes().first(labelArray->header.dataBytes)));
    } else {
      tensor.data = std::move(labelArray->owned);
    }
    labels = std::move(tensor);
  }
  return Status::ok();
}

} // namespace

Result<std::unique_ptr<SampleSource>> openNpz(const std::string &path,
                                              std::span<const WantedInput> wanted) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  std::unique_ptr<NpzSource> source = std::make_unique<NpzSource>(path, std::move(file));
  TENON_TRY(source->open(wanted));
  return std::unique_ptr<SampleSource>(std::move(source));
}

} // namespace tenon::tool
