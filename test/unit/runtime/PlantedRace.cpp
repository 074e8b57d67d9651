// A data race that the thread sanitizer must report; without it this test proves nothing.
#include <thread>

int main() {
  int shared = 0;
  std::thread other([&] { ++shared; });
  ++shared;
  other.join();
  return 0;
}
