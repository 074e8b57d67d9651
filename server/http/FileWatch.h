// Files of a server that change on disk while it runs: the certificate with its key, and the
// tokens.

#pragma once

#include "server/http/ServerContext.h"

#include <boost/asio/awaitable.hpp>

namespace tenon::server {

/// Looks once a second whether the files are others, for as long as the server runs, and reads them
/// when they have not changed for a second. What cannot be used is logged (TN0831, TN0803), and
/// what was read before stays.
boost::asio::awaitable<void> watchCertificates(std::shared_ptr<ServerContext> server);
boost::asio::awaitable<void> watchTokens(std::shared_ptr<ServerContext> server);

} // namespace tenon::server
