// A tuning store: a folder with an append-only file of records, a line each, and the lock of who
// writes. A reader needs no lock: it sees whole lines, and one that is being written as torn.
#pragma once

#include "compiler/tuning/Record.h"
#include "support/files/PrivateFolder.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::tuning {

/// What a file of records holds.
struct Records {
  std::vector<Record> records;     ///< in the order of the file
  std::vector<std::string> faults; ///< of lines that are none, each with its number: TN0140
  /// Whether the last line has no end, as after a process that was killed while it wrote.
  bool isTorn = false;
};

/// Of a folder that is there or not; empty without a file. TN0140 where that is of another format,
/// TN0103 where the folder is not the user's own.
Result<Records> readStore(const std::string &folder);
/// Of a file that `exportRecords` wrote, of whoever.
Result<Records> readRecords(const std::string &path);
/// Writes a file of records; it appears whole or not at all.
Status exportRecords(const std::vector<Record> &records, const std::string &path);

/// The one writer of a store, for as long as it lives.
class StoreWriter {
public:
  /// Makes the folder if need be and cuts a torn line off. TN0141 while another process writes.
  static Result<StoreWriter> open(const std::string &folder);
  StoreWriter(StoreWriter &&other) noexcept;
  StoreWriter &operator=(StoreWriter &&other) noexcept;
  ~StoreWriter();

  /// As it was when it was opened.
  const Records &found() const { return content; }
  /// On disk when it returns; after an error the store is as before.
  Status append(const Record &record);
  /// Only these from now on.
  Status replace(const std::vector<Record> &records);

private:
  StoreWriter(PrivateFolder folder, std::string path, int lock)
      : folder(std::move(folder)), path(std::move(path)), lockFile(lock) {}
  Status start();
  Status openFile();

  PrivateFolder folder;
  std::string path; ///< of the folder
  int lockFile = -1;
  int file = -1;
  Records content;
};

} // namespace tenon::tuning
