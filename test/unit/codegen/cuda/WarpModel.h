// What one block of a GPU does, in terms of fibers: a thread of the GPU is a fiber, and
// instructions at which threads meet switch between them. Relies on ucontext.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <string>

namespace tenon::codegen::cuda {

/// Runs one block: `body` once a thread. Returns what went wrong, or nothing.
std::string runBlock(uint32_t block, uint32_t blocks, uint32_t threads, bool reversed,
                     llvm::function_ref<void()> body);

/// One intrinsic call of the current thread; `arguments` and `result` are laid out as structs.
/// Notes a fault of the block if the name is not known.
void emulateIntrinsic(const std::string &name, void *result, const void *arguments);

} // namespace tenon::codegen::cuda
