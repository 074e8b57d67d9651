// Flash attention of CPUs: the loops over queries and keys, shared by the files of its parts
// (AttentionOperands.cpp, AttentionSoftmax.cpp). Heads that share keys and values are more rows of
// queries of that key head.
#pragma once

#include "compiler/codegen/cpu/attention/OnlineSoftmax.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "engine/Level.h"

namespace tenon::codegen::cpu {

/// One of q, k, v and the result: a buffer whose rows are those of one head.
struct HeadRows {
  mlir::Value buffer;
  bool headsInner;
  tn::Dims dims; ///< as stored

  mlir::AffineExpr heads() const { return dims[headsInner ? 2 : 1]; }
  mlir::AffineExpr length() const { return dims[headsInner ? 1 : 2]; }
  mlir::AffineExpr width() const { return dims[3]; }
};

/// Rows of queries of one key head, all of index type. The rows of a key head are the queries of
/// the first head that reads it, then those of the next.
struct QueryBlock {
  mlir::Value batch, keyHead, first, count;
  /// The end of the keys that any of them sees, and with a window the first of them.
  mlir::Value keys, firstKey;
};

/// Some keys, from a multiple of a panel on.
struct KeyBlock {
  mlir::Value first, count;
};

/// What a row of a block is of.
struct QueryPlace {
  mlir::Value head, query;
};

class AttentionLowering : OnlineSoftmax {
public:
  AttentionLowering(KernelBuilder &kernel, tn::AttentionOp attention, engine::CpuLevel level,
                    int64_t most);

  mlir::FailureOr<mlir::AffineExpr> lower();

private:
  void allocateScratch(const IndexMath &math);
  QueryBlock blockOf(const IndexMath &math, const GridPoint &point) const;
  mlir::Value keysSeenBy(const IndexMath &math, mlir::Value first, mlir::Value next) const;
  mlir::Value firstOf(const IndexMath &math, mlir::Value query) const;
  mlir::Value firstKeyOf(const IndexMath &math, mlir::Value first, mlir::Value next) const;
  QueryPlace placeOf(const IndexMath &math, const QueryBlock &block, mlir::Value row) const;
  void attend(const IndexMath &math, const QueryBlock &block);
  void attendTo(const IndexMath &math, const QueryBlock &block, const KeyBlock &keys);
  void computeScores(const IndexMath &math, const QueryBlock &block, const KeyBlock &keys);
  void addValues(const IndexMath &math, const QueryBlock &block, const KeyBlock &keys);
  void addValuePanel(const IndexMath &math, const QueryBlock &block, const KeyBlock &part,
                     const KeyBlock &keysOfPart, mlir::Value index);

  // AttentionOperands.cpp: from where operands lie into scratch, and back.
  mlir::Value rowStride(const IndexMath &math, const HeadRows &rows) const;
  mlir::Value rowOffset(const IndexMath &math, const HeadRows &rows, mlir::Value batch,
                        mlir::Value head, mlir::Value row) const;
  mlir::Value rowsView(const IndexMath &math, const HeadRows &rows, mlir::Value batch,
                       mlir::Value head, mlir::Value first, mlir::Value count, mlir::Value column,
                       mlir::Value width) const;
  mlir::Value keysAt(const IndexMath &math, const KeyBlock &keys, mlir::Value panel) const;
  mlir::Value valueRow(const IndexMath &math, const KeyBlock &keys, mlir::Value panel) const;
  void packAll(const IndexMath &math, const GridPoint &point);
  void packKeys(const IndexMath &math, mlir::Value batch, mlir::Value head, const KeyBlock &keys);
  void packValues(const IndexMath &math, mlir::Value batch, mlir::Value head, const KeyBlock &keys);
  mlir::Value readsInPlace(const IndexMath &math) const;
  mlir::Value packsPanel(const IndexMath &math, mlir::Value panel) const;
  void weaveValues(const IndexMath &math, mlir::Value batch, mlir::Value head, const KeyBlock &keys,
                   mlir::Value panel, mlir::Value to) const;
  mlir::Value wordsOf(const IndexMath &math, mlir::Value elements) const;
  void takeQueries(const IndexMath &math, const QueryBlock &block);
  void writeResult(const IndexMath &math, const QueryBlock &block);
  void forParts(
      const IndexMath &math, const QueryBlock &block,
      llvm::function_ref<void(const IndexMath &, QueryPlace, mlir::Value row, mlir::Value count)>
          body) const;

  // AttentionSoftmax.cpp
  void invertTotal(const IndexMath &math, mlir::Value row);
  void softmaxRow(const IndexMath &math, const QueryBlock &block, const KeyBlock &keys,
                  mlir::Value row);
  mlir::Value largestScore(const IndexMath &math, const QueryBlock &block, const KeyBlock &keys,
                           mlir::Value row, mlir::Value seen, mlir::Value hidden);
  mlir::Value maskAt(const IndexMath &math, const QueryBlock &block, const QueryPlace &place,
                     mlir::Value key, mlir::Value active) const;
  mlir::Value isHidden(const IndexMath &math, const QueryBlock &block, const KeyBlock &keys) const;
  mlir::Value largestOfMask(const IndexMath &math, const QueryBlock &block,
                            const KeyBlock &keys) const;
  bool isMaskedByKey() const;

  int64_t mostRows; ///< of a grid point
  bool causal;
  int64_t window; ///< 0: none
  bool maskedRowsAreNan;
  HeadRows q, k, v, result;
  mlir::Value mask; ///< buffer, or null
  tn::Dims maskDims;
  ContractionGrid grid;
  mlir::AffineExpr sharing;  ///< heads that read one key head
  int64_t blockKeys;         ///< most keys of a block, a multiple of a panel
  bool isSingle;             ///< whether every row sees its keys in one block
  mlir::Value queries, keys; ///< Sq, Sk
  mlir::Value startBuffer;   ///< that holds `start`, or null
  mlir::Value start;         ///< position of the first query, where causal
  mlir::Value depth, width;  ///< D, Dv
  mlir::Value valuePanels;   ///< of 32 columns
  mlir::Value isPrepared;    ///< i1: all keys and values of a head are packed before its rows
  ProductType type;          ///< of both products
  int64_t perWord;           ///< elements of the depth in a word
  bool isNarrow;             ///< elements of f16, which are widened
  mlir::Value depthWords;    ///< that hold D
  mlir::Value packedKeys;    ///< [keys in scratch * words of D]: panels of 32 keys
  mlir::Value packedValues;  ///< [words of keys in scratch * value panels, 32]: panels of a block
  mlir::Value rowsOfQueries; ///< [most rows, words of D], scaled
  mlir::Value keyRows;       ///< [32, words of D]: of keys that cannot be read as words, else null
  mlir::Value valueRows;     ///< [keys of a block, 32]: of values that are woven into words from
                             ///< fewer columns, else null
};

} // namespace tenon::codegen::cpu
