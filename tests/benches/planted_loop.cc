#include <chrono>
#include <cstdio>
#include <cstdlib>

// The loop of tests/full/planted alone. PROGRAM ROUNDS TIMES prints the nanoseconds that it takes, each time.
int main(int, char **argv) {
  const int rounds = std::atoi(argv[1]);
  for (int times = std::atoi(argv[2]); times > 0; --times) {
    const auto begin = std::chrono::steady_clock::now();
    for (int planted_round = 0; planted_round < rounds; ++planted_round) {
      asm volatile("" : "+r"(planted_round));
    }
    const auto time = std::chrono::steady_clock::now() - begin;
    std::printf("%lld\n", static_cast<long long>(std::chrono::nanoseconds(time).count()));
  }
}
