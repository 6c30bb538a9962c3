// What happens to a job on a server from outside, and what has to be said because of it.
#ifndef SHOAL_SERVER_JOB_EVENTS_H_
#define SHOAL_SERVER_JOB_EVENTS_H_

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/scheduler.pb.h"
#include "proto/wire/parameter_messages.h"
#include "server/parameter_server.h"
#include "server/replication/replica_stream.h"

namespace shoal {

// A view of the job, in the order in which views came.
struct JobNews {
  JobView view;
  uint64_t sequence = 0;                            // grows with each view that came
  std::shared_ptr<const std::set<uint64_t>> tasks;  // ids of this server's tasks in the view; null: unknown
};

// A pull that waits for its gate.
struct ParkedPull {
  const PullRequest* request;
  PullReply* reply;
  ParameterServer::Done done;
  absl::Duration deadline;
  absl::Duration since;
};

// A pull that left the parking lot, and what is to be said.
struct Released {
  ParkedPull pull;
  absl::Status status;
  bool serve;
};

// A backup that is followed no longer, and what those who wait for it are told.
struct Unfollowed {
  std::shared_ptr<ReplicaStream> stream;
  uint32_t partition;
  absl::Status status;
};

// What is to be said once the job's lock is free.
struct ReleasedList {
  std::vector<Released> pulls;
  std::vector<Unfollowed> backups;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_JOB_EVENTS_H_
