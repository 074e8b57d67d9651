// Plan to FlatBuffer and back, field by field; relies on the generated code's verifier for bounds.

#include "engine/codec/PlanCodec.h"

#include "engine/codec/FlatRead.h"
#include "engine/plan_generated.h"

#include <cstring>

namespace tenon::engine {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <typename T> using FlatVector = flatbuffers::Vector<T>;

Offset<fb::Port> encodePort(FlatBufferBuilder &builder, const Port &port) {
  return fb::CreatePort(builder, builder.CreateString(port.name), static_cast<uint8_t>(port.dtype),
                        builder.CreateVector(port.dims), port.buffer);
}

Offset<FlatVector<Offset<fb::Port>>> encodePorts(FlatBufferBuilder &builder,
                                                 const std::vector<Port> &ports) {
  std::vector<Offset<fb::Port>> offsets;
  for (const Port &port : ports) {
    offsets.push_back(encodePort(builder, port));
  }
  return builder.CreateVector(offsets);
}

/// None are stored as no vector.
Offset<FlatVector<Offset<fb::TensorMap>>> encodeTensorMaps(FlatBufferBuilder &builder,
                                                           const Instruction &in) {
  std::vector<Offset<fb::TensorMap>> offsets;
  for (const TensorMap &map : in.tensorMaps) {
    offsets.push_back(fb::CreateTensorMap(builder, map.buffer, map.elementBytes, map.rows,
                                          map.columns, map.rowBytes, map.boxRows, map.boxColumns));
  }
  return offsets.empty() ? Offset<FlatVector<Offset<fb::TensorMap>>>()
                         : builder.CreateVector(offsets);
}

Offset<fb::Instruction> encodeInstruction(FlatBufferBuilder &builder, const Instruction &in) {
  // Statements, not arguments: the order in which these are stored must not be the compiler's.
  Offset<FlatVector<uint32_t>> buffers = builder.CreateVector(in.buffers);
  Offset<FlatVector<uint32_t>> sizes = builder.CreateVector(in.sizes);
  Offset<flatbuffers::String> label = builder.CreateString(in.label);
  Offset<FlatVector<uint8_t>> call =
      in.call.empty()
          ? Offset<FlatVector<uint8_t>>()
          : builder.CreateVector(reinterpret_cast<const uint8_t *>(in.call.data()), in.call.size());
  Offset<FlatVector<Offset<fb::TensorMap>>> maps = encodeTensorMaps(builder, in);
  Offset<flatbuffers::String> constraint =
      in.constraint.empty() ? Offset<flatbuffers::String>() : builder.CreateString(in.constraint);
  return fb::CreateInstruction(
      builder, static_cast<uint8_t>(in.kind), in.device, in.queue, in.kernel, buffers, in.reads,
      sizes, in.grid, in.scratch, label, in.threads, call, in.isFallback, maps, in.canFail,
      constraint, in.symbol, in.cluster, in.isDependentLaunch, in.flops, in.bytesMoved,
      static_cast<uint8_t>(in.collective), static_cast<uint8_t>(in.dtype), in.stages);
}

struct EncodedExprs {
  std::vector<uint32_t> starts;
  std::vector<uint8_t> ops;
  std::vector<int64_t> values;
};

EncodedExprs encodeExprs(const ExprTable &exprs) {
  EncodedExprs encoded;
  for (ExprId id = 0; id < exprs.size(); ++id) {
    encoded.starts.push_back(static_cast<uint32_t>(encoded.ops.size()));
    for (const ExprTerm &term : exprs.program(id)) {
      encoded.ops.push_back(static_cast<uint8_t>(term.op));
      encoded.values.push_back(term.value);
    }
  }
  encoded.starts.push_back(static_cast<uint32_t>(encoded.ops.size()));
  return encoded;
}

void decodePorts(const FlatVector<Offset<fb::Port>> *from, std::vector<Port> &to,
                 CopyBudget &budget) {
  forEach(from, budget, [&](const fb::Port &port) {
    Port out;
    out.name = copyString(port.name(), budget);
    out.dtype = static_cast<DType>(port.dtype());
    out.dims = copyIndices(port.dims(), budget);
    out.buffer = port.buffer();
    to.push_back(std::move(out));
  });
}

/// The verifier aligns a vector's length only, not elements that are wider.
int64_t valueAt(const FlatVector<int64_t> &values, uint32_t index) {
  int64_t value = 0;
  std::memcpy(&value, values.Data() + index * sizeof(value), sizeof(value));
  return flatbuffers::EndianScalar(value);
}

bool decodeExprs(const fb::Plan &from, ExprTable &to) {
  const FlatVector<uint32_t> *starts = from.expr_starts();
  const FlatVector<uint8_t> *ops = from.expr_ops();
  const FlatVector<int64_t> *values = from.expr_values();
  if (!starts || !ops || !values || starts->size() == 0 || ops->size() != values->size() ||
      starts->Get(0) != 0 || starts->Get(starts->size() - 1) != ops->size()) {
    return false;
  }
  for (flatbuffers::uoffset_t i = 0; i + 1 < starts->size(); ++i) {
    uint32_t begin = starts->Get(i);
    uint32_t end = starts->Get(i + 1);
    if (begin > end || end > ops->size()) {
      return false;
    }
    std::vector<ExprTerm> program;
    for (uint32_t term = begin; term < end; ++term) {
      program.push_back({static_cast<ExprOp>(ops->Get(term)), valueAt(*values, term)});
    }
    to.append(std::move(program));
  }
  return true;
}

void decodeBuffers(const fb::Plan &from, Plan &plan, CopyBudget &budget) {
  forEach(from.buffers(), budget, [&](const fb::Buffer &buffer) {
    plan.buffers.push_back({static_cast<Space>(buffer.space()), buffer.device(), buffer.size(),
                            buffer.weight(), buffer.alias_of(), buffer.alias_offset(),
                            buffer.first_use(), buffer.last_use(), buffer.offset()});
  });
}

void decodeInstructions(const fb::Plan &from, Plan &plan, CopyBudget &budget) {
  forEach(from.instructions(), budget, [&](const fb::Instruction &in) {
    Instruction out;
    out.kind = static_cast<InstructionKind>(in.kind());
    out.device = in.device();
    out.queue = in.queue();
    out.kernel = in.kernel();
    out.buffers = copyIndices(in.buffers(), budget);
    out.reads = in.reads();
    out.sizes = copyIndices(in.sizes(), budget);
    out.grid = in.grid();
    out.scratch = in.scratch();
    out.isFallback = in.is_fallback();
    out.canFail = in.can_fail();
    out.constraint = copyString(in.constraint(), budget);
    out.label = copyString(in.label(), budget);
    out.threads = in.threads();
    out.symbol = in.symbol();
    out.cluster = in.cluster();
    out.isDependentLaunch = in.dependent_launch();
    out.collective = static_cast<CollectiveKind>(in.collective());
    out.dtype = static_cast<DType>(in.dtype());
    out.stages = in.stages();
    out.flops = in.flops();
    out.bytesMoved = in.bytes_moved();
    if (in.call() && budget.take(in.call()->size())) {
      const std::byte *call = reinterpret_cast<const std::byte *>(in.call()->data());
      out.call.assign(call, call + in.call()->size());
    }
    forEach(in.tensor_maps(), budget, [&](const fb::TensorMap &map) {
      out.tensorMaps.push_back({map.buffer(), map.element_bytes(), map.rows(), map.columns(),
                                map.row_bytes(), map.box_rows(), map.box_columns()});
    });
    plan.instructions.push_back(std::move(out));
  });
}

Status planError(const char *message) {
  return Status::error(ErrorId::EngineBadPlan, message, "compile the model again");
}

} // namespace

