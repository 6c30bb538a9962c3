// Who is in the cluster.
#ifndef SHOAL_SCHEDULER_MEMBERSHIP_MEMBERSHIP_H_
#define SHOAL_SCHEDULER_MEMBERSHIP_MEMBERSHIP_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/scheduler.pb.h"
#include "scheduler/state/durable_state.h"

namespace shoal {

// One incarnation of a worker or server.
struct Process {
  // Stored as a number: do not renumber.
  enum State { kAlive = 0, kSuspect = 1, kDead = 2, kLeft = 3, kFenced = 4 };

  uint64_t id = 0;
  RegisterRequest info;  // name as given by the scheduler
  State state = kAlive;
  absl::Duration last_heartbeat;  // by the scheduler's clock

  // Asked to hand back or hand over what it has and to exit.
  bool draining = false;
  absl::Duration drain_grace;            // 0: no hurry
  absl::Duration draining_since;         // by the scheduler's clock
  bool may_exit = false;                 // nothing of it is needed any more, or its grace is over
  std::vector<Unreachable> unreachable;  // servers, as it says itself

  absl::Duration exits_at() const {
    return drain_grace > absl::ZeroDuration() ? draining_since + drain_grace : absl::InfiniteDuration();
  }
  bool alive() const { return state == kAlive || state == kSuspect; }
  bool is(Role role) const { return info.role() == role; }
  // "worker w1", as messages name it.
  std::string Title() const;
};

// As `status` shows it: DRAINING for a living process that is.
absl::string_view ProcessStateName(const Process& process);

// Processes by id. Not thread-safe; pointers stay valid until PruneGone.
class Membership {
 public:
  Membership(DurableState* state, absl::Duration deadline) : state_(state), deadline_(deadline) {}

  // Takes back what was stored; everybody gets a full deadline from `now`.
  void Restore(const StoredProcess& stored, absl::Duration now);
  // A new incarnation. *fenced is the older one of that name that was alive, or null. INVALID_ARGUMENT names the field.
  absl::StatusOr<Process*> Register(const RegisterRequest& request, absl::Duration now, Process** fenced);
  // The living process. NOT_FOUND: unknown or dead, may register again; FAILED_PRECONDITION: fenced or left, may not.
  absl::StatusOr<Process*> FindLive(const Identity& identity);
  // Null when unknown.
  Process* Find(uint64_t id);
  void Leave(Process* process) { SetState(process, Process::kLeft); }
  // Asked again, the shorter grace counts.
  void Drain(Process* process, absl::Duration grace, absl::Duration now);
  Process* FindLiveByName(absl::string_view name);
  // The newest process of that name that is remembered, alive or gone; null: none.
  const Process* NewestOf(absl::string_view name) const;
  // Notices silence: SUSPECT after half the deadline, DEAD after all of it. Returns those that died just now.
  std::vector<Process*> Expire(absl::Duration now);
  // `pause` of everybody's silence does not count: nobody could be heard.
  void Excuse(absl::Duration pause, absl::Duration now);
  void Heard(Process* process, absl::Duration now);

  // Ordered by name, so that placement does not depend on who came first.
  std::vector<Process*> Live(Role role);
  // Those of them that are to stay.
  std::vector<Process*> Staying(Role role);
  size_t CountLive(Role role) const;
  const std::map<uint64_t, Process>& all() const { return processes_; }
  // Processes that are gone, without the `newest` that were heard from last.
  std::set<uint64_t> GoneBefore(size_t newest) const;
  // Forgets processes that have been gone for an hour (since a restart of the scheduler, if that is later), and the
  // oldest of them when there are very many.
  void PruneGone(absl::Duration now);

 private:
  void SetState(Process* process, Process::State state);
  void Store(const Process& process);
  std::string MakeName(Role role, uint64_t id);

  DurableState* const state_;
  const absl::Duration deadline_;
  std::map<uint64_t, Process> processes_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_MEMBERSHIP_MEMBERSHIP_H_
