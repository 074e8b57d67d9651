// One graph for the whole call; if cuDNN has no engine for it, two where the problem allows it.
// Relies on executables naming their tensors by the problem's ids.

#include "runtime/library/cudnn/GraphPlan.h"

#include "runtime/library/cudnn/PlanText.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::library::cudnn {

Status GraphPlan::build(const EngineLimits &limits, size_t alignment) {
  alignment = problem->alignment(alignment);
  Graph &whole = newGraph(alignment);
  TENON_TRY(problem->build(whole));
  Result<std::vector<Executable>> found = whole.compile(limits);
  if (!found && problem->canSplit()) {
    Graph &first = newGraph(alignment);
    TENON_TRY(problem->buildFirst(first));
    found = first.compile(limits);
    Graph &second = newGraph(alignment);
    TENON_TRY(problem->buildRest(second));
    TENON_ASSIGN(rest, second.compile({limits.workspace, true, 1})); // has no products
  }
  if (!found) {
    return found.takeStatus();
  }
  candidates = std::move(*found);
  chosen = problem->proposal() < candidates.size() ? problem->proposal() : 0;
  return Status::ok();
}

Status GraphPlan::measure(Meter &meter, MeasureMemory &memory) {
  std::vector<size_t> bytes = problem->bufferBytes();
  size_t workspace = rest.empty() ? 0 : rest.front().workspaceBytes();
  for (const Executable &candidate : candidates) {
    workspace = std::max(workspace, candidate.workspaceBytes());
  }
  bytes.push_back(workspace);
  TENON_TRY(memory.lay(bytes));
  TENON_ASSIGN(
      chosen,
      fastestOf(meter, candidates.size(), [&](size_t candidate, void *stream, unsigned round) {
        std::vector<void *> buffers;
        for (size_t i = 0; i < bufferCount; ++i) {
          buffers.push_back(memory.buffer(i, round));
        }
        return runCandidate(candidate, buffers, memory.buffer(bufferCount, round), stream);
      }));
  return Status::ok();
}

std::optional<std::vector<std::byte>> GraphPlan::store() const {
  std::vector<const Executable *> plans = {&candidates[chosen]};
  if (!rest.empty()) {
    plans.push_back(&rest.front());
  }
  return storePlans(plans);
}

Status GraphPlan::restore(Bytes stored) {
  std::vector<int64_t> ids = {kResultAsInput};
  for (size_t id = 0; id < bufferCount; ++id) {
    ids.push_back(static_cast<int64_t>(id));
  }
  for (size_t number = 0; number < problem->numbers.size(); ++number) {
    ids.push_back(kFirstNumber + static_cast<int64_t>(number));
  }
  TENON_ASSIGN(std::vector<Executable> plans, restorePlans(api, context, stored, ids));
  candidates.push_back(std::move(plans.front()));
  if (plans.size() == 2) {
    rest.push_back(std::move(plans.back()));
  }
  return Status::ok();
}

size_t GraphPlan::workspaceBytes() const {
  size_t bytes = candidates[chosen].workspaceBytes();
  return rest.empty() ? bytes : std::max(bytes, rest.front().workspaceBytes());
}

Status GraphPlan::runGraph(const Executable &graph, std::span<void *const> buffers, void *workspace,
                           void *stream) {
  void *pointers[kMaxTensors];
  size_t count = 0;
  for (int64_t id : graph.tensors()) {
    pointers[count++] = id >= kFirstNumber
                            ? &problem->numbers[static_cast<size_t>(id - kFirstNumber)]
                            : problem->pointerOf(id, buffers);
  }
  return graph.run(api, context, std::span(pointers, count), workspace, stream);
}

Status GraphPlan::runCandidate(size_t index, std::span<void *const> buffers, void *workspace,
                               void *stream) {
  if (buffers.size() != bufferCount) {
    return Status::error(ErrorId::EngineBadInstruction,
                         strCat(problem->text(), " was given ", buffers.size(),
                                " buffers instead of ", bufferCount));
  }
  Status status = runGraph(candidates[index], buffers, workspace, stream);
  if (status && !rest.empty()) {
    status = runGraph(rest.front(), buffers, workspace, stream);
  }
  return status.prefix(problem->text());
}

std::string GraphPlan::describe() const {
  return strCat("cuDNN engine ", candidates[chosen].engineIndex(), ", choice ", chosen + 1, " of ",
                candidates.size(), rest.empty() ? "" : ", epilogue apart");
}

} // namespace tenon::library::cudnn