std::vector<std::byte> encodePlan(const Plan &plan) {
  FlatBufferBuilder builder;
  std::vector<Offset<fb::Symbol>> symbols;
  for (const Symbol &symbol : plan.symbols) {
    symbols.push_back(fb::CreateSymbol(builder, builder.CreateString(symbol.name), symbol.min,
                                       symbol.max, symbol.input, symbol.dim, symbol.bound,
                                       symbol.isOfSession, symbol.preset));
  }
  std::vector<Offset<fb::Constraint>> constraints;
  for (const Constraint &constraint : plan.constraints) {
    constraints.push_back(fb::CreateConstraint(builder, static_cast<uint8_t>(constraint.kind),
                                               constraint.left, constraint.right,
                                               builder.CreateString(constraint.node)));
  }
  std::vector<Offset<fb::Buffer>> buffers;
  for (const Buffer &buffer : plan.buffers) {
    buffers.push_back(fb::CreateBuffer(
        builder, static_cast<uint8_t>(buffer.space), buffer.device, buffer.size, buffer.weight,
        buffer.aliasOf, buffer.aliasOffset, buffer.firstUse, buffer.lastUse, buffer.offset));
  }
  std::vector<Offset<fb::Instruction>> instructions;
  for (const Instruction &instruction : plan.instructions) {
    instructions.push_back(encodeInstruction(builder, instruction));
  }
  EncodedExprs exprs = encodeExprs(plan.exprs);
  // Each vector is made by a statement of its own: the order of arguments' evaluation, and with it
  // the bytes, would be the compiler's choice.
  Offset<FlatVector<Offset<fb::Symbol>>> symbolsAt = builder.CreateVector(symbols);
  Offset<FlatVector<uint32_t>> startsAt = builder.CreateVector(exprs.starts);
  Offset<FlatVector<uint8_t>> opsAt = builder.CreateVector(exprs.ops);
  Offset<FlatVector<int64_t>> valuesAt = builder.CreateVector(exprs.values);
  Offset<FlatVector<Offset<fb::Port>>> inputsAt = encodePorts(builder, plan.inputs);
  Offset<FlatVector<Offset<fb::Port>>> outputsAt = encodePorts(builder, plan.outputs);
  Offset<FlatVector<Offset<fb::Buffer>>> buffersAt = builder.CreateVector(buffers);
  Offset<FlatVector<Offset<fb::Instruction>>> instructionsAt = builder.CreateVector(instructions);
  // None are stored as no vector.
  Offset<FlatVector<Offset<fb::Constraint>>> constraintsAt;
  if (!constraints.empty()) {
    constraintsAt = builder.CreateVector(constraints);
  }
  Offset<FlatVector<const fb::Section *>> sectionsAt;
  if (!plan.sections.empty()) {
    std::vector<fb::Section> sections;
    for (const Section &section : plan.sections) {
      sections.emplace_back(section.first, section.end);
    }
    sectionsAt = builder.CreateVectorOfStructs(sections);
  }
  builder.Finish(fb::CreatePlan(builder, symbolsAt, startsAt, opsAt, valuesAt, inputsAt, outputsAt,
                                buffersAt, instructionsAt, plan.arenaBytes, constraintsAt,
                                plan.isGuarded, sectionsAt, plan.restingInstructions, plan.ranks,
                                plan.stages));
  const std::byte *data = reinterpret_cast<const std::byte *>(builder.GetBufferPointer());
  return std::vector<std::byte>(data, data + builder.GetSize());
}

