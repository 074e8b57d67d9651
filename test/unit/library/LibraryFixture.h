// Runs descriptors through runtime/library over the stand-ins and compares with the host. Relies on
// the stand-ins lying in TENON_DOUBLES_FOLDER under the libraries' own names.

#pragma once

#include "Doubles.h"
#include "HostCall.h"
#include "runtime/library/Library.h"
#include "gtest/gtest.h"

#include <cmath>
#include <dlfcn.h>
#include <filesystem>

namespace tenon::library {

struct LibraryTest : testing::Test {
  LibraryTest() { options.folder = TENON_DOUBLES_FOLDER; }

  /// The state of a stand-in; it is the same library that Handles opens.
  template <typename State> State *stateOf(const char *file) {
    void *handle = dlopen((options.folder + "/" + file).c_str(), RTLD_NOW);
    return static_cast<State *>(dlsym(handle, "tenonDoubleState"));
  }

  /// `told`, if given, is what the library is told instead of `call`.
  template <typename Call>
  testing::AssertionResult matchesHost(const Call &call, const std::vector<int64_t> &sizes,
                                       const Call *told = nullptr) {
    std::vector<HostBuffer> buffers;
    std::vector<std::vector<std::byte>> stored;
    std::vector<void *> pointers;
    uint64_t seed = 1;
    for (size_t elements : bufferElements(call, sizes)) {
      HostBuffer values(elements);
      for (double &value : values) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        value = static_cast<double>(seed >> 60) / 8 - 1; // exact in every type
      }
      stored.push_back(encode(bufferType(call, buffers.size()), values));
      buffers.push_back(std::move(values));
    }
    for (std::vector<std::byte> &bytes : stored) {
      pointers.push_back(bytes.data());
    }
    std::unique_ptr<Handles> handles = makeHandles(options);
    Result<std::unique_ptr<Plan>> plan = handles->prepare(bytesOf(told ? *told : call), sizes);
    if (!plan) {
      return testing::AssertionFailure() << plan.status().toString();
    }
    Status status = (*plan)->run(pointers, nullptr, this);
    if (!status) {
      return testing::AssertionFailure() << status.toString();
    }
    runOnHost(call, sizes, buffers);
    HostBuffer got = decode(call.type, stored.back());
    HostBuffer wanted = decode(call.type, encode(call.type, buffers.back()));
    for (size_t i = 0; i < got.size(); ++i) {
      if (!(std::fabs(got[i] - wanted[i]) <= tolerance * std::fabs(wanted[i]))) {
        return testing::AssertionFailure()
               << "element " << i << " is " << got[i] << " instead of " << wanted[i];
      }
    }
    return testing::AssertionSuccess();
  }

  /// An empty folder for kept plans, gone with the test.
  void useCache() {
    cache = std::filesystem::path(testing::TempDir()) / "tenon-library-cache";
    std::filesystem::remove_all(cache);
    options.cacheFolder = cache.string();
  }
  ~LibraryTest() override {
    if (!cache.empty()) {
      std::filesystem::remove_all(cache);
    }
  }

  std::filesystem::path cache;
  Options options;
  double tolerance = 1e-15; ///< the sums are exact; activations differ in their last bit
};

} // namespace tenon::library
