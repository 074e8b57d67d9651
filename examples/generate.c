// Answers a message with an engine of a language model, through the C interface.
#include <stdio.h>
#include <tenon/generate.h>

int main(int argc, char **argv) {
  tenon_language_model *model = NULL;
  tenon_sequence *sequence = NULL;
  tenon_answer *answer = NULL;
  tenon_tokens prompt = {NULL, 0};
  tenon_message message = {"user", argc > 2 ? argv[2] : "Hello", 0};
  tenon_piece piece = {.struct_size = sizeof(piece)};
  tenon_status *status =
      tenon_language_model_open(argc > 1 ? argv[1] : "model.tenon", NULL, &model);
  if (!status) {
    status = tenon_language_model_chat(model, NULL, &message, 1, &prompt);
  }
  if (!status) {
    status = tenon_sequence_create(model, NULL, &sequence);
  }
  if (!status) {
    status = tenon_answer_create(sequence, prompt.data, prompt.count, NULL, &answer);
  }
  while (!status && piece.finish == TENON_FINISH_NONE) {
    status = tenon_answer_next(answer, &piece);
    if (!status) {
      fwrite(piece.text, 1, piece.bytes, stdout);
      fflush(stdout);
    }
  }
  if (status) {
    fprintf(stderr, "%s\n", tenon_status_text(status));
  }
  int code = tenon_status_code(status);
  tenon_status_destroy(status);
  tenon_answer_destroy(answer);
  tenon_sequence_destroy(sequence);
  tenon_tokens_destroy(&prompt);
  tenon_language_model_destroy(model);
  return code;
}
