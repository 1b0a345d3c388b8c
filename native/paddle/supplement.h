// What Paddle may tell of an operator beside its time: shapes, types and the call stack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepscope::paddle {

// Appends it as the inside of a JSON object, in the words of torch's traces; the names of the
// inputs, which torch does not have, are "Input names". False: not all could be understood.
bool append_supplement(std::string_view bytes, std::string& fragment, uint64_t& op_id);

}  // namespace stepscope::paddle
