// The C interface over LanguageModel, Sequence and AnswerStream. Nothing thrown below passes this
// border: running out of memory becomes a status that needs no memory.

#include "tenon/generate.h"

#include "generate/grammar/Formats.h"
#include "generate/session/Chat.h"
#include "generate/session/Generate.h"
#include "generate/session/Score.h"
#include "generate/text/Utf8.h"
#include "runtime/capi/Alone.h"
#include "runtime/capi/StatusObject.h"
#include "runtime/capi/Structs.h"
#include "support/text/Text.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

using tenon::ErrorId;
using tenon::Result;
using tenon::Status;
using tenon::strCat;
using tenon::capi::badArgument;
using tenon::capi::fillStruct;
using tenon::capi::guarded;
using tenon::capi::readStruct;
using tenon::generate::AnswerStream;
using tenon::generate::Draw;
using tenon::generate::Finish;
using tenon::generate::LanguageModel;
using tenon::generate::Mean;
using tenon::generate::Sequence;
using tenon::generate::grammar::Formats;

struct tenon_language_model {
  std::shared_ptr<const LanguageModel> model;
  std::shared_ptr<Formats> formats; ///< of its tokens
};

namespace {

/// A sequence with what it continues, and whether a thread is in it.
struct HeldSequence {
  std::shared_ptr<const LanguageModel> model;
  std::shared_ptr<Formats> formats;
  Sequence sequence;
  std::atomic_flag isInUse = {};
};

} // namespace

struct tenon_sequence {
  std::shared_ptr<HeldSequence> held;
};

struct tenon_answer {
  std::shared_ptr<HeldSequence> held;
  AnswerStream stream;
  // What the last piece points to.
  std::string text;
  std::vector<tenon_draw> top;
};

namespace {

template <typename Work> Status alone(HeldSequence &held, const Work &work) {
  return tenon::capi::alone(
      held.isInUse, "another thread is using this sequence",
      "make a sequence for each thread; sequences of one model run at the same time", work);
}

/// Room that the caller frees.
void *allocate(size_t bytes) {
  void *data = std::malloc(bytes);
  if (!data) {
    throw std::bad_alloc();
  }
  return data;
}

void give(const std::vector<int32_t> &from, tenon_tokens *tokens) {
  size_t bytes = from.size() * sizeof(int32_t);
  int32_t *data = static_cast<int32_t *>(allocate(std::max<size_t>(bytes, 1)));
  std::memcpy(data, from.data(), bytes);
  *tokens = {data, from.size()};
}

tenon_draw toC(const Draw &draw) { return {draw.token, draw.logprob}; }
tenon_mean toC(const Mean &mean) { return {mean.value, mean.low(), mean.high()}; }

tenon_finish toC(const std::optional<Finish> &finish) {
  if (!finish) {
    return TENON_FINISH_NONE;
  }
  return *finish == Finish::End    ? TENON_FINISH_END
         : *finish == Finish::Stop ? TENON_FINISH_STOP
                                   : TENON_FINISH_LENGTH;
}

Result<tenon::generate::GenerateOptions> optionsOf(const tenon_generate_options *options,
                                                   Formats &formats) {
  tenon_generate_options given = {};
  TENON_TRY(readStruct(options, given));
  if (!given.biases && given.bias_count != 0) {
    return badArgument("the biases are null");
  }
  tenon::generate::GenerateOptions result;
  result.sampling = {.temperature = given.temperature,
                     .topK = given.top_k,
                     .topP = given.top_p == 0 ? 1 : given.top_p,
                     .minP = given.min_p,
                     .repetition = given.repetition_penalty == 0 ? 1 : given.repetition_penalty,
                     .frequency = given.frequency_penalty,
                     .presence = given.presence_penalty,
                     .seed = given.seed};
  for (size_t i = 0; i < given.bias_count; ++i) {
    result.sampling.bias.emplace_back(given.biases[i].token, given.biases[i].bias);
  }
  for (const char *const *stop = given.stops; stop && *stop; ++stop) {
    result.stops.emplace_back(*stop);
  }
  result.maxTokens = given.max_tokens == 0 ? result.maxTokens : given.max_tokens;
  result.topTokens = given.top_tokens;
  if (given.response_format) {
    TENON_ASSIGN(result.format, formats.response(given.response_format));
  }
  return result;
}

std::string_view textOf(const char *text, size_t bytes) {
  return bytes == 0 ? std::string_view() : std::string_view(text, bytes);
}

} // namespace

