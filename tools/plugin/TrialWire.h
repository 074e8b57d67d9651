// Trials of kernels and their results as bytes, between two processes of the same program.
#pragma once

#include "compiler/kernels/Library.h"

#include <chrono>
#include <string>

namespace tenon::tool {

std::string encode(const kernels::Trial &trial);
std::string encode(const Result<kernels::TrialResult> &result);

/// A trial whose `code` lies in `bytes`. Error for bytes that `encode` did not write.
Result<kernels::Trial> decodeTrial(std::string_view bytes);
Result<kernels::TrialResult> decodeResult(std::string_view bytes);

/// Sends bytes with their number over a stream socket. False if the other side is not there.
bool sendMessage(int socket, std::string_view bytes);

enum class Receipt : uint8_t { Whole, Ended, Late };
/// Waits for bytes with their number, for `patience` at most.
Receipt receiveMessage(int socket, std::string &bytes, std::chrono::seconds patience);

} // namespace tenon::tool
