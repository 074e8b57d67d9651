// A thread for each library: it opens it, waits for the context, and prepares one call.

#include "runtime/device/cuda/EarlyLibraries.h"

#include "engine/CudaArch.h"
#include "runtime/library/Loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <system_error>

namespace tenon::runtime::cuda {
namespace {

bool calls(const engine::EngineFile &file, const library::LibraryName &library) {
  return std::ranges::any_of(file.variants(), [&](const engine::Variant &variant) {
    return engine::isCudaLevel(variant.level) &&
           std::ranges::any_of(variant.plan.instructions,
                               [&](const engine::Instruction &instruction) {
                                 return !instruction.call.empty() &&
                                        library::libraryOf(instruction.call) == &library;
                               });
  });
}

} // namespace

EarlyLibraries::EarlyLibraries(const engine::EngineFile &file, const std::string &driverLibrary) {
  for (const library::LibraryName *library : {&library::kCublasLt, &library::kCudnn}) {
    if (calls(file, *library)) {
      start(*library, driverLibrary);
    }
  }
}

EarlyLibraries::~EarlyLibraries() { finish(); }

void EarlyLibraries::start(const library::LibraryName &library, const std::string &driverLibrary) {
  std::unique_ptr<Opening> opening = std::make_unique<Opening>();
  opening->library = &library;
  std::future<FirstCall> next = opening->first.get_future();
  try {
    opening->thread =
        std::thread([own = opening.get(), driverLibrary, next = std::move(next)]() mutable {
          run(*own, std::move(next), driverLibrary);
        });
  } catch (const std::system_error &) {
    return; // without a thread it is opened when it is called
  }
  openings.push_back(std::move(opening));
}

void EarlyLibraries::run(Opening &opening, std::future<FirstCall> next,
                         const std::string &driverLibrary) {
  // Without a driver nothing will be called.
  if (dlopen(driverLibrary.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    (void)library::openLibrary(*opening.library, "").isOk();
  }
  FirstCall first = next.get();
  if (first.device && !first.call.empty()) {
    ContextScope scope(*first.device);
    opening.handles = library::makeHandles(first.options);
    (void)opening.handles->prepare(first.call, first.sizes).isOk();
  }
}

EarlyLibraries::FirstCall EarlyLibraries::firstCallOf(const library::LibraryName &library,
                                                      const engine::Plan &plan) {
  FirstCall first;
  std::vector<int64_t> symbols;
  for (const engine::Symbol &symbol : plan.symbols) {
    symbols.push_back(symbol.min);
  }
  for (const engine::Instruction &instruction : plan.instructions) {
    if (instruction.call.empty() || library::libraryOf(instruction.call) != &library) {
      continue;
    }
    for (engine::ExprId size : instruction.sizes) {
      first.sizes.push_back(engine::evaluate(plan.exprs.program(size), symbols).value_or(0));
    }
    first.call = instruction.call;
    // Dims may be too small for any algorithm, which then is found out.
    return first;
  }
  return first;
}

void EarlyLibraries::begin(std::shared_ptr<const CudaDevice> device, const engine::Plan &plan,
                           const library::Options &options) {
  for (std::unique_ptr<Opening> &opening : openings) {
    FirstCall first = firstCallOf(*opening->library, plan);
    first.device = device;
    first.options = options;
    opening->isBegun = true;
    opening->first.set_value(std::move(first));
  }
}

void EarlyLibraries::finish() {
  for (std::unique_ptr<Opening> &opening : openings) {
    if (!opening->isBegun) {
      opening->isBegun = true;
      opening->first.set_value(FirstCall());
    }
    if (opening->thread.joinable()) {
      opening->thread.join();
    }
  }
}

} // namespace tenon::runtime::cuda
