// Recording as the tests write it: a window that closes, and slices by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/recorder.h"

namespace stepscope::testing {

class Window {
 public:
  explicit Window(Limit limit = {}) : id_(Recorder::instance().open_window(limit)) {}
  Snapshot close() { return Recorder::instance().close_window(id_); }
  void restart() { Recorder::instance().restart_window(id_); }

 private:
  uint64_t id_;
};

inline OpenSlice* enter(std::string_view name, std::string_view detail = {}) {
  return Recorder::begin(Kind::kRange, name, detail, 0);
}

// As a bridge does it: the fast path, else the slow one. The overload plays the part of the
// framework's function object.
inline OpenSlice* enter_operator(const char* name, const char* overload = "") {
  stepscope_begin what{};
  what.name = name;
  what.function = overload;
  what.name_kind = [](const void*) { return uint8_t{STEPSCOPE_NAME_UNKNOWN}; };
  what.overload = [](const void* function) { return static_cast<const char*>(function); };
  what.thread = 3;
  what.facts.sequence = 7;
  what.facts.kind = Kind::kOperator;
  const stepscope_core_api& core = Recorder::core_api();
  thread_local Lane* lane = nullptr;
  if (!lane) lane = core.lane(&lane);
  OpenSlice* const slice = !lane ? nullptr : lane->begin([&](SliceFacts& facts) {
    facts = what.facts;
    facts.label = core.label(lane, &what);
    return facts.label != kIgnoredLabel;
  });
  return slice ? slice : OpenSlice::of(core.begin(&what));
}

inline void leave(OpenSlice* slice) {
  if (!slice) return;
  Recorder::end(slice);
}

inline std::vector<std::string> names(const Snapshot& snapshot) {
  std::vector<std::string> texts_seen;
  for (const Record* record : snapshot.records)
    texts_seen.push_back(snapshot.texts[record->slice.label]);
  return texts_seen;
}

}  // namespace stepscope::testing
