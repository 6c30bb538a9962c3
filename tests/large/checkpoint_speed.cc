// Writes a checkpoint of a big table while pushes go on, loads it on another number of servers, and prints both beside
// what the disk does on its own.
//   checkpoint_speed --dir DIR [--rows N] [--dim N] [--servers N] [--restore-servers N]
// Exits 1 when the loaded rows are not the same. Run by checkpoint_speed.sh.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "local/bench/bench_job.h"
#include "local/bench/bench_row.h"
#include "local/bench/one_server.h"
#include "server/checkpoint/checkpoint.h"
#include "server/parameter_server.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kExamples = 512;  // of a push

struct Options {
  std::string dir;
  BenchJob job;
  int servers = 2;
  int restore_servers = 3;
};

// Servers of one job in this process, each with an equal share of the partitions.
class Cluster {
 public:
  static absl::StatusOr<std::unique_ptr<Cluster>> Create(const BenchJob& job, int servers, uint64_t run,
                                                         const std::string& restore_from) {
    auto out = std::unique_ptr<Cluster>(new Cluster(job, servers, run));
    JobView view;
    view.set_job(1);
    view.set_run(run);
    view.set_map_version(1);
    view.set_live_version(1);
    view.set_next_lane(1);
    for (int s = 0; s < servers; ++s) view.add_servers()->set_process(100 + static_cast<uint64_t>(s));
    for (uint32_t owner : out->owner_) view.add_owner(owner);
    std::vector<absl::Status> prepared(out->servers_.size());
    out->InParallel(
        [&](size_t s) { prepared[s] = out->servers_[s]->PrepareJob(out->config_, view, 100 + s, restore_from); });
    for (const absl::Status& status : prepared) SHOAL_RETURN_IF_ERROR(status);
    return out;
  }

  // A push of these keys to all servers. One thread per lane.
  void Push(uint64_t lane, const std::vector<uint64_t>& keys, const float* gradients) {
    const uint64_t begin = records_[lane];
    records_[lane] += kExamples;
    for (size_t s = 0; s < servers_.size(); ++s) {
      PushRequest head;
      head.header = {1, run_, 1, 1};
      head.split = lane;
      head.lease = 1;
      head.begin = begin;
      head.end = begin + kExamples;
      head.examples = kExamples;
      SHOAL_CHECK(PushShare(ShareOf(keys, owner_, static_cast<uint32_t>(s)), job_.dim, gradients, std::move(head),
                            servers_[s].get())
                      .ok());
    }
  }

  void Fill() {
    const std::vector<float> gradients(32 * kBenchKeys * job_.dim, 0.5f);
    const absl::Status all = PushAllKeys(job_, [&](const std::vector<uint64_t>& keys) {
      Push(0, keys, gradients.data());
      return absl::OkStatus();
    });
    SHOAL_CHECK(all.ok());
  }

  absl::StatusOr<std::string> Save(const std::string& dir, const std::string& name, uint64_t sequence,
                                   const std::string& parent, uint64_t* bytes) {
    CheckpointTask task;
    task.set_dir(dir);
    task.set_name(name);
    task.set_parent(parent);
    std::vector<absl::StatusOr<PartInfo>> parts(servers_.size(), absl::UnknownError("not written"));
    InParallel([&](size_t s) { parts[s] = servers_[s]->WritePart(1, task, absl::Minutes(5)); });
    Manifest manifest;
    manifest.set_sequence(sequence);
    manifest.set_parent(parent);
    *manifest.mutable_job() = config_.job();
    *manifest.mutable_plan() = config_.plan();
    *bytes = 0;
    for (const absl::StatusOr<PartInfo>& part : parts) {
      SHOAL_RETURN_IF_ERROR(part.status());
      *bytes += part->bytes();
      *manifest.add_parts() = *part;
    }
    return CommitCheckpoint(dir, name, manifest, 9);
  }

  std::pair<uint64_t, uint64_t> Digest() {
    std::pair<uint64_t, uint64_t> out{0, 0};
    for (const auto& server : servers_) {
      const auto digests = server->Digest(1);
      SHOAL_CHECK(digests.ok());
      out.first += digests->at(0).sum();
      out.second += digests->at(0).rows();
    }
    return out;
  }

