// Memory and placement as JSON: every buffer with its size, life and place, every instruction with
// its kernel. Relies on llvm/Support/JSON for text that is the same for equal plans.
#include "compiler/plan/PlanRecords.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon::plan {
namespace {

constexpr llvm::StringLiteral kSpaceNames[] = {"const", "arena", "state", "input", "output"};

std::string format(const engine::Plan &plan, engine::ExprId id) {
  std::vector<std::string> names;
  for (const engine::Symbol &symbol : plan.symbols) {
    names.push_back(symbol.name);
  }
  return plan.exprs.format(id, names);
}

std::string toText(llvm::json::Object object) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::json::Value(std::move(object));
  return text;
}

} // namespace

std::string memoryRecord(const engine::Plan &plan, const ArenaSummary &arena,
                         const PlanNotes &notes, llvm::ArrayRef<engine::Weight> weights,
                         llvm::ArrayRef<WeightForm> forms) {
  llvm::json::Array ways;
  for (const WeightForm &form : forms) {
    ways.push_back(llvm::json::Object{{"form", form.name},
                                      {"arrays", form.arrays},
                                      {"bytes", form.bytes},
                                      {"source_bytes", form.sourceBytes}});
  }
  llvm::json::Array buffers;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const engine::Buffer &buffer = plan.buffers[i];
    llvm::json::Object entry{{"buffer", static_cast<int64_t>(i)},
                             {"value", notes.buffers[i].value},
                             {"space", kSpaceNames[static_cast<size_t>(buffer.space)]},
                             {"bytes", format(plan, buffer.size)},
                             {"in_place", llvm::json::Array(notes.buffers[i].inPlace)}};
    if (buffer.space == engine::Space::Arena) {
      entry["first"] = buffer.firstUse;
      entry["last"] = buffer.lastUse;
      entry["bytes_at_smallest"] = arena.sizes[i];
      entry["offset_at_smallest"] = arena.offsets[i];
    }
    buffers.push_back(std::move(entry));
  }
  llvm::json::Object smallest;
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    smallest[plan.symbols[i].name] = arena.symbols[i];
  }
  int64_t weightBytes = 0;
  for (const engine::Weight &weight : weights) {
    weightBytes += static_cast<int64_t>(weight.bytes);
  }
  return toText(
      llvm::json::Object{{"schema", 1},
                         {"planned", arena.isStatic ? "compile time" : "when shapes are known"},
                         {"smallest", std::move(smallest)},
                         {"arena_bytes", arena.bytes},
                         {"arena_lower_bound_bytes", arena.lowerBound},
                         {"weights_bytes", weightBytes},
                         {"weights", std::move(ways)},
                         {"buffers", std::move(buffers)}});
}

std::string placementRecord(const engine::Variant &variant, const PlanNotes &notes,
                            llvm::ArrayRef<engine::Weight> weights) {
  const engine::Plan &plan = variant.plan;
  llvm::json::Array instructions;
  for (size_t i = 0; i < notes.strategies.size(); ++i) {
    const engine::Instruction &instruction = plan.instructions[i];
    int64_t weightBytes = 0;
    for (uint32_t buffer : instruction.buffers) {
      uint32_t weight = plan.buffers[buffer].weight;
      weightBytes += weight == engine::kNone ? 0 : static_cast<int64_t>(weights[weight].bytes);
    }
    llvm::json::Object entry{{"instruction", static_cast<int64_t>(i)},
                             {"label", instruction.label},
                             {"kind", engine::nameOf(instruction.kind)},
                             {"device", instruction.device == engine::kGpu ? "gpu" : "cpu"},
                             {"strategy", notes.strategies[i]},
                             {"weights_bytes", weightBytes}};
    if (notes.regions[i] >= 0) {
      entry["region"] = notes.regions[i];
    }
    for (auto [key, id] : {std::pair("flops", instruction.flops),
                           std::pair("bytes_moved", instruction.bytesMoved)}) {
      if (id != engine::kNone) {
        entry[key] = format(plan, id);
      }
    }
    if (instruction.queue != 0) {
      entry["queue"] = instruction.queue;
    }
    if (instruction.kind == engine::InstructionKind::Collective) {
      entry["exchange"] = engine::nameOf(instruction.collective);
    }
    if (plan.stages > 1) {
      llvm::json::Array stages;
      for (uint32_t stage = 0; stage < plan.stages; ++stage) {
        if (instruction.runsIn(stage)) {
          stages.push_back(stage);
        }
      }
      entry["stages"] = std::move(stages);
    }
    if (instruction.kind == engine::InstructionKind::Launch) {
      entry["kernel"] = variant.kernels[instruction.kernel];
      entry["grid"] = format(plan, instruction.grid);
      if (instruction.threads != 0) {
        entry["threads"] = instruction.threads;
      }
    }
    instructions.push_back(std::move(entry));
  }
  return toText(llvm::json::Object{
      {"schema", 1}, {"level", variant.level}, {"instructions", std::move(instructions)}});
}

} // namespace tenon::plan
