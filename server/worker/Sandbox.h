// What the worker process gives up before it runs code of engines: new privileges, files to write
// and programs to start, the network, and system calls that nothing in it needs.

#pragma once

namespace tenon::server {

/// Of the calling thread and those that it starts; called before there are others. What the kernel
/// lacks is left out: the front looks at what is in force (/proc/PID/status).
void enterSandbox();

} // namespace tenon::server
