// A sample and its place among all of its recording, by which a later state of it replaces it.
#pragma once

#include <cstdint>

#include "sampler/sample.h"

namespace stepscope {

struct PlacedSample {
  int64_t place = 0;
  Sample sample;
};

}  // namespace stepscope
