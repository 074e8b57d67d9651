// A tuning store: what comes back out of it, what a damaged, torn, forged or foreign record does,
// who may write, and which part of a key a miss names.
#include "compiler/tuning/Store.h"
#include "compiler/tuning/TuningDatabase.h"
#include "support/Hash.h"
#include "test/unit/pipeline/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>

using namespace tenon;
using namespace tenon::tuning;

namespace {

const char *kText = "func.func @kernel(%0: tensor<1x128x768xf32>, %1: tensor<768x3072xf32>)";
const char *kOtherSizes = "func.func @kernel(%0: tensor<1x256x768xf32>, %1: tensor<768x3072xf32>)";
const char *kOtherForm = "func.func @kernel(%0: tensor<1x128x768xf16>, %1: tensor<768x3072xf16>)";

Device device() { return {"processor", 2, "", {"x86-64-v3", "avx512"}}; }

Record recordOf(const char *text = kText) {
  Problem problem = problemOf(text);
  Record record;
  record.problem = problem.hash;
  record.form = problem.form;
  record.sizes = problem.sizes;
  record.label = "dense";
  record.device = "processor";
  record.threads = 2;
  record.level = "avx512";
  record.families = "gemm 1";
  record.kernel = "gemm{tile=64}";
  record.untuned = "gemm{tile=128}";
  record.trials = {{"gemm{tile=128}", 20, 12.5}, {"gemm{tile=64}", 16, 0}};
  record.time = 1000;
  return record;
}

std::string read(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write(const std::string &path, const std::string &text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A store with these records, and the text of its file.
std::string fill(const std::string &folder, const std::vector<Record> &records) {
  Result<StoreWriter> writer = StoreWriter::open(folder);
  EXPECT_TRUE(writer.isOk()) << writer.status().toString();
  for (const Record &record : records) {
    EXPECT_TRUE(writer->append(record).isOk());
  }
  return read(folder + "/records");
}

std::vector<std::string> linesOf(const std::vector<Record> &records) {
  std::vector<std::string> lines;
  std::ranges::transform(records, std::back_inserter(lines), lineOf);
  return lines;
}

TEST(Record, ComesBackEqual) {
  Record record = recordOf();
  Result<Record> back = tuning::recordOf(lineOf(record));
  ASSERT_TRUE(back.isOk()) << back.status().toString();
  EXPECT_EQ(lineOf(*back), lineOf(record));
  EXPECT_EQ(back->microseconds(), 16);
  EXPECT_EQ(back->untunedMicroseconds(), 20);
  EXPECT_EQ(back->sizes, (std::vector<int64_t>{1, 128, 768, 768, 3072}));
}

TEST(Record, EveryChangedByteIsSeen) {
  std::string line = lineOf(recordOf());
  for (size_t i = 0; i < line.size(); ++i) {
    std::string changed = line;
    changed[i] ^= 1;
    Result<Record> record = tuning::recordOf(changed);
    ASSERT_FALSE(record.isOk()) << changed;
    EXPECT_EQ(record.status().id(), ErrorId::BadTuningStore);
  }
  for (size_t size = 0; size < line.size(); ++size) {
    EXPECT_FALSE(tuning::recordOf(line.substr(0, size)).isOk());
  }
}

/// With a checksum that fits, as whoever forges one would make it.
TEST(Record, ForgedOnesAreRefused) {
  std::vector<std::function<void(Record &)>> forgeries = {
      [](Record &r) { r.problem = "../../etc/passwd"; },
      [](Record &r) { r.form.clear(); },
      [](Record &r) { r.kernel = "gemm{tile=1}"; },
      [](Record &r) { r.untuned = "gemm{tile=1}"; },
      [](Record &r) { r.trials.clear(); },
      [](Record &r) { r.trials[0].microseconds = -1; },
      [](Record &r) { r.trials[1].microseconds = 1e300; },
      [](Record &r) { r.trials[0].predicted = -1; },
      [](Record &r) { r.trials.assign(100000, r.trials[0]); },
      [](Record &r) { r.sizes.assign(100000, 1); },
      [](Record &r) { r.sizes[0] = -4; },
      [](Record &r) { r.threads = 0; },
      [](Record &r) { r.device.clear(); },
      [](Record &r) { r.label = "\x1b[2J"; },
      [](Record &r) { r.label.assign(1 << 20, 'x'); },
      [](Record &r) { r.time = -1; },
  };
  for (size_t i = 0; i < forgeries.size(); ++i) {
    Record record = recordOf();
    forgeries[i](record);
    Result<Record> found = tuning::recordOf(lineOf(record));
    ASSERT_FALSE(found.isOk()) << i;
    EXPECT_EQ(found.status().id(), ErrorId::BadTuningStore);
  }
  std::string text = R"({"problem": 3})";
  EXPECT_FALSE(tuning::recordOf(hashText(text).hex() + " " + text).isOk());
  text = "[]";
  EXPECT_FALSE(tuning::recordOf(hashText(text).hex() + " " + text).isOk());
}

TEST(Store, IsEmptyWhereThereIsNone) {
  TemporaryFolder folder;
  Result<Records> records = readStore(folder.path("none"));
  ASSERT_TRUE(records.isOk());
  EXPECT_TRUE(records->records.empty());
}

TEST(Store, KeepsWhatIsAppended) {
  TemporaryFolder folder;
  std::vector<Record> records = {recordOf(), recordOf(kOtherSizes)};
  fill(folder.path("s"), records);
  Result<Records> found = readStore(folder.path("s"));
  ASSERT_TRUE(found.isOk());
  EXPECT_EQ(linesOf(found->records), linesOf(records));
  EXPECT_FALSE(found->isTorn);
}

/// As a kill leaves it, wherever in the write it came: what was whole is there, and is written
/// behind.
TEST(Store, DropsATornEnd) {
  TemporaryFolder folder;
  std::string whole = fill(folder.path("s"), {recordOf()});
  std::string both = fill(folder.path("s"), {recordOf(kOtherSizes)});
  for (size_t size = 0; size < both.size(); ++size) {
    write(folder.path("s/records"), both.substr(0, size));
    size_t records = size >= whole.size() ? 1 : 0;
    Result<Records> found = readStore(folder.path("s"));
    ASSERT_TRUE(found.isOk()) << size;
    EXPECT_EQ(found->records.size(), records) << size;
    EXPECT_TRUE(found->faults.empty());
    if (size % 7 == 0 || size + 1 == both.size()) {
      fill(folder.path("s"), {recordOf(kOtherForm)});
      found = readStore(folder.path("s"));
      ASSERT_TRUE(found.isOk());
      EXPECT_EQ(found->records.size(), records + 1) << size;
      EXPECT_FALSE(found->isTorn);
    }
  }
}

TEST(Store, NamesDamagedLinesAndKeepsTheOthers) {
  TemporaryFolder folder;
  std::string text =
      fill(folder.path("s"), {recordOf(), recordOf(kOtherSizes), recordOf(kOtherForm)});
  size_t second = text.find('\n', text.find('\n') + 1) + 1;
  text[second + 40] ^= 1;
  write(folder.path("s/records"), text);
  Result<Records> found = readStore(folder.path("s"));
  ASSERT_TRUE(found.isOk());
  EXPECT_EQ(found->records.size(), 2u);
  ASSERT_EQ(found->faults.size(), 1u);
  EXPECT_NE(found->faults[0].find("record 2"), std::string::npos) << found->faults[0];
}

TEST(Store, RefusesWhatIsNone) {
  TemporaryFolder folder;
  fill(folder.path("s"), {});
  write(folder.path("s/records"), "tenon tuning records 2\n");
  EXPECT_EQ(readStore(folder.path("s")).status().id(), ErrorId::BadTuningStore);
  EXPECT_EQ(StoreWriter::open(folder.path("s")).status().id(), ErrorId::BadTuningStore);
  write(folder.path("file"), "");
  EXPECT_EQ(readRecords(folder.path("file")).status().id(), ErrorId::BadTuningStore);
  std::filesystem::permissions(folder.path("s"), std::filesystem::perms::all);
  EXPECT_EQ(readStore(folder.path("s")).status().id(), ErrorId::FileWriteFailed);
}

TEST(Store, HasOneWriter) {
  TemporaryFolder folder;
  {
    Result<StoreWriter> first = StoreWriter::open(folder.path("s"));
    ASSERT_TRUE(first.isOk());
    Result<StoreWriter> second = StoreWriter::open(folder.path("s"));
    EXPECT_EQ(second.status().id(), ErrorId::TuningStoreBusy);
    EXPECT_NE(second.status().message().find("process "), std::string::npos);
  }
  EXPECT_TRUE(StoreWriter::open(folder.path("s")).isOk());
}

TEST(Store, IsReplaced) {
  TemporaryFolder folder;
  fill(folder.path("s"), {recordOf(), recordOf(kOtherSizes)});
  Result<StoreWriter> writer = StoreWriter::open(folder.path("s"));
  ASSERT_TRUE(writer.isOk());
  ASSERT_TRUE(writer->replace({recordOf()}).isOk());
  ASSERT_TRUE(writer->append(recordOf(kOtherForm)).isOk());
  EXPECT_EQ(linesOf(readStore(folder.path("s"))->records),
            linesOf({recordOf(), recordOf(kOtherForm)}));
}

/// In whichever order stores are joined.
TEST(Store, TheNewestCounts) {
  Record old = recordOf(), newer = recordOf(), other = recordOf(kOtherSizes);
  newer.time = 2000;
  newer.kernel = newer.untuned;
  std::vector<Record> all = {old, newer, other}, expected = newestOf(all);
  EXPECT_EQ(expected.size(), 2u);
  std::ranges::reverse(all);
  EXPECT_EQ(linesOf(newestOf(all)), linesOf(expected));
  TuningDatabase database({newer, old}, {device()});
  Problem problem = problemOf(kText);
  problem.families = "gemm 1";
  EXPECT_EQ(database.find(problem, std::vector<std::string>{"avx512"}).record->kernel,
            newer.untuned);
  EXPECT_EQ(TuningDatabase({newer, old}, {device()}).digest(),
            TuningDatabase({old, newer, old}, {device()}).digest());
  EXPECT_NE(TuningDatabase({newer, old}, {device()}).digest(),
            TuningDatabase({old}, {device()}).digest());
}

TEST(TuningDatabase, AnswersByTheWholeKey) {
  TuningDatabase database({recordOf()}, {device()});
  Problem problem = problemOf(kText);
  problem.families = "gemm 1";
  std::vector<std::string> levels = {"x86-64-v3", "avx512"};
  ASSERT_TRUE(database.find(problem, levels).record);

  struct Case {
    std::function<void(Record &)> change;
    const char *miss;
  };
  for (const Case &each : std::initializer_list<Case>{
           {[](Record &r) { r.device = "another"; }, "device 'another', here 'processor'"},
           {[](Record &r) { r.threads = 8; }, "threads '8', here '2'"},
           {[](Record &r) { r.level = "x86-64-v3"; }, "level 'x86-64-v3', here 'avx512'"},
           {[](Record &r) { r.libraries = "blas 1"; }, "libraries 'blas 1', here ''"},
           {[](Record &r) { r.families = "gemm 2"; }, "families 'gemm 2', here 'gemm 1'"}}) {
    Record record = recordOf();
    each.change(record);
    TuningDatabase::Answer answer = TuningDatabase({record}, {device()}).find(problem, levels);
    EXPECT_FALSE(answer.record);
    EXPECT_NE(answer.miss.find(each.miss), std::string::npos) << answer.miss;
  }
  EXPECT_NE(database.find(problem, std::vector<std::string>{"amx"}).miss.find("cannot run any"),
            std::string::npos);
  EXPECT_EQ(database.find(problem, std::vector<std::string>{"x86-64-v3"}).record, nullptr);
}

/// A store may hold records of a CPU and of a GPU, of one text too.
TEST(TuningDatabase, AsksTheDeviceThatRunsTheLevel) {
  Device gpu = {"GPU, 132 multiprocessors", 1, "cuBLASLt 13.1.0", {"sm_90", "sm_90a"}};
  Record onGpu = recordOf();
  onGpu.device = gpu.name;
  onGpu.threads = 1;
  onGpu.level = "sm_90a";
  onGpu.libraries = gpu.libraries;
  std::vector<Record> records = {recordOf(), onGpu};
  TuningDatabase both(records, {device(), gpu});
  Problem problem = problemOf(kText);
  problem.families = "gemm 1";
  std::vector<std::string> cpuLevels = {"avx512"}, gpuLevels = {"sm_90a"};
  ASSERT_TRUE(both.find(problem, cpuLevels).record);
  EXPECT_EQ(both.find(problem, cpuLevels).record->device, "processor");
  ASSERT_TRUE(both.find(problem, gpuLevels).record);
  EXPECT_EQ(both.find(problem, gpuLevels).record->device, gpu.name);
  EXPECT_TRUE(both.nearest(problemOf(kOtherSizes), "sm_90a"));
  TuningDatabase::Answer ofGpuAlone =
      TuningDatabase({onGpu}, {device(), gpu}).find(problem, cpuLevels);
  EXPECT_FALSE(ofGpuAlone.record);
  EXPECT_FALSE(ofGpuAlone.isStale) << ofGpuAlone.miss;
  TuningDatabase withoutGpu(records, {device()});
  EXPECT_NE(withoutGpu.find(problem, gpuLevels).miss.find("cannot run any"), std::string::npos);
  EXPECT_FALSE(withoutGpu.nearest(problemOf(kOtherSizes), "sm_90a"));
  EXPECT_NE(both.digest(), withoutGpu.digest());
  gpu.libraries = "cuBLASLt 13.2.0";
  TuningDatabase::Answer answer = TuningDatabase(records, {device(), gpu}).find(problem, gpuLevels);
  EXPECT_NE(answer.miss.find("libraries 'cuBLASLt 13.1.0', here 'cuBLASLt 13.2.0'"),
            std::string::npos)
      << answer.miss;
}

TEST(TuningDatabase, KnowsTheNearestSizes) {
  Record far = recordOf("func.func @kernel(%0: tensor<1x2048x768xf32>, %1: tensor<768x3072xf32>)");
  far.label = "far";
  TuningDatabase database({far, recordOf(), recordOf(kOtherForm)}, {device()});
  Problem problem = problemOf(kOtherSizes);
  const Record *nearest = database.nearest(problem, "avx512");
  ASSERT_TRUE(nearest);
  EXPECT_EQ(nearest->label, "dense");
  EXPECT_FALSE(database.nearest(problem, "x86-64-v3"));
  std::string miss = database.find(problem, std::vector<std::string>{"avx512"}).miss;
  EXPECT_NE(miss.find("the nearest has 1 128 768"), std::string::npos) << miss;
  EXPECT_EQ(database.find(problemOf("func.func @other()"), std::vector<std::string>{"avx512"}).miss,
            "no record of such a region");
}

} // namespace
