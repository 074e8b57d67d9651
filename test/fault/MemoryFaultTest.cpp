// The public interface when memory, descriptors or address space run out at every possible point:
// each call ends with a status, and nothing leaks or breaks for the calls after it.

#include "tenon/tenon.h"
#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/resource.h>
#include <unistd.h>

namespace {
/// Allocations until one fails; negative for never. Only the thread of the test allocates.
int64_t allocationsLeft = -1;
} // namespace

// Replaces the allocator of the shared library too, which imports it.
void *operator new(size_t size) {
  if (allocationsLeft == 0) {
    throw std::bad_alloc();
  }
  allocationsLeft -= allocationsLeft > 0 ? 1 : 0;
  if (void *memory = std::malloc(size)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace tenon {
namespace {

struct Outcome {
  tenon_code code = TENON_OK;
  std::string id;
  float result = 0;
};

/// Opens, creates a session and runs on ones; gives the first error or the first output.
Outcome openAndRun(const char *path, uint32_t threads) {
  tenon_engine *engine = nullptr;
  tenon_session *session = nullptr;
  tenon_session_options options = {};
  options.struct_size = sizeof(options);
  options.threads = threads;
  tenon_status *status = tenon_engine_open(path, nullptr, &engine);
  if (!status) {
    status = tenon_session_create(engine, &options, &session);
  }
  int64_t dims[] = {4, 8};
  float data[32];
  std::fill(std::begin(data), std::end(data), 1.0f);
  float result[12] = {};
  tenon_input input = {data, dims, 2};
  tenon_output output = {result, sizeof(result)};
  if (!status) {
    status = tenon_session_run(session, &input, 1, &output, 1);
  }
  int64_t left = allocationsLeft;
  allocationsLeft = -1;
  Outcome outcome = {tenon_status_code(status), tenon_status_id(status), result[0]};
  allocationsLeft = left;
  tenon_status_destroy(status);
  tenon_session_destroy(session);
  tenon_engine_destroy(engine);
  return outcome;
}

class MemoryFault : public testing::Test {
protected:
  MemoryFault() {
    test::TestEngine engine(test::dynamicPlan(), test::productWeights());
    path = engine.writeTemporary("memory-fault.tenon");
    expected = test::expectedProduct(std::vector<float>(8, 1.0f))[0];
    // Once without faults: what is made once per process is not part of the test.
    EXPECT_EQ(expected, openAndRun(path.c_str(), 2).result);
  }

  std::string path;
  float expected = 0;
};

TEST_F(MemoryFault, EveryAllocationMayFail) {
  int64_t failures = 0;
  for (int64_t budget = 0;; ++budget) {
    ASSERT_LT(budget, 10000);
    allocationsLeft = budget;
    Outcome outcome = openAndRun(path.c_str(), 2);
    allocationsLeft = -1;
    if (outcome.code == TENON_OK) {
      EXPECT_EQ(expected, outcome.result);
      break;
    }
    ++failures;
    ASSERT_EQ(TENON_EXHAUSTED, outcome.code) << budget << ": " << outcome.id;
    ASSERT_EQ("TN0901", outcome.id) << budget;
  }
  EXPECT_GT(failures, 50) << "the allocator of the library is the one that fails";
  EXPECT_EQ(expected, openAndRun(path.c_str(), 2).result);
}

TEST_F(MemoryFault, DescriptorsMayRunOut) {
  // The lowest free descriptor tells how many are in use.
  int lowest = ::open("/dev/null", O_RDONLY);
  ::close(lowest);
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  int failures = 0;
  for (int room = 0; room < 4; ++room) {
    rlimit tight = {static_cast<rlim_t>(lowest + room), before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &tight);
    Outcome outcome = openAndRun(path.c_str(), 1);
    setrlimit(RLIMIT_NOFILE, &before);
    failures += outcome.code != TENON_OK ? 1 : 0;
    EXPECT_TRUE(outcome.code == TENON_OK ? outcome.result == expected : !outcome.id.empty());
  }
  EXPECT_GT(failures, 0);
  EXPECT_LT(failures, 4);
}

#if !__has_feature(address_sanitizer)
TEST_F(MemoryFault, AddressSpaceMayRunOut) {
  rlimit before;
  getrlimit(RLIMIT_AS, &before);
  rlimit tight = {rlim_t(64) << 20, before.rlim_max};
  setrlimit(RLIMIT_AS, &tight);
  Outcome outcome = openAndRun(path.c_str(), 64); // stacks of 8 MiB
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(TENON_EXHAUSTED, outcome.code) << outcome.id;
  EXPECT_EQ(expected, openAndRun(path.c_str(), 64).result);
}
#endif

} // namespace
} // namespace tenon
