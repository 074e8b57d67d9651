// Runs the table: every row on the reference interpreter and on each CPU level of the machine, and
// holds the table to the dialect. Relies on reference::toleranceOf for the tolerance of each dtype.
#include "compiler/graph/Tn.h"
#include "compiler/reference/Compare.h"
#include "test/ops/RowCase.h"
#include "test/unit/codegen/LoadedCode.h"
#include "test/unit/codegen/foreign/Emulation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include <sstream>

namespace tenon::ops {
namespace {

using Levels = std::vector<engine::CpuLevel>;

std::vector<std::string> words(const char *text) {
  std::istringstream stream(text);
  std::vector<std::string> list;
  for (std::string word; stream >> word;) {
    list.push_back(word);
  }
  return list;
}

/// Rows without operands, those with one whose result the passes compute at compile time, and a
/// condition that is known to hold have nothing to run in the constant form.
bool needsRegion(const OpRow &row, Form form) {
  return form != Form::Constant ||
         (row.operands.size() > 1 && row.op != llvm::StringRef("tn.require"));
}

testing::AssertionResult equalTensors(const Tensors &expected, const Tensors &actual) {
  if (expected.empty() || expected.size() != actual.size()) {
    return testing::AssertionFailure() << actual.size() << " results for " << expected.size();
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    reference::Comparison comparison = reference::compareTensors(expected[i], actual[i]);
    if (!comparison.equal()) {
      return testing::AssertionFailure()
             << "result " << i << ": " << comparison.text(expected[i].dims());
    }
  }
  return testing::AssertionSuccess();
}

/// Whether `compiled`, as machine code, gives what the reference gives for `truth`.
testing::AssertionResult agrees(const OpRow &compiled, const OpRow &truth, const std::string &dtype,
                                Form form, const Levels &levels) {
  Result<std::unique_ptr<RowCase>> truthCase = RowCase::make(truth, dtype, form);
  Result<std::unique_ptr<RowCase>> compiledCase = RowCase::make(compiled, dtype, form);
  for (const Result<std::unique_ptr<RowCase>> *made : {&truthCase, &compiledCase}) {
    if (!*made) {
      return testing::AssertionFailure() << made->status().message();
    }
  }
  Result<Tensors> expected = (*truthCase)->runReference();
  if (!expected) {
    return testing::AssertionFailure() << "reference: " << expected.status().message();
  }
  if (Status status = (*compiledCase)->prepare(target::cpuTarget(levels.front())); !status) {
    return testing::AssertionFailure() << status.message();
  }
  for (engine::CpuLevel level : levels) {
    Result<Tensors> actual = (*compiledCase)->runCompiled(level);
    if (!actual) {
      return testing::AssertionFailure()
             << engine::nameOf(level) << ": " << actual.status().message();
    }
    if (needsRegion(compiled, form) && (*compiledCase)->regions() == 0) {
      return testing::AssertionFailure() << "no region was run";
    }
    if (testing::AssertionResult equal = equalTensors(*expected, *actual); !equal) {
      return testing::AssertionFailure() << engine::nameOf(level) << ": " << equal.message();
    }
  }
  return testing::AssertionSuccess();
}

/// The levels that a further dtype of a row is tried on: one, in turn, so that each level sees each
/// dtype.
Levels oneLevel(size_t turn) {
  Levels levels = codegen::cpu::machineLevels();
  return {levels[turn % levels.size()]};
}

/// Of the first dtype: all levels, but those of an emulator, which takes longer, in one form.
Levels levelsOf(Form form, size_t turn) {
  bool isFast = codegen::cpu::emulatedLevels().empty();
  return isFast || form == Form::Static ? codegen::cpu::machineLevels()
                                        : oneLevel(turn + static_cast<size_t>(form));
}

/// A cell of the table on some levels.
void expectAgreement(const OpRow &row, const std::string &dtype, Form form, const Levels &levels) {
  std::vector<Pending>::const_iterator pending =
      llvm::find_if(row.pending, [&](const Pending &each) {
        return each.form == form && (!each.dtype || each.dtype == dtype);
      });
  if (pending != row.pending.end()) {
    EXPECT_FALSE(agrees(row, row, dtype, form, levels))
        << row.op << " of " << dtype << ", " << nameOf(form) << ", works: take it out of `pending`";
    return;
  }
  EXPECT_TRUE(agrees(row, row, dtype, form, levels))
      << row.op << " of " << dtype << ", " << nameOf(form);
}

class OpTest : public testing::TestWithParam<size_t> {};

TEST_P(OpTest, AgreesWithTheReference) {
  const OpRow &row = opTable()[GetParam()];
  std::vector<std::string> dtypes = words(row.dtypes);
  for (Form form : {Form::Static, Form::Dynamic, Form::Constant}) {
    if (form != Form::Constant || !row.operands.empty()) {
      expectAgreement(row, dtypes[0], form, levelsOf(form, GetParam()));
    }
  }
  for (size_t i = 1; i < dtypes.size(); ++i) {
    expectAgreement(row, dtypes[i], Form::Dynamic, oneLevel(GetParam() + i));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, OpTest, testing::Range<size_t>(0, opTable().size()),
                         [](const testing::TestParamInfo<size_t> &info) {
                           std::string name = std::string(opTable()[info.param].op).substr(3);
                           return name + "_" + std::to_string(info.param);
                         });

/// What is wrong with a table: ops without a row or a reason, and reasons for nothing.
std::vector<std::string> coverageFaults(const std::vector<OpRow> &rows,
                                        const std::vector<Exception> &excepted) {
  mlir::MLIRContext context;
  context.loadDialect<tn::TnDialect>();
  llvm::StringSet<> tested, named, registered;
  for (const OpRow &row : rows) {
    tested.insert(row.op);
  }
  for (const Exception &exception : excepted) {
    named.insert(exception.op);
  }
  std::vector<std::string> faults;
  for (mlir::RegisteredOperationName op : context.getRegisteredOperationsByDialect("tn")) {
    llvm::StringRef name = op.getStringRef();
    registered.insert(name);
    if (!tested.contains(name) && !named.contains(name)) {
      faults.push_back(name.str() + " has no row");
    } else if (tested.contains(name) && named.contains(name)) {
      faults.push_back(name.str() + " has a row and is an exception");
    }
  }
  for (const llvm::StringSet<> *set : {&tested, &named}) {
    for (const auto &entry : *set) {
      if (!registered.contains(entry.getKey())) {
        faults.push_back(entry.getKey().str() + " is no op of the dialect");
      }
    }
  }
  llvm::sort(faults);
  return faults;
}

TEST(TableTest, EveryOpHasARow) {
  EXPECT_EQ(coverageFaults(opTable(), exceptions()), std::vector<std::string>());
}

TEST(TableTest, MissingAndSuperfluousRowsAreFound) {
  std::vector<OpRow> rows = opTable();
  llvm::erase_if(rows, [](const OpRow &row) { return row.op == std::string("tn.add"); });
  rows.push_back({"tn.gone", "f32", {}, {}});
  std::vector<Exception> excepted = exceptions();
  excepted.push_back({"tn.sub", "planted"});
  EXPECT_EQ(coverageFaults(rows, excepted),
            (std::vector<std::string>{"tn.add has no row", "tn.gone is no op of the dialect",
                                      "tn.sub has a row and is an exception"}));
}

/// To be lowered with every cell that starts to work, never raised.
constexpr size_t kMaxPending = 0;

TEST(TableTest, PendingCellsOnlyBecomeFewer) {
  size_t pending = 0;
  for (const OpRow &row : opTable()) {
    pending += row.pending.size();
  }
  EXPECT_EQ(pending, kMaxPending);
}

TEST(TableTest, PendingCellsThatWorkAreFound) {
  static OpRow row = opTable()[1];
  row.pending = {{nullptr, Form::Static, "planted"}};
  EXPECT_NONFATAL_FAILURE(expectAgreement(row, "f32", Form::Static, oneLevel(0)), "works");
}

/// A lowering to another op, or with other attributes, is seen in every form.
TEST(TableTest, PlantedWrongLoweringsAreFound) {
  struct Planted {
    const char *op;
    const char *wrongOp;
    const char *wrongAttributes;
  };
  static constexpr Planted kPlanted[] = {
      {"tn.add", "tn.sub", nullptr},
      {"tn.max", "tn.min", nullptr},
      {"tn.layer_norm", nullptr,
       "axis = 2 : i64, epsilon = 1.0e-1 : f64, "
       "operandSegmentSizes = array<i32: 1, 1, 1>"},
      {"tn.softmax", nullptr, "axis = 1 : i64, log"},
  };
  for (const Planted &planted : kPlanted) {
    const std::vector<OpRow>::const_iterator row = llvm::find_if(
        opTable(), [&](const OpRow &each) { return each.op == std::string(planted.op); });
    OpRow wrong = *row;
    wrong.op = planted.wrongOp ? planted.wrongOp : row->op;
    wrong.attributes = planted.wrongAttributes ? planted.wrongAttributes : row->attributes;
    for (Form form : {Form::Static, Form::Dynamic, Form::Constant}) {
      EXPECT_FALSE(agrees(wrong, *row, words(row->dtypes)[0], form, oneLevel(0)))
          << planted.op << ", " << nameOf(form);
    }
  }
}

} // namespace
} // namespace tenon::ops
