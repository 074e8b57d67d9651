// tn.paged_write and tn.paged_attention together, since what lies between them is each target's
// own: a module of both, run step by step.
#pragma once

#include "compiler/dispatch/Dispatch.h"
#include "compiler/graph/CachedRows.h"
#include "compiler/graph/Invariance.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/TnRare.h"
#include "compiler/pipeline/SelectKernels.h"
#include "compiler/reference/Compare.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "test/ops/RegionWalk.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace tenon::ops {

using namespace mlir;

inline constexpr int64_t kPage = 32, kPages = 71, kTable = 32;

struct Heads {
  const char *dtype;
  int64_t heads, keyHeads, width, valueWidth;
  int64_t window = 0;
  double softcap = 0;
  const char *cache = nullptr; ///< of codes; null for `dtype`
  bool isInvariant = false;
};

/// New tokens of a sequence behind those that are in its pages.
struct Part {
  int64_t sequence, history, count;
};
using StepOf = std::vector<Part>;
/// The bytes of a token's result, by sequence and position.
using Rows = std::map<std::pair<int64_t, int64_t>, std::string>;

/// The same number for the same element of a sequence.
inline double numberOf(int64_t kind, int64_t sequence, int64_t position, int64_t column) {
  uint64_t state =
      static_cast<uint64_t>(((kind * 31 + sequence) * 4099 + position) * 8209 + column);
  for (int i = 0; i < 3; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    state ^= state >> 29;
  }
  return double(state >> 40) / double(1 << 23) - 1;
}

class PagedModule {
public:
  PagedModule(const Heads &theHeads, const target::Target &profile)
      : heads(theHeads), context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<tn::TnDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      diagnostics += diagnostic.str() + "\n";
      return success();
    });
    build();
    reference = module->clone();
    dispatch::Records records;
    pipeline::CodeTarget code =
        profile.isGpu() ? pipeline::cudaTarget(profile)
                        : pipeline::cpuTarget(profile.level, profile, /*guarded=*/false);
    pipeline::WantedKernels none;
    pipeline::KernelSelector selector(code, none);
    isMade = succeeded(verify(*reference)) &&
             succeeded(selector.formRegions(*module, profile, records)) &&
             selector.select(*module, records).isOk();
  }

  Rows runReference(const StepOf &step) {
    reference::Interpreter interpreter(&weights, {.threads = 1});
    return rowsOf(
        step, interpreter.evaluate(reference->lookupSymbol<func::FuncOp>("main"), inputsOf(step)));
  }

  Rows run(const StepOf &step, const RegionRunner &runner) {
    int count = 0;
    return rowsOf(step, walkRegions(module->lookupSymbol<func::FuncOp>("main"), weights,
                                    inputsOf(step), runner, count));
  }

  /// Whether these are the reference's tensors of a step.
  testing::AssertionResult agrees(const StepOf &step, const Rows &actual) {
    Rows expected = runReference(step);
    if (expected.empty() || expected.size() != actual.size()) {
      return testing::AssertionFailure() << problem << diagnostics;
    }
    DType dtype = *reference::dtypeOf(element);
    for (const auto &[key, bytes] : expected) {
      const std::string &own = actual.at(key);
      SmallVector<int64_t> dims = {heads.heads, heads.valueWidth};
      Result<reference::Tensor> a =
          reference::Tensor::copy(dtype, dims, ArrayRef(bytes.data(), bytes.size()));
      Result<reference::Tensor> b =
          reference::Tensor::copy(dtype, dims, ArrayRef(own.data(), own.size()));
      reference::Comparison comparison = reference::compareTensors(*a, *b);
      if (!comparison.equal()) {
        return testing::AssertionFailure() << "sequence " << key.first << ", position "
                                           << key.second << ": " << comparison.text(dims);
      }
    }
    return testing::AssertionSuccess();
  }

  bool isMade = false;
  int64_t padding = 0; ///< tokens of no sequence that steps have behind the others: {-1, number}
  std::string problem, diagnostics;

