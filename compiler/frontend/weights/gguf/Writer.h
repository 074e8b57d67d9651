// Writes GGUF 3. Relies on its caller for tensors of the sizes that were announced.
#pragma once

#include "compiler/frontend/weights/gguf/Gguf.h"
#include "support/files/AtomicFile.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::gguf {

class Writer {
public:
  /// As it is stored elsewhere.
  void put(std::string_view key, Bytes value);
  void putText(std::string_view key, std::string_view value);
  void putNumber(std::string_view key, uint32_t value);
  void putFloat(std::string_view key, float value);
  void putTruth(std::string_view key, bool value);
  void putTexts(std::string_view key, std::span<const std::string> values);
  void putIntegers(std::string_view key, std::span<const int32_t> values);
  void putTruths(std::string_view key, std::span<const int64_t> values);

  /// A tensor that is written behind those before it.
  void add(const Tensor &tensor);

  using Append = std::function<Status(Bytes)>;
  /// Writes everything. `write` is called for each tensor in order, and appends its bytes. A
  /// power of two is the alignment, as the key general.alignment says; 32 without one.
  Status write(AtomicFile &file, uint64_t alignment,
               const std::function<Status(size_t, const Append &)> &write) const;

private:
  template <typename T> void append(std::string &to, T value) const;
  void appendText(std::string &to, std::string_view text) const;
  void begin(std::string_view key, uint32_t kind);
  template <typename T>
  void putList(std::string_view key, uint32_t kind, std::span<const T> values);

  std::string keys;
  uint64_t keyCount = 0;
  std::vector<Tensor> tensors;
};

} // namespace tenon::gguf
