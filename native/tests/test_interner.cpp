// Names to numbers: equal texts have equal numbers, whatever address they come from.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>

#include "core/interner.h"

using namespace stepscope;
using std::string_literals::operator""s;

namespace {

TEST_CASE("the empty text is number 0") {
  Interner interner;
  TextCache<7> cache;
  CHECK_EQ(interner.intern("").first, 0U);
  CHECK_EQ(id_of("", cache, interner), 0U);
  CHECK_EQ(interner.texts().size(), 1U);
}

TEST_CASE("equal texts have equal numbers") {
  Interner interner;
  TextCache<7> cache;
  TextCache<7> other;
  const uint32_t first = id_of("aten::add", cache, interner);
  const std::string elsewhere = "aten::"s + "add";
  CHECK_EQ(id_of(elsewhere, cache, interner), first);
  CHECK_EQ(id_of("aten::add", other, interner), first);
  CHECK(id_of("aten::sub", cache, interner) != first);
  CHECK_EQ(interner.texts()[first], "aten::add");
}

TEST_CASE("more names than slots and names that look alike") {
  Interner interner;
  TextCache<7> cache;
  std::vector<std::string> names;
  for (int i = 0; i < 20'000; ++i) {
    names.push_back("same head " + std::to_string(100'000 + i) + " tail");
  }
  names.push_back("a\0b"s);
  names.push_back("a");
  names.push_back(std::string(100'000, 'x'));
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (id_of(names[i], cache, interner) != i + 1)
        CHECK_EQ(id_of(names[i], cache, interner), i + 1);
    }
  }
  CHECK_EQ(interner.texts().size(), names.size() + 1);
}

TEST_CASE("a cleared cache forgets the other recordings numbers") {
  TextCache<7> cache;
  const std::string name = "aten::add";
  const auto old = std::make_unique<Interner>();
  id_of("shifts the numbers", cache, *old);
  CHECK_EQ(id_of(name, cache, *old), 2U);
  cache.clear();
  Interner fresh;
  CHECK_EQ(id_of(name, cache, fresh), 1U);
}

TEST_CASE("threads agree") {
  Interner interner;
  std::vector<std::thread> threads;
  std::vector<std::vector<uint32_t>> seen(8);
  for (auto& ids : seen) {
    threads.emplace_back([&interner, &ids] {
      TextCache<7> cache;
      for (int i = 0; i < 2'000; ++i)
        ids.push_back(id_of(std::to_string(i % 500), cache, interner));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& ids : seen) CHECK(ids == seen.front());
  CHECK_EQ(interner.texts().size(), 501U);
}

}  // namespace