 private:
  Cluster(const BenchJob& job, int servers, uint64_t run)
      : job_(job), run_(run), config_(MakeBenchConfig(job)), records_(kBenchSplits, 0) {
    config_.mutable_job()->mutable_checkpoint()->set_full_every(9);
    for (int s = 0; s < servers; ++s) {
      ParameterServerOptions options;
      options.name = absl::StrCat("server-", s);
      servers_.push_back(std::make_unique<ParameterServer>(options));
    }
    for (uint32_t p = 0; p < job.partitions; ++p) owner_.push_back(p % static_cast<uint32_t>(servers));
  }
  template <typename Work>
  void InParallel(const Work& work) {
    std::vector<std::thread> threads;
    for (size_t s = 0; s < servers_.size(); ++s) threads.emplace_back([&work, s] { work(s); });
    for (std::thread& thread : threads) thread.join();
  }

  const BenchJob job_;
  const uint64_t run_;
  JobConfig config_;
  std::vector<uint32_t> owner_;
  std::vector<uint64_t> records_;  // by lane
  std::vector<std::unique_ptr<ParameterServer>> servers_;
};

// Pushes without end on one thread, and counts the rows.
class Load {
 public:
  Load(Cluster* cluster, const BenchJob& job) : gradients_(kBenchKeys * job.dim, 0.001f) {
    for (uint64_t b = 0; b < 64; ++b) batches_.push_back(UniformKeys(job, std::min(kBenchKeys, job.rows / 2), b));
    thread_ = std::thread([this, cluster] {
      for (size_t b = 0; !stop_; b = (b + 1) % batches_.size()) {
        cluster->Push(1, batches_[b], gradients_.data());
        rows_ += batches_[b].size();
      }
    });
  }
  ~Load() {
    stop_ = true;
    thread_.join();
  }
  // Millions of rows a second while `during` runs.
  template <typename During>
  double Rate(const During& during) {
    const uint64_t before = rows_;
    const double begun = WallSeconds();
    during();
    return 1e-6 * static_cast<double>(rows_ - before) / (WallSeconds() - begun);
  }

 private:
  std::vector<std::vector<uint64_t>> batches_;
  const std::vector<float> gradients_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> rows_{0};
  std::thread thread_;
};

// Seconds that the disk takes for a file of so many bytes: written by write and fsync, or read after its pages were
// dropped from memory.
double DiskSeconds(const std::string& path, uint64_t bytes, bool write) {
  std::vector<char> buffer(4 << 20, 'x');
  const int fd = open(path.c_str(), write ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0644);
  SHOAL_CHECK(fd >= 0);
  if (!write) SHOAL_CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  const double begun = WallSeconds();
  for (uint64_t at = 0; at < bytes;) {
    const size_t step = std::min<uint64_t>(buffer.size(), bytes - at);
    const ssize_t did = write ? ::write(fd, buffer.data(), step) : read(fd, buffer.data(), step);
    SHOAL_CHECK(did > 0);
    at += static_cast<uint64_t>(did);
  }
  if (write) SHOAL_CHECK(fsync(fd) == 0);
  const double seconds = WallSeconds() - begun;
  close(fd);
  return seconds;
}

