// What a version says of itself.

#include "server/residency/Version.h"

#include "server/protocol/ErrorMap.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {

std::string Version::title() const {
  return fmt::format("model '{}'{}{}", model, number.empty() ? "" : " version ", number);
}

Status Version::readiness() const {
  switch (current) {
  case VersionState::Ready:
    return Status::ok();
  case VersionState::Cold:
    if (!isHeldBack()) {
      return Status::ok();
    }
    [[fallthrough]];
  case VersionState::Failed:
    if (wireStatusOf(failure.id()).http == 503) {
      return failure; // it says itself that the model may come back, and how
    }
    return Status::error(ErrorId::ModelNotReady,
                         fmt::format("{} could not be loaded: {}", title(), failure.toString()),
                         "fix the cause, then load the model again");
  case VersionState::Loading:
    return Status::error(ErrorId::ModelNotReady, title() + " is being loaded",
                         "try again when v2/models/NAME/ready succeeds");
  case VersionState::Unloading:
  case VersionState::Unloaded:
    break;
  }
  return Status::error(ErrorId::ModelNotReady, title() + " was unloaded",
                       fmt::format("POST v2/repository/models/{}/load loads it again", model));
}

void Version::setHeldBytes(Instance &instance, uint64_t bytes) {
  instance.heldBytes = std::min(bytes, kMaxBytes);
  uint64_t held = shared;
  for (const std::unique_ptr<Instance> &each : places.instances) {
    held += each->heldBytes;
  }
  taken = std::max(taken, held);
}

void Version::learn(ModelInfo info) {
  ports = std::move(info.ports);
  shared = std::min(info.sharedBytes, kMaxBytes);
  // Of the first load it was an estimate; later ones take what runs took before.
  taken = std::max(batch ? taken : 0, std::min(info.bytes, kMaxBytes));
  if (!batch) {
    batch = std::move(info.batch);
  }
  language = info.language;
  if (!language) {
    places.textSocket = Descriptor();
  }
}

void Version::release() {
  places = {};
  file.close();
  draft.close();
}

} // namespace tenon::server
