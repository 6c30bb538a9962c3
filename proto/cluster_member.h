// What servers and workers have in common as members of a cluster: registration, identity, heartbeats, the newest view,
// tasks.
#ifndef SHOAL_PROTO_CLUSTER_MEMBER_H_
#define SHOAL_PROTO_CLUSTER_MEMBER_H_

#include <atomic>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "proto/scheduler.pb.h"
#include "proto/scheduler_client.h"

namespace shoal {

// Owns a thread that follows the view, one that sends heartbeats, and one per queue of tasks, which are done in order.
// A process that the scheduler does not know (any more) registers again under its name; one that is fenced or told to
// shut down has ended for good. Thread-safe.
class ClusterMember {
 public:
  struct Callbacks {
    // A newer view. On the watch thread; must not block for long.
    std::function<void(const ClusterView&)> on_view;
    // Does a task and fills in the result besides identity, id, code and, for errors, message. On the thread of the
    // task's queue.
    std::function<absl::Status(const Task&, TaskResult*)> do_task;
    // Tasks that may take minutes have queues of their own, so that nothing waits behind them; empty: one queue for
    // all.
    size_t task_queues = 1;
    std::function<size_t(const Task&)> queue_of;  // below task_queues
    // What the next heartbeat says (identity is filled in), and that it could not be delivered.
    std::function<HeartbeatRequest()> collect;
    std::function<void(const HeartbeatRequest&)> not_delivered;
    // Called about every 100 ms on the heartbeat thread; may be empty.
    std::function<void()> tick;
  };

  // `scheduler` outlives the member.
  ClusterMember(SchedulerClient* scheduler, RegisterRequest registration, Callbacks callbacks);
  ~ClusterMember();  // Stop

  // Registers and starts the threads; tries until `timeout`.
  absl::Status Start(absl::Duration timeout);
  // Stops the threads; tells nobody. Idempotent.
  void Stop();
  // Tells the scheduler that this process leaves. Call Stop after it.
  absl::Status Leave(absl::Duration timeout);

  // Sends a heartbeat now.
  void Flush();
  Identity identity() const;
  const std::string& name() const { return registration_.name(); }
  // The newest view. `version` grows also when on_view has seen it.
  ClusterView view() const;
  // Waits until the view's version is above `version`, at most `timeout`.
  void AwaitView(uint64_t version, absl::Duration timeout);
  // True when this process has ended: told to shut down (OK) or fenced (the reason).
  bool Ended(absl::Status* reason) const;
  bool stopped() const { return stopped_; }
  // Looks at an error of a call that was made as `asked`: registers again or ends, if that is what it means. What is
  // said of an identity that was given up meanwhile means nothing.
  void Examine(const absl::Status& status, const Identity& asked);

 private:
  absl::Status Register(absl::Duration timeout);
  void End(const absl::Status& reason);
  void WatchLoop();
  void TaskLoop(size_t queue);
  void HeartbeatLoop();
  void TakeTasks(const ClusterView& view);
  void Nap(absl::Duration duration);

  SchedulerClient& scheduler_;
  RegisterRequest registration_;  // the name is filled in by the first Register, before the threads start
  const Callbacks callbacks_;
  std::atomic<bool> stopped_{false};
  absl::Duration heartbeat_ = absl::Milliseconds(500);  // set by the first Register

  Mutex register_mu_;  // one registration at a time
  Mutex send_mu_;      // heartbeats leave in the order in which they are collected

  mutable Mutex mu_;
  CondVar changed_;
  Identity identity_ ABSL_GUARDED_BY(mu_);
  ClusterView view_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_reason_ ABSL_GUARDED_BY(mu_);
  std::vector<std::deque<Task>> tasks_ ABSL_GUARDED_BY(mu_);  // by queue
  std::set<uint64_t> seen_tasks_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_CLUSTER_MEMBER_H_
