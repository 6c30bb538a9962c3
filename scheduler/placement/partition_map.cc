#include "scheduler/placement/partition_map.h"

#include <algorithm>
#include <set>

#include "scheduler/placement/placement.h"

namespace shoal {

void PartitionMap::Load(const StoredJob& stored) {
  places_.assign(static_cast<size_t>(stored.owner_size()), PartitionPlace());
  servers_.clear();
  for (const ServerAddress& server : stored.servers()) Remember(server);
  for (int p = 0; p < stored.owner_size(); ++p) {
    places_[p].owner = stored.servers(static_cast<int>(stored.owner(p))).process();
    if (p < stored.backup_size() && stored.backup(p) > 0) {
      places_[p].backup = stored.servers(static_cast<int>(stored.backup(p)) - 1).process();
    }
  }
  for (uint32_t p : stored.synced()) places_[p].synced = true;
  for (uint32_t p : stored.lost()) places_[p].lost = true;
}

void PartitionMap::Publish(StoredJob* stored) const {
  stored->set_map_version(stored->map_version() + 1);
  stored->clear_servers();
  stored->clear_owner();
  stored->clear_backup();
  stored->clear_lost();
  std::map<uint64_t, uint32_t> index;
  for (const PartitionPlace& place : places_) {
    index[place.owner] = 0;
    if (place.backup != 0) index[place.backup] = 0;
  }
  for (auto& [process, at] : index) {
    at = static_cast<uint32_t>(stored->servers_size());
    *stored->add_servers() = servers_.at(process);
  }
  const bool backups = std::any_of(places_.begin(), places_.end(), [](const auto& place) { return place.backup != 0; });
  for (uint32_t p = 0; p < size(); ++p) {
    stored->add_owner(index[places_[p].owner]);
    if (backups) stored->add_backup(places_[p].backup == 0 ? 0 : index[places_[p].backup] + 1);
    if (places_[p].lost) stored->add_lost(p);
  }
  StoreSynced(stored);
}

void PartitionMap::StoreSynced(StoredJob* stored) const {
  stored->clear_synced();
  for (uint32_t p = 0; p < size(); ++p) {
    if (places_[p].synced) stored->add_synced(p);
  }
}

void PartitionMap::PlaceAll(uint32_t partitions, const std::vector<ServerAddress>& servers) {
  const std::vector<uint32_t> owner = PlacePartitions(partitions, static_cast<uint32_t>(servers.size()));
  places_.assign(partitions, PartitionPlace());
  for (uint32_t p = 0; p < partitions; ++p) places_[p].owner = Remember(servers[owner[p]]).process();
}

PartitionLoss PartitionMap::Lose(uint64_t process) {
  PartitionLoss loss;
  for (uint32_t p = 0; p < size(); ++p) {
    PartitionPlace& place = places_[p];
    if (place.backup == process) {
      DropBackup(p);
      ++loss.backups;
    }
    if (place.owner != process) continue;
    if (place.synced) {
      Promote(p);
      loss.promoted.push_back(p);
    } else {
      // A backup that is not in step has nothing that could be relied on.
      DropBackup(p);
      place.lost = true;
      loss.lost.push_back(p);
    }
  }
  return loss;
}

void PartitionMap::SetOwner(uint32_t partition, const ServerAddress& server) {
  places_[partition].owner = Remember(server).process();
  // What the backup has, the new owner does not know.
  places_[partition].synced = false;
  if (places_[partition].backup == server.process()) DropBackup(partition);
}

void PartitionMap::SetBackup(uint32_t partition, const ServerAddress& server) {
  places_[partition].backup = Remember(server).process();
  places_[partition].synced = false;
}

void PartitionMap::DropBackup(uint32_t partition) {
  places_[partition].backup = 0;
  places_[partition].synced = false;
}

void PartitionMap::Promote(uint32_t partition) {
  places_[partition].owner = places_[partition].backup;
  places_[partition].lost = false;
  DropBackup(partition);
}

std::vector<uint64_t> PartitionMap::Owners() const {
  std::set<uint64_t> owners;
  for (const PartitionPlace& place : places_) owners.insert(place.owner);
  return {owners.begin(), owners.end()};
}

bool PartitionMap::Uses(uint64_t process) const {
  return std::any_of(places_.begin(), places_.end(), [process](const PartitionPlace& place) {
    return place.owner == process || place.backup == process;
  });
}

bool PartitionMap::Owns(uint64_t process) const {
  return std::any_of(places_.begin(), places_.end(),
                     [process](const PartitionPlace& place) { return place.owner == process; });
}

uint32_t PartitionMap::CountLost() const {
  return static_cast<uint32_t>(
      std::count_if(places_.begin(), places_.end(), [](const PartitionPlace& place) { return place.lost; }));
}

uint32_t PartitionMap::CountWithoutBackup() const {
  return static_cast<uint32_t>(
      std::count_if(places_.begin(), places_.end(), [](const PartitionPlace& place) { return !place.synced; }));
}

}  // namespace shoal
