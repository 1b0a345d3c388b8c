// CHECK(condition) and CHECK_EQ(a, b): say where and what, and fail the program at its end.
#pragma once

#include <iostream>
#include <string_view>

namespace stepscope::testing {

inline int failures = 0;

inline void fail(const char* file, int line, const char* what) {
  std::cerr << file << ':' << line << ": failed: " << what << '\n';
  ++failures;
}

template <typename A, typename B>
void check_equal(const char* file, int line, const char* what, const A& a, const B& b) {
  if (a == b) return;
  fail(file, line, what);
  std::cerr << "    " << a << " != " << b << '\n';
}

// What main() returns.
inline int result(std::string_view name) {
  if (failures == 0) std::cout << name << ": ok\n";
  return failures == 0 ? 0 : 1;
}

}  // namespace stepscope::testing

#define CHECK(condition) \
  if (!(condition)) stepscope::testing::fail(__FILE__, __LINE__, #condition)
#define CHECK_EQ(a, b) stepscope::testing::check_equal(__FILE__, __LINE__, #a " == " #b, a, b)
