// Tensors of the C interface, which have DLPack's layout, as bindings of a run.

#pragma once

#include "runtime/core/Session.h"
#include "tenon/tenon.h"

#include <span>
#include <vector>

namespace tenon::capi {

/// Checks type, place and layout of each tensor against the engine's inputs.
Status bindInputs(const runtime::Engine &engine, std::span<const tenon_tensor *const> tensors,
                  std::vector<runtime::InputBinding> &bindings);
/// The same for outputs, whose dims must be those of the session's last prepare. Null keeps an
/// output in the session.
Status bindOutputs(const runtime::Session &session, std::span<const tenon_tensor *const> tensors,
                   std::vector<runtime::OutputBinding> &bindings);

} // namespace tenon::capi
