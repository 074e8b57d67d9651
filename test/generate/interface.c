// The C interface to language models, from C: `generate_interface ENGINE NAN_ENGINE` prints the
// tokens of two answers and checks what each function says of bad arguments.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/generate.h>

static int failures = 0;

/// Destroys the status, which must have this number; "" for success.
static void expect(const char *id, tenon_status *status, int line) {
  if (strcmp(id, tenon_status_id(status)) != 0) {
    fprintf(stderr, "line %d: expected '%s', got %s\n", line, id, tenon_status_text(status));
    ++failures;
  }
  tenon_status_destroy(status);
}
#define EXPECT(id, status) expect(id, status, __LINE__)
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                      \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

static const tenon_message kHello = {"user", "Hello", 0};

static void printAnswer(tenon_sequence *sequence, const tenon_tokens *prompt,
                        const tenon_generate_options *options) {
  tenon_answer *answer = NULL;
  tenon_piece piece = {.struct_size = sizeof(piece)};
  EXPECT("", tenon_answer_create(sequence, prompt->data, prompt->count, options, &answer));
  while (piece.finish == TENON_FINISH_NONE) {
    tenon_status *status = tenon_answer_next(answer, &piece);
    if (status) {
      EXPECT("", status);
      break;
    }
    printf("%d ", piece.draw.token);
    CHECK(piece.text[piece.bytes] == '\0');
    CHECK(piece.top_count == (size_t)(options ? options->top_tokens : 0));
    // Greedy takes the most probable one.
    if (options && options->temperature == 0 && piece.top_count > 0) {
      CHECK(piece.top[0].token == piece.draw.token && piece.top[0].logprob == piece.draw.logprob);
    }
  }
  printf("\n");
  EXPECT("TN0105", tenon_answer_next(answer, &piece)); // behind the end
  tenon_answer_destroy(answer);
}

static void checkNull(const tenon_language_model *model, tenon_sequence *sequence) {
  tenon_language_model *opened = NULL;
  tenon_sequence *made = NULL;
  tenon_answer *answer = NULL;
  tenon_tokens tokens = {NULL, 0};
  tenon_text text = {NULL, 0};
  tenon_piece piece = {.struct_size = sizeof(piece)};
  tenon_language_facts facts = {.struct_size = sizeof(facts)};
  tenon_score score = {.struct_size = sizeof(score)};
  const int32_t token = 1;
  uint64_t bytes = 0;
  EXPECT("TN0105", tenon_language_model_open(NULL, NULL, &opened));
  EXPECT("TN0105", tenon_language_model_open("model.tenon", NULL, NULL));
  EXPECT("TN0105", tenon_language_model_facts(NULL, &facts));
  EXPECT("TN0105", tenon_language_model_facts(model, NULL));
  EXPECT("TN0105", tenon_language_model_tokenize(NULL, "a", 1, 0, &tokens));
  EXPECT("TN0105", tenon_language_model_tokenize(model, NULL, 1, 0, &tokens));
  EXPECT("TN0105", tenon_language_model_tokenize(model, "a", 1, 0, NULL));
  EXPECT("TN0105", tenon_language_model_detokenize(NULL, &token, 1, &text));
  EXPECT("TN0105", tenon_language_model_detokenize(model, NULL, 1, &text));
  EXPECT("TN0105", tenon_language_model_detokenize(model, &token, 1, NULL));
  EXPECT("TN0105", tenon_language_model_chat(NULL, NULL, &kHello, 1, &tokens));
  EXPECT("TN0105", tenon_language_model_chat(model, NULL, NULL, 1, &tokens));
  EXPECT("TN0105", tenon_language_model_chat(model, NULL, &kHello, 1, NULL));
  tenon_message noRole = {NULL, "Hello", 0}, noContent = {"user", NULL, 0};
  EXPECT("TN0105", tenon_language_model_chat(model, NULL, &noRole, 1, &tokens));
  EXPECT("TN0105", tenon_language_model_chat(model, NULL, &noContent, 1, &tokens));
  EXPECT("TN0105", tenon_sequence_create(NULL, NULL, &made));
  EXPECT("TN0105", tenon_sequence_create(model, NULL, NULL));
  EXPECT("TN0105", tenon_sequence_memory(NULL, &bytes));
  EXPECT("TN0105", tenon_sequence_memory(sequence, NULL));
  EXPECT("TN0105", tenon_answer_create(NULL, &token, 1, NULL, &answer));
  EXPECT("TN0105", tenon_answer_create(sequence, NULL, 1, NULL, &answer));
  EXPECT("TN0105", tenon_answer_create(sequence, &token, 1, NULL, NULL));
  EXPECT("TN0105", tenon_answer_next(NULL, &piece));
  EXPECT("TN0105", tenon_language_model_score(NULL, NULL, "ab", 2, NULL, &score));
  EXPECT("TN0105", tenon_language_model_score(model, NULL, NULL, 2, NULL, &score));
  EXPECT("TN0105", tenon_language_model_score(model, NULL, "ab", 2, NULL, NULL));
  CHECK(!opened && !made && !answer && !tokens.data && !text.data);
  tenon_language_model_destroy(NULL);
  tenon_sequence_destroy(NULL);
  tenon_answer_destroy(NULL);
  tenon_tokens_destroy(NULL);
  tenon_text_destroy(NULL);
}

