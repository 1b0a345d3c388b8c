// What the fuzzers of the readers share: seeds from files, mutated texts, and checks.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace stepscope::testing {

inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

inline size_t up_to(size_t most, std::mt19937& random) {
  return std::uniform_int_distribution<size_t>(0, most)(random);
}

// Changes a text in a few places. `piece` returns what to insert.
template <typename Piece>
std::string mutated(std::string text, std::mt19937& random, const Piece& piece) {
  for (size_t edits = up_to(5, random) + 1; edits > 0 && !text.empty(); --edits) {
    const size_t at = up_to(text.size() - 1, random);
    switch (up_to(3, random)) {
      case 0:
        text[at] = static_cast<char>(up_to(255, random));
        break;
      case 1:
        text.erase(at, up_to(30, random));
        break;
      case 2:
        text.insert(at, piece());
        break;
      default:
        text.insert(at, text.substr(up_to(text.size() - 1, random), up_to(60, random)));
    }
  }
  return text;
}

// A fuzzer is called as FUZZER ROUNDS [FILE...].
inline long rounds_of(int count, char** arguments) {
  return count > 1 ? std::atol(arguments[1]) : 2000;
}

inline std::vector<std::string> files_of(int count, char** arguments) {
  std::vector<std::string> files;
  for (int i = 2; i < count; ++i) {
    std::ifstream file(arguments[i], std::ios::binary);
    files.emplace_back((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  }
  return files;
}

}  // namespace stepscope::testing
