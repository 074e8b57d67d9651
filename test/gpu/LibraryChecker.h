// One library call against the host, and its time with cold weights; prints a line for each. Relies
// on HostCall for what the call means and on GraphTimer for the device.

#pragma once

#include "GraphTimer.h"
#include "HostCall.h"

#include <chrono>
#include <cmath>
#include <cstdio>

namespace tenon::gpu {

using library::HostBuffer;
using library::Plan;

/// Largest difference allowed, relative to the largest element of the result.
inline double toleranceOf(DType type, bool allowTf32) {
  switch (type) {
  case DType::F64:
    return 1e-13;
  case DType::F16:
    return 2e-3;
  case DType::BF16:
    return 1.6e-2;
  default:
    return allowTf32 ? 2e-3 : 4e-6;
  }
}

template <typename Call> bool allowsTf32(const Call &call) { return call.allowTf32; }
inline bool allowsTf32(const engine::AttentionCall &) { return false; }

/// Cold enough: more than twice the second-level cache of the largest part.
inline constexpr size_t kColdBytes = 160 << 20;
inline constexpr unsigned kMaxRounds = 64;

class Checker {
public:
  Checker(GraphTimer &timer, const library::Options &options)
      : timer(timer), options(options), handles(library::makeHandles(options)),
        later(library::makeHandles(options)) {}

  template <typename Call>
  void check(const char *name, const Call &call, const std::vector<int64_t> &sizes) {
    report(name, nameOf(call.type), compare(call, sizes));
    timer.release();
  }

  template <typename Call>
  void time(const char *name, const Call &call, const std::vector<int64_t> &sizes, double work) {
    Status status = measure(name, call, sizes, work);
    if (!status) {
      report(name, nameOf(call.type), status);
    }
    timer.release();
  }

  int failures() const { return failed; }

private:
  void report(const char *name, std::string_view type, Status status) {
    if (status) {
      return;
    }
    ++failed;
    std::printf("FAIL %-28s %-4.*s %s\n", name, static_cast<int>(type.size()), type.data(),
                status.toString().c_str());
  }

  template <typename Call> Status compare(const Call &call, const std::vector<int64_t> &sizes);
  template <typename Call>
  Status compareOnce(const Call &call, Plan &plan, std::span<void *const> pointers,
                     const HostBuffer &wanted);
  template <typename Call>
  Status measure(const char *name, const Call &call, const std::vector<int64_t> &sizes,
                 double work);
  template <typename Call>
  Result<double> secondsOf(const Call &call, const std::vector<int64_t> &sizes,
                           library::Handles &with, std::string &choice);

  GraphTimer &timer;
  library::Options options;
  std::unique_ptr<library::Handles> handles;
  std::unique_ptr<library::Handles> later; ///< finds what `handles` kept
  int failed = 0;
};

template <typename Call>
Status Checker::compare(const Call &call, const std::vector<int64_t> &sizes) {
  std::vector<HostBuffer> buffers;
  std::vector<void *> pointers;
  uint64_t seed = 7;
  for (size_t elements : library::bufferElements(call, sizes)) {
    HostBuffer values(elements);
    for (double &value : values) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      value = static_cast<double>(seed >> 40) / (1 << 23) - 1;
    }
    std::vector<std::byte> bytes = library::encode(call.type, values);
    TENON_ASSIGN(void *memory, timer.allocate(bytes.size()));
    TENON_TRY(timer.upload(memory, bytes));
    pointers.push_back(memory);
    buffers.push_back(library::decode(call.type, bytes));
  }
  library::runOnHost(call, sizes, buffers);
  for (library::Handles *with : {handles.get(), later.get()}) {
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    TENON_ASSIGN(std::unique_ptr<Plan> plan, with->prepare(library::bytesOf(call), sizes));
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("  prepared in %7.2f ms", seconds.count() * 1e3);
    TENON_TRY(compareOnce(call, *plan, pointers, buffers.back()));
  }
  return Status::ok();
}

template <typename Call>
Status Checker::compareOnce(const Call &call, Plan &plan, std::span<void *const> pointers,
                            const HostBuffer &wanted) {
  TENON_ASSIGN(void *workspace, timer.allocate(plan.workspaceBytes()));
  TENON_TRY(plan.run(pointers, workspace, timer.stream()));
  std::vector<std::byte> bytes(wanted.size() * bitWidth(call.type) / 8);
  TENON_TRY(timer.download(bytes, pointers.back()));
  HostBuffer got = library::decode(call.type, bytes);
  double largest = 0;
  double error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::fabs(wanted[i]));
    double difference = std::fabs(got[i] - wanted[i]);
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
  }
  error /= std::max(largest, 1e-30);
  std::printf("  error %.2e  workspace %8zu  %s\n", error, plan.workspaceBytes(),
              plan.describe().c_str());
  if (!(error <= toleranceOf(call.type, allowsTf32(call)))) {
    return Status::error(ErrorId::VerifyFailed, "the result is wrong");
  }
  return Status::ok();
}

template <typename Call>
Result<double> Checker::secondsOf(const Call &call, const std::vector<int64_t> &sizes,
                                  library::Handles &with, std::string &choice) {
  TENON_ASSIGN(std::unique_ptr<Plan> plan, with.prepare(library::bytesOf(call), sizes));
  choice = plan->describe();
  std::vector<size_t> elements = library::bufferElements(call, sizes);
  size_t width = bitWidth(call.type) / 8;
  size_t weightBytes = (elements[1] * width + 255) / 256 * 256;
  unsigned rounds =
      static_cast<unsigned>(std::min<size_t>(kColdBytes / weightBytes + 1, kMaxRounds));
  TENON_ASSIGN(void *weights, timer.allocate(weightBytes * rounds));
  TENON_ASSIGN(void *workspace, timer.allocate(plan->workspaceBytes()));
  std::vector<void *> pointers;
  for (size_t count : elements) {
    TENON_ASSIGN(void *memory, timer.allocate(count * width));
    pointers.push_back(memory);
  }
  return timer.seconds(rounds, [&](void *stream, unsigned round) {
    pointers[1] = static_cast<char *>(weights) + round * weightBytes;
    return plan->run(pointers, workspace, stream);
  });
}

template <typename Call>
Status Checker::measure(const char *name, const Call &call, const std::vector<int64_t> &sizes,
                        double work) {
  std::string first;
  TENON_ASSIGN(double seconds, secondsOf(call, sizes, *handles, first));
  timer.release();
  library::Options measured = options;
  measured.meter = &timer;
  std::unique_ptr<library::Handles> measuring = library::makeHandles(measured);
  std::string best;
  TENON_ASSIGN(double bestSeconds, secondsOf(call, sizes, *measuring, best));
  std::printf("%-34s %-4.*s %9.2f us %7.1f TF/s, measured %9.2f us\n    %s\n    %s\n", name,
              static_cast<int>(nameOf(call.type).size()), nameOf(call.type).data(), seconds * 1e6,
              work / seconds / 1e12, bestSeconds * 1e6, first.c_str(), best.c_str());
  return Status::ok();
}

} // namespace tenon::gpu
