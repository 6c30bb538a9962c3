#include "scheduler/membership/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/protocol_version.h"

namespace shoal {
namespace {

// Gone processes are kept so that a zombie is told why it is refused; on a fleet of spot machines they would pile up.
constexpr size_t kMaxGone = 1000;
// Long enough for people to see what became of a machine.
constexpr absl::Duration kRemembered = absl::Hours(1);
constexpr size_t kMaxNameBytes = 256;

}  // namespace

std::string Process::Title() const { return absl::StrCat(info.role() == SERVER ? "server " : "worker ", info.name()); }

absl::string_view ProcessStateName(const Process& process) {
  if (process.alive() && process.draining) return "DRAINING";
  switch (process.state) {
    case Process::kAlive:
      return "ALIVE";
    case Process::kSuspect:
      return "SUSPECT";
    case Process::kDead:
      return "DEAD";
    case Process::kLeft:
      return "LEFT";
    case Process::kFenced:
      return "FENCED";
  }
  return "UNKNOWN";
}

void Membership::Restore(const StoredProcess& stored, absl::Duration now) {
  Process& process = processes_[stored.id()];
  process.id = stored.id();
  process.info = stored.registration();
  process.state = static_cast<Process::State>(stored.state());
  process.last_heartbeat = now;
  process.draining = stored.draining();
  process.drain_grace = absl::Milliseconds(stored.drain_grace_ms());
  process.draining_since = now;
}

absl::StatusOr<Process*> Membership::Register(const RegisterRequest& request, absl::Duration now, Process** fenced) {
  *fenced = nullptr;
  if (request.protocol_version() != kProtocolVersion) {
    return absl::InvalidArgumentError(absl::StrCat("protocol_version: the process speaks ", request.protocol_version(),
                                                   ", the scheduler speaks ", kProtocolVersion));
  }
  if (request.role() != WORKER && request.role() != SERVER) {
    return absl::InvalidArgumentError(absl::StrCat("role: ", request.role(), ", must be WORKER (1) or SERVER (2)"));
  }
  if (request.name().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("name: ", request.name().size(), " bytes, must be at most ", kMaxNameBytes));
  }
  Process* const holder = request.name().empty() ? nullptr : FindLiveByName(request.name());
  // A process that was silent for too long comes back, and its successor is at work: the newer start is the one meant.
  if (holder != nullptr && request.former() != 0 && holder->id > request.former() &&
      holder->info.start() != request.start()) {
    return absl::FailedPreconditionError(absl::StrCat(holder->Title(), " (process ", request.former(),
                                                      ") is fenced: a newer incarnation of that name has registered"));
  }
  *fenced = holder;
  if (*fenced != nullptr) SetState(*fenced, Process::kFenced);
  const uint64_t id = state_->Next(Counter::kProcess);
  Process& process = processes_[id];
  process.id = id;
  process.info = request;
  process.last_heartbeat = now;
  if (request.name().empty()) process.info.set_name(MakeName(request.role(), id));
  Store(process);
  return &process;
}

absl::StatusOr<Process*> Membership::FindLive(const Identity& identity) {
  Process* const process = Find(identity.process());
  if (process == nullptr) {
    return absl::NotFoundError(absl::StrCat("process ", identity.process(), " is unknown: register again"));
  }
  if (process->state == Process::kDead) {
    return absl::NotFoundError(absl::StrCat(process->Title(), " (process ", process->id, ") was silent for ",
                                            absl::FormatDuration(deadline_), " and declared dead: register again"));
  }
  if (process->state == Process::kFenced) {
    return absl::FailedPreconditionError(absl::StrCat(process->Title(), " (process ", process->id,
                                                      ") is fenced: a newer incarnation of that name has registered"));
  }
  if (process->state == Process::kLeft) {
    return absl::FailedPreconditionError(absl::StrCat(process->Title(), " (process ", process->id, ") has left"));
  }
  return process;
}

Process* Membership::Find(uint64_t id) {
  const auto it = processes_.find(id);
  return it == processes_.end() ? nullptr : &it->second;
}

