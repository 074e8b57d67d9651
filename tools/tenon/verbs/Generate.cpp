// `tenon generate`: answers a prompt with a language model, or holds a conversation.

#include "generate/session/Generate.h"
#include "generate/grammar/Formats.h"
#include "generate/session/Chat.h"
#include "support/files/MappedFile.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/generate/Fitting.h"
#include "tools/tenon/generate/Interrupt.h"
#include "tools/tenon/print/Format.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>

namespace tenon::tool {
namespace {

using generate::Answer;
using generate::LanguageModel;
using generate::Message;
using generate::Sequence;

constexpr uint64_t kMostAnswers = 1000;

struct GenerateFlags {
  OpenRequest open;
  std::optional<std::string> prompt;
  std::string system, templateFile, schemaFile;
  bool isRaw = false, isChat = false, noCache = false, logprobs = false;
  uint64_t context = 0, answers = 1, maxMemory = 0;
  unsigned threads = 0;
  generate::GenerateOptions options;
  std::vector<std::string> bias;
};

std::string fileText(const MappedFile &file) {
  return {reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size()};
}

/// "TOKEN=BIAS"
Result<std::pair<int32_t, double>> parseBias(const std::string &text) {
  size_t equals = text.find('=');
  std::optional<int64_t> token;
  char *end = nullptr;
  if (equals != text.npos) {
    token = std::strtoll(text.c_str(), &end, 10);
    token = end == text.c_str() + equals && equals > 0 ? token : std::nullopt;
  }
  double bias = token ? std::strtod(text.c_str() + equals + 1, &end) : 0;
  if (!token || *end != '\0' || end == text.c_str() + equals + 1 || *token < 0 ||
      *token > INT32_MAX) {
    return Status::error(ErrorId::BadArgument, fmt::format("--logit-bias {}: not TOKEN=BIAS", text),
                         "give the token's number, as `tenon tokenize` shows it");
  }
  return std::pair(static_cast<int32_t>(*token), bias);
}

/// What fits: the line that is shown before the first answer.
std::string sizesText(const LanguageModel &model, const generate::Fit &fit) {
  const generate::ModelFacts &facts = model.facts();
  return fmt::format("{}, {} layers: {}", facts.family, facts.layers, fitText(fit));
}

class Conversation {
public:
  Conversation(const GenerateFlags &theFlags, const LanguageModel &theModel,
               const generate::Fit &theFit, Sequence &theSequence, std::string theTemplate,
               Terminal &theTerminal)
      : flags(theFlags), model(theModel), fit(theFit), sequence(theSequence),
        chatTemplate(std::move(theTemplate)), terminal(theTerminal) {
    if (!flags.system.empty()) {
      messages.push_back({"system", flags.system});
    }
  }

  /// Answers, and keeps both sides for the next turn.
  Status answer(const std::string &text) {
    messages.push_back({"user", text});
    TENON_ASSIGN(std::vector<int32_t> prompt, tokensOf(text));
    generate::GenerateOptions options = flags.options;
    Json answers = Json::array();
    for (uint64_t i = 0; i < flags.answers; ++i) {
      TENON_ASSIGN(Answer one, answerOnce(prompt, options));
      ++options.sampling.seed;
      answers.push_back(describe(one));
      if (i + 1 == flags.answers) {
        messages.push_back({"assistant", one.text});
      }
    }
    if (terminal.json()) {
      Json memory = fitJson(fit);
      TENON_ASSIGN(memory["held_bytes"], sequence.memory());
      terminal.printJson("generate", {{"prompt_tokens", prompt},
                                      {"answers", std::move(answers)},
                                      {"memory", std::move(memory)}});
    }
    return Status::ok();
  }

private:
  Result<std::vector<int32_t>> tokensOf(const std::string &text) const {
    if (flags.isRaw) {
      return model.tokenizer().encode(text);
    }
    TENON_ASSIGN(generate::jinja::Text rendered,
                 renderChat(chatTemplate, messages, model.tokenizer()));
    return encodeChat(rendered, model.tokenizer());
  }

