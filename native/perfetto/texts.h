// Texts and ids as packets have them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "json/utf8.h"

namespace stepscope::perfetto {

inline int64_t as_id(uint64_t value) { return static_cast<int32_t>(value); }

}  // namespace stepscope::perfetto
