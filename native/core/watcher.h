// A small process that outlives the program and runs a command after its death.
#pragma once

#include <string>
#include <vector>

namespace stepscope {

// Start it: when this process has ended, or runs another program (exec), it runs `command`, with
// how it ended as the last word: "status:N" as wait() tells it, "exec:COMMAND" or "unknown". It is
// in a session of its own, no child of this process, and keeps none of its files but standard
// error. False when there can be none.
bool start_watcher(const std::vector<std::string>& command);

// Ends the process without running the command; it has closed standard error when this returns.
void dismiss_watcher();

}  // namespace stepscope
