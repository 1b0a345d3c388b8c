// torch's builds for the CPU carry the headers of its CUDA allocator, but not this one, which torch
// generates. It tells that c10_cuda is a library of its own, as it is in every release.
#pragma once

#define C10_CUDA_BUILD_SHARED_LIBS