void Forget(const std::string& dir) {
  for (const auto& file : fs::directory_iterator(dir)) {
    const int fd = open(file.path().c_str(), O_RDONLY);
    SHOAL_CHECK(fd >= 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    close(fd);
  }
}

double Rate(uint64_t bytes, double seconds) { return 1e-9 * static_cast<double>(bytes) / seconds; }

absl::Status Run(const Options& options) {
  fs::create_directories(options.dir);
  const std::vector<float> zeros(kBenchKeys * options.job.dim, 0);
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<Cluster> cluster, Cluster::Create(options.job, options.servers, 1, ""));
  cluster->Fill();
  uint64_t full_bytes = 0, delta_bytes = 0;
  double full_seconds = 0, delta_seconds = 0, before = 0, during = 0, after = 0;
  absl::StatusOr<std::string> full, delta;
  {
    Load load(cluster.get(), options.job);
    const auto pause = [] { std::this_thread::sleep_for(std::chrono::seconds(3)); };
    before = load.Rate(pause);
    during = load.Rate([&] {
      const double begun = WallSeconds();
      full = cluster->Save(options.dir, "c1", 1, "", &full_bytes);
      full_seconds = WallSeconds() - begun;
    });
    after = load.Rate(pause);
  }
  SHOAL_RETURN_IF_ERROR(full.status());
  const double cpu = ProcessCpuSeconds();
  uint64_t quiet_bytes = 0;
  SHOAL_RETURN_IF_ERROR(cluster->Save(options.dir + "/quiet", "c1", 1, "", &quiet_bytes).status());
  const double save_cpu = ProcessCpuSeconds() - cpu;
  fs::remove_all(options.dir + "/quiet");
  full = cluster->Save(options.dir, "c2", 2, "", &full_bytes);
  SHOAL_RETURN_IF_ERROR(full.status());
  for (uint64_t b = 0; b < 16; ++b) cluster->Push(2, UniformKeys(options.job, kBenchKeys / 4, b), zeros.data());
  const double begun = WallSeconds();
  delta = cluster->Save(options.dir, "c3", 3, "c2", &delta_bytes);
  delta_seconds = WallSeconds() - begun;
  SHOAL_RETURN_IF_ERROR(delta.status());
  const auto digest = cluster->Digest();
  cluster.reset();  // all servers are gone
  const std::string plain = options.dir + "/plain";
  const double disk_write = DiskSeconds(plain, full_bytes, true), disk_read = DiskSeconds(plain, full_bytes, false);
  fs::remove(plain);
  Forget(*full);
  Forget(*delta);
  const double loading = WallSeconds(), load_begun = ProcessCpuSeconds();
  SHOAL_ASSIGN_OR_RETURN(cluster, Cluster::Create(options.job, options.restore_servers, 2, *delta));
  const double load_seconds = WallSeconds() - loading, load_cpu = ProcessCpuSeconds() - load_begun;
  const auto loaded = cluster->Digest();
  std::printf("%llu rows of dim %u, %d servers\n", static_cast<unsigned long long>(digest.second), options.job.dim,
              options.servers);
  std::printf("%-34s %8.3f s  %6.2f GB/s   disk alone %6.2f GB/s   ratio %.2f\n", "full checkpoint, pushes going on",
              full_seconds, Rate(full_bytes, full_seconds), Rate(full_bytes, disk_write), disk_write / full_seconds);
  std::printf("%-34s %8.3f s  %6.2f GB/s   (%llu bytes)\n", "delta checkpoint", delta_seconds,
              Rate(delta_bytes, delta_seconds), static_cast<unsigned long long>(delta_bytes));
  std::printf("%-34s %8.3f s  %6.2f GB/s   disk alone %6.2f GB/s   (%d servers, full and delta)\n", "restore",
              load_seconds, Rate(full_bytes + delta_bytes, load_seconds), Rate(full_bytes, disk_read),
              options.restore_servers);
  std::printf("%-34s %8.2f / %.2f / %.2f M rows/s\n", "pushes before / during / after", before, during, after);
  std::printf("%-34s %8.3f s to write (%.2f GB/s of a core), %.3f s to restore (%.2f GB/s of a core)\n", "CPU time",
              save_cpu, Rate(quiet_bytes, save_cpu), load_cpu, Rate(full_bytes + delta_bytes, load_cpu));
  if (loaded != digest) {
    return absl::DataLossError(absl::StrCat("loaded ", loaded.second, " rows with digest ", absl::Hex(loaded.first),
                                            ", saved ", digest.second, " with ", absl::Hex(digest.first)));
  }
  std::printf("%llu rows loaded, digest %016llx: equal\n", static_cast<unsigned long long>(loaded.second),
              static_cast<unsigned long long>(loaded.first));
  return absl::OkStatus();
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  shoal::Options options;
  options.job.rows = 10'000'000;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    bool good = true;
    if (name == "--dir") {
      options.dir = value;
    } else if (name == "--rows") {
      good = absl::SimpleAtoi(value, &options.job.rows);
    } else if (name == "--dim") {
      good = absl::SimpleAtoi(value, &options.job.dim);
    } else if (name == "--servers") {
      good = absl::SimpleAtoi(value, &options.servers);
    } else if (name == "--restore-servers") {
      good = absl::SimpleAtoi(value, &options.restore_servers);
    } else {
      good = false;
    }
    if (!good) {
      std::fprintf(stderr, "checkpoint_speed: %s %s\n", name.c_str(), value.c_str());
      return 2;
    }
  }
  if (options.dir.empty()) {
    std::fprintf(stderr, "checkpoint_speed: --dir is missing\n");
    return 2;
  }
  const absl::Status status = shoal::Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "checkpoint_speed: %s\n", std::string(status.message()).c_str());
  return 1;
}
