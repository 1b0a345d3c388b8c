// A small process that outlives the program, and does what is left to do after its death.
#pragma once

#include <string>
#include <vector>

namespace stepscope {

// Start it: when this process has ended, or runs another program (exec), it runs `command`, with
// how it ended as the last word: "status:N" as wait() tells it, "exec:COMMAND" or "unknown". It is
// in a session of its own, no child of this process, and keeps none of its files but standard
// error. False when there can be none.
bool start_watcher(const std::vector<std::string>& command);

// There is nothing left to do: it goes, and has let go of standard error when this returns.
void dismiss_watcher();

}  // namespace stepscope
