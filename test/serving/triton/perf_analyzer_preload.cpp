// What perf_analyzer 2.60 needs of glibc 2.38 and of GCC 13's libstdc++, for systems that are
// older: preloaded by perf_analyzer.py.

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ios>
#include <string>

static std::ios_base::Init streams;

extern "C" {
// The functions of C23 also read binary numbers, which nobody passes here.
long __isoc23_strtol(const char *text, char **end, int base) { return strtol(text, end, base); }
long long __isoc23_strtoll(const char *text, char **end, int base) {
  return strtoll(text, end, base);
}
unsigned long __isoc23_strtoul(const char *text, char **end, int base) {
  return strtoul(text, end, base);
}
unsigned long long __isoc23_strtoull(const char *text, char **end, int base) {
  return strtoull(text, end, base);
}
int __isoc23_sscanf(const char *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int count = vsscanf(text, format, arguments);
  va_end(arguments);
  return count;
}

// std::ios_base_library_init() is only named, so that a library is linked that starts the streams;
// `streams` does with an older one.
void _ZSt21ios_base_library_initv() {}

// std::string::_M_replace_cold(place, replaced, source, size, behind): replaces within the string's
// own memory by a part of itself.
void _ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE15_M_replace_coldEPcmPKcmm(
    void *, char *place, size_t replaced, const char *source, size_t size, size_t behind) {
  std::string copy(source, size);
  memmove(place + size, place + replaced, behind);
  memcpy(place, copy.data(), size);
}
}
