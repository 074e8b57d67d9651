// Schedules what a version is asked: besides runs of its instances, the texts of a language model.
// Those wait here until the version is in memory; then its worker has them, which decides what runs
// when. One thread, that of the executor.

#pragma once

#include "server/batching/BatchScheduler.h"
#include "server/texts/TextChannel.h"
#include "server/texts/TextRun.h"

#include <list>
#include <map>
#include <memory>

namespace tenon::server {

class TextScheduler final : public BatchScheduler {
public:
  using BatchScheduler::BatchScheduler;
  /// That of a version; all have one.
  static TextScheduler &of(const Version &version) {
    return static_cast<TextScheduler &>(*version.scheduler);
  }

  /// Queues a text. TN0812 where the line is full, TN0818 and TN0618 where it is known that the
  /// model continues no texts, or takes no chats.
  Status submit(const std::shared_ptr<TextRun> &run);
  /// The caller has gone: nothing is called any more, and the worker stops.
  void cancel(const std::shared_ptr<TextRun> &run);
  /// As the worker said last; nothing where the version is not in memory.
  const TextLoad &load() const { return lastLoad; }

  std::string describe() const override;
  void resume() override;
  bool workerEnded(const Status &why) override;
  void fail(const Status &why) override;
  size_t waiting() const override { return BatchScheduler::waiting() + line.size(); }
  size_t running() const override { return BatchScheduler::running() + answers.size(); }

private:
  /// An answer in the worker.
  struct Open {
    std::shared_ptr<TextRun> run;
    Clock::time_point lastPiece; ///< that of the arrival before the first
    bool hasBegun = false;
  };

  Status checkText(const TextRun &run) const;
  Status admitText(const TextRun &run) const;
  void dispatchTexts();
  void expire(const std::shared_ptr<TextRun> &run);
  void handle(const TextStep &step);
  void handle(const TextBegun &begun);
  void handle(const TextPiece &piece);
  void handle(const TextFailed &failed);
  void handle(const TextPreempted &preempted);
  /// An answer has ended.
  void end(const std::shared_ptr<TextRun> &run);
  void count(const TextRun &run, const Status &why);

  std::list<std::shared_ptr<TextRun>> line;
  std::map<uint64_t, Open> answers; ///< in the worker, by id
  std::unique_ptr<TextChannel> channel;
  TextLoad lastLoad;
  uint64_t lastId = 0;
  Clock::time_point noted; ///< a preemption, in the log
};

} // namespace tenon::server
