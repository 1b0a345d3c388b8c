// The recorder on one thread: windows, limits, and what a snapshot holds.
#include <doctest/doctest.h>

#include "core/clock.h"
#include "recorded.h"

using namespace stepscope;
using namespace stepscope::testing;
using Names = std::vector<std::string>;

namespace {

TEST_CASE("nothing is recorded while nothing records") {
  CHECK(!Recorder::recording());
  CHECK(enter("a") == nullptr);
  CHECK(enter_operator("a") == nullptr);
}

TEST_CASE("a snapshot holds what was recorded") {
  Clock::use_manual(0, 10);
  Window window;
  OpenSlice* const range = enter("range", "detail");
  leave(enter_operator("operator", "overload"));
  leave(range);
  const Snapshot snapshot = window.close();
  CHECK((names(snapshot) == Names{"range", std::string("operator\0overload", 17)}));
  const Record& first = *snapshot.records[0];
  const Record& second = *snapshot.records[1];
  CHECK_EQ(snapshot.texts[first.slice.detail], "detail");
  CHECK(first.kind == Kind::kRange);
  CHECK(second.kind == Kind::kOperator);
  CHECK_EQ(first.slice.sequence, -1);
  CHECK_EQ(second.slice.sequence, 7);
  CHECK_EQ(first.start_ticks + 10, second.start_ticks);
  CHECK_EQ(second.slice.end_ticks - second.start_ticks, 10U);
  CHECK_EQ(first.slice.end_ticks - first.start_ticks, 30U);
  CHECK_EQ(snapshot.threads.size(), 1U);
  CHECK_EQ(snapshot.threads[0].logical_id, 3U);
  CHECK_EQ(snapshot.lost, 0U);
  Clock::use_system();
}

TEST_CASE("inputs that were sampled are those of the operator that was begun last") {
  Window window;
  leave(enter_operator("plain"));
  OpenSlice* const outer = enter_operator("outer");
  Recorder::sampled_inputs("of outer");
  OpenSlice* const inner = enter_operator("inner");
  Recorder::sampled_inputs("of inner");
  leave(inner);
  leave(outer);
  OpenSlice* const range = enter("range");
  Recorder::sampled_inputs("of no operator");
  leave(range);
  const Snapshot snapshot = window.close();
  REQUIRE((names(snapshot) == Names{"plain", "outer", "inner", "range"}));
  REQUIRE_EQ(snapshot.sampled_inputs.size(), 2U);
  CHECK_EQ(snapshot.sampled_inputs[0].first, 1U);
  CHECK_EQ(snapshot.inputs[snapshot.sampled_inputs[0].second], "of outer");
  CHECK_EQ(snapshot.sampled_inputs[1].first, 2U);
  CHECK_EQ(snapshot.inputs[snapshot.sampled_inputs[1].second], "of inner");
}

TEST_CASE("a slice that is open can be renamed") {
  Window window;
  OpenSlice* const slice = enter("before");
  Recorder::rename(slice, "after");
  leave(slice);
  CHECK((names(window.close()) == Names{"after"}));
}

TEST_CASE("windows share a recording") {
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

TEST_CASE("a restarted window begins anew") {
  Window window;
  leave(enter("before"));
  window.restart();
  leave(enter("after"));
  CHECK((names(window.close()) == Names{"after"}));
}

TEST_CASE("a window closed twice is empty") {
  Window window;
  leave(enter("a"));
  window.close();
  CHECK(window.close().records.empty());
}

TEST_CASE("an open slice is unfinished and its end is the windows") {
  Clock::use_manual(0, 1);
  Window window;
  OpenSlice* const open = enter("open");
  const Snapshot snapshot = window.close();
  CHECK((names(snapshot) == Names{"open"}));
  CHECK_EQ(int{snapshot.records[0]->flags}, int{kUnfinished});
  CHECK_EQ(snapshot.records[0]->slice.end_ticks, snapshot.end_ticks);
  Clock::use_system();

  Window next;
  leave(open);  // of the recording before: not of this one
  CHECK(next.close().records.empty());
}

TEST_CASE("slices may end in any order") {
  Window window;
  OpenSlice* const a = enter("a");
  OpenSlice* const b = enter("b");
  OpenSlice* const c = enter("c");
  for (OpenSlice* slice : {b, a, c}) leave(slice);
  CHECK((names(window.close()) == Names{"a", "b", "c"}));
}

TEST_CASE("many open slices are all there") {
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

TEST_CASE("a label serves its own recording only") {
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

TEST_CASE("a call in progress begins with the window") {
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

TEST_CASE("what is kept and lost is what was made") {
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

TEST_CASE("a wider window gives room again") {
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

// As a damaged file may have them.
TEST_CASE("records keep their places whatever their numbers") {
  std::vector<Record> records(3);
  for (Record& record : records) record.kind = Kind::kRange;
  records[0].slice.order = UINT64_MAX;
  records[1].slice.order = 0;
  records[2].slice.order = 1;
  Snapshot snapshot;
  snapshot.end_ticks = 1;
  snapshot.threads.resize(1);
  snapshot.chunks.push_back({std::make_shared<Chunk>(records), records.size()});
  put_in_order(snapshot, 0, {});
  std::vector<uint64_t> orders;
  for (const Record* record : snapshot.records) orders.push_back(record->slice.order);
  CHECK((orders == std::vector<uint64_t>{0, 1, UINT64_MAX}));
}

}  // namespace
