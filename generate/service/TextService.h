// Many answers of one model at once: requests come, go and share what they have in common, and a
// step computes the next tokens of all that run.
#pragma once

#include "generate/scheduler/Scheduler.h"
#include "generate/service/DraftModel.h"
#include "generate/service/PromptPace.h"
#include "generate/service/ServiceStatistics.h"
#include "generate/service/StepEngine.h"
#include "generate/session/AnswerWriter.h"
#include "generate/session/LanguageModel.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::generate {

using ServiceClock = std::chrono::steady_clock;

/// An answer that is asked for. Several answers of one prompt are as many requests, which share
/// the prompt's pages.
struct TextRequest {
  uint64_t id = 0; ///< of the caller's choice; no two that have not ended are equal
  std::vector<int32_t> prompt = {};
  GenerateOptions options = {};
  int64_t priority = 0; ///< a larger one goes first; of equal ones who came first
  /// Only requests of one salt share pages: what another has asked is not to be told by the time
  /// that an answer takes.
  std::string salt = {};
  std::optional<ServiceClock::time_point> deadline = {}; ///< by when the answer is to be whole
};

struct ServiceOptions {
  unsigned threads = 0; ///< that compute; 0 stands for all usable CPUs
  /// Requests that run at the same time, at most. An engine without pages has a sequence for each,
  /// which is allocated at once.
  int64_t maxRunning = 8;
  /// Of an engine with pages; 0 stands for those of maxRunning sequences of all positions.
  int64_t pages = 0;
  int64_t maxWaiting = 1024; ///< requests that wait, at most
  int64_t stepTokens = 512;  ///< tokens that one step computes, at most
  /// Tokens of prompts in a step that also continues answers, at most. PromptPace takes fewer, so
  /// that answers do not wait for them.
  int64_t promptTokens = 512;
  /// Tokens of an answer that are guessed and computed in one step, at most. A guess counts only
  /// where it is what is drawn: the text is the same.
  int64_t draftTokens = 0;
  /// A smaller model with the same tokens, which guesses them; null: they are guessed from what was
  /// said before. It outlives the service.
  const LanguageModel *draft = nullptr;
  PagePolicy policy = PagePolicy::Recompute;
  /// Told of each preemption, from within `step`; may be empty.
  std::function<void(const Preemption &)> onPreemption = {};
  std::function<ServiceClock::time_point()> now = ServiceClock::now;
};

/// One thread at a time. What is handed out of a request depends on the request and the model
/// alone, to within the rounding of the engine's steps.
class TextService {
public:
  using Take = std::function<void(uint64_t id, Result<Piece> piece)>;

  /// The model outlives the service. TN0105 for options out of range; otherwise as Sequence::create
  /// and StepSession::create.
  static Result<std::unique_ptr<TextService>> create(const LanguageModel &model,
                                                     const ServiceOptions &options);
  /// The same over an engine of the caller's, which keeps to `facts`. The tokenizer outlives it.
  /// `guesses` may be null, and stands for a draft model.
  static Result<std::unique_ptr<TextService>>
  create(const Tokenizer &tokenizer, const ModelFacts &facts, std::unique_ptr<StepEngine> engine,
         const ServiceOptions &options, std::unique_ptr<StepEngine> guesses = nullptr);

  /// Computes nothing yet; also from within `take`. Errors: those of AnswerWriter::create; TN0105
  /// for an id that is in use; TN0616 for a prompt that does not fit into the pages; TN0812 where
  /// maxWaiting requests wait.
  Status submit(TextRequest request);
  /// Nothing more is handed out of the request, and its pages are free in the next step; also from
  /// within `take`. An id that has ended is left alone.
  void cancel(uint64_t id);
  /// Whether no request waits or runs.
  bool isIdle() const { return answers.empty(); }
  /// Runs one step and hands out its pieces; a request's last has its finish. A request may also
  /// end by an error, which is its last word: TN0813 at its deadline, TN0617 for logits that are
  /// not finite, and all of a step that the engine could not run. A step may hand out nothing,
  /// while prompts are computed. The returned status says of such a step why it failed.
  Status step(const Take &take);

  /// Makes a later step faster, for while nobody waits for one; false where nothing is left to do.
  bool rehearse();

  /// The model's, with the positions that its pages leave to a sequence.
  const ModelFacts &modelFacts() const { return facts; }
  ServiceStatistics statistics() const;
  /// Bytes that its engines hold beside the models' weights.
  Result<uint64_t> memory() const;

private:
  struct Answer {
    AnswerWriter writer;
    uint64_t serial; ///< tells two requests of one id apart
    ServiceClock::time_point submitted;
    std::optional<ServiceClock::time_point> begun; ///< when it first ran
    std::optional<ServiceClock::time_point> lastPiece;
  };

  TextService(const Tokenizer &theTokenizer, const ModelFacts &theFacts,
              std::unique_ptr<StepEngine> theEngine, std::unique_ptr<DraftModel> theDraft,
              const ServiceOptions &theOptions);
  /// Of a step's work; none where the request ended meanwhile, also if another has its number.
  Answer *answerOf(const Work &work);
  /// Computes a step.
  Status run(Step &planned);
  void begin(const Step &planned);
  Status speculate(Step &planned);
  void fail(const Step &planned, const Status &status, const Take &take);
  /// Which rows have logits: of an engine that draws, those whose answers need more than the draw.
  void chooseRows(const Step &planned, StepBatch &batch);
  void addDraws(const Step &planned, StepBatch &batch);
  void handOut(const Work &work, int64_t firstRow, const Take &take);
  bool handOutOne(const Work &work, int64_t number, int64_t row, const Take &take);
  Result<Piece> pieceOf(AnswerWriter &writer, int64_t row, int64_t length) const;
  void end(uint64_t id);

  const Tokenizer *tokenizer;
  ModelFacts facts;
  std::unique_ptr<StepEngine> engine;
  std::unique_ptr<DraftModel> draft; ///< null: none
  ServiceOptions options;
  Scheduler scheduler;
  std::unordered_map<uint64_t, Answer> answers;
  std::vector<float> logits;   ///< of rows of the step, in their order
  std::vector<size_t> fetched; ///< by row of the step: where its logits lie among them
  std::vector<Draw> drawn;     ///< by the engine, of all rows or none
  ServiceStatistics counted;
  PromptPace pace;
};

} // namespace tenon::generate
