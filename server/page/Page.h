// The page of a server: files that the build embeds. They hold no data, and load nothing from
// anywhere else.

#pragma once

#include <string_view>

namespace tenon::server {

struct PageFile {
  std::string_view path; ///< as the table of routes has it
  std::string_view type;
  std::string_view text;
};

/// `path` is one of those that the table of routes has for Operation::Page.
const PageFile &pageFile(std::string_view path);

/// What the page may do: run and show its own files and ask its own server; no markup from text, in
/// no frame.
constexpr std::string_view
    kPagePolicy("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                "connect-src 'self'; base-uri 'none'; form-action 'none'; "
                "frame-ancestors 'none'; require-trusted-types-for 'script'");

} // namespace tenon::server
