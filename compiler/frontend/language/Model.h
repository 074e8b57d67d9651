// What a file says of a language model: its family, its sizes, and its tensors by the names of
// their parts. Relies on GGUF's keys.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/frontend/language/Family.h"
#include "compiler/frontend/language/Rotation.h"
#include "compiler/frontend/weights/gguf/Gguf.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tenon::language {

struct Folder;

struct Model {
  const Family *family = nullptr;
  int64_t layers = 0;
  int64_t width = 0;      ///< of the residual stream
  int64_t inner = 0;      ///< of the feed-forward part
  int64_t heads = 0;      ///< of queries
  int64_t keyHeads = 0;   ///< of keys and values
  int64_t keyWidth = 0;   ///< of a head of queries and keys
  int64_t valueWidth = 0; ///< of a head of values
  int64_t vocabulary = 0;
  int64_t context = 0;      ///< positions that it was trained for
  int64_t turned = 0;       ///< elements of a head that rotary embeddings turn
  Rope rope = Rope::Halves; ///< of the family, where the file has its rows in that order
  Rotation rotation;
  /// Of layers with a window, where it is another.
  std::optional<Rotation> windowRotation;
  int64_t window = 0;                      ///< the last keys that a query sees; 0 for all
  std::vector<bool> isWindowed;            ///< by layer
  double epsilon = 0;                      ///< of norms
  double scoreScale = 0;                   ///< what products of queries and keys are multiplied by
  double scoreCap = 0;                     ///< what scores stay below, before the mask; 0 for none
  double logitCap = 0;                     ///< the same of logits
  double embeddingScale = 1;               ///< what embeddings are multiplied by
  bool isParallel = false;                 ///< attention and feed-forward read the same input
  std::set<std::string, std::less<>> read; ///< tensors that are in the above
  gguf::File file;
  std::shared_ptr<const Folder> folder; ///< null for a GGUF file

  /// What a user may try where the file contradicts itself.
  std::string_view remedy() const {
    return folder ? "download the whole folder again"
                  : "convert the model again with a current converter";
  }
  const gguf::Tensor *tensor(std::string_view name) const { return file.tensor(name); }
};

/// Reads keys and shapes. TN0245 where they contradict each other; what the model needs and Tenon
/// lacks goes to `gaps`, all of it.
Result<Model> readModel(gguf::File file, std::shared_ptr<const Folder> folder,
                        std::vector<frontend::Gap> &gaps);

/// "blk.3.attn_q.weight"
std::string layerTensor(int64_t layer, std::string_view part);

} // namespace tenon::language
