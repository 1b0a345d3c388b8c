// The recorder on one thread: windows, limits, and what a snapshot holds.
#include "check.h"
#include "core/clock.h"
#include "recorded.h"

using namespace stepscope;
using namespace stepscope::testing;
using Names = std::vector<std::string>;

namespace {

void nothing_is_recorded_while_nothing_records() {
  CHECK(!Recorder::recording());
  CHECK(enter("a") == nullptr);
  CHECK(enter_operator("a") == nullptr);
}

void a_snapshot_holds_what_was_recorded() {
  Clock::use_manual(0, 10);
  Window window;
  OpenSlice* const range = enter("range", "detail");
  leave(enter_operator("operator", "overload"));
  leave(range);
  const Snapshot snapshot = window.close();
  CHECK((names(snapshot) == Names{"range", std::string("operator\0overload", 17)}));
  const Record& first = *snapshot.records[0];
  const Record& second = *snapshot.records[1];
  CHECK_EQ(snapshot.texts[first.detail], "detail");
  CHECK(first.kind == Kind::kRange && second.kind == Kind::kOperator);
  CHECK_EQ(first.sequence, -1);
  CHECK_EQ(second.sequence, 7);
  CHECK_EQ(first.start_ticks + 10, second.start_ticks);
  CHECK_EQ(second.end_ticks - second.start_ticks, 10U);
  CHECK_EQ(first.end_ticks - first.start_ticks, 30U);
  CHECK_EQ(snapshot.threads.size(), 1U);
  CHECK_EQ(snapshot.threads[0].logical_id, 3U);
  CHECK_EQ(snapshot.lost, 0U);
  Clock::use_system();
}

void windows_share_a_recording() {
  Window first;
  leave(enter("one"));
  Window second;
  leave(enter("two"));
  CHECK((names(first.close()) == Names{"one", "two"}));
  CHECK(Recorder::recording());
  leave(enter("three"));
  CHECK((names(second.close()) == Names{"two", "three"}));
  CHECK(!Recorder::recording());
}

void a_restarted_window_begins_anew() {
  Window window;
  leave(enter("before"));
  window.restart();
  leave(enter("after"));
  CHECK((names(window.close()) == Names{"after"}));
}

void a_window_closed_twice_is_empty() {
  Window window;
  leave(enter("a"));
  window.close();
  CHECK(window.close().records.empty());
}

void an_open_slice_is_unfinished_and_its_end_is_the_windows() {
  Clock::use_manual(0, 1);
  Window window;
  OpenSlice* const open = enter("open");
  const Snapshot snapshot = window.close();
  CHECK((names(snapshot) == Names{"open"}));
  CHECK_EQ(int{snapshot.records[0]->flags}, int{kUnfinished});
  CHECK_EQ(snapshot.records[0]->end_ticks, snapshot.end_ticks);
  Clock::use_system();

  Window next;
  leave(open);  // of the recording before: not of this one
  CHECK(next.close().records.empty());
}

void slices_may_end_in_any_order() {
  Window window;
  OpenSlice* const a = enter("a");
  OpenSlice* const b = enter("b");
  OpenSlice* const c = enter("c");
  for (OpenSlice* slice : {b, a, c}) leave(slice);
  CHECK((names(window.close()) == Names{"a", "b", "c"}));
}

void many_open_slices_are_all_there() {
  Window window;
  std::vector<OpenSlice*> open;
  for (int i = 0; i < 10'000; ++i) open.push_back(enter(std::to_string(i)));
  for (OpenSlice* slice : open) leave(slice);
  const Snapshot snapshot = window.close();
  CHECK_EQ(snapshot.records.size(), 10'000U);
  CHECK_EQ(names(snapshot).back(), "9999");
}

OpenSlice* enter_call(Recorder::Label label, uint64_t start_ticks = 0) {
  return Recorder::begin(Kind::kPython, label, start_ticks);
}

void a_label_serves_its_own_recording_only() {
  CHECK_EQ(Recorder::label("nobody records").generation, 0U);
  CHECK(enter_call({}) == nullptr);
  Recorder::Label label;
  {
    Window window;
    label = Recorder::label("call");
    leave(enter_call(label));
    leave(enter_call(Recorder::label("call")));
    CHECK((names(window.close()) == Names{"call", "call"}));
  }
  Window window;
  CHECK(enter_call(label) == nullptr);
  CHECK(window.close().records.empty());
}

void a_call_in_progress_begins_with_the_window() {
  Clock::use_manual(0, 1);
  Window first;
  const Recorder::Label label = Recorder::label("call");
  OpenSlice* const range = enter("range");
  leave(enter_call(label));
  OpenSlice* const ends = enter_call(label, 1);
  OpenSlice* const lasts = enter_call(label, 2);
  Window second;
  leave(range);
  leave(ends);
  const Snapshot snapshot = second.close();
  CHECK((names(snapshot) == Names{"call", "call"}));  // a range that was open is not the window's
  CHECK_EQ(snapshot.records[0]->start_ticks, snapshot.start_ticks);
  CHECK_EQ(snapshot.records[1]->start_ticks, snapshot.start_ticks);
  CHECK_EQ(int{snapshot.records[0]->flags}, 0);
  CHECK_EQ(int{snapshot.records[1]->flags}, int{kUnfinished});
  Recorder::cut_off(lasts);
  const Snapshot all = first.close();
  CHECK_EQ(all.records.size(), 4U);
  int cut = 0;
  for (const Record* record : all.records) {
    if (record->flags == kUnfinished) cut += record->start_ticks == 2;
  }
  CHECK_EQ(cut, 1);
  Clock::use_system();
}

uint64_t record_operators(int count, Limit limit, Snapshot* snapshot) {
  Window window(limit);
  OpenSlice* const around = enter("around");
  for (int i = 0; i < count; ++i) leave(enter_operator("op"));
  leave(around);
  *snapshot = window.close();
  return snapshot->records.size() + snapshot->lost;
}

void what_is_kept_and_lost_is_what_was_made() {
  for (const Keep keep : {Keep::kOldest, Keep::kNewest}) {
    for (const uint64_t kib : {64U, 256U, 1'024U, 4'096U}) {
      Snapshot snapshot;
      const int count = static_cast<int>(kib) * 64;
      const uint64_t made = record_operators(count, {kib * 1024, keep}, &snapshot);
      CHECK_EQ(made, static_cast<uint64_t>(count) + 1);
      CHECK(snapshot.lost > 0);
      CHECK(snapshot.records.size() * sizeof(Record) <= kib * 1024 * 9 / 8);
      CHECK(snapshot.records.size() * sizeof(Record) >= kib * 1024 / 2);
      size_t around = 0;
      for (const std::string& name : names(snapshot)) around += name == "around";
      CHECK_EQ(around, 1U);
    }
  }
}

void a_wider_window_gives_room_again() {
  Window narrow({64 * 1024, Keep::kOldest});
  for (int i = 0; i < 5'000; ++i) leave(enter_operator("before"));
  Window wide;
  for (int i = 0; i < 5'000; ++i) leave(enter_operator("during"));
  const Snapshot seen = wide.close();
  CHECK_EQ(seen.records.size(), 5'000U);
  CHECK_EQ(seen.lost, 0U);
  const Snapshot all = narrow.close();
  CHECK_EQ(all.records.size() + all.lost, 10'000U);
}

}  // namespace

int main() {
  nothing_is_recorded_while_nothing_records();
  a_snapshot_holds_what_was_recorded();
  windows_share_a_recording();
  a_restarted_window_begins_anew();
  a_window_closed_twice_is_empty();
  an_open_slice_is_unfinished_and_its_end_is_the_windows();
  slices_may_end_in_any_order();
  many_open_slices_are_all_there();
  a_label_serves_its_own_recording_only();
  a_call_in_progress_begins_with_the_window();
  what_is_kept_and_lost_is_what_was_made();
  a_wider_window_gives_room_again();
  return testing::result("recorder");
}