#define kList(MORE)                                                                                \
  "{\"type\": \"json_schema\", \"json_schema\": {\"schema\": "                                     \
  "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, " MORE "}}}"

/// Options that an answer refuses.
static void checkOptions(tenon_sequence *sequence, int64_t vocabulary, int64_t positions) {
  const int32_t token = 1, outside[] = {-1, (int32_t)vocabulary};
  const tenon_logit_bias bias = {(int32_t)vocabulary, 1};
  const double nan = strtod("nan", NULL), infinity = strtod("inf", NULL);
  const tenon_generate_options base = {.struct_size = sizeof(base)};
  tenon_generate_options bad[20];
  for (int i = 0; i < 20; ++i) {
    bad[i] = base;
  }
  bad[0].temperature = nan;
  bad[1].temperature = -1;
  bad[2].top_k = -1;
  bad[3].top_k = vocabulary + 1;
  bad[4].top_p = 1.5;
  bad[5].top_p = nan;
  bad[6].min_p = -0.1;
  bad[7].repetition_penalty = -1;
  bad[8].frequency_penalty = infinity;
  bad[9].presence_penalty = nan;
  bad[10].max_tokens = -1;
  bad[11].top_tokens = vocabulary + 1;
  bad[12].top_tokens = -1;
  bad[13].biases = &bias;
  bad[13].bias_count = 1;
  bad[14].bias_count = 1;
  bad[15].struct_size = 1;
  bad[16].response_format = "{";
  bad[17].response_format = "{\"type\": \"xml\"}";
  bad[18].response_format = "{\"type\": \"json_schema\", \"json_schema\": {}}";
  bad[19].response_format = "[]";
  tenon_answer *answer = NULL;
  for (int i = 0; i < 20; ++i) {
    EXPECT("TN0105", tenon_answer_create(sequence, &token, 1, &bad[i], &answer));
  }
  tenon_generate_options held = base;
  held.response_format = kList("\"uniqueItems\": true");
  EXPECT("TN0256", tenon_answer_create(sequence, &token, 1, &held, &answer));
  EXPECT("TN0105", tenon_answer_create(sequence, &token, 0, NULL, &answer));
  EXPECT("TN0105", tenon_answer_create(sequence, &outside[0], 1, NULL, &answer));
  EXPECT("TN0105", tenon_answer_create(sequence, &outside[1], 1, NULL, &answer));
  size_t count = (size_t)positions + 1;
  int32_t *longer = calloc(count, sizeof(*longer));
  EXPECT("TN0616", tenon_answer_create(sequence, longer, count, NULL, &answer));
  free(longer);
  CHECK(!answer);
  // A newer struct whose end is zero is taken, and one that asks for something is not.
  struct {
    tenon_generate_options known;
    int64_t newer;
  } grown = {base, 0};
  grown.known.struct_size = sizeof(grown);
  EXPECT("", tenon_answer_create(sequence, &token, 1, &grown.known, &answer));
  // A piece that cannot be filled costs no token.
  tenon_piece piece = {.struct_size = 1};
  EXPECT("TN0105", tenon_answer_next(answer, &piece));
  piece.struct_size = sizeof(piece);
  EXPECT("", tenon_answer_next(answer, &piece));
  tenon_answer_destroy(answer);
  grown.newer = 1;
  EXPECT("TN0105", tenon_answer_create(sequence, &token, 1, &grown.known, &answer));
}

