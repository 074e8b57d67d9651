// A prompt that a language model continues, from its arrival until the last of its answers has
// ended.

#pragma once

#include "server/admission/Deadlines.h"
#include "server/ipc/TextMessages.h"
#include "server/protocol/MemoryBudget.h"
#include "server/residency/Version.h"

#include <functional>
#include <memory>
#include <utility>

namespace tenon::server {

class TextRun {
public:
  /// Called with each event of the answers, later than submit; nothing comes behind the last end.
  using OnEvent = std::function<void(const TextEvent &)>;

  TextRun(std::shared_ptr<Version> version, TextAsk ask, MemoryBudget *budget, OnEvent onEvent)
      : version(std::move(version)), ask(std::move(ask)), charge(budget), unended(this->ask.count),
        onEvent(std::move(onEvent)) {}

  const std::shared_ptr<Version> version;
  TextAsk ask; ///< its prompt goes to the worker
  const Clock::time_point arrival = Clock::now();
  Clock::time_point sent = arrival; ///< to the worker
  std::string name;                 ///< in the log
  /// Of the prompt, while it is here.
  MemoryCharge charge;
  uint64_t unended; ///< answers
  bool isFailed = false;

  void notify(const TextEvent &event) {
    if (OnEvent callback = onEvent) {
      callback(event);
    }
  }
  /// The caller has gone, and is called no more.
  void forget() { onEvent = nullptr; }

private:
  OnEvent onEvent;
};

} // namespace tenon::server
