/* Tenon's C interface to language models: text in, text out, over engines that `tenon compile` made of
 * GGUF files and Hugging Face folders.
 *
 * The functions are in libtenon_generate.so, which needs libtenon_runtime.so of the same release;
 * tenon/tenon.h describes errors, null pointers, trust and struct_size. Text is UTF-8. Tokens are
 * numbers from 0 to the size of the vocabulary, exclusive.
 *
 * Threads.  Any number of threads may use a model at once. Only one thread at a time may use a
 *           sequence and its answers (a second one gets TN0614). Different sequences run at the same
 *           time, including sequences of one model.
 * Objects may be destroyed in any order: a sequence keeps its model, an answer its sequence.
 *
 * Example (examples/generate.c):
 *
 *     #include <stdio.h>
 *     #include <tenon/generate.h>
 *
 *     int main(int argc, char **argv) {
 *       tenon_language_model *model = NULL;
 *       tenon_sequence *sequence = NULL;
 *       tenon_answer *answer = NULL;
 *       tenon_tokens prompt = {NULL, 0};
 *       tenon_message message = {"user", argc > 2 ? argv[2] : "Hello", 0};
 *       tenon_piece piece = {.struct_size = sizeof(piece)};
 *       tenon_status *status =
 *           tenon_language_model_open(argc > 1 ? argv[1] : "model.tenon", NULL, &model);
 *       if (!status) {
 *         status = tenon_language_model_chat(model, NULL, &message, 1, &prompt);
 *       }
 *       if (!status) {
 *         status = tenon_sequence_create(model, NULL, &sequence);
 *       }
 *       if (!status) {
 *         status = tenon_answer_create(sequence, prompt.data, prompt.count, NULL, &answer);
 *       }
 *       while (!status && piece.finish == TENON_FINISH_NONE) {
 *         status = tenon_answer_next(answer, &piece);
 *         if (!status) {
 *           fwrite(piece.text, 1, piece.bytes, stdout);
 *           fflush(stdout);
 *         }
 *       }
 *       if (status) {
 *         fprintf(stderr, "%s\n", tenon_status_text(status));
 *       }
 *       int code = tenon_status_code(status);
 *       tenon_status_destroy(status);
 *       tenon_answer_destroy(answer);
 *       tenon_sequence_destroy(sequence);
 *       tenon_tokens_destroy(&prompt);
 *       tenon_language_model_destroy(model);
 *       return code;
 *     }
 */
#ifndef TENON_GENERATE_H
#define TENON_GENERATE_H

#include <tenon/tenon.h>

#if defined(TENON_BUILDING_GENERATE)
#define TENON_GENERATE_API __attribute__((visibility("default")))
#else
#define TENON_GENERATE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_language_model tenon_language_model;
typedef struct tenon_sequence tenon_sequence;
typedef struct tenon_answer tenon_answer;

/* ---- model ---- */

/* Opens an engine that holds a language model; TN0615 for one that does not. On success the caller owns
 * *model and destroys it. */
TENON_GENERATE_API tenon_status *tenon_language_model_open(const char *path,
                                                           const tenon_engine_options *options,
                                                           tenon_language_model **model);
/* Releases the model; its sequences keep what they need. NULL is allowed. */
TENON_GENERATE_API void tenon_language_model_destroy(tenon_language_model *model);

/* What the model's file states, and what the engine has room for. */
typedef struct tenon_language_facts {
  size_t struct_size;        /* set by the caller */
  const char *family;        /* "llama" */
  const char *chat_template; /* "" if the model has none */
  int64_t vocabulary;        /* tokens that there are */
  int64_t layers;
  int64_t positions;         /* tokens that a sequence may have, of prompt and answer together */
  int64_t trained_positions; /* positions that the model was trained for */
} tenon_language_facts;
TENON_GENERATE_API tenon_status *tenon_language_model_facts(const tenon_language_model *model,
                                                            tenon_language_facts *facts);

/* Tokens that a call returns; the caller releases them with tenon_tokens_destroy. */
typedef struct tenon_tokens {
  int32_t *data;
  size_t count;
} tenon_tokens;
/* Frees the tokens and empties the struct. NULL is allowed. */
TENON_GENERATE_API void tenon_tokens_destroy(tenon_tokens *tokens);

