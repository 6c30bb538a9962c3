// Randomness as a pure function of its coordinates: the same (seed, pass, split, record) gives the same bits on every
// machine, whoever computes them (docs/semantics.md section 3).
#ifndef SHOAL_BASE_RANDOM_H_
#define SHOAL_BASE_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <vector>

namespace shoal {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection on 64 bits with full avalanche.
inline uint64_t Mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Hash of a list of coordinates; order matters.
inline uint64_t HashCoordinates(std::initializer_list<uint64_t> coordinates) {
  uint64_t h = 0x9e3779b97f4a7c15ULL;
  for (uint64_t c : coordinates) h = Mix64(h + 0x9e3779b97f4a7c15ULL + Mix64(c + 0x632be59bd9b4e019ULL));
  return h;
}

// A stream of random numbers that starts at a set of coordinates (SplitMix64). Not thread-safe; cheap to make.
class Random {
 public:
  explicit Random(std::initializer_list<uint64_t> coordinates) : state_(HashCoordinates(coordinates)) {}
  explicit Random(uint64_t state) : state_(state) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    return Mix64(state_);
  }
  // Uniform in [0, n). REQUIRES: n > 0. Multiply-shift (Lemire 2019) without rejection: the bias is below n / 2^64.
  uint64_t Below(uint64_t n) { return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * n) >> 64); }
  // Uniform in [0, 1), a multiple of 2^-53.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // Standard normal (Box and Muller); uses two numbers of the stream.
  double Normal() {
    const double u = 1.0 - Uniform();  // in (0, 1]
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * Uniform());
  }

 private:
  uint64_t state_;
};

// Fisher-Yates permutation of 0..n-1 at the given coordinates.
template <typename Int = uint32_t>
std::vector<Int> Permutation(uint64_t n, std::initializer_list<uint64_t> coordinates) {
  std::vector<Int> order(n);
  std::iota(order.begin(), order.end(), Int{0});
  Random random(coordinates);
  for (uint64_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

// The order in which a pass visits the splits: result[position] is the index of the split in the plan.
inline std::vector<uint32_t> SplitOrder(uint64_t seed, uint64_t pass, uint64_t splits) {
  return Permutation<uint32_t>(splits, {seed, 0x53504c49u /* "SPLI" */, pass});
}

}  // namespace shoal

#endif  // SHOAL_BASE_RANDOM_H_