static void checkText(const tenon_language_model *model, int64_t vocabulary) {
  tenon_tokens tokens = {NULL, 0};
  tenon_text text = {NULL, 0};
  const int32_t outside = (int32_t)vocabulary;
  EXPECT("TN0105", tenon_language_model_detokenize(model, &outside, 1, &text));
  EXPECT("TN0248", tenon_language_model_tokenize(model, "a\xff", 2, 0, &tokens));
  tenon_message message = {"user", "\xc3", 0};
  EXPECT("TN0248", tenon_language_model_chat(model, NULL, &message, 1, &tokens));
  EXPECT("TN0250", tenon_language_model_chat(model, "{% if %}", &kHello, 1, &tokens));
  EXPECT("TN0618", tenon_language_model_chat(model, "", &kHello, 1, &tokens));
  CHECK(!tokens.data && !text.data);
  // A zero byte is text.
  EXPECT("", tenon_language_model_tokenize(model, "a\0b", 3, 0, &tokens));
  CHECK(tokens.count == 3);
  EXPECT("", tenon_language_model_detokenize(model, tokens.data, tokens.count, &text));
  CHECK(text.bytes == 3 && memcmp(text.data, "a\0b", 4) == 0);
  tenon_tokens_destroy(&tokens);
  tenon_text_destroy(&text);
  CHECK(!tokens.data && !text.data);
  // The name of a control token is one only where that is asked for.
  EXPECT("", tenon_language_model_tokenize(model, "<|end|>", 7, 1, &tokens));
  CHECK(tokens.count == 1);
  tenon_tokens_destroy(&tokens);
  EXPECT("", tenon_language_model_tokenize(model, "<|end|>", 7, 0, &tokens));
  CHECK(tokens.count == 7);
  tenon_tokens_destroy(&tokens);
}

/// Of two answers over one sequence, the one that went on last goes on.
static void checkTurns(tenon_sequence *sequence) {
  const int32_t first[] = {1, 2, 3}, second[] = {1, 2, 4};
  tenon_generate_options options = {.struct_size = sizeof(options)};
  options.temperature = 1;
  options.max_tokens = 8;
  tenon_answer *one = NULL, *two = NULL;
  tenon_piece piece = {.struct_size = sizeof(piece)};
  EXPECT("", tenon_answer_create(sequence, first, 3, &options, &one));
  EXPECT("", tenon_answer_create(sequence, second, 3, &options, &two));
  EXPECT("", tenon_answer_next(one, &piece));
  EXPECT("", tenon_answer_next(two, &piece));
  EXPECT("TN0105", tenon_answer_next(one, &piece));
  EXPECT("", tenon_answer_next(two, &piece));
  tenon_answer_destroy(one);
  tenon_answer_destroy(two);
}

typedef struct Reader {
  tenon_answer *answer;
  tenon_piece piece;
  int tokens;
  int isDone;
} Reader;

static void *readAll(void *argument) {
  Reader *reader = argument;
  // Each thread may meet the other one; that costs no token.
  while (reader->piece.finish == TENON_FINISH_NONE) {
    tenon_status *status = tenon_answer_next(reader->answer, &reader->piece);
    reader->tokens += status == NULL;
    EXPECT(status ? "TN0614" : "", status);
  }
  __atomic_store_n(&reader->isDone, 1, __ATOMIC_RELEASE);
  return NULL;
}

/// A second thread is told that it is one, and does not disturb the first.
static void checkThreads(tenon_sequence *sequence) {
  int32_t prompt[200] = {0};
  int wasTold = 0;
  for (int round = 0; round < 100 && !wasTold; ++round) {
    prompt[0] = round; // so that nothing is there of the round before
    Reader reader = {.piece = {.struct_size = sizeof(reader.piece)}};
    tenon_generate_options options = {.struct_size = sizeof(options), .max_tokens = 20};
    EXPECT("", tenon_answer_create(sequence, prompt, 200, &options, &reader.answer));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, readAll, &reader) == 0);
    while (!__atomic_load_n(&reader.isDone, __ATOMIC_ACQUIRE)) {
      uint64_t bytes = 0;
      tenon_status *status = tenon_sequence_memory(sequence, &bytes);
      wasTold |= status != NULL;
      EXPECT(status ? "TN0614" : "", status);
    }
    pthread_join(thread, NULL);
    CHECK(reader.tokens == 20 || reader.piece.finish == TENON_FINISH_END);
    tenon_answer_destroy(reader.answer);
  }
  CHECK(wasTold);
}

static int32_t stopAtOnce(void *user, double fraction) {
  *(double *)user = fraction;
  return 1;
}

