// Tensors are read, rounded and written some rows at a time, so that memory stays small beside the
// model.
#include "compiler/frontend/language/Quantize.h"

#include "compiler/frontend/language/FolderKeys.h"
#include "compiler/frontend/language/Model.h"
#include "compiler/frontend/weights/Encode.h"
#include "compiler/frontend/weights/gguf/Parts.h"
#include "support/text/Text.h"
#include "support/threads/ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>

namespace tenon::language {
namespace {

using weights::BlockType;

/// Numbers that are worked on at once.
constexpr int64_t kPieceElements = int64_t{1} << 23;
constexpr uint64_t kDefaultAlignment = 32;
constexpr std::string_view kFileType = "general.file_type",
                           kVersion = "general.quantization_version";

const BlockType &typeNamed(uint32_t id) { return *weights::blockType(id); }

double bitsOf(const BlockType &type) {
  return 8.0 * static_cast<double>(type.bytes) / static_cast<double>(type.elements);
}

/// What a file calls its most used type (general.file_type).
uint32_t fileTypeOf(std::string_view type) {
  constexpr std::pair<std::string_view, uint32_t> kTypes[] = {
      {"F32", 0},  {"F16", 1},   {"Q4_0", 2},  {"Q4_1", 3},  {"Q8_0", 7},    {"Q5_0", 8},
      {"Q5_1", 9}, {"Q4_K", 14}, {"Q5_K", 16}, {"Q6_K", 18}, {"IQ4_NL", 25}, {"BF16", 32}};
  for (auto [name, number] : kTypes) {
    if (name == type) {
      return number;
    }
  }
  return 0;
}

/// The type of a tensor in the output.
const BlockType &typeFor(std::string_view name, const gguf::Tensor &tensor, int bits) {
  constexpr uint32_t kF32 = 0, kQ41 = 3, kQ80 = 8, kQ4K = 12, kQ6K = 14;
  const BlockType &now = *tensor.type;
  if (tensor.dims.size() < 2) {
    return now.isFloat() ? typeNamed(kF32) : now;
  }
  bool isTable = name == "token_embd.weight" || name == "output.weight";
  bool isProduct = name.ends_with(".weight") && name != "position_embd.weight";
  auto fits = [&](uint32_t id) { return tensor.dims.back() % typeNamed(id).elements == 0; };
  if (!isProduct || !fits(kQ80)) {
    return now; // no table of few rows, and no rows that blocks do not fill
  }
  uint32_t wanted = bits == 8 ? kQ80
                    : isTable ? (fits(kQ6K) ? kQ6K : kQ80)
                              : (fits(kQ4K) ? kQ4K : kQ41);
  return bitsOf(now) <= bitsOf(typeNamed(wanted)) ? now : typeNamed(wanted);
}

/// Rows of queries and keys as converters to GGUF move them: of each head, what turns together
/// stands side by side.
struct RowOrder {
  int64_t head = 0, turned = 0; ///< elements of a head; 0 for rows that stay

  int64_t source(int64_t row) const {
    if (head == 0 || row % head >= turned) {
      return row;
    }
    int64_t inHead = row % head, half = turned / 2;
    return row - inHead + (inHead % 2) * half + inHead / 2;
  }
};

struct Job {
  gguf::Tensor source, target; ///< `target` without bytes
  RowOrder order;
};

class Quantizer {
public:
  explicit Quantizer(const QuantizeOptions &theOptions) : options(theOptions) {}

  Result<QuantizedFile> run();

private:
  Status openFile();
  Status openHuggingFace();
  void putStoredKeys();
  void addJobs();
  RowOrder orderOf(std::string_view name) const;
  Status writeTensor(Job &job, const gguf::Writer::Append &append);
  Status writePiece(const Job &job, int64_t first, int64_t rows, std::vector<std::byte> &bytes);
  void count(const Job &job);

