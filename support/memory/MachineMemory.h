// The memory of this machine: what a process may use of it, and what is free.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

/// Bytes that this process may use: those of the machine, or fewer where a control group says so.
/// The files of the kernel are looked for behind `root`, which only tests give.
uint64_t usableMemory(const std::string &root = "");

/// Bytes that it may still allocate: what the kernel has available, or fewer where the limit of a
/// control group is nearer. What files have in the page cache counts as free.
uint64_t freeMemory(const std::string &root = "");

} // namespace tenon
