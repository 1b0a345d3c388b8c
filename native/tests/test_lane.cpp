// The fast path of recording: when it is open, and that it records what the slow one does.
#include <doctest/doctest.h>

#include <array>
#include <set>
#include <string>
#include <thread>

#include "core/clock.h"
#include "recorded.h"

using namespace stepscope;
using namespace stepscope::testing;
using std::string_literals::operator""s;

namespace {

bool is_open() { return ThreadState::current()->is_open(); }

// An operator whose name lasts at its address.
OpenSlice* enter_lasting(const char* name, const char* overload) {
  stepscope_begin what{};
  what.name = name;
  what.function = overload;
  what.name_kind = [](const void*) { return uint8_t{STEPSCOPE_NAME_LASTS}; };
  what.overload = [](const void* function) { return static_cast<const char*>(function); };
  what.facts.kind = Kind::kOperator;
  return Recorder::begin(what);
}

TEST_CASE("it opens with the first slice and closes with the window") {
  Window window;
  CHECK(!is_open());
  leave(enter_operator("slow"));
  CHECK(is_open());
  leave(enter_operator("fast"));
  const Snapshot snapshot = window.close();
  CHECK(!is_open());
  CHECK((names(snapshot) == std::vector{"slow"s, "fast"s}));
  const Record& first = *snapshot.records[0];
  const Record& second = *snapshot.records[1];
  CHECK_EQ(first.slice.sequence, second.slice.sequence);
  CHECK_EQ(first.thread, second.thread);
  CHECK_EQ(first.slice.order + 1, second.slice.order);
  CHECK(first.kind == second.kind);
  CHECK_EQ(first.flags, second.flags);
  CHECK(second.start_ticks >= first.slice.end_ticks);
  CHECK(second.slice.end_ticks >= second.start_ticks);
}

TEST_CASE("it is closed to a manual clock") {
  Window window;
  leave(enter_operator("one"));
  Clock::use_manual(0, 10);
  CHECK(!is_open());
  leave(enter_operator("two"));
  CHECK(!is_open());
  Clock::use_system();
  leave(enter_operator("three"));
  CHECK(is_open());
  window.close();
}

TEST_CASE("it is closed inside asyncio tasks") {
  Window window;
  leave(enter_operator("one"));
  leave(Recorder::begin(Kind::kRange, "in a task", {}, 7));
  CHECK(!is_open());
  leave(enter_operator("two"));
  CHECK(!is_open());
  window.close();
}

TEST_CASE("it is closed when the limit is met and opens when that is widened") {
  Window window({16 * 1024, Keep::kOldest});
  for (int i = 0; i < 1'000; ++i) leave(enter_operator("op"));
  CHECK(!is_open());
  Window wider({1 << 20, Keep::kOldest});
  leave(enter_operator("op"));
  leave(enter_operator("op"));
  CHECK(is_open());
  CHECK_EQ(wider.close().records.size(), 2U);
  const Snapshot snapshot = window.close();
  CHECK_EQ(snapshot.records.size() + snapshot.lost, 1'002U);
}

TEST_CASE("a slice of the recording before ends in none") {
  Window first;
  OpenSlice* const old = enter_operator("old");
  first.close();
  Window second;
  leave(enter_operator("new"));
  leave(old);
  CHECK_EQ(second.close().records.size(), 1U);
}

TEST_CASE("a name that lasts is read once until names change") {
  Window window;
  std::string buffer = "first!";
  leave(enter_lasting(buffer.c_str(), "overload"));
  buffer = "second";
  leave(enter_lasting(buffer.c_str(), "overload"));
  CHECK(is_open());
  Recorder::core_api().names_changed();
  CHECK(!is_open());
  leave(enter_lasting(buffer.c_str(), ""));
  const std::string overloaded = "first!\0overload"s;
  CHECK((names(window.close()) == std::vector{overloaded, overloaded, "second"s}));
}

// More addresses than places: those of two overloads meet in one, and are still told apart.
TEST_CASE("overloads that share a place stay apart") {
  Window window;
  const std::vector<std::array<char, 16>> addresses(5'000, {'o', 'p', '\0'});
  for (size_t i = 0; i < addresses.size(); ++i) {
    leave(enter_lasting(addresses[i].data(), std::to_string(i % 7).c_str()));
  }
  const std::vector<std::string> names_seen = names(window.close());
  size_t right = 0;
  for (size_t i = 0; i < names_seen.size(); ++i)
    right += names_seen[i] == "op\0"s + std::to_string(i % 7);
  CHECK_EQ(right, addresses.size());
}

TEST_CASE("a function without an overload to give is not recorded") {
  Window window;
  CHECK(enter_lasting("plumbing", nullptr) == nullptr);
  CHECK(enter_lasting("plumbing", nullptr) == nullptr);
  CHECK_EQ(window.close().records.size(), 0U);
}

// A bridge's pointer to the lane must not outlive it.
TEST_CASE("a thread that ends clears the bridges slot") {
  Lane* slot = nullptr;
  std::thread([&slot] {
    slot = Recorder::core_api().lane(&slot);
    CHECK(slot != nullptr);
  }).join();
  CHECK(slot == nullptr);
}

}  // namespace
