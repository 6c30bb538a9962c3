// For tests: a job on a few ParameterServers in this process, and a client that routes to them.
#ifndef SHOAL_SERVER_TEST_CLUSTER_H_
#define SHOAL_SERVER_TEST_CLUSTER_H_

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "server/checkpoint/checkpoint.h"
#include "server/parameter_server.h"
#include "server/test_replicas.h"

namespace shoal {

// A gradient for one key of every table, or for all of the dense tensors.
struct TestBatch {
  uint64_t lane = 1, lease = 1, pass = 0, split = 0, begin = 0, end = 0, examples = 0;
  bool end_of_split = false;
  uint32_t logical_lane = 0;
  uint64_t round = 0;
  std::map<uint64_t, std::vector<float>> rows;  // key -> gradient of table 0
  std::map<uint64_t, uint32_t> occurrences;     // absent: 1
  std::map<uint64_t, uint16_t> slots;           // absent: 0
  float dense = 0;                              // gradient of every dense weight; 0: none sent
};

// A directory of this test program's that does not exist yet.
std::string FreshDirectory(const std::string& name);

// DefaultConfig in bsp, with adagrad and random initial rows, so that order and number of steps show in the bits.
JobConfig BspConfig(uint32_t lanes);
// Lane l trains split l; round r is records [4 r, 4 r + 4), of which 3 are good and touch some of the first `keys`
// keys.
TestBatch BspContribution(uint32_t lane, uint64_t round, uint64_t keys);

// Seeds 1 to `count`, or the one that SHOAL_TEST_SEED names.
std::vector<uint64_t> TestSeeds(uint64_t count);

// Table "t" (dim 2) and tensor "w" (3 x 4) on `servers` servers. Not thread-safe; distinct clusters are independent.
class TestCluster {
 public:
  static JobConfig DefaultConfig();

  // connect: how servers reach each other, several partitions at a time; empty: by network(), one after the other.
  // round_threads: threads that apply a round, however small it is.
  TestCluster(JobConfig config, int servers, const std::string& restore_from = "", uint64_t run = 1,
              const ReplicaConnector& connect = nullptr, uint32_t round_threads = 1);

  const absl::Status& prepared() const { return prepared_; }
  ParameterServer& server(int s) { return *servers_[static_cast<size_t>(s)]; }
  int servers() const { return static_cast<int>(servers_.size()); }
  JobView& view() { return view_; }
  FakeClock& clock() { return clock_; }
  RequestHeader Header(uint64_t lane) const { return {1, view_.run(), view_.map_version(), lane}; }
  std::vector<uint32_t> PartitionsOf(int s) const {
    std::vector<uint32_t> out;
    for (int p = 0; p < view_.owner_size(); ++p) {
      if (static_cast<int>(view_.owner(p)) == s) out.push_back(static_cast<uint32_t>(p));
    }
    return out;
  }

  OpenSplitReply Open(uint64_t lane, uint64_t lease, uint64_t split, int s = 0, uint32_t logical_lane = 0) {
    OpenSplitRequest request;
    request.header = Header(lane);
    request.lease = lease;
    request.split = split;
    request.logical_lane = logical_lane;
    OpenSplitReply reply;
    server(s).OpenSplit(&request, &reply, [&](absl::Status status) {
      if (!status.ok()) SetLast(status);
    });
    return reply;
  }

  // Pushes to one server; its status is kept in last().
  PushReply PushTo(int s, const TestBatch& batch);
  void Push(const TestBatch& batch) {
    for (int s = 0; s < servers(); ++s) PushTo(s, batch);
  }
  void Mark(uint32_t logical_lane, uint64_t round, bool last = false) {
    for (int s = 0; s < servers(); ++s) {
      MarkRequest request;
      request.header = Header(1);
      request.logical_lane = logical_lane;
      request.round = round;
      request.last = last;
      MarkReply reply;
      server(s).Mark(&request, &reply, [&](absl::Status status) { SetLast(status); });
    }
  }

  // Publishes the view as it is, with ids of tasks of server s (others: none).
  void Publish(int s = 0, const std::vector<uint64_t>& tasks = {});
  // RESTORE_PARTITIONS on one server.
  absl::Status Restore(int s, const std::vector<uint32_t>& partitions, const std::string& path = "");

  // MOVE_PARTITIONS or ADD_BACKUP (from s to target).
  // report() says then what it took.
  absl::Status Copy(Task::Kind kind, uint64_t id, int s, const std::vector<uint32_t>& partitions, int target);
  // The view's next map: the partitions belong to server `owner`; to be published.
  void Give(const std::vector<uint32_t>& partitions, int owner);
  // The view's next map: server `backup` (-1: none) backs them up.
  void Back(const std::vector<uint32_t>& partitions, int backup);
  // No message reaches the server any more, and it answers none.
  void Kill(int s) { network_.Kill(100 + static_cast<uint64_t>(s)); }
  ReplicaNetwork& network() { return network_; }
  const std::string& report() const { return report_; }
  // Pushes that have not been answered.
  int outstanding() const { return outstanding_; }

  // Reads rows of table "t" from their servers, read-only.
  std::vector<float> Read(uint64_t key);

  std::map<std::string, std::pair<uint64_t, uint64_t>> Digest() {
    std::map<std::string, std::pair<uint64_t, uint64_t>> out;
    for (auto& server : servers_) {
      const std::vector<TableDigest> digests = server->Digest(1).value();
      for (const TableDigest& digest : digests) {
        out[digest.table()].first += digest.sum();
        out[digest.table()].second += digest.rows();
      }
    }
    return out;
  }

  // Writes all parts and commits. Returns the directory or an error.
  absl::StatusOr<std::string> Save(const std::string& dir, const std::string& name, uint64_t sequence = 1,
                                   uint32_t keep = 3, const std::string& parent = "");

  absl::Status last() const {
    MutexLock lock(&mu_);
    return last_;
  }

 private:
  void SetLast(absl::Status status) {
    MutexLock lock(&mu_);
    last_ = std::move(status);
  }

  const JobConfig config_;
  JobView view_;
  FakeClock clock_;
  ReplicaNetwork network_;
  std::atomic<int> outstanding_{0};
  mutable Mutex mu_;
  std::string report_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
  DenseLayout layout_;
  absl::Status prepared_;
  absl::Status last_ ABSL_GUARDED_BY(mu_);  // pushes to servers that copy side by side end on any thread
};

}  // namespace shoal

#endif  // SHOAL_SERVER_TEST_CLUSTER_H_
