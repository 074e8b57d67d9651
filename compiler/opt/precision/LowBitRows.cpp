// Lays numbers of few bits out in blocks. Relies on runs of equal parameters being whole blocks,
// or the last of a row.
#include "compiler/opt/precision/LowBitRows.h"

#include "support/text/Text.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace tenon::opt {
namespace {

/// Numbers of a block: more would be summed in too long a chain, and fewer weigh less than their
/// scale.
constexpr int64_t kMaxOfBlock = 256, kMinOfBlock = 16;

/// Joins the hash of what came before with a row.
void addToHash(std::array<uint64_t, 2> &hash, const LevelRow &row, std::vector<uint8_t> &buffer) {
  buffer.clear();
  auto append = [&](const void *data, size_t size) {
    const uint8_t *first = static_cast<const uint8_t *>(data);
    buffer.insert(buffer.end(), first, first + size);
  };
  append(hash.data(), sizeof hash);
  append(row.numbers.data(), row.numbers.size() * sizeof(int16_t));
  append(row.runs.data(), row.runs.size() * sizeof(LevelRun));
  llvm::XXH128_hash_t joined = llvm::xxh3_128bits(buffer);
  hash = {joined.low64, joined.high64};
}

} // namespace

static void survey(const LevelMatrix &levels, LevelSurvey &survey) {
  LevelRow row;
  std::vector<uint8_t> buffer;
  for (int64_t column = 0; column < levels.columns; ++column) {
    levels.read(column, row);
    for (const LevelRun &run : row.runs) {
      survey.boundaries = std::gcd(survey.boundaries, run.begin);
      auto [least, most] =
          std::minmax_element(row.numbers.begin() + run.begin, row.numbers.begin() + run.end);
      survey.leastNumber = std::min(survey.leastNumber, *least);
      survey.mostNumber = std::max(survey.mostNumber, *most);
      survey.least = std::min(survey.least, *least - run.zero);
      survey.most = std::max(survey.most, *most - run.zero);
      survey.areWhole &= run.zero == std::floor(run.zero);
    }
    addToHash(survey.hash, row, buffer);
  }
}

LevelSurvey surveyOf(const LevelMatrix &levels, tn::WeightStore &weights) {
  LevelSurvey found;
  int64_t ranks = levels.isOfRank() ? weights.ranks : 1;
  for (weights.rank = 0; weights.rank < ranks; ++weights.rank) {
    survey(levels, found);
  }
  weights.rank = 0;
  return found;
}

std::optional<int64_t> blockOf(const LevelMatrix &levels, const LevelSurvey &survey,
                               int64_t elementsOfWord) {
  int64_t whole = llvm::alignTo(levels.depth, elementsOfWord), common = survey.boundaries;
  if (common == 0) {
    return std::min(whole, kMaxOfBlock);
  }
  int64_t block = std::min(common, kMaxOfBlock) / elementsOfWord * elementsOfWord;
  while (block >= kMinOfBlock && common % block != 0) {
    block -= elementsOfWord;
  }
  return block >= kMinOfBlock ? std::optional(block) : std::nullopt;
}

std::optional<int64_t> gpuBlockOf(const LevelMatrix &levels, const LevelSurvey &survey) {
  constexpr int64_t kPanel = 32;
  int64_t common = std::gcd(survey.boundaries, levels.depth);
  int64_t block = kMaxOfBlock;
  while (block > 0 && common % block != 0) {
    block -= kPanel;
  }
  return block > 0 ? std::optional(block) : std::nullopt;
}

Storing storingOf(const LevelSurvey &survey) {
  for (int64_t bits : {4, 8}) {
    int64_t half = int64_t(1) << (bits - 1);
    if (survey.areWhole && survey.least >= -half && survey.most < half) {
      return {bits, false, half};
    }
    if (survey.leastNumber >= 0 && survey.mostNumber < 2 * half) {
      return {bits, true, 0};
    }
    if (survey.leastNumber >= -half && survey.mostNumber < half) {
      return {bits, true, half};
    }
  }
  llvm_unreachable("numbers of 8 bits fit 8 bits");
}

void StoredRows::write(const LevelRow &row, char *out) const {
  for (const LevelRun &run : row.runs) {
    int64_t shift = storing.shift - (storing.hasZeroPoints ? 0 : static_cast<int64_t>(run.zero));
    for (int64_t i = run.begin; i < run.end;) {
      int64_t block = i / layout.block, inBlock = i % layout.block;
      int64_t end = std::min(run.end, (block + 1) * layout.block);
      char *words = out + 4 * layout.blockWords() * block;
      if (inBlock == 0) {
        float scale = static_cast<float>(run.scale);
        std::memcpy(words, &scale, sizeof(float));
        float zero = static_cast<float>(run.zero + static_cast<double>(storing.shift));
        if (layout.hasZeroPoints) {
          std::memcpy(words + sizeof(float), &zero, sizeof(float));
        }
      }
      words += 4 * layout.headerWords();
      for (; i < end; ++i, ++inBlock) {
        int64_t bit = inBlock * layout.bits;
        words[bit / 8] |= static_cast<char>((row.numbers[i] + shift) << (bit % 8));
      }
    }
  }
}

void StoredRows::operator()(uint64_t begin, uint64_t size, char *out) const {
  uint64_t rowBytes = layout.rowBytes(), end = begin + size;
  LevelRow row;
  std::vector<char> made(rowBytes);
  for (uint64_t column = begin / rowBytes; column * rowBytes < end; ++column) {
    levels->read(static_cast<int64_t>(column), row);
    std::ranges::fill(made, 0);
    write(row, made.data());
    uint64_t from = std::max(begin, column * rowBytes);
    uint64_t to = std::min(end, (column + 1) * rowBytes);
    std::memcpy(out + (from - begin), made.data() + (from - column * rowBytes), to - from);
  }
}

std::string StoredRows::content(const LevelSurvey &survey) const {
  return strCat("rows ", levels->columns, ' ', layout.depth, ' ', layout.bits, ' ', layout.block,
                ' ', layout.hasZeroPoints ? 1 : 0, ' ', survey.hash[0], ' ', survey.hash[1]);
}

} // namespace tenon::opt