/* The tokens of `bytes` bytes of text, which need no zero byte at the end. If `special` is not 0, the
 * names of control tokens in it, such as <|im_end|>, become these tokens; otherwise they stay text.
 * TN0248 if the text is not UTF-8. */
TENON_GENERATE_API tenon_status *tenon_language_model_tokenize(const tenon_language_model *model,
                                                               const char *text, size_t bytes,
                                                               int32_t special,
                                                               tenon_tokens *tokens);

/* Text that a call returns, followed by a zero byte, which is not counted; the caller releases it with
 * tenon_text_destroy. */
typedef struct tenon_text {
  char *data;
  size_t bytes;
} tenon_text;
/* Frees the text and empties the struct. NULL is allowed. */
TENON_GENERATE_API void tenon_text_destroy(tenon_text *text);

/* The text of tokens. Control tokens have none; bytes that are not UTF-8 become U+FFFD. */
TENON_GENERATE_API tenon_status *tenon_language_model_detokenize(const tenon_language_model *model,
                                                                 const int32_t *tokens,
                                                                 size_t count, tenon_text *text);

/* A message of a conversation. Control tokens in its content stay text. */
typedef struct tenon_message {
  const char *role; /* "system", "user" or "assistant" */
  const char *content;
  size_t bytes; /* of the content; 0 if it ends with a zero byte */
} tenon_message;

/* The tokens of a conversation, ready to be answered: the chat template puts the messages between its
 * control tokens. `chat_template` is the text of a template to use instead of the model's, or NULL.
 * TN0618 if there is no template; TN0250 and TN0251 if it cannot be read or raises an error. */
TENON_GENERATE_API tenon_status *tenon_language_model_chat(const tenon_language_model *model,
                                                           const char *chat_template,
                                                           const tenon_message *messages,
                                                           size_t count, tenon_tokens *tokens);

/* ---- sequence ---- */

/* Zero means the default in every field but the first; NULL in place of the struct means all
 * defaults. */
typedef struct tenon_sequence_options {
  size_t struct_size;
  uint32_t threads; /* that work on a run, including the calling one; all usable CPUs by default */
} tenon_sequence_options;

/* A sequence holds the keys and values of the tokens that it has read and written, so that a prompt
 * that begins as the one before costs only what is new. */
TENON_GENERATE_API tenon_status *tenon_sequence_create(const tenon_language_model *model,
                                                       const tenon_sequence_options *options,
                                                       tenon_sequence **sequence);
/* Releases the sequence; its answers keep what they need. NULL is allowed. */
TENON_GENERATE_API void tenon_sequence_destroy(tenon_sequence *sequence);
/* Bytes of memory that it holds beside the weights. */
TENON_GENERATE_API tenon_status *tenon_sequence_memory(const tenon_sequence *sequence,
                                                       uint64_t *bytes);

/* ---- answer ---- */

/* Added to the logit of a token. */
typedef struct tenon_logit_bias {
  int32_t token;
  double bias;
} tenon_logit_bias;

/* As tenon_sequence_options. Logits are changed in the order of these fields, with the biases first;
 * of equal logits, the token with the lower number counts as the larger. A draw depends on the logits,
 * the seed, the position and the tokens before it. */
typedef struct tenon_generate_options {
  size_t struct_size;
  double
      repetition_penalty;   /* divides logits above 0 of tokens of prompt and answer, and multiplies
                               those below; 1, no penalty, by default */
  double frequency_penalty; /* subtracted from a token's logit each time it is generated */
  double presence_penalty;  /* subtracted from a token's logit once it has been generated */
  double temperature;       /* 0 takes the most probable token */
  double min_p;  /* draw from tokens at least so probable, as a share of the most probable */
  int64_t top_k; /* draw from this number of most probable tokens; 0 for all */
  double top_p;  /* draw from the fewest tokens whose probabilities reach this sum; 1 by default */
  uint64_t seed;
  const tenon_logit_bias *biases;
  size_t bias_count;
  int64_t max_tokens;       /* of the answer; 512 by default */
  const char *const *stops; /* texts that end the answer and are not part of it; ends with NULL */
  int64_t top_tokens;       /* most probable tokens that each piece lists */
  /* What the answer is held to, as OpenAI's response_format in JSON: {"type": "json_object"}, or
   * {"type": "json_schema", "json_schema": {"schema": ...}}; NULL for any text. TN0105 for other JSON,
   * TN0256 for a schema that cannot be held; TN0625 of tenon_answer_next if the answer cannot go on. */
  const char *response_format;
} tenon_generate_options;

