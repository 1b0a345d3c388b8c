// The reader of Perfetto traces as Python sees it: bytes in, NumPy columns out.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>

#include <string>
#include <utility>

#include "perfetto/reader.h"
#include "python/columns.h"
#include "python/event_columns.h"
#include "python/module.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

using perfetto::PerfettoColumns;

constexpr std::pair<perfetto::Oddity, const char*> kPerfettoOddities[] = {
    {perfetto::Oddity::kNoTime, "events without a time"},
    {perfetto::Oddity::kTimeOutOfRange, "times out of range"},
    {perfetto::Oddity::kUnknownClock, "times of unknown clocks"},
    {perfetto::Oddity::kUnknownName, "names that were not introduced"},
    {perfetto::Oddity::kOpenBegin, "begins without an end"},
    {perfetto::Oddity::kStrayEnd, "ends without a begin"},
    {perfetto::Oddity::kMalformed, "malformed events skipped"},
    {perfetto::Oddity::kLongArguments, "arguments left out: too long"},
    {perfetto::Oddity::kFtracePackets, "ftrace packets not read"},
    {perfetto::Oddity::kOtherPackets, "packets of other kinds not read"},
};

nb::dict to_dict(PerfettoColumns&& columns) {
  nb::dict out;
  out["slices"] = to_slices(std::move(columns.events.slices), columns.keys);
  out["marks"] = to_marks(std::move(columns.events.marks), columns.keys);
  nb::list tracks;
  for (const perfetto::TrackTold& track : columns.tracks) {
    tracks.append(nb::make_tuple(track.uuid, track.parent, track.pid, track.tid, to_str(track.name),
                                 track.is_counter));
  }
  out["tracks"] = tracks;
  for (const auto& [key, names] :
       {std::pair{"processes", &columns.process_names}, {"threads", &columns.thread_names}}) {
    nb::dict name_of_id;
    for (const auto& [id, name] : *names) name_of_id[nb::cast(id)] = to_str(name);
    out[key] = name_of_id;
  }
  out["strings"] = to_strings(columns.strings);
  out["anomalies"] = to_anomalies(columns.oddities, kPerfettoOddities);
  out["wall_offset_ns"] = columns.wall_offset_ns;
  out["own"] = to_str(columns.own);
  out["packets"] = columns.packets;
  out["events"] = columns.event_count;
  out["ends_early"] = columns.ends_early;
  out["broken_at"] = columns.is_broken ? nb::cast(columns.broken_at) : nb::none();
  return out;
}

// `inflate` is called with the bytes of a zlib stream, and returns what it holds.
nb::dict read_perfetto(const nb::bytes& data, const nb::callable& inflate) {
  const std::string_view bytes(data.c_str(), data.size());
  PerfettoColumns columns;
  {
    nb::gil_scoped_release release;
    columns = perfetto::Reader([&inflate](std::string_view packed) {
                nb::gil_scoped_acquire acquire;
                const auto plain =
                    nb::cast<nb::bytes>(inflate(nb::bytes(packed.data(), packed.size())));
                return std::string(plain.c_str(), plain.size());
              }).read(bytes);
  }
  return to_dict(std::move(columns));
}

}  // namespace

void bind_perfetto_reader(nb::module_& m) {
  m.def("read_perfetto", &read_perfetto, nb::arg("data"), nb::arg("inflate"));
}

}  // namespace stepscope
