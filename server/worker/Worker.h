// A worker process of the server: loads engines through the C interface of the runtime and runs
// them. It gets all from the front, over the descriptors of Control.h, and opens no file and no
// socket by itself.

#pragma once

namespace tenon::server {

/// Serves the front until it goes away, which also ends the process while a run goes on. Gives the
/// exit code.
int runWorker();

} // namespace tenon::server