  Result<Answer> answerOnce(std::span<const int32_t> prompt,
                            const generate::GenerateOptions &options) {
    Interrupt interrupt;
    TENON_ASSIGN(Answer answer, generate::generate(model, sequence, prompt, options,
                                                   [&](const generate::Piece &piece) {
                                                     if (!terminal.json()) {
                                                       terminal.stream(piece.text);
                                                     }
                                                     return !interrupt.taken();
                                                   }));
    if (!terminal.json()) {
      terminal.stream("\n");
      terminal.note(statistics(answer, prompt.size()));
    }
    return answer;
  }

  static std::string statistics(const Answer &answer, size_t prompt) {
    size_t more = answer.draws.size() - 1;
    return fmt::format(
        "{} tokens read in {:.0f} ms; {} written{}; ended by {}", prompt,
        answer.promptSeconds * 1e3, answer.draws.size(),
        more == 0 ? ""
                  : fmt::format(", {:.1f} a second", static_cast<double>(more) / answer.seconds),
        nameOf(answer.finish));
  }

  Json describe(const Answer &answer) const {
    Json value = {{"text", answer.text},
                  {"finish", nameOf(answer.finish)},
                  {"prompt_seconds", answer.promptSeconds},
                  {"seconds", answer.seconds},
                  {"tokens", Json::array()}};
    for (const generate::Draw &draw : answer.draws) {
      value["tokens"].push_back(draw.token);
      if (flags.logprobs) {
        value["logprobs"].push_back(draw.logprob);
      }
    }
    return value;
  }

