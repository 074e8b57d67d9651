// What compilers call in programs without a library. `volatile`: else they would find these loops
// to be calls of the functions themselves.
#pragma once

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    ((volatile char *)to)[i] = ((const char *)from)[i];
  }
  return to;
}

void *memset(void *to, int value, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    ((volatile char *)to)[i] = (char)value;
  }
  return to;
}
