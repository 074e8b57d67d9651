// What a store knows of the kernels of one device, as a compilation asks for it; and why it knows
// nothing.
#pragma once

#include "compiler/tuning/Record.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tuning {

/// What a measurement must have in common with this machine to say something about it.
struct Device {
  std::string name;                ///< processor and caches, or GPU, memory and driver
  uint64_t threads = 1;            ///< of a CPU
  std::string libraries;           ///< as Record's
  std::vector<std::string> levels; ///< of code that it runs, worst first
};

/// A region's meaning, whatever names and place it has in a model.
struct Problem {
  std::string hash;           ///< of the region's text
  std::string form;           ///< hash of the text without the sizes of its tensors
  std::vector<int64_t> sizes; ///< these, in order
  /// The families that compute it, each with its revision: "conv_grouped 1, gemm_packed 1".
  std::string families;
};

/// `families` may be filled in later. `text` is codegen::RegionSource::text without a kernel.
Problem problemOf(std::string_view text);

class TuningDatabase {
public:
  /// `ownDevices` have no level in common: those of a CPU and of a GPU.
  TuningDatabase(const std::vector<Record> &records, std::vector<Device> ownDevices);

  struct Answer {
    const Record *record = nullptr;
    std::string miss;     ///< which part of the key differs; empty with a record
    bool isStale = false; ///< measured, but for another machine, level or version of the kernels
  };
  /// For code of one of `levels`, which share their kernels: by the best one that the device runs.
  Answer find(const Problem &problem, std::span<const std::string> levels) const;
  /// Whether there is a record of it at all; without, no answer has one.
  bool hasProblem(const Problem &problem) const;
  /// Of the same form on this device, at sizes as near as possible; null for none.
  const Record *nearest(const Problem &problem, std::string_view level) const;

  /// The best of `levels` that a device of this machine runs; empty for none.
  std::string levelOf(std::span<const std::string> levels) const;
  /// Of all that may be answered: equal ones give equal engines.
  std::string digest() const;

private:
  /// That runs the level.
  const Device *deviceOf(std::string_view level) const;
  std::string missOf(const Problem &problem, const std::string &level) const;

  std::vector<Device> devices;
  std::multimap<std::string, Record> records; ///< by problem
};

} // namespace tenon::tuning
