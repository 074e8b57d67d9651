// The importer of language models: a GGUF file or a Hugging Face folder becomes a `tn` module that
// reads some tokens at positions that follow those in its cache, or one error, or the list of
// everything in it that Tenon lacks.
//
// Inputs are `tokens` [tokens]; `start` [1], the number of tokens that the cache has already;
// `rows` [rows], of which of the tokens the logits are asked for; and `context` [context], the
// numbers from 0, of the positions of the cache that are read: at least those that are filled. The
// output is `logits` [rows, vocabulary]. Keys and values of each layer are state of the session.
//
// With pages, keys and values of many sequences lie in pages of 32 positions. Inputs are then
// `tokens`, `positions` of each in its sequence and `slots`, where it is written, all [tokens];
// `starts` [sequences + 1], `lengths` [sequences] and `pages` [sequences, pages of one at most], as
// tn.paged_attention has them; and `rows`. Where tokens are drawn, inputs `numbers` and `integers`,
// [rows, 3], and outputs `ids` and `logprobs`, [rows], follow: those of tn.sample. The input
// `fetched` [fetched] says then which of the rows `logits` [fetched, vocabulary] has.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/graph/WeightStore.h"
#include "support/Result.h"

namespace tenon::language {

/// Imports a file. Weights enter `store` as views of the mapped file, or are taken out of its
/// blocks when they are needed; the store keeps the file alive. Errors: TN0243 to TN0245.
Result<frontend::ImportResult> importGguf(const std::string &path,
                                          const frontend::ImportOptions &options,
                                          mlir::MLIRContext &context, tn::WeightStore &store);

/// Imports a Hugging Face folder. Errors: TN0252, TN0253, TN0245.
Result<frontend::ImportResult> importFolder(const std::string &path,
                                            const frontend::ImportOptions &options,
                                            mlir::MLIRContext &context, tn::WeightStore &store);

/// Has an imported step over pages draw a token for each row of logits, and give those of some.
void addDraws(mlir::ModuleOp module);

} // namespace tenon::language
