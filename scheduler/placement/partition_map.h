// Who has which partition of a job.
#ifndef SHOAL_SCHEDULER_PLACEMENT_PARTITION_MAP_H_
#define SHOAL_SCHEDULER_PLACEMENT_PARTITION_MAP_H_

#include <cstdint>
#include <map>
#include <vector>

#include "proto/scheduler.pb.h"
#include "scheduler/state/state.pb.h"

namespace shoal {

struct PartitionPlace {
  uint64_t owner = 0;   // process
  uint64_t backup = 0;  // process; 0: none
  bool synced = false;  // the backup has all that was acknowledged
  bool lost = false;    // the owner, which may itself be gone, does not have it: it is to be restored
};

// What became of the partitions of a server that is gone.
struct PartitionLoss {
  std::vector<uint32_t> promoted;  // their backup owns them now
  std::vector<uint32_t> lost;
  uint32_t backups = 0;  // that were on it
  bool any() const { return !promoted.empty() || !lost.empty() || backups > 0; }
};

// The map of one job, by process. Changes count once they are published, which makes them durable and gives them a
// version. Not thread-safe.
class PartitionMap {
 public:
  // What was stored; empty when there was no map yet.
  void Load(const StoredJob& stored);
  // Gives the map a new version and writes it into the record.
  void Publish(StoredJob* stored) const;
  // Writes what is in step without a new version: nobody but the scheduler looks at it.
  void StoreSynced(StoredJob* stored) const;

  // Spreads all partitions over the servers, round about: nothing is lost, nothing has a backup. REQUIRES: one server.
  void PlaceAll(uint32_t partitions, const std::vector<ServerAddress>& servers);
  // Lost partitions keep their owner until they are given another one.
  PartitionLoss Lose(uint64_t process);
  void SetOwner(uint32_t partition, const ServerAddress& server);
  void SetBackup(uint32_t partition, const ServerAddress& server);
  void DropBackup(uint32_t partition);
  void SetSynced(uint32_t partition) { places_[partition].synced = true; }
  void SetRestored(uint32_t partition) { places_[partition].lost = false; }
  // The backup, which is in step, and the owner change places; the old owner is no backup.
  void Promote(uint32_t partition);

  bool empty() const { return places_.empty(); }
  uint32_t size() const { return static_cast<uint32_t>(places_.size()); }
  const PartitionPlace& at(uint32_t partition) const { return places_[partition]; }
  // Ascending by process.
  std::vector<uint64_t> Owners() const;
  bool Uses(uint64_t process) const;  // owns or backs up something
  bool Owns(uint64_t process) const;
  uint32_t CountLost() const;
  uint32_t CountWithoutBackup() const;  // or with one that is not in step

 private:
  const ServerAddress& Remember(const ServerAddress& server) { return servers_[server.process()] = server; }

  std::vector<PartitionPlace> places_;
  std::map<uint64_t, ServerAddress> servers_;  // all that were ever given something
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_PLACEMENT_PARTITION_MAP_H_
