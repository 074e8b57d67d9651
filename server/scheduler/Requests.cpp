// The way of a request through Models: queue, slab, run, answer.

#include "server/protocol/DataType.h"
#include "server/scheduler/Models.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include <unistd.h>

namespace tenon::server {
namespace {

/// What is left for outputs of which nothing is known yet.
constexpr uint64_t kFirstRoom = 16 << 10;

uint64_t nanosecondsSince(Clock::time_point start) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

Status damaged(std::string_view what) { return Status::error(ErrorId::InternalError, fmt::format("the worker's answer is damaged: {}", what)); }

Status failureOf(const Mailbox &mailbox) {
  size_t message = std::min<size_t>(mailbox.messageBytes, Mailbox::kTextBytes);
  size_t hint = std::min<size_t>(mailbox.hintBytes, Mailbox::kTextBytes - message);
  return Status::error(errorNumbered(mailbox.errorId), std::string_view(mailbox.text, message), std::string_view(mailbox.text + message, hint));
}

/// The worker is not trusted to keep to the ports that it told.
bool isOutputOf(const ModelPort &port, const TensorPlace &place) {
  unsigned __int128 bytes = bitWidth(port.dtype) / 8;
  bool fits = place.dims.size() == port.most.size();
  for (size_t i = 0; fits && i < place.dims.size(); ++i) {
    fits = place.dims[i] >= 0 && place.dims[i] <= port.most[i];
    bytes *= static_cast<uint64_t>(std::max<int64_t>(place.dims[i], 0));
    fits = fits && bytes <= UINT64_MAX;
  }
  return fits && bytes == place.bytes;
}

} // namespace

Result<std::shared_ptr<Job>> Models::submit(const std::string &model, const std::string &version, InferRequest request, std::function<void(Result<InferResult>)> onEnd) {
  if (draining) {
    return Status::error(ErrorId::ServerStopping, "the server is stopping", "send the request to another server");
  }
  std::shared_ptr<Job> job = std::make_shared<Job>();
  job->arrival = Clock::now();
  TENON_ASSIGN(job->version, find(model, version));
  Version &target = *job->version;
  bool isBetweenWorkers = target.state == VersionState::Loading && !target.ports.outputs.empty();
  if (!isBetweenWorkers) {
    TENON_TRY(readiness(target));
  }
  job->request = std::move(request);
  Status problem = checkRequest(target, *job);
  if (problem.isOk() && target.queue.size() >= options.mostQueued) {
    ++target.statistics->rejected;
    problem = Status::error(ErrorId::QueueFull, fmt::format("{} requests wait for model '{}' already", target.queue.size(), target.model), "send fewer at once, or try again later");
  }
  if (!problem.isOk()) {
    countFailure(*job);
    return problem;
  }
  job->onEnd = std::move(onEnd);
  target.queue.push_back(job);
  if (job->request.timeoutMicroseconds > 0) {
    constexpr uint64_t kMostWait = uint64_t(1) << 40; // of microseconds: no sum overflows
    job->deadline = deadlines.emplace(job->arrival + std::chrono::microseconds(std::min(job->request.timeoutMicroseconds, kMostWait)), job);
    armDeadline();
  }
  // Later: the caller must have the job before it ends.
  boost::asio::post(executor, [this, version = job->version] { dispatch(*version); });
  return job;
}

void Models::dropDeadline(Job &job) {
  if (job.deadline) {
    deadlines.erase(*std::exchange(job.deadline, std::nullopt));
  }
}

void Models::cancel(const std::shared_ptr<Job> &job) {
  if (!job->onEnd) {
    return;
  }
  dropDeadline(*job);
  job->onEnd = nullptr;
  job->isCancelled = true;
  ++job->version->statistics->cancelled;
  std::erase(job->version->queue, job);
  finishRetired(*job->version);
}

void Models::end(const std::shared_ptr<Job> &job, Result<InferResult> result) {
  dropDeadline(*job);
  if (!result.isOk() && !job->isCancelled) { // that is counted already
    countFailure(*job);
  }
  if (std::function<void(Result<InferResult>)> tell = std::exchange(job->onEnd, nullptr)) {
    tell(std::move(result));
  }
}

void Models::armDeadline() {
  if (deadlines.empty()) {
    return;
  }
  deadline.expires_at(deadlines.begin()->first);
  deadline.async_wait([this](boost::system::error_code error) {
    if (error) {
      return;
    }
    while (!deadlines.empty() && deadlines.begin()->first <= Clock::now()) {
      std::shared_ptr<Job> job = deadlines.begin()->second.lock();
      if (!job) {
        deadlines.erase(deadlines.begin());
        continue;
      }
      dropDeadline(*job);
      if (std::erase(job->version->queue, job) > 0) {
        ++job->version->statistics->timedOut;
        end(job, Status::error(ErrorId::RequestTimedOut, fmt::format("the request waited longer than its time-out of {} µs", job->request.timeoutMicroseconds)));
        finishRetired(*job->version);
      }
    }
    armDeadline();
  });
}

void Models::dispatch(Version &version) {
  bool takesRuns = worker && worker->id() > 0 && !runsAfterLoads && (version.state == VersionState::Ready || version.state == VersionState::Unloading);
  for (size_t i = 0; takesRuns && i < version.instances.size() && !version.queue.empty(); ++i) {
    Instance &instance = *version.instances[i];
    while (!instance.job && !version.queue.empty()) {
      std::shared_ptr<Job> job = std::move(version.queue.front());
      version.queue.pop_front();
      dropDeadline(*job);
      job->times.queue = nanosecondsSince(job->arrival);
      Status status = fill(instance, *job);
      if (!status.isOk()) {
        instance.inputSlab = instance.outputSlab = nullptr;
        end(job, std::move(status));
        continue;
      }
      instance.job = std::move(job);
      running.emplace_back(&version, &instance);
      signalRun(instance);
    }
  }
}

Status Models::fill(Instance &instance, Job &job) {
  Clock::time_point start = Clock::now();
  std::vector<TensorPlace> places;
  for (size_t i : job.order) {
    places.push_back({0, job.request.inputs[i].bytes, job.request.inputs[i].dims});
  }
  uint64_t at = tableBytes(places);
  for (TensorPlace &place : places) {
    place.offset = alignTensor(at);
    at = place.offset + place.bytes;
  }
  uint64_t outputOffset = alignTensor(at);
  TENON_ASSIGN(instance.inputSlab, worker->slabs().take(outputOffset + std::max(job.version->outputRoom, kFirstRoom)));
  MutableBytes slab = instance.inputSlab->memory->bytes();
  writeTable(slab, 0, places);
  for (size_t i = 0; i < places.size(); ++i) {
    const RequestInput &input = job.request.inputs[job.order[i]];
    MutableBytes to = slab.subspan(places[i].offset, places[i].bytes);
    if (input.list) {
      TENON_TRY(job.request.lists[*input.list].store(input.dtype, to, input.name));
    } else if (!to.empty()) {
      std::memcpy(to.data(), input.binary.data(), to.size());
    }
  }
  instance.outputSlab = instance.inputSlab;
  Mailbox &mailbox = instance.mailbox();
  mailbox.inputSlab = mailbox.outputSlab = instance.inputSlab->number;
  mailbox.inputCount = static_cast<uint32_t>(places.size());
  mailbox.outputOffset = outputOffset;
  mailbox.outputEnd = slab.size();
  job.times.copyIn = nanosecondsSince(start);
  return Status::ok();
}

void Models::signalRun(Instance &instance) {
  instance.mailbox().requests.fetch_add(1, std::memory_order_release);
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(instance.wake.get(), &one, sizeof(one));
}

void Models::collectAnswers() {
  std::vector<std::pair<Version *, Instance *>> answered;
  std::erase_if(running, [&](const std::pair<Version *, Instance *> &each) {
    Mailbox &mailbox = each.second->mailbox();
    bool hasAnswer = mailbox.answers.load(std::memory_order_acquire) == mailbox.requests.load(std::memory_order_relaxed);
    if (hasAnswer) {
      answered.push_back(each);
    }
    return hasAnswer;
  });
  for (auto &[version, instance] : answered) {
    // Answers to clients may unload or replace a version.
    std::shared_ptr<Version> held = instance->job->version;
    finish(*version, *instance);
    dispatch(*version);
    finishRetired(*version);
  }
}

void Models::finish(Version &version, Instance &instance) {
  Mailbox &mailbox = instance.mailbox();
  instance.job->times.compute += mailbox.computeNanoseconds;
  if (mailbox.outcome == Mailbox::Outcome::NeedsRoom) {
    Status status = provideRoom(instance, mailbox.roomNeeded);
    if (status.isOk()) {
      running.emplace_back(&version, &instance);
      signalRun(instance);
      return;
    }
    std::shared_ptr<Job> job = std::move(instance.job);
    instance.inputSlab = instance.outputSlab = nullptr;
    end(job, std::move(status));
    return;
  }
  Result<InferResult> result = readResult(version, instance);
  std::shared_ptr<Job> job = std::move(instance.job);
  instance.inputSlab = instance.outputSlab = nullptr;
  end(job, std::move(result));
}

Status Models::provideRoom(Instance &instance, uint64_t bytes) {
  Mailbox &mailbox = instance.mailbox();
  if (bytes <= mailbox.outputEnd - mailbox.outputOffset) {
    return damaged("it asks for room that it has");
  }
  Version &version = *instance.job->version;
  TENON_ASSIGN(instance.outputSlab, worker->slabs().take(bytes));
  constexpr uint64_t kMostRemembered = 64 << 20;
  version.outputRoom = std::max(version.outputRoom, std::min(bytes, kMostRemembered));
  mailbox.outputSlab = instance.outputSlab->number;
  mailbox.outputOffset = 0;
  mailbox.outputEnd = instance.outputSlab->memory->bytes().size();
  return Status::ok();
}

Result<InferResult> Models::readResult(Version &version, Instance &instance) {
  Mailbox &mailbox = instance.mailbox();
  Job &job = *instance.job;
  if (mailbox.outcome != Mailbox::Outcome::Done) {
    return mailbox.outcome == Mailbox::Outcome::Failed ? failureOf(mailbox) : damaged("its outcome");
  }
  InferResult result = {job.version, instance.outputSlab, {}, job.times, job.arrival};
  TENON_ASSIGN(result.outputs, readTable(instance.outputSlab->memory->bytes(), mailbox.outputOffset, version.ports.outputs.size()));
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    if (!isOutputOf(version.ports.outputs[i], result.outputs[i])) {
      return damaged("an output does not fit the model");
    }
  }
  version.statistics->inferences += job.rows;
  ++version.statistics->executions;
  return result;
}

void Models::countFailure(const Job &job) { job.version->statistics->failure.add(nanosecondsSince(job.arrival)); }

void Models::countReply(InferResult &result, uint64_t copyOutNanoseconds) {
  VersionStatistics &statistics = *result.version->statistics;
  uint64_t total = nanosecondsSince(result.arrival);
  statistics.success.add(total);
  statistics.request.add(total);
  statistics.queue.add(result.times.queue);
  statistics.copyIn.add(result.times.copyIn);
  statistics.compute.add(result.times.compute);
  statistics.copyOut.add(copyOutNanoseconds);
  statistics.lastInference = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

} // namespace tenon::server
