// Keeps the weights of a compilation under unique ids and makes generated ones when first read.
// Relies on the views that callers pass in staying valid, for which `keep` exists.
#include "compiler/graph/WeightStore.h"

#include "llvm/ADT/Twine.h"

#include <utility>

namespace tenon::tn {

std::string WeightStore::uniqueId(llvm::StringRef name) const {
  std::string id = name.empty() ? "weight" : name.str();
  if (!entries.contains(id)) {
    return id;
  }
  for (unsigned suffix = 1;; ++suffix) {
    std::string candidate = (llvm::Twine(id) + "." + llvm::Twine(suffix)).str();
    if (!entries.contains(candidate)) {
      return candidate;
    }
  }
}

std::string WeightStore::addView(llvm::StringRef name, llvm::ArrayRef<char> bytes,
                                 std::string origin) {
  std::unique_ptr<WeightEntry> entry = std::make_unique<WeightEntry>();
  entry->size = bytes.size();
  entry->bytes = bytes;
  entry->origin = std::move(origin);
  return insert(name, std::move(entry));
}

std::string WeightStore::addOwned(llvm::StringRef name, std::vector<char> bytes,
                                  std::string origin) {
  std::unique_ptr<WeightEntry> entry = std::make_unique<WeightEntry>();
  entry->size = bytes.size();
  entry->owned = std::move(bytes);
  entry->bytes = entry->owned;
  entry->origin = std::move(origin);
  return insert(name, std::move(entry));
}

std::string WeightStore::addGenerated(llvm::StringRef name, uint64_t size, WeightGenerator generate,
                                      std::string origin) {
  return addDerived(name, size, std::move(generate), false, std::move(origin));
}

std::string WeightStore::addDerived(llvm::StringRef name, uint64_t size, WeightGenerator generate,
                                    bool isOfRank, std::string origin) {
  std::unique_ptr<WeightEntry> entry = std::make_unique<WeightEntry>();
  entry->size = size;
  entry->isOfRank = isOfRank;
  entry->generate = std::move(generate);
  entry->origin = std::move(origin);
  return insert(name, std::move(entry));
}

std::string WeightStore::insert(llvm::StringRef name, std::unique_ptr<WeightEntry> entry) {
  std::lock_guard<std::mutex> lock(mutex);
  std::string id = uniqueId(name);
  entries[id] = std::move(entry);
  return id;
}

const WeightEntry *WeightStore::find(llvm::StringRef id) const {
  auto found = entries.find(id);
  return found == entries.end() ? nullptr : found->second.get();
}

llvm::ArrayRef<char> WeightStore::bytes(llvm::StringRef id) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = entries.find(id);
  if (found == entries.end()) {
    return {};
  }
  WeightEntry &entry = *found->second;
  if (entry.bytes.empty() && entry.generate && !entry.isOfRank) {
    entry.owned.resize(entry.size);
    entry.generate(0, entry.size, entry.owned.data());
    entry.bytes = entry.owned;
  }
  return entry.bytes;
}

} // namespace tenon::tn
