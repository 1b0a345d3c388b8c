// What packets tell of tracks: the descriptors of processes and threads, old and new.
#include "perfetto/messages.h"
#include "perfetto/reader.h"
#include "perfetto/texts.h"
#include "protobuf/wire.h"

namespace stepscope::perfetto {

using protobuf::Field;
using protobuf::FlatMessage;
using protobuf::Got;
using protobuf::Wire;
using protobuf::WireReader;

void Reader::read_thread(TrackTold& track, std::string_view bytes) {
  FlatMessage<9> told;
  if (!told.read(bytes)) return count(Oddity::kMalformed);
  track.pid = as_id(told.number[track::kThreadProcess]);
  track.tid = static_cast<int64_t>(told.number[track::kThreadId]);
  if (told.has(track::kThreadName)) track.name = json::valid_utf8(told.text[track::kThreadName]);
}

void Reader::read_track(std::string_view bytes) {
  WireReader reader(bytes);
  Field field;
  TrackTold told;
  Got got = Got::kField;
  while ((got = reader.next(field)) == Got::kField) {
    if (field.number == track::kUuid) told.uuid = field.value;
    if (field.number == track::kParent) told.parent = field.value;
    if (field.wire != Wire::kBytes) continue;
    if (field.number == track::kThread) read_thread(told, field.bytes);
    if ((field.number == track::kName || field.number == track::kStaticName) && told.name.empty()) {
      told.name = json::valid_utf8(field.bytes);
    }
    FlatMessage<9> inner;
    if (field.number == track::kProcess && inner.read(field.bytes)) {
      told.pid = as_id(inner.number[track::kProcessId]);
      told.process_name = json::valid_utf8(inner.text[track::kProcessName]);
      if (!told.process_name.empty()) out_.process_names[*told.pid] = told.process_name;
    }
    if (field.number == track::kCounter && inner.read(field.bytes)) {
      told.is_counter = true;
      told.is_incremental = inner.number[track::kIsIncremental] != 0;
      const auto multiplier = static_cast<int64_t>(inner.number[track::kUnitMultiplier]);
      if (multiplier > 0) told.multiplier = multiplier;
    }
  }
  if (got != Got::kEnd) count(Oddity::kMalformed);
  TrackTold& known = out_.tracks[track_by_uuid(told.uuid)];
  told.value = known.value;
  known = std::move(told);
}

void Reader::read_thread_descriptor(Sequence& sequence, std::string_view bytes) {
  TrackTold track;
  read_thread(track, bytes);
  if (!track.pid) return;
  sequence.thread = {*track.pid, *track.tid};
  if (!track.name.empty()) out_.tracks[track_by_thread(*sequence.thread)].name = track.name;
  FlatMessage<9> told;
  told.read(bytes);
  if (told.has(track::kReferenceUs)) {
    sequence.reference_us = static_cast<int64_t>(told.number[track::kReferenceUs]);
  }
}

void Reader::read_process_tree(std::string_view bytes) {
  WireReader reader(bytes);
  Field field;
  while (reader.next(field) == Got::kField) {
    FlatMessage<4> told;
    if (field.wire != Wire::kBytes || !told.read(field.bytes)) continue;
    if (field.number == process_tree::kProcess) {
      const int64_t pid = as_id(told.number[process_tree::kProcessId]);
      const std::string_view command = told.text[process_tree::kCommand];
      if (!command.empty()) out_.process_names.try_emplace(pid, json::valid_utf8(command));
    } else if (field.number == process_tree::kThread) {
      const int64_t tid = as_id(told.number[process_tree::kThreadId]);
      const std::string_view name = told.text[process_tree::kThreadName];
      if (!name.empty()) out_.thread_names.try_emplace(tid, json::valid_utf8(name));
    }
  }
}

uint32_t Reader::track_by_uuid(uint64_t uuid) {
  const auto [place, is_new] =
      by_uuid_.try_emplace(uuid, static_cast<uint32_t>(out_.tracks.size()));
  if (is_new) {
    TrackTold track;
    track.uuid = uuid;
    out_.tracks.push_back(std::move(track));
  }
  return place->second;
}

uint32_t Reader::track_by_thread(std::pair<int64_t, int64_t> thread) {
  const auto [place, is_new] =
      by_thread_.try_emplace(thread, static_cast<uint32_t>(out_.tracks.size()));
  if (is_new) {
    TrackTold track;
    track.pid = thread.first;
    track.tid = thread.second;
    out_.tracks.push_back(std::move(track));
  }
  return place->second;
}

}  // namespace stepscope::perfetto