std::vector<Process*> Membership::Expire(absl::Duration now) {
  std::vector<Process*> died;
  for (auto& [id, process] : processes_) {
    if (!process.alive()) continue;
    const absl::Duration silence = now - process.last_heartbeat;
    if (silence > deadline_) {
      SetState(&process, Process::kDead);
      died.push_back(&process);
    } else if (silence > deadline_ / 2) {
      process.state = Process::kSuspect;  // not stored: a restarted scheduler gives everybody a full deadline
    }
  }
  return died;
}

void Membership::Excuse(absl::Duration pause, absl::Duration now) {
  for (auto& [id, process] : processes_) {
    if (process.alive()) process.last_heartbeat = std::min(process.last_heartbeat + pause, now);
  }
}

void Membership::Heard(Process* process, absl::Duration now) {
  process->last_heartbeat = now;
  if (process->state == Process::kSuspect) process->state = Process::kAlive;
}

std::vector<Process*> Membership::Live(Role role) {
  std::vector<Process*> live;
  for (auto& [id, process] : processes_) {
    if (process.alive() && process.is(role)) live.push_back(&process);
  }
  std::sort(live.begin(), live.end(),
            [](const Process* a, const Process* b) { return a->info.name() < b->info.name(); });
  return live;
}

std::vector<Process*> Membership::Staying(Role role) {
  std::vector<Process*> staying = Live(role);
  staying.erase(std::remove_if(staying.begin(), staying.end(), [](const Process* p) { return p->draining; }),
                staying.end());
  return staying;
}

void Membership::Drain(Process* process, absl::Duration grace, absl::Duration now) {
  if (!process->draining) {
    process->draining = true;
    process->draining_since = now;
    process->drain_grace = grace;
  } else if (grace > absl::ZeroDuration() && now + grace < process->exits_at()) {
    process->drain_grace = now + grace - process->draining_since;
  }
  Store(*process);
}

size_t Membership::CountLive(Role role) const {
  return std::count_if(processes_.begin(), processes_.end(),
                       [role](const auto& entry) { return entry.second.alive() && entry.second.is(role); });
}

std::set<uint64_t> Membership::GoneBefore(size_t newest) const {
  std::vector<std::pair<absl::Duration, uint64_t>> gone;
  for (const auto& [id, process] : processes_) {
    if (!process.alive()) gone.push_back({process.last_heartbeat, id});
  }
  std::sort(gone.begin(), gone.end());
  gone.resize(gone.size() - std::min(gone.size(), newest));
  std::set<uint64_t> old;
  for (const auto& entry : gone) old.insert(entry.second);
  return old;
}

void Membership::PruneGone(absl::Duration now) {
  size_t gone =
      std::count_if(processes_.begin(), processes_.end(), [](const auto& entry) { return !entry.second.alive(); });
  for (auto it = processes_.begin(); it != processes_.end() && gone > 0;) {
    if (it->second.alive() || (gone <= kMaxGone && now - it->second.last_heartbeat < kRemembered)) {
      ++it;
      continue;
    }
    state_->EraseProcess(it->first);
    it = processes_.erase(it);
    --gone;
  }
}

void Membership::SetState(Process* process, Process::State state) {
  process->state = state;
  Store(*process);
}

void Membership::Store(const Process& process) {
  StoredProcess stored;
  stored.set_id(process.id);
  *stored.mutable_registration() = process.info;
  stored.set_state(process.state);
  stored.set_draining(process.draining);
  stored.set_drain_grace_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(process.drain_grace)));
  state_->PutProcess(stored);
}

Process* Membership::FindLiveByName(absl::string_view name) {
  for (auto& [id, process] : processes_) {
    if (process.alive() && process.info.name() == name) return &process;
  }
  return nullptr;
}

const Process* Membership::NewestOf(absl::string_view name) const {
  for (auto it = processes_.rbegin(); it != processes_.rend(); ++it) {
    if (it->second.info.name() == name) return &it->second;
  }
  return nullptr;
}

std::string Membership::MakeName(Role role, uint64_t id) {
  std::string name = absl::StrCat(role == SERVER ? "server-" : "worker-", id);
  while (FindLiveByName(name) != nullptr) name += "x";
  return name;
}

}  // namespace shoal