private:
  void build() {
    OpBuilder builder(&context);
    Location at = builder.getUnknownLoc();
    element = parseType(heads.dtype, &context);
    cache = heads.cache ? parseType(heads.cache, &context) : element;
    module = ModuleOp::create(at);
    if (heads.isInvariant) {
      (*module)->setAttr(tn::kInvariant, builder.getUnitAttr());
    }
    tn::SymbolList list;
    SmallVector<AffineExpr> dims;
    for (const char *name : {"P", "T", "S"}) {
      dims.push_back(getAffineSymbolExpr(list.add(name, 1, 2048), &context));
    }
    list.store(*module);
    auto constant = [&](int64_t size) { return getAffineConstantExpr(size, &context); };
    auto tensor = [&](tn::Dims sizes, Type type) { return tn::makeTensor(sizes, type); };
    Type index = builder.getI64Type();
    AffineExpr k = constant(heads.keyHeads), d = constant(heads.width),
               w = constant(heads.valueWidth);
    AffineExpr pages = constant(kPages), page = constant(kPage);
    int64_t extra = tn::CachedRows::extra(cache);
    SmallVector<Type> types = {tensor({pages, k, page, constant(heads.width + extra)}, cache),
                               tensor({pages, k, page, constant(heads.valueWidth + extra)}, cache),
                               tensor({dims[0], k, d}, element),
                               tensor({dims[0], k, w}, element),
                               tensor({dims[0]}, index),
                               tensor({dims[1], constant(heads.heads), d}, element),
                               tensor({dims[1], k, d}, element),
                               tensor({dims[1], k, w}, element),
                               tensor({dims[1]}, index),
                               tensor({dims[2], constant(kTable)}, index),
                               tensor({tn::addDims(dims[2], constant(1))}, index),
                               tensor({dims[2]}, index)};
    builder.setInsertionPointToEnd(module->getBody());
    func::FuncOp function =
        func::FuncOp::create(builder, at, "main", builder.getFunctionType(types, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToEnd(entry);
    auto in = [&](unsigned i) { return entry->getArgument(i); };
    Value keys = tn::PagedWriteOp::create(builder, at, in(0), in(2), in(4), true);
    Value values = tn::PagedWriteOp::create(builder, at, in(1), in(3), in(4), false);
    keys = tn::PagedWriteOp::create(builder, at, keys, in(6), in(8), true);
    values = tn::PagedWriteOp::create(builder, at, values, in(7), in(8), false);
    Value y = tn::PagedAttentionOp::create(builder, at, in(5), keys, values, in(9), in(10), in(11),
                                           llvm::APFloat(1 / std::sqrt(double(heads.width))),
                                           heads.window, llvm::APFloat(heads.softcap));
    func::ReturnOp::create(builder, at, y);
    function.setFunctionType(builder.getFunctionType(types, y.getType()));
  }

  reference::Tensor make(ArrayRef<int64_t> dims, Type type,
                         llvm::function_ref<double(int64_t)> number) {
    reference::Tensor wide = std::move(*reference::Tensor::create(DType::F64, dims));
    for (int64_t i = 0; i < wide.count(); ++i) {
      wide.as<double>()[i] = number(i);
    }
    return std::move(*reference::convert(wide, *reference::dtypeOf(type)));
  }

  static int64_t pageOf(int64_t sequence, int64_t index) {
    return (sequence * 17 + index) * 29 % kPages;
  }
  static int64_t slotOf(int64_t sequence, int64_t position) {
    return pageOf(sequence, position / kPage) * kPage + position % kPage;
  }

  Tensors inputsOf(const StepOf &step) {
    using Place = std::pair<int64_t, int64_t>;
    // A token of no sequence, which writes nothing.
    std::vector<Place> old = {{-1, 0}}, fresh;
    std::vector<int64_t> starts = {0}, lengths, pages;
    for (const Part &part : step) {
      for (int64_t i = 0; i < part.history; ++i) {
        old.emplace_back(part.sequence, i);
      }
      for (int64_t i = 0; i < part.count; ++i) {
        fresh.emplace_back(part.sequence, part.history + i);
      }
      starts.push_back(static_cast<int64_t>(fresh.size()));
      lengths.push_back(part.history + part.count);
      for (int64_t i = 0; i < kTable; ++i) {
        pages.push_back(pageOf(part.sequence, i));
      }
    }
    for (int64_t i = 0; i < padding; ++i) {
      fresh.emplace_back(-1, i);
    }
    Type index = IntegerType::get(&context, 64);
    auto rows = [&](int64_t kind, const std::vector<Place> &places, int64_t count, int64_t width) {
      return make({static_cast<int64_t>(places.size()), count, width}, element, [&](int64_t i) {
        const Place &place = places[i / (count * width)];
        return numberOf(kind, place.first, place.second, i % (count * width));
      });
    };
    auto slots = [&](const std::vector<Place> &places) {
      return make({static_cast<int64_t>(places.size())}, index, [&](int64_t i) -> double {
        return places[i].first < 0 ? -1.0 : double(slotOf(places[i].first, places[i].second));
      });
    };
    auto list = [&](ArrayRef<int64_t> dims, const std::vector<int64_t> &numbers) {
      return make(dims, index, [&](int64_t i) { return double(numbers[i]); });
    };
    // NaN of every type; of codes with a scale of NaN.
    auto stale = [&](int64_t width) {
      int64_t row = width + tn::CachedRows::extra(cache);
      reference::Tensor tensor = std::move(*reference::Tensor::create(
          *reference::dtypeOf(cache), {kPages, heads.keyHeads, kPage, row}));
      std::fill_n(tensor.mutableBytes(), tensor.byteCount(), '\xff');
      return tensor;
    };
    int64_t sequences = static_cast<int64_t>(step.size());
    Tensors inputs;
    inputs.push_back(stale(heads.width));
    inputs.push_back(stale(heads.valueWidth));
    inputs.push_back(rows(1, old, heads.keyHeads, heads.width));
    inputs.push_back(rows(2, old, heads.keyHeads, heads.valueWidth));
    inputs.push_back(slots(old));
    inputs.push_back(rows(0, fresh, heads.heads, heads.width));
    inputs.push_back(rows(1, fresh, heads.keyHeads, heads.width));
    inputs.push_back(rows(2, fresh, heads.keyHeads, heads.valueWidth));
    inputs.push_back(slots(fresh));
    inputs.push_back(list({sequences, kTable}, pages));
    inputs.push_back(list({sequences + 1}, starts));
    inputs.push_back(list({sequences}, lengths));
    return inputs;
  }

  Rows rowsOf(const StepOf &step, Result<Tensors> results) {
    Rows rows;
    if (!results) {
      problem = results.status().message();
      return rows;
    }
    const reference::Tensor &y = results->front();
    size_t bytes = y.byteCount() / y.dims()[0];
    const char *next = y.bytes();
    StepOf all = step;
    all.push_back({-1, 0, padding});
    for (const Part &part : all) {
      for (int64_t i = 0; i < part.count; ++i, next += bytes) {
        rows[{part.sequence, part.history + i}] = std::string(next, bytes);
      }
    }
    return rows;
  }

  Heads heads;
  MLIRContext context;
  tn::WeightStore weights;
  OwningOpRef<ModuleOp> module, reference;
  Type element, cache;
};

/// Lengths around words, panels and blocks of keys; the second and third have a history.
inline const StepOf kMixed = {{0, 0, 37}, {1, 529, 1}, {2, 500, 30}, {3, 0, 1}};

} // namespace tenon::ops
