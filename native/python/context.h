// Which asyncio task a thread is running, as a small number.
#pragma once

#include <cstdint>

namespace stepscope {

// 0 outside of any task. Needs the GIL.
uint32_t current_context();

// The same for a thread that may not hold the GIL: what it last knew, or the bare context.
uint32_t current_context_without_gil();

}  // namespace stepscope
