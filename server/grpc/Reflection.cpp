// The descriptors are those that protoc makes of the .proto files here; no file imports another, so
// that one is all that a client needs of a symbol.

#include "server/grpc/Reflection.h"

#include "server/grpc/Framing.h"

#include <fmt/format.h>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include <map>

namespace tenon::server {
namespace {

using protozero::pbf_reader;
using protozero::pbf_writer;

constexpr unsigned char kDescriptors[] = {
#include "server/grpc/descriptors.binpb.inc"
};

enum : uint32_t { kNotFound = 5, kUnimplemented = 12 }; // codes of gRPC

std::string textOf(protozero::data_view view) { return {view.data(), view.size()}; }

struct Descriptors {
  std::map<std::string, std::string> files;   ///< by name
  std::map<std::string, std::string> symbols; ///< full names, with the file of each
  std::vector<std::string> services;

  Descriptors() {
    pbf_reader set(reinterpret_cast<const char *>(kDescriptors), sizeof(kDescriptors));
    while (set.next(1)) {
      protozero::data_view file = set.get_view();
      std::string name, package;
      pbf_reader fields(file);
      while (fields.next()) {
        switch (fields.tag()) {
        case 1:
          name = textOf(fields.get_view());
          break;
        case 2:
          package = textOf(fields.get_view()) + ".";
          break;
        case 4: // a message
          add(fields.get_message(), package, name);
          break;
        case 6:
          services.push_back(add(fields.get_message(), package, name));
          break;
        default:
          fields.skip();
        }
      }
      files[name] = textOf(file);
    }
  }

private:
  /// A message or service, with what is named within it: fields and methods, messages and enums.
  std::string add(pbf_reader symbol, const std::string &scope, const std::string &file,
                  bool isLeaf = false) {
    std::string name;
    while (symbol.next()) {
      if (symbol.tag() == 1) {
        name = scope + textOf(symbol.get_view());
        symbols[name] = file;
      } else if (!isLeaf && symbol.tag() <= 4) {
        add(symbol.get_message(), name + ".", file, symbol.tag() != 3);
      } else {
        symbol.skip();
      }
    }
    return name;
  }
};

const Descriptors &descriptors() {
  static const Descriptors kAll;
  return kAll;
}

void writeError(pbf_writer &reply, uint32_t code, std::string_view text) {
  pbf_writer error(reply, 7);
  error.add_uint32(1, code);
  error.add_string(2, text.data(), text.size());
}

void writeFile(pbf_writer &reply, const std::map<std::string, std::string> &files,
               const std::string &name) {
  std::map<std::string, std::string>::const_iterator file = files.find(name);
  if (file == files.end()) {
    writeError(reply, kNotFound, fmt::format("there is no '{}'", name.substr(0, 255)));
  } else {
    pbf_writer(reply, 4).add_bytes(1, file->second);
  }
}

} // namespace

Result<std::string> answerReflection(std::string_view message) {
  const Descriptors &all = descriptors();
  std::string answer;
  pbf_writer reply(answer);
  reply.add_message(2, message.data(), message.size());
  uint32_t asked = 0;
  std::string name;
  try {
    pbf_reader request(message.data(), message.size());
    while (request.next()) {
      bool isText = request.wire_type() == protozero::pbf_wire_type::length_delimited;
      std::string value = isText ? textOf(request.get_view()) : (request.skip(), "");
      if (request.tag() == 1) {
        reply.add_string(1, value);
      } else if (isText) {
        asked = request.tag(); // the last of a oneof counts
        name = std::move(value);
      }
    }
  } catch (const protozero::exception &error) {
    return malformedMessage(error.what());
  }
  std::map<std::string, std::string>::const_iterator symbol = all.symbols.find(name);
  if (asked == 3) {
    writeFile(reply, all.files, name);
  } else if (asked == 4 && symbol != all.symbols.end()) {
    writeFile(reply, all.files, symbol->second);
  } else if (asked == 6 && symbol != all.symbols.end()) {
    pbf_writer(reply, 5).add_string(1, name); // it has no extensions
  } else if (asked == 7) {
    pbf_writer services(reply, 6);
    for (const std::string &service : all.services) {
      pbf_writer(services, 1).add_string(1, service);
    }
  } else if (asked == 4 || asked == 6) {
    writeError(reply, kNotFound, fmt::format("there is no '{}'", name.substr(0, 255)));
  } else if (asked == 5) {
    writeError(reply, kNotFound, "there are no extensions");
  } else {
    writeError(reply, kUnimplemented, "the request contains no known question");
  }
  return answer;
}

} // namespace tenon::server
