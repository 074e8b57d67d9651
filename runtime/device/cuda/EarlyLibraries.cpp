// A thread for each library: it opens it, waits for the context, and prepares one call.

#include "runtime/device/cuda/EarlyLibraries.h"

#include "runtime/library/Loader.h"

#include <algorithm>
#include <system_error>

namespace tenon::runtime::cuda {
namespace {

bool calls(const engine::EngineFile &file, const library::LibraryName &library) {
  return std::ranges::any_of(file.variants(), [&](const engine::Variant &variant) {
    return variant.architecture == engine::Architecture::Nvptx &&
           std::ranges::any_of(variant.plan.instructions,
                               [&](const engine::Instruction &instruction) {
                                 return !instruction.call.empty() &&
                                        library::libraryOf(instruction.call) == &library;
                               });
  });
}

/// Without a thread a library is opened, and made ready, when it is called.
template <typename Work> void start(std::thread &thread, Work work) {
  try {
    thread = std::thread(std::move(work));
  } catch (const std::system_error &) {
  }
}

} // namespace

EarlyLibraries::EarlyLibraries(const engine::EngineFile &file) {
  for (const library::LibraryName *library : {&library::kCublasLt, &library::kCudnn}) {
    if (calls(file, *library)) {
      openings.push_back(std::make_unique<Opening>());
      openings.back()->library = library;
    }
  }
}

void EarlyLibraries::open() {
  for (std::unique_ptr<Opening> &opening : openings) {
    start(opening->opening, [library = opening->library] {
      Result<library::OpenLibrary> opened = library::openLibrary(*library, "");
      if (opened) {
        library::openParts(*library, *opened);
      }
    });
  }
}

void EarlyLibraries::findFirstCall(Opening &own, const engine::Plan &plan) {
  std::vector<int64_t> symbols;
  for (const engine::Symbol &symbol : plan.symbols) {
    symbols.push_back(symbol.min);
  }
  for (const engine::Instruction &instruction : plan.instructions) {
    if (instruction.call.empty() || library::libraryOf(instruction.call) != own.library) {
      continue;
    }
    for (engine::ExprId size : instruction.sizes) {
      own.sizes.push_back(engine::evaluate(plan.exprs.program(size), symbols).value_or(0));
    }
    // Dims may be too small for any algorithm, which then is found out.
    own.call = instruction.call;
    return;
  }
}

void EarlyLibraries::begin(const CudaDevice &device, const engine::Plan &plan,
                           const library::Options &options) {
  for (std::unique_ptr<Opening> &opening : openings) {
    findFirstCall(*opening, plan);
    if (opening->call.empty()) {
      continue;
    }
    opening->handles = library::makeHandles(options);
    start(opening->preparing, [own = opening.get(), &device] {
      if (own->opening.joinable()) {
        own->opening.join();
      }
      ContextScope scope(device);
      (void)own->handles->prepare(own->call, own->sizes).isOk();
    });
  }
}

void EarlyLibraries::wait(Opening &opening) {
  std::lock_guard<std::mutex> lock(opening.waiting);
  for (std::thread *thread : {&opening.preparing, &opening.opening}) {
    if (thread->joinable()) {
      thread->join();
    }
  }
}

void EarlyLibraries::wait(const library::LibraryName *library) const {
  for (const std::unique_ptr<Opening> &opening : openings) {
    if (opening->library == library) {
      wait(*opening);
    }
  }
}

EarlyLibraries::~EarlyLibraries() {
  for (const std::unique_ptr<Opening> &opening : openings) {
    wait(*opening);
  }
}

} // namespace tenon::runtime::cuda
