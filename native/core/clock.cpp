#include "core/clock.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <utility>

#include "core/read_clock.h"

namespace stepscope {
namespace {

constexpr size_t kFewPoints = 4096;
constexpr uint64_t kTicksMeasured = 1'000'000'000;

std::atomic<int64_t> manual_now_ns{0};
std::atomic<int64_t> manual_tick_ns{0};

// The counter is used where the kernel itself trusts it as its clock.
ClockSource best_source() {
#if defined(__aarch64__)
  return ClockSource::kCounter;
#elif defined(__x86_64__)
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return file >> name && name == "tsc" ? ClockSource::kCounter : ClockSource::kMonotonic;
#else
  return ClockSource::kMonotonic;
#endif
}

[[maybe_unused]] const bool chosen_at_load = (Clock::use_system(), true);

const SyncPoint& load_point() {
  static const SyncPoint point = SyncPoint::now();
  return point;
}
[[maybe_unused]] const SyncPoint& read_at_load = load_point();

}  // namespace

int64_t Clock::now_ns() {
  if (shared_state.clock.load(std::memory_order_relaxed) == ClockSource::kManual) {
    return manual_now_ns.fetch_add(manual_tick_ns.load());
  }
  return monotonic_ns();
}

void Clock::use_manual(int64_t start_ns, int64_t tick_ns) {
  manual_now_ns = start_ns;
  manual_tick_ns = tick_ns;
  shared_state.clock = ClockSource::kManual;
  change_epoch();
}

void Clock::advance_manual(int64_t by_ns) { manual_now_ns += by_ns; }

void Clock::use_system() {
  shared_state.clock = best_source();
  change_epoch();
}

int64_t Clock::wall_offset_ns() {
  if (shared_state.clock == ClockSource::kManual) return 0;
  // The pair read with the least time in between is the truest.
  int64_t best_gap = INT64_MAX;
  int64_t offset = 0;
  for (int i = 0; i < 16; ++i) {
    const int64_t before = monotonic_ns();
    const int64_t wall = read_clock(CLOCK_REALTIME);
    const int64_t gap = monotonic_ns() - before;
    if (gap < best_gap) {
      best_gap = gap;
      offset = wall - before - gap / 2;
    }
  }
  return offset;
}

uint64_t Clock::ticks_in(double seconds) {
  const uint64_t now = ticks();
  const TickMap map = TickMap().closed();
  const auto ns = static_cast<double>(map.ns(now + kTicksMeasured) - map.ns(now));
  return static_cast<uint64_t>(seconds * 1e9 / ns * static_cast<double>(kTicksMeasured));
}

SyncPoint SyncPoint::now() {
  SyncPoint best;
  int64_t best_gap = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const int64_t before = monotonic_ns();
    const uint64_t ticks = Clock::ticks();
    const int64_t gap = monotonic_ns() - before;
    if (gap < best_gap) {
      best_gap = gap;
      best = {ticks, before + gap / 2};
    }
  }
  return best;
}

TickMap::TickMap(std::vector<SyncPoint> points) : points_(std::move(points)), identity_(false) {}

SyncPoint TickMap::loaded() { return load_point(); }

TickMap::TickMap() : identity_(Clock::ticks_are_ns()) {
  if (!identity_) points_.push_back(load_point());
}

void TickMap::add_if_due() {
  if (identity_) return;
  const SyncPoint now = SyncPoint::now();
  if (now.ns - points_.back().ns >= kShortestBaseNs) points_.push_back(now);
}

void TickMap::forget_before(uint64_t ticks) {
  if (points_.size() < kFewPoints) return;
  const auto first = std::upper_bound(points_.begin(), points_.end(), ticks,
                                      [](uint64_t at, const SyncPoint& p) { return at < p.ticks; });
  // Two at least stay before it: they make the slope there. In lots, so that little is moved.
  const auto stale = first - points_.begin() - 2;
  if (stale > static_cast<std::ptrdiff_t>(points_.size() / 2)) {
    points_.erase(points_.begin(), points_.begin() + stale);
  }
}

TickMap TickMap::closed() const {
  TickMap map = *this;
  if (identity_) return map;
  SyncPoint now = SyncPoint::now();
  if (now.ns - map.points_.back().ns < kShortestBaseNs) {
    if (map.points_.size() > 1) {
      map.points_.pop_back();
    } else {
      // The program has only just begun: wait for a base.
      while (now.ns - map.points_.back().ns < kShortestBaseNs / 10) now = SyncPoint::now();
    }
  }
  map.points_.push_back(now);
  return map;
}

int64_t TickMap::ns(uint64_t ticks) const {
  if (identity_ || points_.size() < 2) return static_cast<int64_t>(ticks);
  const auto later = [](uint64_t value, const SyncPoint& point) { return value < point.ticks; };
  auto right = std::upper_bound(points_.begin() + 1, points_.end() - 1, ticks, later);
  const SyncPoint& a = *(right - 1);
  const SyncPoint& b = *right;
  const uint64_t base = std::max<uint64_t>(b.ticks - a.ticks, 1);
  const double slope = static_cast<double>(b.ns - a.ns) / static_cast<double>(base);
  const double apart_ns = static_cast<double>(static_cast<int64_t>(ticks - a.ticks)) * slope;
  // Only what a damaged file says lies further out.
  constexpr auto kFarthest = static_cast<double>(kLatestNs);
  return a.ns + static_cast<int64_t>(std::clamp(apart_ns, -kFarthest, kFarthest));
}

}  // namespace stepscope
