// Sampled blocks of memory, as they come and go: on any thread, with the GIL or without.
#pragma once

#include <cstdint>

#include "core/recorder.h"

namespace stepscope {

void sample_block(uintptr_t address, int64_t bytes, Device device);
// False if the block was not sampled.
bool release_block(uintptr_t address);

}  // namespace stepscope
