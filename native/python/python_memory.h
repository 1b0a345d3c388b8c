// Samples the blocks that Python's allocators and NumPy's hand out.
#pragma once

namespace stepscope {

// Both need the GIL. The first call wraps the allocators, for the rest of the process.
void start_python_memory();
void stop_python_memory();

}  // namespace stepscope
