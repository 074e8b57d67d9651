// Copies verified FlatBuffers into plain structs under a budget, so that a small file whose tables
// share one long vector cannot make decoding copy without end. Private to engine/.

#pragma once

#include <flatbuffers/flatbuffers.h>

#include <string>
#include <vector>

namespace tenon::engine {

/// Counts what decoding copies: an honest file copies each stored byte once at most.
class CopyBudget {
public:
  explicit CopyBudget(size_t bytes) : left(bytes) {}
  bool take(size_t bytes) {
    exceeded |= bytes > left;
    left -= exceeded ? 0 : bytes;
    return !exceeded;
  }
  bool isExceeded() const { return exceeded; }

private:
  size_t left;
  bool exceeded = false;
};

/// Calls fn for each table of a vector that may be absent, until the budget is exceeded.
template <typename T, typename Fn>
void forEach(const flatbuffers::Vector<flatbuffers::Offset<T>> *vector, CopyBudget &budget,
             const Fn &fn) {
  // The offset in the vector, the offset to the vtable and one field at least.
  constexpr size_t kMinTableBytes = 12;
  for (flatbuffers::uoffset_t i = 0; vector && i < vector->size(); ++i) {
    if (!budget.take(kMinTableBytes)) {
      return;
    }
    fn(*vector->Get(i));
  }
}

inline std::string copyString(const flatbuffers::String *text, CopyBudget &budget) {
  return text && budget.take(text->size()) ? text->str() : std::string();
}

inline std::vector<uint32_t> copyIndices(const flatbuffers::Vector<uint32_t> *from,
                                         CopyBudget &budget) {
  if (!from || !budget.take(from->size() * sizeof(uint32_t))) {
    return {};
  }
  return std::vector<uint32_t>(from->begin(), from->end());
}

} // namespace tenon::engine
