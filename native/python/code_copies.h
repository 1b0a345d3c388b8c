// Copies of code objects, made without the GIL when a frame of theirs is first seen.
//
// An address may be used again by another code object. While copies are kept, the type's destructor
// counts what it destroys, so that a copy is known to be of the code that is there now.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sampler/memory_reader.h"
#include "sampler/sampled_code.h"

namespace stepscope {

struct CodeCopy : SampledCode {
  int first_traceable = 0;  // in bytes; before it, the frame is not yet that of the function
  int bytes = 0;            // of instructions
  int frame_bytes = 0;      // that a frame of it takes
};

class CodeCopies {
 public:
  // Needs the GIL, as its end does.
  explicit CodeCopies(const MemoryReader& memory);
  ~CodeCopies();
  CodeCopies(const CodeCopies&) = delete;
  CodeCopies& operator=(const CodeCopies&) = delete;

  // The number of the code object at an address; nothing when there is none.
  std::optional<uint32_t> number_of(Address code);
  const CodeCopy& operator[](uint32_t number) const { return copies_[number]; }

  size_t size() const { return copies_.size(); }

  // How many code objects were destroyed since copies are kept: while it stays, what was at an
  // address still is.
  static uint32_t destroyed();

  size_t bytes() const { return bytes_; }

 private:
  struct Known {
    uint32_t number = 0;
    uint32_t destroyed = 0;  // what was counted when the copy was made
  };
  struct Recent {
    Address code = 0;
    Known copy;
  };

  std::optional<CodeCopy> copy(Address code) const;
  std::optional<std::string> text(Address object) const;
  uint32_t enter(CodeCopy&& copy);

  const MemoryReader& memory_;
  std::array<Recent, 256> recent_;
  std::unordered_map<Address, Known> numbered_;
  std::unordered_map<std::string, uint32_t> by_content_;
  std::vector<CodeCopy> copies_;
  size_t bytes_ = 0;
};

}  // namespace stepscope
