// The short way of recording: when it is open, and that it records what the long one does.
#include <array>
#include <set>
#include <string>
#include <thread>

#include "check.h"
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
  what.sequence = -1;
  what.kind = STEPSCOPE_OPERATOR;
  return Recorder::begin(what);
}

void it_opens_with_the_first_slice_and_closes_with_the_window() {
  Window window;
  CHECK(!is_open());
  leave(enter_operator("long"));
  CHECK(is_open());
  leave(enter_operator("short"));
  const Snapshot snapshot = window.close();
  CHECK(!is_open());
  CHECK((names(snapshot) == std::vector{"long"s, "short"s}));
  const Record& first = *snapshot.records[0];
  const Record& second = *snapshot.records[1];
  CHECK_EQ(first.sequence, second.sequence);
  CHECK_EQ(first.thread, second.thread);
  CHECK_EQ(first.order + 1, second.order);
  CHECK(first.kind == second.kind && first.flags == second.flags);
  CHECK(second.start_ticks >= first.end_ticks && second.end_ticks >= second.start_ticks);
}

void it_is_closed_to_a_manual_clock() {
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

void it_is_closed_inside_asyncio_tasks() {
  Window window;
  leave(enter_operator("one"));
  leave(Recorder::begin(Kind::kRange, "in a task", {}, 7));
  CHECK(!is_open());
  leave(enter_operator("two"));
  CHECK(!is_open());
  window.close();
}

void it_is_closed_when_the_limit_is_met_and_opens_when_that_is_widened() {
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

void a_slice_of_the_recording_before_ends_in_none() {
  Window first;
  OpenSlice* const old = enter_operator("old");
  first.close();
  Window second;
  leave(enter_operator("new"));
  leave(old);
  CHECK_EQ(second.close().records.size(), 1U);
}

void a_name_that_lasts_is_read_once_until_names_change() {
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
void overloads_that_share_a_place_stay_apart() {
  Window window;
  const std::vector<std::array<char, 16>> addresses(5'000, {'o', 'p', '\0'});
  for (size_t i = 0; i < addresses.size(); ++i) {
    leave(enter_lasting(addresses[i].data(), std::to_string(i % 7).c_str()));
  }
  const std::vector<std::string> found = names(window.close());
  size_t right = 0;
  for (size_t i = 0; i < found.size(); ++i) right += found[i] == "op\0"s + std::to_string(i % 7);
  CHECK_EQ(right, addresses.size());
}

void a_function_without_an_overload_to_give_is_not_recorded() {
  Window window;
  CHECK(enter_lasting("plumbing", nullptr) == nullptr);
  CHECK(enter_lasting("plumbing", nullptr) == nullptr);
  CHECK_EQ(window.close().records.size(), 0U);
}

// A bridge's own way to the lane ends with it.
void a_thread_that_ends_clears_the_bridges_slot() {
  Lane* slot = nullptr;
  std::thread([&slot] {
    slot = Recorder::core_api().lane(&slot);
    CHECK(slot != nullptr);
  }).join();
  CHECK(slot == nullptr);
}

}  // namespace

int main() {
  it_opens_with_the_first_slice_and_closes_with_the_window();
  it_is_closed_to_a_manual_clock();
  it_is_closed_inside_asyncio_tasks();
  it_is_closed_when_the_limit_is_met_and_opens_when_that_is_widened();
  a_slice_of_the_recording_before_ends_in_none();
  a_name_that_lasts_is_read_once_until_names_change();
  overloads_that_share_a_place_stay_apart();
  a_function_without_an_overload_to_give_is_not_recorded();
  a_thread_that_ends_clears_the_bridges_slot();
  return testing::result("lane");
}
