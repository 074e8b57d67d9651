// A stand-in for NVIDIA's driver library on host memory, for machines without a GPU: what tests may
// ask of it and tell it. It does what the driver documents for the functions that Tenon uses, and
// fails where a test says so or where a real driver would.

#pragma once

#include <map>
#include <string>
#include <vector>

namespace tenon::test {

/// A node of a graph, by its place in the capture.
struct FakeNode {
  std::string kernel; ///< empty when it is none
  std::vector<size_t> after;
  bool isEarly = false; ///< may start before the one in front of it has ended
};

class FakeCuda {
public:
  virtual ~FakeCuda() = default;
  /// A new driver: nothing counted, nothing failing. What is allocated stays.
  virtual void reset() = 0;
  /// Makes `function` ("cuMemAlloc_v2") return `code` once, after `calls` more successful calls.
  virtual void fail(const std::string &function, int code, int calls = 0) = 0;
  virtual int calls(const std::string &function) const = 0;
  virtual size_t deviceBytes() const = 0; ///< allocated now
  virtual size_t pinnedBytes() const = 0;
  virtual int contextsRetained() const = 0;
  /// Launches that may start before the kernel in front of them has ended.
  virtual int earlyLaunches() const = 0;
  /// Launches whose blocks all run at the same time.
  virtual int cooperativeLaunches() const = 0;
  virtual int compilations() const = 0; ///< of PTX
  /// The graph captured last. Graphs run in the last order that their edges allow.
  virtual std::vector<FakeNode> lastGraph() const = 0;

  int driverVersion = 13000;
  int devices = 1;
  std::string otherName = ""; ///< of all devices but the first, when set
  bool reachesPeers = true;   ///< a device another one's memory
  int capability = 90;
  std::string jitLog = ""; ///< when set, the compiler fails with it
  size_t memoryLimit = size_t(1) << 30;
};

} // namespace tenon::test

extern "C" tenon::test::FakeCuda *tenonFakeCuda();