/* Why an answer ended. */
typedef enum tenon_finish {
  TENON_FINISH_NONE = 0,  /* it goes on */
  TENON_FINISH_END = 1,   /* the model ended its text */
  TENON_FINISH_STOP = 2,  /* a stop string came */
  TENON_FINISH_LENGTH = 3 /* max_tokens, or the end of the positions */
} tenon_finish;

/* A token and the logarithm of its probability, in the model's own distribution: before biases,
 * penalties and all that follows. */
typedef struct tenon_draw {
  int32_t token;
  double logprob;
} tenon_draw;

/* What one more token gives. */
typedef struct tenon_piece {
  size_t struct_size; /* set by the caller */
  /* The text that has become certain, which may be empty: whole code points, and nothing that may
   * still become part of a stop string. A zero byte follows. Text and top live until the next call
   * for the answer. */
  const char *text;
  size_t bytes;
  tenon_draw draw;       /* the token; that of the last piece may be a control token */
  const tenon_draw *top; /* the most probable tokens, as options.top_tokens asked */
  size_t top_count;
  tenon_finish finish; /* not TENON_FINISH_NONE in the last piece */
} tenon_piece;

/* Begins an answer to a prompt; nothing is computed yet. TN0105 for options out of range and for tokens
 * outside the vocabulary, TN0616 for a prompt that is longer than the engine's positions. */
TENON_GENERATE_API tenon_status *tenon_answer_create(tenon_sequence *sequence,
                                                     const int32_t *prompt, size_t count,
                                                     const tenon_generate_options *options,
                                                     tenon_answer **answer);
/* Computes one more token; the first call also reads the prompt. TN0105 after the last piece, after an
 * error, and after another answer went on with the sequence; TN0617 if a logit is not finite. */
TENON_GENERATE_API tenon_status *tenon_answer_next(tenon_answer *answer, tenon_piece *piece);
/* Releases the answer, before its end too: the sequence is ready for the next one. NULL is allowed. */
TENON_GENERATE_API void tenon_answer_destroy(tenon_answer *answer);

/* ---- score ---- */

/* Called in the calling thread with the fraction of the text that is read. A result other than 0 ends
 * the call with TN0407. */
typedef int32_t (*tenon_score_progress)(void *user, double fraction);

/* As tenon_sequence_options. */
typedef struct tenon_score_options {
  size_t struct_size;
  int64_t window;     /* tokens that are read together, of which the first is not scored; by default
                         512, or the positions if they are fewer */
  int64_t max_tokens; /* of the text; all by default */
  uint32_t threads;   /* as tenon_sequence_options */
  tenon_score_progress progress; /* may be NULL */
  void *user;                    /* passed to it */
} tenon_score_options;

/* A mean over tokens with the ends of its 95 % interval. */
typedef struct tenon_mean {
  double value;
  double low;
  double high;
} tenon_mean;

/* How well a model foresees a text. */
typedef struct tenon_score {
  size_t struct_size;    /* set by the caller */
  int64_t tokens;        /* that were scored */
  tenon_mean surprise;   /* -log of the probability of a token; its exponential is the perplexity */
  tenon_mean divergence; /* Kullback-Leibler from the reference's distribution, in nats */
  tenon_mean same_top;   /* share of tokens for which both have the same most probable token */
} tenon_score;

/* Scores `bytes` bytes of text. `reference` is a model of the same vocabulary to compare with, or NULL:
 * the last two means are then 0. TN0105 if the text has fewer than two tokens. */
TENON_GENERATE_API tenon_status *tenon_language_model_score(const tenon_language_model *model,
                                                            const tenon_language_model *reference,
                                                            const char *text, size_t bytes,
                                                            const tenon_score_options *options,
                                                            tenon_score *score);

#ifdef __cplusplus
}
#endif
#endif
