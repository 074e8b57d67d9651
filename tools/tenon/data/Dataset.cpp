// Implements batches, the look at all values, and fingerprints over any form of data.

#include "tools/tenon/data/Dataset.h"

#include "support/Hash.h"
#include "support/Shape.h"
#include "tools/tenon/data/SampleSource.h"
#include "tools/tenon/data/ValueCheck.h"
#include "tools/tenon/inputs/FileKind.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

namespace tenon::tool {
namespace {

/// Samples of a fingerprint: where two sets share a tenth, it is missed once in 800 times.
constexpr size_t kHashedSamples = 64;
constexpr size_t kHexDigits = 16;
/// What is looked at at once.
constexpr size_t kPiece = size_t(4) << 20;

size_t bytesOf(DType dtype, std::span<const int64_t> dims) {
  return static_cast<size_t>(byteSize(dtype, dims).value_or(0));
}

Result<std::unique_ptr<SampleSource>>
openSource(const std::string &path, std::span<const WantedInput> wanted, const ModelHints &hints) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return openPictures(path, wanted, hints);
  }
  TENON_ASSIGN(FileContent content, contentOf(path));
  if (content.kind == FileKind::Npz) {
    return openNpz(path, wanted);
  }
  if (path.ends_with(".jsonl") && (content.what == "text" || content.kind == FileKind::Empty)) {
    return openJsonLines(path, wanted);
  }
  std::string is = content.what.empty() ? "" : fmt::format(": it is {}", content.what);
  return badData(fmt::format("'{}' is not a data set{}", path, is),
                 "give an npz with an array for each input, a .jsonl with a line for each sample, "
                 "or a folder of pictures");
}

} // namespace

std::vector<WantedInput> wantedInputs(const engine::Plan &plan) {
  std::vector<WantedInput> wanted;
  for (const engine::Port &port : plan.inputs) {
    WantedInput input{port.name, port.dtype, {}};
    for (engine::ExprId expr : port.dims) {
      input.dims.push_back(plan.exprs.constantValue(expr).value_or(-1));
    }
    if (!input.dims.empty() && input.dims[0] >= 0) {
      input.leastRows = input.mostRows = input.dims[0];
    }
    std::optional<uint32_t> rows =
        port.dims.empty() ? std::nullopt : plan.exprs.symbolIndex(port.dims[0]);
    if (rows) {
      input.leastRows = plan.symbols[*rows].min;
      input.mostRows = plan.symbols[*rows].max;
    }
    wanted.push_back(std::move(input));
  }
  return wanted;
}

Dataset::Dataset(std::string path, std::vector<WantedInput> inputs,
                 std::unique_ptr<SampleSource> source)
    : file(std::move(path)), wanted(std::move(inputs)), samplesOf(std::move(source)),
      notes(samplesOf->notes) {}
Dataset::Dataset(Dataset &&) noexcept = default;
Dataset &Dataset::operator=(Dataset &&) noexcept = default;
Dataset::~Dataset() = default;

size_t Dataset::samples() const { return samplesOf->samples(); }
const std::optional<Tensor> &Dataset::labels() const { return samplesOf->labels; }

Result<Dataset> Dataset::open(const std::string &path, std::vector<WantedInput> inputs,
                              const ModelHints &hints) {
  TENON_ASSIGN(std::unique_ptr<SampleSource> source, openSource(path, inputs, hints));
  Dataset dataset(path, std::move(inputs), std::move(source));
  TENON_TRY(dataset.check());
  return dataset;
}

Result<Batch> Dataset::read(size_t first, size_t most) const {
  size_t count = std::min(most, samples() - first);
  size_t rows = 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::span<const int64_t> dims = samplesOf->dimsOf(i, first);
    bool isWhole = dims.size() == wanted[i].dims.size();
    count = std::min(count, isWhole ? 1 : static_cast<size_t>(wanted[i].mostRows));
    rows = std::max(rows, isWhole ? 1 : static_cast<size_t>(wanted[i].leastRows));
    size_t same = 1;
    while (same < count && std::ranges::equal(samplesOf->dimsOf(i, first + same), dims)) {
      ++same;
    }
    count = same;
  }
  rows = std::max(rows, count);
  Batch batch;
  batch.first = first;
  batch.samples = count;
  batch.rows = rows;
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::span<const int64_t> dims = samplesOf->dimsOf(i, first);
    bool isWhole = dims.size() == wanted[i].dims.size();
    std::vector<int64_t> shape(dims.begin(), dims.end());
    if (!isWhole) {
      shape.insert(shape.begin(), static_cast<int64_t>(rows));
    }
    TENON_ASSIGN(Tensor tensor, Tensor::create(wanted[i].name, wanted[i].dtype, std::move(shape)));
    size_t bytes = bytesOf(wanted[i].dtype, dims);
    TENON_TRY(samplesOf->read(i, first, count, tensor.data.bytes()));
    for (size_t row = count; row < rows && !isWhole; ++row) {
      std::memcpy(tensor.data.data() + row * bytes, tensor.data.data() + (count - 1) * bytes,
                  bytes);
    }
    batch.inputs.push_back(std::move(tensor));
  }
  return batch;
}

