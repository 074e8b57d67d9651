// Implements the way back from a number.
#include "support/ErrorNumber.h"

namespace tenon {

ErrorId errorNumbered(uint64_t number) {
  switch (number) {
#define TENON_ERROR(known, name, code, title)                                                      \
  case known:                                                                                      \
    return ErrorId::name;
#include "support/Errors.def"
#undef TENON_ERROR
  default:
    return ErrorId::InternalError;
  }
}

} // namespace tenon
