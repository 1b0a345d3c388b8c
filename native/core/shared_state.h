// The process-wide state of recording.
#pragma once

#include "stepscope/lane.h"

namespace stepscope {

inline constinit SharedState shared_state;

// Has every lane check again whether its fast path is open. A lane that sees the new epoch also
// sees what was changed before it.
inline void change_epoch() { shared_state.epoch.fetch_add(1); }

}  // namespace stepscope