extern "C" {

tenon_status *tenon_language_model_open(const char *path, const tenon_engine_options *options,
                                        tenon_language_model **model) {
  return guarded([&]() -> Status {
    if (!path || !model) {
      return badArgument("the path or the place for the model is null");
    }
    tenon_engine_options given = {};
    TENON_TRY(readStruct(options, given));
    given.struct_size = sizeof(given);
    TENON_ASSIGN(std::shared_ptr<const LanguageModel> opened, LanguageModel::open(path, given));
    std::shared_ptr<Formats> formats =
        std::make_shared<Formats>(opened->tokenizer(), opened->facts().vocabulary);
    *model = new tenon_language_model{std::move(opened), std::move(formats)};
    return Status::ok();
  });
}

void tenon_language_model_destroy(tenon_language_model *model) { delete model; }

tenon_status *tenon_language_model_facts(const tenon_language_model *model,
                                         tenon_language_facts *facts) {
  return guarded([&]() -> Status {
    if (!model || !facts) {
      return badArgument("the model or the place for the facts is null");
    }
    const tenon::generate::ModelFacts &known = model->model->facts();
    return fillStruct({0, known.family.c_str(), known.chatTemplate.c_str(), known.vocabulary,
                       known.layers, known.positions, known.context},
                      facts);
  });
}

void tenon_tokens_destroy(tenon_tokens *tokens) {
  if (tokens) {
    std::free(tokens->data);
    *tokens = {};
  }
}

tenon_status *tenon_language_model_tokenize(const tenon_language_model *model, const char *text,
                                            size_t bytes, int32_t special, tenon_tokens *tokens) {
  return guarded([&]() -> Status {
    if (!model || (!text && bytes != 0) || !tokens) {
      return badArgument("the model, the text or the place for the tokens is null");
    }
    tenon::generate::TextPart part{textOf(text, bytes), special != 0};
    TENON_ASSIGN(std::vector<int32_t> encoded,
                 model->model->tokenizer().encode(std::span(&part, 1)));
    give(encoded, tokens);
    return Status::ok();
  });
}

void tenon_text_destroy(tenon_text *text) {
  if (text) {
    std::free(text->data);
    *text = {};
  }
}

tenon_status *tenon_language_model_detokenize(const tenon_language_model *model,
                                              const int32_t *tokens, size_t count,
                                              tenon_text *text) {
  return guarded([&]() -> Status {
    if (!model || (!tokens && count != 0) || !text) {
      return badArgument("the model, the tokens or the place for the text is null");
    }
    TENON_TRY(model->model->facts().checkTokens({tokens, count}));
    std::string decoded =
        tenon::generate::wellFormed(model->model->tokenizer().decode({tokens, count}));
    char *data = static_cast<char *>(allocate(decoded.size() + 1));
    std::memcpy(data, decoded.c_str(), decoded.size() + 1);
    *text = {data, decoded.size()};
    return Status::ok();
  });
}

tenon_status *tenon_language_model_chat(const tenon_language_model *model,
                                        const char *chat_template, const tenon_message *messages,
                                        size_t count, tenon_tokens *tokens) {
  return guarded([&]() -> Status {
    if (!model || (!messages && count != 0) || !tokens) {
      return badArgument("the model, the messages or the place for the tokens is null");
    }
    std::vector<tenon::generate::Message> list;
    for (size_t i = 0; i < count; ++i) {
      const tenon_message &message = messages[i];
      if (!message.role || !message.content) {
        return badArgument(strCat("the role or the content of message ", i, " is null"));
      }
      list.push_back({message.role, message.bytes == 0
                                        ? std::string(message.content)
                                        : std::string(message.content, message.bytes)});
    }
    const LanguageModel &language = *model->model;
    TENON_ASSIGN(tenon::generate::jinja::Text rendered,
                 renderChat(chat_template ? chat_template : language.facts().chatTemplate, list,
                            language.tokenizer()));
    TENON_ASSIGN(std::vector<int32_t> encoded, encodeChat(rendered, language.tokenizer()));
    give(encoded, tokens);
    return Status::ok();
  });
}

tenon_status *tenon_sequence_create(const tenon_language_model *model,
                                    const tenon_sequence_options *options,
                                    tenon_sequence **sequence) {
  return guarded([&]() -> Status {
    if (!model || !sequence) {
      return badArgument("the model or the place for the sequence is null");
    }
    tenon_sequence_options given = {};
    TENON_TRY(readStruct(options, given));
    TENON_ASSIGN(Sequence made, Sequence::create(*model->model, given.threads));
    std::shared_ptr<HeldSequence> held(
        new HeldSequence{model->model, model->formats, std::move(made)});
    *sequence = new tenon_sequence{std::move(held)};
    return Status::ok();
  });
}

void tenon_sequence_destroy(tenon_sequence *sequence) { delete sequence; }

tenon_status *tenon_sequence_memory(const tenon_sequence *sequence, uint64_t *bytes) {
  return guarded([&]() -> Status {
    if (!sequence || !bytes) {
      return badArgument("the sequence or the place for the number is null");
    }
    return alone(*sequence->held, [&]() -> Status {
      TENON_ASSIGN(*bytes, sequence->held->sequence.memory());
      return Status::ok();
    });
  });
}

tenon_status *tenon_answer_create(tenon_sequence *sequence, const int32_t *prompt, size_t count,
                                  const tenon_generate_options *options, tenon_answer **answer) {
  return guarded([&]() -> Status {
    if (!sequence || (!prompt && count != 0) || !answer) {
      return badArgument("the sequence, the prompt or the place for the answer is null");
    }
    HeldSequence &held = *sequence->held;
    TENON_ASSIGN(tenon::generate::GenerateOptions given, optionsOf(options, *held.formats));
    TENON_ASSIGN(AnswerStream stream,
                 AnswerStream::begin(*held.model, held.sequence, {prompt, count}, given));
    *answer = new tenon_answer{sequence->held, std::move(stream), {}, {}};
    return Status::ok();
  });
}

tenon_status *tenon_answer_next(tenon_answer *answer, tenon_piece *piece) {
  return guarded([&]() -> Status {
    if (!answer || !piece) {
      return badArgument("the answer or the place for the piece is null");
    }
    return alone(*answer->held, [&]() -> Status {
      // Before anything is computed: a piece that cannot be given would be lost.
      tenon_piece probe = {};
      probe.struct_size = piece->struct_size;
      TENON_TRY(fillStruct(tenon_piece{}, &probe));
      TENON_ASSIGN(tenon::generate::Piece next, answer->stream.next());
      answer->text = std::move(next.text);
      answer->top.clear();
      for (const Draw &draw : next.top) {
        answer->top.push_back(toC(draw));
      }
      return fillStruct({0, answer->text.c_str(), answer->text.size(), toC(next.draw),
                         answer->top.data(), answer->top.size(), toC(next.finish)},
                        piece);
    });
  });
}

void tenon_answer_destroy(tenon_answer *answer) { delete answer; }

tenon_status *tenon_language_model_score(const tenon_language_model *model,
                                         const tenon_language_model *reference, const char *text,
                                         size_t bytes, const tenon_score_options *options,
                                         tenon_score *score) {
  return guarded([&]() -> Status {
    if (!model || (!text && bytes != 0) || !score) {
      return badArgument("the model, the text or the place for the score is null");
    }
    tenon_score_options given = {};
    TENON_TRY(readStruct(options, given));
    tenon::generate::ScoreOptions wanted = {.window = given.window,
                                            .maxTokens =
                                                given.max_tokens == 0 ? -1 : given.max_tokens,
                                            .threads = given.threads};
    TENON_ASSIGN(tenon::generate::TextScore found,
                 scoreText(*model->model, reference ? reference->model.get() : nullptr,
                           textOf(text, bytes), wanted, [&](double fraction) {
                             return !given.progress || given.progress(given.user, fraction) == 0;
                           }));
    return fillStruct({0, found.tokens, toC(found.surprise), toC(found.divergence.value_or(Mean())),
                       toC(found.sameTop.value_or(Mean()))},
                      score);
  });
}

} // extern "C"
