// Python stacks as small numbers: what an operator records instead of its frames.
#pragma once

#include <cstdint>

namespace stepscope {

// The number of the calling thread's Python stack; 0 when it has none. The thread may hold the GIL
// or not. It is taken only for a stack with a frame that nobody has met: a caller must not hold
// what a thread with the GIL may wait for.
uint32_t current_stack();

}  // namespace stepscope
