// The blocked product: 4 x 8 register tiles over packed strips, blocks that stay in the caches.
// Relies on nothing but the baseline instruction set; AVX2 is used where the machine has it.
#include "compiler/reference/Product.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tenon::reference {
namespace {

constexpr int64_t kTileRows = 4;
constexpr int64_t kTileColumns = 8;
constexpr int64_t kBlockRows = 96;
constexpr int64_t kBlockColumns = 192;
constexpr int64_t kBlockDepth = 256;

/// tile += rows x columns, both packed as [depth][4] and [depth][8].
template <typename T>
inline __attribute__((always_inline)) void addTile(const T *rows, const T *columns, int64_t depth,
                                                   T *tile, int64_t stride) {
  typedef T Vector __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T))));
  Vector sums[kTileRows][2];
  for (int64_t i = 0; i < kTileRows; ++i) {
    sums[i][0] = *reinterpret_cast<const Vector *>(tile + i * stride);
    sums[i][1] = *reinterpret_cast<const Vector *>(tile + i * stride + 4);
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vector low = *reinterpret_cast<const Vector *>(columns + k * kTileColumns);
    Vector high = *reinterpret_cast<const Vector *>(columns + k * kTileColumns + 4);
    for (int64_t i = 0; i < kTileRows; ++i) {
      T factor = rows[k * kTileRows + i];
      sums[i][0] += low * factor;
      sums[i][1] += high * factor;
    }
  }
  for (int64_t i = 0; i < kTileRows; ++i) {
    *reinterpret_cast<Vector *>(tile + i * stride) = sums[i][0];
    *reinterpret_cast<Vector *>(tile + i * stride + 4) = sums[i][1];
  }
}

template <typename T>
void addTileBaseline(const T *rows, const T *columns, int64_t depth, T *tile, int64_t stride) {
  addTile(rows, columns, depth, tile, stride);
}

#ifdef __x86_64__
template <typename T>
__attribute__((target("avx2"))) void addTileAvx2(const T *rows, const T *columns, int64_t depth,
                                                 T *tile, int64_t stride) {
  addTile(rows, columns, depth, tile, stride);
}
#endif

template <typename T> using TileFunction = void (*)(const T *, const T *, int64_t, T *, int64_t);

template <typename T> TileFunction<T> chooseTile() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) {
    return addTileAvx2<T>;
  }
#endif
  return addTileBaseline<T>;
}

/// Packs lines [line, line + lines) in strips of `width`, zero-filled, each strip [depths][width].
template <typename T>
void packStrips(llvm::function_ref<void(const PackRequest &, T *)> pack, int64_t batch,
                int64_t line, int64_t lines, int64_t depth, int64_t depths, int64_t width, T *out) {
  for (int64_t first = 0; first < lines; first += width, out += depths * width) {
    int64_t count = std::min(width, lines - first);
    if (count < width) {
      std::fill(out, out + depths * width, T());
    }
    pack({batch, line + first, count, depth, depths, width}, out);
  }
}

/// The working memory of one thread.
template <typename T> struct Workspace {
  std::vector<T> rows = std::vector<T>(kBlockRows * kBlockDepth);
  std::vector<T> columns = std::vector<T>(kBlockColumns * kBlockDepth);
  std::vector<T> sums = std::vector<T>(kBlockRows * kBlockColumns);
};

struct Block {
  int64_t batch;
  int64_t row;
  int64_t rows;
  int64_t column;
  int64_t columns;
};

template <typename T>
void computeBlock(const Block &block, int64_t depth, TileFunction<T> tile, Workspace<T> &work,
                  llvm::function_ref<void(const PackRequest &, T *)> packRows,
                  llvm::function_ref<void(const PackRequest &, T *)> packColumns) {
  std::fill(work.sums.begin(), work.sums.end(), T());
  for (int64_t k = 0; k < depth; k += kBlockDepth) {
    int64_t depths = std::min(kBlockDepth, depth - k);
    packStrips(packRows, block.batch, block.row, block.rows, k, depths, kTileRows,
               work.rows.data());
    packStrips(packColumns, block.batch, block.column, block.columns, k, depths, kTileColumns,
               work.columns.data());
    for (int64_t j = 0; j < block.columns; j += kTileColumns) {
      for (int64_t i = 0; i < block.rows; i += kTileRows) {
        tile(work.rows.data() + i * depths, work.columns.data() + j * depths, depths,
             work.sums.data() + i * kBlockColumns + j, kBlockColumns);
      }
    }
  }
}

} // namespace

template <typename T>
void multiply(ThreadPool &pool, const ProductShape &shape,
              llvm::function_ref<void(const PackRequest &, T *out)> packRows,
              llvm::function_ref<void(const PackRequest &, T *out)> packColumns,
              llvm::function_ref<void(int64_t, int64_t, int64_t, int64_t, const T *values)> store) {
  int64_t rowBlocks = (shape.rows + kBlockRows - 1) / kBlockRows;
  int64_t columnBlocks = (shape.columns + kBlockColumns - 1) / kBlockColumns;
  int64_t blocks = rowBlocks * columnBlocks;
  TileFunction<T> tile = chooseTile<T>();
  pool.parallelFor(shape.batches * blocks, [&](int64_t begin, int64_t end, unsigned) {
    Workspace<T> work;
    for (int64_t index = begin; index < end; ++index) {
      Block block;
      block.batch = index / blocks;
      block.row = index % blocks % rowBlocks * kBlockRows;
      block.column = index % blocks / rowBlocks * kBlockColumns;
      block.rows = std::min(kBlockRows, shape.rows - block.row);
      block.columns = std::min(kBlockColumns, shape.columns - block.column);
      computeBlock<T>(block, shape.depth, tile, work, packRows, packColumns);
      for (int64_t i = 0; i < block.rows; ++i) {
        store(block.batch, block.row + i, block.column, block.columns,
              work.sums.data() + i * kBlockColumns);
      }
    }
  });
}

template void
multiply<double>(ThreadPool &, const ProductShape &,
                 llvm::function_ref<void(const PackRequest &, double *)>,
                 llvm::function_ref<void(const PackRequest &, double *)>,
                 llvm::function_ref<void(int64_t, int64_t, int64_t, int64_t, const double *)>);
template void
multiply<uint64_t>(ThreadPool &, const ProductShape &,
                   llvm::function_ref<void(const PackRequest &, uint64_t *)>,
                   llvm::function_ref<void(const PackRequest &, uint64_t *)>,
                   llvm::function_ref<void(int64_t, int64_t, int64_t, int64_t, const uint64_t *)>);

} // namespace tenon::reference
