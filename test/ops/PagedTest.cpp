// tn.paged_write and tn.paged_attention together, since what lies between them is each target's
// own: beside the reference, and each token's result beside that of the same token in other steps,
// whose bits must be equal.
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/dispatch/Dispatch.h"
#include "compiler/graph/CachedRows.h"
#include "compiler/graph/Invariance.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/TnRare.h"
#include "compiler/pipeline/SelectKernels.h"
#include "compiler/reference/Compare.h"
#include "engine/KernelAbi.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "test/ops/RegionWalk.h"
#include "test/unit/codegen/LoadedCode.h"
#include "test/unit/codegen/RegionCheck.h"
#include "test/unit/codegen/SelectedText.h"
#include "test/unit/codegen/foreign/Emulation.h"

#include "gtest/gtest.h"

#include <cmath>
#include <map>
#include <numeric>

using namespace mlir;

namespace tenon::ops {
namespace {

constexpr int64_t kPage = 32, kPages = 71, kTable = 24;

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
double numberOf(int64_t kind, int64_t sequence, int64_t position, int64_t column) {
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
  explicit PagedModule(const Heads &theHeads)
      : heads(theHeads), context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<tn::TnDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      diagnostics += diagnostic.str() + "\n";
      return success();
    });
    build();
    reference = module->clone();
    dispatch::Records records;
    target::Target profile = target::cpuTarget(codegen::cpu::machineLevels().front());
    pipeline::CodeTarget code = pipeline::cpuTarget(profile.level, profile, /*guarded=*/false);
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

  Rows run(const StepOf &step, engine::CpuLevel level, bool isChecked = false) {
    int count = 0;
    auto runner = [&](const codegen::RegionSource &source, ArrayRef<reference::Tensor> operands,
                      const Tensors &results,
                      const std::vector<int64_t> &symbols) -> Result<Tensors> {
      TENON_TRY(isChecked ? checkAccesses(source.text, level, operands, results, symbols)
                          : Status::ok());
      auto [found, isNew] = kernels.try_emplace({source.text, level});
      if (isNew) {
        llvm::Expected<codegen::cpu::Kernel> kernel = codegen::cpu::compileRegion(
            codegen::selectedForCpu(source.text, level), "tested", level);
        if (!kernel) {
          return Status::error(ErrorId::InternalError, llvm::toString(kernel.takeError()));
        }
        found->second = std::move(*kernel);
      }
      return codegen::cpu::runKernel(found->second, level, operands, results, symbols,
                                     /*pieces=*/2);
    };
    return rowsOf(step, walkRegions(module->lookupSymbol<func::FuncOp>("main"), weights,
                                    inputsOf(step), runner, count));
  }

  /// The reference's tensors of a step, and those of a level.
  testing::AssertionResult agrees(const StepOf &step, engine::CpuLevel level) {
    Rows expected = runReference(step), actual = run(step, level, /*isChecked=*/true);
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
    // Of codes, those of NaN with scales of NaN, or of -1 so.
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
    int64_t token = 0;
    for (const Part &part : step) {
      for (int64_t i = 0; i < part.count; ++i, ++token) {
        size_t bytes = y.byteCount() / y.dims()[0];
        rows[{part.sequence, part.history + i}] = std::string(y.bytes() + token * bytes, bytes);
      }
    }
    return rows;
  }

  Status checkAccesses(const std::string &text, engine::CpuLevel level,
                       ArrayRef<reference::Tensor> operands, const Tensors &results,
                       const std::vector<int64_t> &symbols) {
    if (level != codegen::cpu::machineLevels().front() || codegen::cpu::isEmulated(level)) {
      return Status::ok();
    }
    llvm::Expected<codegen::cpu::Kernel> guarded = codegen::cpu::compileRegion(
        codegen::selectedForCpu(text), "guarded", level, /*guarded=*/true);
    bool isWithin = guarded && codegen::cpu::guardedStatus(*guarded, level, operands, results,
                                                           symbols) != TENON_KERNEL_OUT_OF_BOUNDS;
    return isWithin ? Status::ok()
                    : Status::error(ErrorId::InternalError, "reaches outside of its buffers");
  }

  Heads heads;
  MLIRContext context;
  tn::WeightStore weights;
  OwningOpRef<ModuleOp> module, reference;
  std::map<std::pair<std::string, engine::CpuLevel>, codegen::cpu::Kernel> kernels;
  Type element, cache;
};

/// Lengths around words, panels and blocks of keys; the second and third have a history.
const StepOf kMixed = {{0, 0, 37}, {1, 529, 1}, {2, 500, 30}, {3, 0, 1}};

class PagedTest : public testing::TestWithParam<Heads> {};

TEST_P(PagedTest, AgreesWithTheReference) {
  PagedModule module(GetParam());
  ASSERT_TRUE(module.isMade) << module.diagnostics;
  for (engine::CpuLevel level : codegen::cpu::machineLevels()) {
    EXPECT_TRUE(module.agrees(kMixed, level)) << engine::nameOf(level);
  }
}

/// A token's bits are those that it has alone, in chunks and beside others in another order.
TEST_P(PagedTest, BitsDoNotDependOnTheStep) {
  PagedModule module(GetParam());
  ASSERT_TRUE(module.isMade) << module.diagnostics;
  const StepOf others[] = {{{2, 510, 20}, {0, 20, 17}, {3, 0, 1}},
                           {{2, 0, 530}},
                           {{0, 36, 1}},
                           {{2, 513, 3}},
                           {{1, 529, 1}, {0, 0, 37}}};
  for (engine::CpuLevel level : codegen::cpu::machineLevels()) {
    Rows expected = module.run(kMixed, level);
    ASSERT_EQ(size_t(69), expected.size()) << module.problem;
    // The detector: another position has other bits.
    EXPECT_TRUE(expected.at({2, 510}) != expected.at({2, 511}));
    for (const StepOf &step : others) {
      Rows actual = module.run(step, level);
      size_t compared = 0;
      for (const auto &[key, bytes] : actual) {
        auto found = expected.find(key);
        if (found != expected.end()) {
          ++compared;
          EXPECT_TRUE(found->second == bytes)
              << engine::nameOf(level) << ", sequence " << key.first << ", position " << key.second;
        }
      }
      EXPECT_GT(compared, size_t(0)) << module.problem;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, PagedTest,
                         testing::Values(Heads{"f32", 6, 2, 64, 64}, Heads{"bf16", 6, 2, 64, 64},
                                         Heads{"f16", 6, 2, 64, 64}, Heads{"f32", 4, 1, 80, 72, 17},
                                         Heads{"bf16", 3, 3, 66, 40, 300, 3},
                                         Heads{"f16", 2, 2, 256, 20, 0, 5},
                                         Heads{"bf16", 2, 1, 33, 64},
                                         Heads{"f32", 6, 2, 64, 64, 0, 0, "i8"},
                                         Heads{"bf16", 3, 3, 66, 40, 300, 3, "i8", true},
                                         Heads{"f32", 4, 1, 80, 72, 17, 0, "f8E4M3FN", true},
                                         Heads{"f16", 2, 2, 256, 20, 0, 5, "f8E4M3FN"}),
                         [](const testing::TestParamInfo<Heads> &info) {
                           return std::string(info.param.dtype) + "_" +
                                  std::to_string(info.param.width) + "_" +
                                  std::to_string(info.param.valueWidth) +
                                  (info.param.cache ? std::string("_") + info.param.cache : "");
                         });

} // namespace
} // namespace tenon::ops
