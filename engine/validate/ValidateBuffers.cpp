// Checks what can be known of buffers before shapes are: constant sizes and offsets fully, others
// when the session evaluates them.

#include "engine/validate/ValidateBuffers.h"

#include "support/text/Text.h"

#include <algorithm>
#include <set>

namespace tenon::engine {
namespace {

class BufferValidator {
public:
  BufferValidator(const Plan &validatedPlan, std::span<const Weight> engineWeights,
                  uint16_t planDevice, std::vector<uint32_t> &rootOfBuffer)
      : plan(validatedPlan), weights(engineWeights), device(planDevice), roots(rootOfBuffer) {}

  Status run() {
    roots.clear();
    for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
      const Buffer &buffer = plan.buffers[i];
      if (static_cast<uint8_t>(buffer.space) > static_cast<uint8_t>(Space::Output) ||
          buffer.device != device || buffer.size >= plan.exprs.size()) {
        return error(i, "unknown space, device or size");
      }
      if (plan.exprs.constantValue(buffer.size).value_or(0) < 0) {
        return error(i, "its size is negative");
      }
      TENON_TRY(buffer.aliasOf != kNone ? checkView(i) : checkRoot(i));
    }
    if (plan.arenaBytes < 0 || (!isStatic && plan.arenaBytes != 0)) {
      return Status::error(ErrorId::EngineBadBuffer, "the size of the arena is not valid", kAgain);
    }
    return isStatic ? checkOverlap() : Status::ok();
  }

private:
  static Status error(uint32_t index, std::string_view message) {
    return Status::error(ErrorId::EngineBadBuffer, strCat("buffer ", index, ": ", message), kAgain);
  }

  Status checkView(uint32_t index) {
    const Buffer &view = plan.buffers[index];
    if (view.aliasOf >= index) {
      return error(index, "a view of a buffer that does not come before it");
    }
    const Buffer &base = plan.buffers[view.aliasOf];
    if (view.space != base.space || view.weight != kNone || view.offset != kPlannedAtRunTime ||
        view.aliasOffset >= plan.exprs.size()) {
      return error(index, "a view that differs in space, has no offset or storage of its own");
    }
    if (plan.exprs.symbolsNamed(view.aliasOffset) > plan.knownSymbols()) {
      return error(index, "a view whose offset depends on data");
    }
    roots.push_back(roots[view.aliasOf]);
    std::optional<int64_t> offset = plan.exprs.constantValue(view.aliasOffset);
    std::optional<int64_t> size = plan.exprs.constantValue(view.size);
    std::optional<int64_t> room = plan.exprs.constantValue(base.size);
    if (offset && size && room && (*offset < 0 || *offset > *room || *size > *room - *offset)) {
      return error(index, "a view past the end of its buffer");
    }
    return Status::ok();
  }

  Status checkRoot(uint32_t index) {
    const Buffer &buffer = plan.buffers[index];
    roots.push_back(index);
    std::optional<int64_t> size = plan.exprs.constantValue(buffer.size);
    if (buffer.space == Space::Const) {
      if (buffer.weight >= weights.size() || !size ||
          static_cast<uint64_t>(*size) > weights[buffer.weight].bytes) {
        return error(index, "weights that are missing or shorter than it");
      }
      uint32_t ranks = weights[buffer.weight].ranks;
      if (ranks != 1 && ranks != plan.ranksOfStage()) {
        return error(index, "weights with arrays for another number of ranks");
      }
    } else if (buffer.weight != kNone) {
      return error(index, "weights in a space other than const");
    }
    if (buffer.space == Space::State &&
        plan.exprs.symbolsNamed(buffer.size) > plan.sessionSymbols()) {
      return error(index, "state whose size is not the session's");
    }
    if (buffer.space == Space::Arena) {
      return checkArena(index, size);
    }
    if (buffer.offset != kPlannedAtRunTime) {
      return error(index, "an offset outside the arena");
    }
    return Status::ok();
  }

  Status checkArena(uint32_t index, std::optional<int64_t> size) {
    const Buffer &buffer = plan.buffers[index];
    if (buffer.firstUse > buffer.lastUse || buffer.lastUse >= plan.instructions.size()) {
      return error(index, "a lifetime that is empty or past the plan");
    }
    bool hasOffset = buffer.offset != kPlannedAtRunTime;
    if (!arenaSeen) {
      isStatic = hasOffset;
      arenaSeen = true;
    }
    if (hasOffset != isStatic) {
      return error(index, "some arena buffers have an offset and some have none");
    }
    if (!hasOffset) {
      return Status::ok();
    }
    if (!size || buffer.offset < 0 || buffer.offset % kBufferAlignment != 0 ||
        buffer.offset > plan.arenaBytes || *size > plan.arenaBytes - buffer.offset) {
      return error(index, "an offset that is misaligned or outside the arena");
    }
    return Status::ok();
  }

  struct Placed {
    int64_t begin;
    int64_t end;
    uint32_t index;
    auto operator<=>(const Placed &) const = default;
  };

  /// Sweeps over instructions and keeps the live buffers sorted by offset: those are disjoint, so a
  /// new one can only touch its two neighbours.
  Status checkOverlap() const {
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
      const Buffer &buffer = plan.buffers[i];
      if (buffer.space == Space::Arena && roots[i] == i &&
          *plan.exprs.constantValue(buffer.size) > 0) {
        order.push_back(i);
      }
    }
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return plan.buffers[a].firstUse < plan.buffers[b].firstUse;
    });
    std::set<Placed> live;
    std::set<std::pair<uint32_t, uint32_t>> byEnd; // (last use, buffer)
    for (uint32_t index : order) {
      const Buffer &buffer = plan.buffers[index];
      while (!byEnd.empty() && byEnd.begin()->first < buffer.firstUse) {
        live.erase(placed(byEnd.begin()->second));
        byEnd.erase(byEnd.begin());
      }
      Placed now = placed(index);
      std::set<Placed>::iterator next = live.lower_bound(now);
      bool hitsNext = next != live.end() && next->begin < now.end;
      bool hitsPrevious = next != live.begin() && std::prev(next)->end > now.begin;
      if (hitsNext || hitsPrevious) {
        return Status::error(ErrorId::EngineBufferOverlap,
                             strCat("buffers ", index, " and ",
                                    hitsNext ? next->index : std::prev(next)->index,
                                    " are live at once and share memory"),
                             kAgain);
      }
      live.insert(now);
      byEnd.insert({buffer.lastUse, index});
    }
    return Status::ok();
  }

  Placed placed(uint32_t index) const {
    const Buffer &buffer = plan.buffers[index];
    return {buffer.offset, buffer.offset + *plan.exprs.constantValue(buffer.size), index};
  }

  const Plan &plan;
  std::span<const Weight> weights;
  uint16_t device;
  std::vector<uint32_t> &roots;
  bool arenaSeen = false;
  bool isStatic = false;
};

} // namespace

Status validateBuffers(const Plan &plan, std::span<const Weight> weights, uint16_t device,
                       std::vector<uint32_t> &roots) {
  return BufferValidator(plan, weights, device, roots).run();
}

} // namespace tenon::engine
