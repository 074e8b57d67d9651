// Writes PTX by hand: the compiler makes no such kernels. Relies on one launch of two warps that
// reads x and writes y, of 64 floats each.

#include "test/conformance/PlantedFaults.h"

#include "engine/Writer.h"
#include "runtime/core/Session.h"

#include <fmt/format.h>

#include <array>

namespace tenon::conformance {
namespace {

constexpr int64_t kElements = 64;

struct Fault {
  const char *tool;
  const char *body; ///< with the address of this thread's element of x in %rd1, of y in %rd2
};

constexpr std::array<Fault, 4> kFaults = {{
    // Writes far behind y.
    {"memcheck", R"(
  ld.global.f32 %f1, [%rd1];
  add.s64 %rd2, %rd2, 0x1000000000;
  st.global.f32 [%rd2], %f1;
)"},
    // Each warp reads what the other writes to shared memory, without a barrier.
    {"racecheck", R"(
  ld.global.f32 %f1, [%rd1];
  mov.u32 %r3, words;
  mad.lo.u32 %r2, %r1, 4, %r3;
  st.volatile.shared.f32 [%r2], %f1;
  xor.b32 %r2, %r1, 32;
  mad.lo.u32 %r2, %r2, 4, %r3;
  ld.volatile.shared.f32 %f2, [%r2];
  st.global.f32 [%rd2], %f2;
)"},
    // Reads y, which nobody has written.
    {"initcheck", R"(
  ld.global.f32 %f1, [%rd2];
  add.f32 %f1, %f1, 0f3F800000;
  st.global.f32 [%rd2], %f1;
)"},
    // Seventeen threads of a warp come to a barrier that is for sixteen of them.
    {"synccheck", R"(
  and.b32 %r2, %r1, 31;
  setp.gt.u32 %p1, %r2, 16;
  mov.u32 %r3, 0xffff;
  @%p1 bra LEAVE;
  bar.warp.sync %r3;
  ld.global.f32 %f1, [%rd1];
  st.global.f32 [%rd2], %f1;
LEAVE:
)"},
}};

std::string ptxOf(const Fault &fault, std::string_view level) {
  return fmt::format(R"(.version 8.0
.target {}
.address_size 64
.visible .entry fault(.param .u64 fault_param_0, .param .u64 fault_param_1)
{{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .f32 %f<3>;
  .reg .b64 %rd<4>;
  .shared .align 4 .b8 words[256];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  ld.param.u64 %rd1, [fault_param_0];
  ld.param.u64 %rd2, [fault_param_1];
  add.s64 %rd1, %rd1, %rd3;
  add.s64 %rd2, %rd2, %rd3;
{}
  ret;
}}
)",
                     level, fault.body);
}

engine::Plan planOf() {
  engine::Plan plan;
  engine::ExprId count = plan.exprs.constant(kElements);
  engine::ExprId bytes = plan.exprs.constant(kElements * 4);
  for (engine::Space space : {engine::Space::Input, engine::Space::Output}) {
    plan.buffers.push_back({.space = space, .device = engine::kGpu, .size = bytes});
  }
  plan.inputs.push_back({.name = "x", .dtype = DType::F32, .dims = {count}, .buffer = 0});
  plan.outputs.push_back({.name = "y", .dtype = DType::F32, .dims = {count}, .buffer = 1});
  engine::Instruction launch;
  launch.kind = engine::InstructionKind::Launch;
  launch.device = engine::kGpu;
  launch.kernel = 0;
  launch.buffers = {0, 1};
  launch.reads = 1;
  launch.grid = plan.exprs.constant(1);
  launch.threads = kElements;
  launch.label = "fault";
  plan.instructions.push_back(launch);
  engine::Instruction end;
  end.device = engine::kGpu;
  plan.instructions.push_back(end);
  return plan;
}

Status writeFault(const Fault &fault, const std::string &path, std::string_view level) {
  std::string ptx = ptxOf(fault, level);
  ptx.push_back('\0');
  engine::EngineContent content;
  content.variants.push_back(
      {{std::string(level), planOf(), {"fault"}}, std::as_bytes(std::span(ptx))});
  return engine::writeEngine(
             path, content,
             [](uint32_t, uint32_t, const engine::ByteSink &) { return Status::ok(); })
      .takeStatus();
}

Status runEngine(const std::string &path, const CaseOptions &options) {
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, openEngine(path, options));
  TENON_ASSIGN(std::unique_ptr<runtime::Session> session, runtime::Session::create(engine));
  std::vector<float> input(kElements, 1);
  std::array<int64_t, 1> dims = {kElements};
  runtime::InputBinding x = {input.data(), dims};
  runtime::OutputBinding y;
  return session->run({&x, 1}, {&y, 1});
}

} // namespace

std::vector<Case> plantedFaults() {
  std::vector<Case> cases;
  for (const Fault &fault : kFaults) {
    cases.push_back({fault.tool, ""});
  }
  return cases;
}

Outcome runPlantedFault(const Case &planted, const CaseOptions &options) {
  for (const Fault &fault : kFaults) {
    if (fault.tool != planted.name) {
      continue;
    }
    std::string path = options.scratchFolder + "/fault.tenon";
    Status status = writeFault(fault, path, variantOf(options.targets));
    if (status.isOk() && !options.compileOnly) {
      status = runEngine(path, options);
    }
    return judge(status);
  }
  return {Verdict::Fail, "there is no such fault"};
}

} // namespace tenon::conformance