  const QuantizeOptions &options;
  gguf::Writer writer;
  gguf::File file;
  Model model; ///< of a folder
  std::vector<std::shared_ptr<MappedFile>> mapped;
  std::shared_ptr<Folder> folder;
  std::vector<std::string> inputs;
  std::vector<Job> jobs;
  std::unique_ptr<ThreadPool> pool;
  std::map<std::string_view, StoredType> types;
  std::map<std::string_view, std::pair<double, double>> sums; ///< squared errors and values
  double errors = 0, squares = 0;                             ///< of the tensor at hand
  uint64_t done = 0;
  QuantizedFile result;
};

Status Quantizer::openFile() {
  TENON_ASSIGN(MappedFile first, MappedFile::open(options.model));
  mapped.push_back(std::make_shared<MappedFile>(std::move(first)));
  TENON_ASSIGN(file, gguf::read(mapped.back()->bytes()));
  TENON_ASSIGN(std::vector<std::shared_ptr<MappedFile>> parts,
               gguf::readLaterParts(options.model, file));
  mapped.insert(mapped.end(), parts.begin(), parts.end());
  inputs = gguf::laterParts(options.model);
  inputs.push_back(options.model);
  return Status::ok();
}

Status gapsOf(const std::vector<frontend::Gap> &gaps) {
  if (gaps.empty()) {
    return Status::ok();
  }
  std::string text = "GGUF cannot be written of it:";
  for (const frontend::Gap &gap : gaps) {
    text += strCat(" '", gap.node, "': ", gap.why, ';');
  }
  text.pop_back();
  return Status::error(ErrorId::ModelHasGaps, text, gaps.front().workaround);
}

Status Quantizer::openHuggingFace() {
  std::vector<frontend::Gap> gaps;
  TENON_ASSIGN(folder, openFolder(options.model, gaps));
  TENON_TRY(gapsOf(gaps));
  TENON_ASSIGN(model, readModel(folder->file, folder, gaps));
  TENON_TRY(gapsOf(gaps));
  file = folder->file;
  for (const auto &[name, tensor] : file.tensors) {
    file.order.push_back(name);
  }
  TENON_ASSIGN(inputs, filesOfFolder(options.model));
  TENON_TRY(putFolderKeys(*folder, model.vocabulary, writer, gaps, result.notes));
  return gapsOf(gaps);
}

/// All but those of parts, and those that say what the types are.
void Quantizer::putStoredKeys() {
  for (const gguf::StoredKey &key : file.stored) {
    if (!key.name.starts_with("split.") && key.name != kFileType && key.name != kVersion) {
      writer.put(key.name, key.value);
    }
  }
}

RowOrder Quantizer::orderOf(std::string_view name) const {
  bool isMoved = folder && model.family->rope == Rope::Pairs &&
                 (name.find(".attn_q.") != name.npos || name.find(".attn_k.") != name.npos);
  return isMoved ? RowOrder{model.keyWidth, model.turned} : RowOrder();
}

void Quantizer::addJobs() {
  std::map<std::string_view, uint64_t> sizes;
  for (const std::string &name : file.order) {
    Job job = {file.tensors.find(name)->second, {}, orderOf(name)};
    const BlockType &type = typeFor(name, job.source, options.bits);
    job.target = {.name = name, .dims = job.source.dims, .type = &type, .bytes = {}};
    result.before += job.source.bytes.size();
    sizes[type.name] += static_cast<uint64_t>(job.source.elements());
    writer.add(job.target);
    jobs.push_back(std::move(job));
  }
  auto most = std::ranges::max_element(sizes, {}, [](const auto &each) { return each.second; });
  if (most != sizes.end()) {
    constexpr uint32_t kQuantizationVersion = 2;
    writer.putNumber(kFileType, fileTypeOf(most->first));
    writer.putNumber(kVersion, kQuantizationVersion);
  }
}

/// Rows of the target from `first` on.
Status Quantizer::writePiece(const Job &job, int64_t first, int64_t rows,
                             std::vector<std::byte> &bytes) {
  bool isVector = job.source.dims.size() < 2;
  int64_t length = isVector ? 1 : job.source.dims.back();
  const BlockType &from = *job.source.type, &to = *job.target.type;
  int64_t fromBytes = length / from.elements * from.bytes,
          toBytes = length / to.elements * to.bytes;
  bytes.resize(static_cast<size_t>(rows * toBytes));
  std::atomic<bool> isFinite = true;
  std::mutex adding;
  pool->parallelFor(rows, [&](int64_t begin, int64_t end, unsigned) {
    std::vector<float> values(static_cast<size_t>(length)), again(values.size());
    double error = 0, square = 0;
    for (int64_t row = begin; row < end; ++row) {
      decode(from, job.source.bytes.data() + job.order.source(first + row) * fromBytes, values);
      if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
        isFinite = false;
        return;
      }
      std::byte *place = bytes.data() + row * toBytes;
      encode(to, values, place);
      decode(to, place, again);
      for (size_t i = 0; i < values.size(); ++i) {
        double left = static_cast<double>(values[i]) - again[i];
        error += left * left;
        square += static_cast<double>(values[i]) * values[i];
      }
    }
    std::lock_guard lock(adding);
    errors += error;
    squares += square;
  });
  return isFinite ? Status::ok()
                  : Status::error(ErrorId::LanguageModelBad,
                                  strCat("the tensor '", job.source.name,
                                         "' has a number that is not finite"),
                                  "download or convert the model again");
}

Status Quantizer::writeTensor(Job &job, const gguf::Writer::Append &append) {
  errors = squares = 0;
  bool isKept = job.source.type == job.target.type && job.order.head == 0;
  if (isKept) {
    TENON_TRY(append(job.source.bytes));
  } else {
    bool isVector = job.source.dims.size() < 2;
    int64_t length = isVector ? 1 : job.source.dims.back();
    int64_t rows = job.source.elements() / length;
    int64_t piece = std::max<int64_t>(kPieceElements / length, 1);
    std::vector<std::byte> bytes;
    for (int64_t first = 0; first < rows; first += piece) {
      TENON_TRY(writePiece(job, first, std::min(piece, rows - first), bytes));
      TENON_TRY(append(bytes));
    }
  }
  count(job);
  return Status::ok();
}

void Quantizer::count(const Job &job) {
  const BlockType &type = *job.target.type;
  uint64_t bytes = static_cast<uint64_t>(job.target.elements() / type.elements * type.bytes);
  StoredType &sum = types[type.name];
  sum.name = type.name;
  ++sum.tensors;
  sum.bytes += bytes;
  result.after += bytes;
  auto &[allErrors, allSquares] = sums[type.name];
  allErrors += errors;
  allSquares += squares;
  double error = squares > 0 ? std::sqrt(errors / squares) : 0;
  if (error > sum.worstError) {
    sum.worstError = error;
    sum.worst = job.target.name;
  }
  done += job.source.bytes.size();
  if (options.progress) {
    options.progress(static_cast<double>(done) / static_cast<double>(result.before));
  }
}

Result<QuantizedFile> Quantizer::run() {
  std::error_code error;
  bool isFolder = std::filesystem::is_directory(options.model, error);
  Status opened = isFolder ? openHuggingFace() : openFile();
  if (!opened) {
    return opened.prefix(options.model);
  }
  if (!isFolder) {
    putStoredKeys();
  }
  addJobs();
  TENON_ASSIGN(pool, ThreadPool::create(options.threads));
  TENON_ASSIGN(AtomicFile output, AtomicFile::create(options.output, inputs));
  const gguf::Value *alignment = file.find("general.alignment");
  uint64_t unit = alignment ? static_cast<uint64_t>(alignment->integer().value_or(0)) : 0;
  TENON_TRY(writer.write(output, unit == 0 ? kDefaultAlignment : unit,
                         [&](size_t index, const gguf::Writer::Append &append) {
                           return writeTensor(jobs[index], append);
                         }));
  TENON_TRY(output.commit());
  for (auto &[name, type] : types) {
    auto [allErrors, allSquares] = sums[name];
    type.error = allSquares > 0 ? std::sqrt(allErrors / allSquares) : 0;
    result.types.push_back(std::move(type));
  }
  return std::move(result);
}

} // namespace

Result<QuantizedFile> quantizeModel(const QuantizeOptions &options) {
  return Quantizer(options).run();
}

} // namespace tenon::language
