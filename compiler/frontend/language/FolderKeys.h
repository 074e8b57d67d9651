// What a folder says beside its weights, as the keys of a GGUF file.
#pragma once

#include "compiler/frontend/language/Folder.h"
#include "compiler/frontend/weights/gguf/Writer.h"

#include <string>
#include <vector>

namespace tenon::language {

/// Keys of the architecture, of the tokenizer for an embedding of so many rows, and of the chat
/// template. What GGUF cannot say goes to `gaps`, or to `notes` where nothing but a convenience is
/// lost.
Status putFolderKeys(const Folder &folder, int64_t rows, gguf::Writer &writer,
                     std::vector<frontend::Gap> &gaps, std::vector<std::string> &notes);

} // namespace tenon::language