Status Dataset::check() {
  if (!samplesOf->needsCheck()) {
    return Status::ok();
  }
  bool allEqual = samples() > 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    TENON_TRY(checkInput(i, allEqual));
  }
  if (allEqual) {
    notes.push_back(fmt::format("{}: all {} samples are the same", file, samples()));
  }
  return Status::ok();
}

/// Looks at every value of an input; `allEqual` stays where every sample has what the first one
/// has.
Status Dataset::checkInput(size_t input, bool &allEqual) {
  DType dtype = wanted[input].dtype;
  ValueCheck values(dtype);
  std::vector<std::byte> piece, firstRow;
  for (size_t at = 0; at < samples();) {
    std::span<const int64_t> dims = samplesOf->dimsOf(input, at);
    size_t bytes = bytesOf(dtype, dims);
    size_t most = std::clamp<size_t>(kPiece / std::max<size_t>(bytes, 1), 1, samples() - at);
    size_t count = 1;
    while (count < most && std::ranges::equal(samplesOf->dimsOf(input, at + count), dims)) {
      ++count;
    }
    piece.resize(std::max(piece.size(), count * bytes));
    TENON_TRY(samplesOf->read(input, at, count, piece));
    for (size_t row = 0; row < count; ++row) {
      Bytes rowBytes = Bytes(piece).subspan(row * bytes, bytes);
      values.add(rowBytes, at + row);
      if (at + row == 0) {
        firstRow.assign(rowBytes.begin(), rowBytes.end());
      }
      allEqual = allEqual && std::ranges::equal(rowBytes, firstRow);
    }
    at += count;
  }
  TENON_TRY(values.verdict(fmt::format("{}: '{}'", file, wanted[input].name)));
  if (values.isConstant()) {
    notes.push_back(
        fmt::format("{}: '{}' is {:g} everywhere", file, wanted[input].name, values.low()));
  }
  return Status::ok();
}

Result<uint64_t> Dataset::hashOf(size_t sample) const {
  Hasher hasher;
  std::vector<std::byte> row;
  for (size_t i = 0; i < wanted.size(); ++i) {
    row.resize(bytesOf(wanted[i].dtype, samplesOf->dimsOf(i, sample)));
    TENON_TRY(samplesOf->read(i, sample, 1, row));
    hasher.update(wanted[i].name);
    hasher.update(row);
  }
  return hasher.digest().low;
}

Result<std::string> Dataset::fingerprint(size_t count) const {
  count = std::min(count, samples());
  size_t hashes = std::min(kHashedSamples, count);
  std::string text;
  for (size_t i = 0; i < hashes; ++i) {
    TENON_ASSIGN(uint64_t hash, hashOf(i * count / hashes));
    text += fmt::format("{:016x}", hash);
  }
  return text;
}

Result<double> Dataset::shareOf(std::string_view fingerprint) const {
  std::set<std::string> searched;
  for (size_t i = 0; i + kHexDigits <= fingerprint.size(); i += kHexDigits) {
    searched.emplace(fingerprint.substr(i, kHexDigits));
  }
  if (searched.empty()) {
    return 0.0;
  }
  std::set<std::string> found;
  for (size_t i = 0; i < samples() && found.size() < searched.size(); ++i) {
    TENON_ASSIGN(uint64_t hash, hashOf(i));
    std::string text = fmt::format("{:016x}", hash);
    if (searched.contains(text)) {
      found.insert(std::move(text));
    }
  }
  return static_cast<double>(found.size()) / static_cast<double>(searched.size());
}

} // namespace tenon::tool