static void checkScore(const tenon_language_model *model) {
  const char *text = "One text, two windows of it.";
  tenon_score score = {.struct_size = sizeof(score)};
  tenon_score_options options = {.struct_size = sizeof(options)};
  options.window = 16;
  EXPECT("", tenon_language_model_score(model, model, text, strlen(text), &options, &score));
  CHECK(score.tokens == 26 && score.surprise.low <= score.surprise.value);
  CHECK(score.divergence.value == 0 && score.same_top.value == 1);
  EXPECT("TN0105", tenon_language_model_score(model, NULL, "a", 1, NULL, &score));
  EXPECT("TN0248", tenon_language_model_score(model, NULL, "a\xff\xff", 3, NULL, &score));
  options.window = 1;
  EXPECT("TN0105", tenon_language_model_score(model, NULL, text, strlen(text), &options, &score));
  double fraction = 0;
  options.window = 4;
  options.progress = stopAtOnce;
  options.user = &fraction;
  EXPECT("TN0407", tenon_language_model_score(model, NULL, text, strlen(text), &options, &score));
  CHECK(fraction > 0 && fraction < 1);
  score.struct_size = 0;
  EXPECT("TN0105", tenon_language_model_score(model, NULL, "ab", 2, NULL, &score));
}

int main(int argc, char **argv) {
  tenon_language_model *model = NULL, *broken = NULL;
  tenon_sequence *sequence = NULL;
  tenon_answer *answer = NULL;
  tenon_tokens prompt = {NULL, 0};
  tenon_piece piece = {.struct_size = sizeof(piece)};
  tenon_language_facts facts = {.struct_size = sizeof(facts)};
  if (argc != 3) {
    return 2;
  }
  EXPECT("TN0101", tenon_language_model_open("/no/such/file", NULL, &model));
  EXPECT("", tenon_language_model_open(argv[1], NULL, &model));
  EXPECT("", tenon_language_model_facts(model, &facts));
  CHECK(strcmp(facts.family, "llama") == 0 && strlen(facts.chat_template) > 10 &&
        facts.layers == 2);
  CHECK(facts.vocabulary == 259 && facts.positions == 512 && facts.trained_positions == 512);
  EXPECT("", tenon_language_model_chat(model, NULL, &kHello, 1, &prompt));
  EXPECT("", tenon_sequence_create(model, NULL, &sequence));
  uint64_t held = 0;
  EXPECT("", tenon_sequence_memory(sequence, &held));
  CHECK(held > 100000);
  checkNull(model, sequence);
  checkOptions(sequence, facts.vocabulary, facts.positions);
  checkText(model, facts.vocabulary);
  checkTurns(sequence);
  checkThreads(sequence);
  checkScore(model);

  const char *const stops[] = {"\x01\x02\x03", NULL};
  const tenon_logit_bias biases[] = {{7, 3.5}, {9, -2}};
  tenon_generate_options options = {.struct_size = sizeof(options)};
  options.max_tokens = 24;
  options.top_tokens = 3;
  printAnswer(sequence, &prompt, &options);
  options = (tenon_generate_options){.struct_size = sizeof(options),
                                     .repetition_penalty = 1.1,
                                     .frequency_penalty = 0.2,
                                     .presence_penalty = 0.1,
                                     .temperature = 1.5,
                                     .min_p = 0.001,
                                     .top_k = 200,
                                     .top_p = 0.98,
                                     .seed = 7,
                                     .biases = biases,
                                     .bias_count = 2,
                                     .max_tokens = 24,
                                     .stops = stops};
  printAnswer(sequence, &prompt, &options);
  options = (tenon_generate_options){.struct_size = sizeof(options),
                                     .response_format = kList("\"maxItems\": 3, \"minItems\": 3"),
                                     .max_tokens = 512};
  printAnswer(sequence, &prompt, &options);

  // What an answer needs outlives the handles that it came from.
  EXPECT("", tenon_answer_create(sequence, prompt.data, prompt.count, NULL, &answer));
  tenon_sequence_destroy(sequence);
  tenon_language_model_destroy(model);
  EXPECT("", tenon_answer_next(answer, &piece));
  tenon_answer_destroy(answer);

  EXPECT("", tenon_language_model_open(argv[2], NULL, &broken));
  EXPECT("", tenon_sequence_create(broken, NULL, &sequence));
  EXPECT("", tenon_answer_create(sequence, prompt.data, 1, NULL, &answer));
  EXPECT("TN0617", tenon_answer_next(answer, &piece));
  EXPECT("TN0105", tenon_answer_next(answer, &piece)); // behind an error
  tenon_answer_destroy(answer);
  tenon_sequence_destroy(sequence);
  tenon_language_model_destroy(broken);
  tenon_tokens_destroy(&prompt);
  return failures == 0 ? 0 : 1;
}
