// The certificate and the key of a server while they change on disk: new connections get those that
// are there now.

#pragma once

#include "server/http/ServerContext.h"

#include <boost/asio/awaitable.hpp>

namespace tenon::server {

/// Looks once a second whether the files are others, for as long as the server runs, and reads them
/// when they have not changed for a second. What cannot be used is logged (TN0831), and what was
/// read before stays.
boost::asio::awaitable<void> watchCertificates(std::shared_ptr<ServerContext> server);

} // namespace tenon::server
