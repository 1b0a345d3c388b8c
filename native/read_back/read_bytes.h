// Numbers and texts out of the files of a stream, which anybody may have changed.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/own_file.h"

namespace stepscope {

// A file that another process may still write: each read sees it as it is at that moment.
class ReadFile {
 public:
  ReadFile() = default;
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;
  ~ReadFile() { file_.close(); }

  // Does nothing if it is open already, or if there is no such regular file.
  void open(const std::string& path) {
    if (is_open()) return;
    const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat about{};
    if (number >= 0 && (fstat(number, &about) != 0 || !S_ISREG(about.st_mode))) {
      ::close(number);
      return;
    }
    file_.take(number);
  }
  bool is_open() const { return file_.was_opened(); }

  uint64_t size() const {
    struct stat about{};
    return fstat(file_.number(), &about) == 0 ? static_cast<uint64_t>(about.st_size) : 0;
  }

  template <typename T>
  bool read_at(uint64_t offset, T& value) const {
    return pread(file_.number(), static_cast<void*>(&value), sizeof(value),
                 static_cast<off_t>(offset)) == sizeof(value);
  }

  // As many of the bytes as there are.
  std::string bytes_at(uint64_t offset, uint64_t size) const {
    std::string bytes(size, '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = pread(file_.number(), bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(offset + done));
      if (count <= 0) break;
      done += static_cast<size_t>(count);
    }
    bytes.resize(done);
    return bytes;
  }

 private:
  OwnFile file_;
};

// Takes it off the front; false when there is not as much.
template <typename T>
bool take(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return true;
}

inline std::string_view take_text(std::string_view& bytes, size_t size) {
  const std::string_view text = bytes.substr(0, size);
  bytes.remove_prefix(text.size());
  return text;
}

template <typename T>
std::vector<T> all_of(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty())
    std::memcpy(static_cast<void*>(values.data()), bytes.data(), values.size() * sizeof(T));
  return values;
}

// What the cursor at an address points to; 0 if no lane holds it. Lanes are by their address.
inline uint64_t target_of(uint64_t cursor, const std::map<uint64_t, std::string_view>& lanes) {
  auto lane = lanes.upper_bound(cursor);
  if (lane == lanes.begin()) return 0;
  --lane;
  const uint64_t offset = cursor - lane->first;
  uint64_t target = 0;
  if (offset > lane->second.size()) return 0;
  std::string_view rest = lane->second.substr(offset);
  take(rest, target);
  return target;
}

// Limits the rows of all tables together: a file that anybody may have changed must not ask for all
// memory. The writer counted from 0 and wrote an entry for each number.
class NumberRoom {
 public:
  void add_entries(size_t bytes) { entries_to_come_ += bytes / kSmallestEntry; }

  // Null for a number that is larger than the entries allow.
  template <typename T>
  T* place(std::vector<T>& all, uint32_t number) {
    if (all.size() <= number) {
      const size_t more = number + size_t{1} - all.size();
      if (more > entries_to_come_) return nullptr;
      entries_to_come_ -= more;
      all.resize(number + size_t{1});
    }
    return &all[number];
  }

 private:
  static constexpr size_t kSmallestEntry = 16;
  static constexpr size_t kLostEntries = size_t{1} << 20;  // that may have been in lost memory

  size_t entries_to_come_ = kLostEntries;
};

}  // namespace stepscope
