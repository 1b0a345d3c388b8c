// The process-wide state of recording.
#pragma once

#include "stepscope/lane.h"

namespace stepscope {

inline constinit SharedState shared_state;

// Have every lane look again whether its fast path is open. What was changed before this is seen by
// whoever sees this.
inline void change_epoch() { shared_state.epoch.fetch_add(1); }

}  // namespace stepscope