Result<Plan> decodePlan(Bytes bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  if (!fb::VerifyPlanBuffer(verifier)) {
    return planError("the plan is not a well-formed FlatBuffer");
  }
  const fb::Plan &from = *fb::GetPlan(bytes.data());
  CopyBudget budget(bytes.size());
  Plan plan;
  forEach(from.symbols(), budget, [&](const fb::Symbol &symbol) {
    plan.symbols.push_back({copyString(symbol.name(), budget), symbol.min(), symbol.max(),
                            symbol.input(), symbol.dim(), symbol.bound(), symbol.of_session(),
                            symbol.preset()});
  });
  forEach(from.constraints(), budget, [&](const fb::Constraint &constraint) {
    plan.constraints.push_back({static_cast<ConstraintKind>(constraint.kind()), constraint.left(),
                                constraint.right(), copyString(constraint.node(), budget)});
  });
  if (!decodeExprs(from, plan.exprs)) {
    return planError("the plan's table of expressions is not consistent");
  }
  decodePorts(from.inputs(), plan.inputs, budget);
  decodePorts(from.outputs(), plan.outputs, budget);
  decodeBuffers(from, plan, budget);
  decodeInstructions(from, plan, budget);
  plan.arenaBytes = from.arena_bytes();
  plan.isGuarded = from.is_guarded();
  plan.restingInstructions = from.resting_instructions();
  plan.ranks = from.ranks();
  plan.stages = from.stages();
  if (from.sections() && budget.take(from.sections()->size() * sizeof(fb::Section))) {
    for (const fb::Section *section : *from.sections()) {
      plan.sections.push_back({section->first(), section->end()});
    }
  }
  if (budget.isExceeded()) {
    return planError("the plan's tables share their contents");
  }
  return plan;
}

} // namespace tenon::engine