  const GenerateFlags &flags;
  const LanguageModel &model;
  const generate::Fit &fit;
  Sequence &sequence;
  std::string chatTemplate;
  Terminal &terminal;
  std::vector<Message> messages;
};

/// Lines of standard input, each a turn; an empty line or its end leaves.
Status converse(Conversation &conversation, Terminal &terminal) {
  terminal.note("an empty line ends the conversation; Ctrl-C ends an answer");
  for (std::string line;;) {
    if (!terminal.quiet()) {
      terminal.stream("> ");
    }
    if (!std::getline(std::cin, line) || line.empty()) {
      return Status::ok();
    }
    TENON_TRY(conversation.answer(line));
  }
}

Status generateText(GenerateFlags &flags, Terminal &terminal) {
  flags.open.useCache = !flags.noCache;
  for (const std::string &text : flags.bias) {
    TENON_ASSIGN(flags.options.sampling.bias.emplace_back(), parseBias(text));
  }
  FittingRequest request = {flags.open, flags.context, flags.threads, flags.maxMemory};
  TENON_ASSIGN(FittingModel fitting, openFitting(std::move(request), terminal));
  const std::unique_ptr<LanguageModel> &model = fitting.opened.model;
  TENON_ASSIGN(Sequence sequence, Sequence::create(*model, flags.threads, fitting.fit.positions));
  terminal.note(sizesText(*model, fitting.fit));
  std::string chatTemplate = model->facts().chatTemplate;
  if (!flags.templateFile.empty()) {
    TENON_ASSIGN(MappedFile file, MappedFile::open(flags.templateFile));
    chatTemplate = fileText(file);
  }
  bool wantsTemplate = flags.isChat || !flags.system.empty() || !flags.templateFile.empty();
  flags.isRaw = flags.isRaw || (chatTemplate.empty() && !wantsTemplate);
  generate::grammar::Formats formats(model->tokenizer(), model->facts().vocabulary);
  if (!flags.schemaFile.empty()) {
    TENON_ASSIGN(MappedFile file, MappedFile::open(flags.schemaFile));
    TENON_ASSIGN(flags.options.format, formats.schema(fileText(file)));
  }
  Conversation conversation(flags, *model, fitting.fit, sequence, std::move(chatTemplate),
                            terminal);
  if (flags.prompt) {
    TENON_TRY(conversation.answer(*flags.prompt));
    return flags.isChat ? converse(conversation, terminal) : Status::ok();
  }
  if (flags.isChat || isatty(STDIN_FILENO) != 0) {
    return converse(conversation, terminal);
  }
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  return conversation.answer(text);
}

void declareSampling(CLI::App &command, GenerateFlags &flags) {
  generate::SamplingOptions &sampling = flags.options.sampling;
  command.add_option("--temperature", sampling.temperature,
                     "0 takes the most probable token; larger values draw more freely");
  command.add_option("--top-k", sampling.topK, "Draw from the K most probable tokens; 0 for all");
  command.add_option("--top-p", sampling.topP,
                     "Draw from the fewest tokens whose probabilities reach this sum");
  command.add_option("--min-p", sampling.minP,
                     "Draw from tokens at least so probable, as a share of the most probable");
  command.add_option("--repetition-penalty", sampling.repetition,
                     "Make tokens of the prompt and the answer less probable; 1 for no penalty");
  command.add_option("--frequency-penalty", sampling.frequency,
                     "Subtract this from a token's logit each time it is generated");
  command.add_option("--presence-penalty", sampling.presence,
                     "Subtract this from a token's logit once it has been generated");
  command.add_option("--seed", sampling.seed, "Equal seeds draw equal tokens");
  command.add_option("--logit-bias", flags.bias, "TOKEN=BIAS, added to the token's logit");
  command.add_option("--stop", flags.options.stops, "A text that ends the answer");
}

} // namespace

Action declareGenerate(CLI::App &command) {
  std::shared_ptr<GenerateFlags> flags = std::make_shared<GenerateFlags>();
  command
      .add_option("MODEL", flags->open.path,
                  "A GGUF file, a Hugging Face folder, or an engine compiled from one")
      ->required();
  command.add_option(
      "PROMPT", flags->prompt,
      "The message to answer; without it standard input, on a terminal line by line");
  command.add_option("--system", flags->system, "The system message");
  command.add_flag("--chat", flags->isChat, "Continue the conversation after the answer");
  command.add_flag("--raw", flags->isRaw, "Continue the prompt as it is, without a chat template");
  command.add_option("--template", flags->templateFile,
                     "A file with the chat template to use instead of the model's");
  command.add_option("--schema", flags->schemaFile,
                     "A file with a JSON schema that answers are values of");
  addNumber(
      command, "--max-tokens", {1, 1'000'000},
      [flags](uint64_t value) { flags->options.maxTokens = static_cast<int64_t>(value); },
      "Tokens of an answer at most; 512 by default");
  addNumber(
      command, "--context", {1, 1'000'000}, [flags](uint64_t value) { flags->context = value; },
      "Positions of a conversation, when compiling a file or folder; by default 2048, or what "
      "fits into memory");
  addNumber(
      command, "--max-memory", {1, 1 << 24},
      [flags](uint64_t value) { flags->maxMemory = value << 20; },
      "Memory in MiB that weights and session may take; by default what is free");
  addNumber(
      command, "--answers", {1, kMostAnswers}, [flags](uint64_t value) { flags->answers = value; },
      "Answers to the prompt, each with the next seed");
  command.add_flag("--logprobs", flags->logprobs, "With --json: the tokens' log-probabilities");
  declareSampling(command, *flags);
  declareThreadsFlag(command, flags->threads, "Threads; all usable CPUs by default");
  declareOpenFlags(command, flags->open);
  declareTargetFlags(command, flags->open.target);
  command.add_flag("--no-cache", flags->noCache, "Do not use the compile cache");
  return [flags](Terminal &terminal) { return generateText(*flags, terminal); };
}

} // namespace tenon::tool
