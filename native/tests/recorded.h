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

// As a bridge does it: the short way, else the long one. The overload plays the part of the
// framework's function object.
inline OpenSlice* enter_operator(const char* name, const char* overload = "") {
  stepscope_begin what{};
  what.name = name;
  what.function = overload;
  what.name_kind = [](const void*) { return uint8_t{STEPSCOPE_NAME_UNKNOWN}; };
  what.overload = [](const void* function) { return static_cast<const char*>(function); };
  what.sequence = 7;
  what.thread = 3;
  what.kind = STEPSCOPE_OPERATOR;
  const stepscope_core_api& core = Recorder::core_api();
  thread_local Lane* lane = nullptr;
  if (!lane) lane = core.lane(&lane);
  OpenSlice* const slice = !lane ? nullptr : lane->begin([&](OpenSlice& begun) {
    begun.label = core.label(lane, &what);
    begun.sequence = what.sequence;
    begun.context = begun.forward_thread = begun.detail = begun.stack = 0;
    begun.kind = Kind::kOperator;
    begun.flags = 0;
    return begun.label != kIgnoredLabel;
  });
  return slice ? slice : static_cast<OpenSlice*>(core.begin(&what));
}

inline void leave(OpenSlice* slice) {
  if (!slice) return;
  Recorder::end(slice);
}

inline std::vector<std::string> names(const Snapshot& snapshot) {
  std::vector<std::string> found;
  for (const Record* record : snapshot.records) found.push_back(snapshot.texts[record->label]);
  return found;
}

}  // namespace stepscope::testing
