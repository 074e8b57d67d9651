// What a language model is: its family's switches, its tensors, tokenizer and chat template, out of
// the records that its file and its engine have alike.
#pragma once

#include "generate/session/Fit.h"
#include "support/json/Json.h"

#include <optional>
#include <string>

namespace tenon::tool {

struct LanguageInfo {
  Json language;  ///< the record; null for a model of another kind
  Json tokenizer; ///< the record; null for none
  std::optional<generate::Fit> fit;
  std::optional<generate::ServiceFit> users; ///< where somebody asked
};

/// Empty for a model of another kind. Lines begin with two spaces.
std::string languageText(const LanguageInfo &info);
/// The same for programs.
Json languageJson(const LanguageInfo &info);

} // namespace tenon::tool
