// Names to numbers: equal texts have equal numbers, whatever address they come from.
#include <array>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "check.h"
#include "core/interner.h"

using namespace stepscope;
using std::string_literals::operator""s;

namespace {

// As an operator's name is found: by its address first.
uint32_t find(NameCache& cache, Interner& interner, const char* name, const char* overload = "") {
  if (const uint32_t* known = cache.find_at(name)) return *known;
  const uint32_t id = cache.find_with_overload(interner, name, overload);
  cache.keep_at(name, id);
  return id;
}

// As a range's name is found: by its text.
uint32_t find(NameCache& cache, Interner& interner, const std::string& text) {
  return cache.find_text(interner, text);
}

void the_empty_text_is_number_0() {
  Interner interner;
  NameCache cache;
  CHECK_EQ(interner.intern("").first, 0U);
  CHECK_EQ(find(cache, interner, ""), 0U);
  CHECK_EQ(interner.texts().size(), 1U);
}

void equal_texts_have_equal_numbers() {
  Interner interner;
  NameCache cache;
  NameCache other;
  const uint32_t first = find(cache, interner, "aten::add");
  const std::string elsewhere = "aten::"s + "add";
  CHECK_EQ(find(cache, interner, elsewhere), first);
  CHECK_EQ(find(cache, interner, elsewhere.c_str()), first);
  CHECK_EQ(find(other, interner, "aten::add"), first);
  CHECK(find(cache, interner, "aten::sub") != first);
  CHECK_EQ(interner.texts()[first], "aten::add");
}

void an_overload_is_part_of_the_name() {
  Interner interner;
  NameCache cache;
  // Three operators of one name: each has it at an address of its own.
  const std::string names[] = {"aten::add", "aten::add", "aten::add"};
  const uint32_t bare = find(cache, interner, names[0].c_str());
  const uint32_t tensor = find(cache, interner, names[1].c_str(), "Tensor");
  const uint32_t scalar = find(cache, interner, names[2].c_str(), "Scalar");
  CHECK_EQ((std::set{bare, tensor, scalar}.size()), 3U);
  CHECK_EQ(interner.texts()[tensor], "aten::add\0Tensor"s);
  CHECK_EQ(find(cache, interner, names[0].c_str()), bare);
  CHECK_EQ(find(cache, interner, names[1].c_str(), "not asked for"), tensor);
}

// More addresses than slots: those of two overloads meet in one slot, and are still told apart.
void overloads_that_share_a_slot_stay_apart() {
  Interner interner;
  NameCache cache;
  const std::vector<std::array<char, 16>> names(5'000, {'o', 'p', '\0'});
  int wrong = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string overload = std::to_string(i % 7);
    const uint32_t id = find(cache, interner, names[i].data(), overload.c_str());
    wrong += interner.texts()[id] != "op\0"s + overload;
  }
  CHECK_EQ(wrong, 0);
}

// A name that lasts is read once; when one may have gone, the cache is cleared.
void a_changed_text_at_an_old_address_is_another_name_to_a_cleared_cache() {
  Interner interner;
  NameCache cache;
  std::string buffer = "first!";
  const uint32_t first = find(cache, interner, buffer.c_str());
  buffer = "second";
  cache.clear();
  const uint32_t second = find(cache, interner, buffer.c_str());
  CHECK(first != second);
  CHECK_EQ(interner.texts()[second], "second");
}

void a_name_without_an_overload_to_give_is_ignored() {
  Interner interner;
  NameCache cache;
  CHECK_EQ(cache.find_with_overload(interner, "plumbing", nullptr), NameCache::kIgnored);
  CHECK_EQ(interner.texts().size(), 1U);
}

void more_names_than_slots_and_names_that_look_alike() {
  Interner interner;
  NameCache cache;
  std::vector<std::string> names;
  for (int i = 0; i < 20'000; ++i) {
    names.push_back("same head " + std::to_string(100'000 + i) + " tail");
  }
  names.push_back("a\0b"s);
  names.push_back("a");
  names.push_back(std::string(100'000, 'x'));
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (find(cache, interner, names[i]) != i + 1)
        CHECK_EQ(find(cache, interner, names[i]), i + 1);
    }
  }
  CHECK_EQ(interner.texts().size(), names.size() + 1);
}

void a_cleared_cache_forgets_the_other_recordings_numbers() {
  NameCache cache;
  const std::string name = "aten::add";
  const auto old = std::make_unique<Interner>();
  find(cache, *old, "shifts the numbers");
  CHECK_EQ(find(cache, *old, name), 2U);
  cache.clear();
  Interner fresh;
  CHECK_EQ(find(cache, fresh, name), 1U);
}

void threads_agree() {
  Interner interner;
  std::vector<std::thread> threads;
  std::vector<std::vector<uint32_t>> seen(8);
  for (auto& ids : seen) {
    threads.emplace_back([&interner, &ids] {
      NameCache cache;
      for (int i = 0; i < 2'000; ++i) ids.push_back(find(cache, interner, std::to_string(i % 500)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& ids : seen) CHECK(ids == seen.front());
  CHECK_EQ(interner.texts().size(), 501U);
}

}  // namespace

int main() {
  the_empty_text_is_number_0();
  equal_texts_have_equal_numbers();
  an_overload_is_part_of_the_name();
  overloads_that_share_a_slot_stay_apart();
  a_changed_text_at_an_old_address_is_another_name_to_a_cleared_cache();
  a_name_without_an_overload_to_give_is_ignored();
  more_names_than_slots_and_names_that_look_alike();
  a_cleared_cache_forgets_the_other_recordings_numbers();
  threads_agree();
  return testing::result("interner");
}
