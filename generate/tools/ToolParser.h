// Finds calls of tools in the text of an answer, as it comes: the text beside them, and the parts
// of each call.
#pragma once

#include "generate/tools/ObjectScan.h"
#include "generate/tools/ToolFormat.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate {

/// A part of a call; the first has the id and the name.
struct CallPart {
  size_t index = 0; ///< of the call in its answer
  std::string id, name;
  std::string arguments; ///< what has come of the JSON
};

struct ToolText {
  std::string content; ///< that belongs to no call
  std::vector<CallPart> parts;

  void append(ToolText &&other);
};

/// One answer's. What looks like a call and is none, by its form or its name, is content.
class ToolParser {
public:
  /// `names` are those of the tools. Ids are made of `chance`. With `isParallel` false the answer
  /// is over behind its first call.
  ToolParser(ToolFormat theFormat, std::vector<std::string> theNames, bool theIsParallel,
             uint64_t theChance)
      : format(std::move(theFormat)), names(std::move(theNames)), isParallel(theIsParallel),
        chance(theChance) {}

  ToolText add(std::string_view text);
  /// The text has ended.
  ToolText finish();

  size_t calls() const { return count; }
  /// Whether nothing more of the text counts.
  bool isOver() const { return !isParallel && count > 0 && state != State::Call; }

private:
  enum class State : uint8_t { Content, Call, Behind };
  void takeContent(ToolText &out);
  bool beginCall(ToolText &out);
  bool takeCall(ToolText &out);
  bool takeObject(ToolText &out);
  bool takeNamed(ToolText &out);
  bool takeBehind(ToolText &out);
  bool takeBehindNamed();
  bool takeBehindObject(ToolText &out);
  void stream(ToolText &out, std::string_view arguments, bool isWhole);
  bool startCall(ToolText &out, const std::string &name);
  void endCall();
  void reject(ToolText &out);
  std::string makeId();

  const ToolFormat format;
  const std::vector<std::string> names;
  const bool isParallel;
  uint64_t chance;
  State state = State::Content;
  std::string held;        ///< what is not handed out yet
  bool hasContent = false; ///< but white space
  ObjectScan scan;
  size_t opened = 0; ///< characters of `held` before the call's own
  size_t count = 0;
  bool isStarted = false; ///< the call's first part was handed out
  size_t streamed = 0;    ///< characters of its arguments
  size_t argumentsAt = 0; ///< in `held`, of a call whose name is outside of them
};

} // namespace tenon::generate
