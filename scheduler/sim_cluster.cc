// SimCluster: processes, views, tasks.
#include "scheduler/sim_cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/checkpoint_name.h"
#include "proto/checkpoint.pb.h"
#include "proto/protocol_version.h"

namespace shoal {
namespace {

const JobView* FindView(const ClusterView& cluster, uint64_t job) {
  for (const JobView& view : cluster.jobs()) {
    if (view.job() == job) return &view;
  }
  return nullptr;
}

}  // namespace

Job SimJob(const std::string& sync, uint32_t passes) {
  Job job;
  job.set_name(absl::StrCat("job-", sync));
  job.mutable_data()->mutable_format()->mutable_synthetic()->set_rows(24);
  job.mutable_data()->set_passes(passes);
  job.mutable_batch()->set_size(SimCluster::kBatch);
  job.set_partitions(8);
  job.mutable_workers()->set_min(1);
  if (sync == "bsp") job.mutable_sync()->mutable_bsp()->set_lanes(3);
  if (sync == "ssp") job.mutable_sync()->mutable_ssp()->set_staleness(2);
  if (sync == "asp") job.mutable_sync()->mutable_asp();
  return job;
}

SimCluster::SimCluster(const std::string& state_path) {
  options.state_path = state_path;
  options.clock = &clock;
  scheduler = std::move(Scheduler::Create(options).value());
}

void SimCluster::Restart() {
  scheduler.reset();
  scheduler = std::move(Scheduler::Create(options).value());
}

SimProcess* SimCluster::Add(Role role, const std::string& name, uint32_t threads, const std::string& fingerprint) {
  auto process = std::make_unique<SimProcess>();
  RegisterRequest request;
  request.set_name(name);
  request.set_role(role);
  request.set_protocol_version(kProtocolVersion);
  request.set_threads(threads);
  request.set_fingerprint(fingerprint);
  const RegisterReply reply = (*Ask(scheduler.get(), &Scheduler::Register, request))->value();
  process->id = reply.process();
  process->name = reply.name();
  process->role = role;
  process->threads.resize(threads);
  processes.push_back(std::move(process));
  return processes.back().get();
}

uint64_t SimCluster::Submit(const Job& job, const std::string& restore_from) {
  SubmitRequest request;
  *request.mutable_job() = job;
  request.set_restore_from(restore_from);
  return (*Ask(scheduler.get(), &Scheduler::Submit, request))->value().job();
}

absl::Status SimCluster::Drain(const std::string& name, absl::Duration grace) {
  DrainRequest request;
  request.set_name(name);
  request.set_grace_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(grace)));
  request.set_reason("test");
  return (*Ask(scheduler.get(), &Scheduler::Drain, request))->status();
}

void SimCluster::Heartbeat(SimProcess* process) {
  HeartbeatRequest request;
  request.mutable_identity()->set_process(process->id);
  for (const MetricSegment& segment : process->segments) *request.add_segments() = segment;
  process->segments.clear();
  for (const SimThread& thread : process->threads) {
    for (const SimHeld& held : thread.held) {
      LaneReport* const lane = request.add_lanes();
      lane->set_job(held.reply.grant().job());
      lane->set_lane(held.reply.grant().lane());
      lane->set_clock(held.reply.grant().clock() + held.position / kBatch);
    }
  }
  for (const auto& [id, job] : process->jobs) {
    ServerJobReport* const report = request.add_server_jobs();
    report->set_job(id);
    for (const auto& [p, partition] : job.served) {
      PartitionLoad* const load = report->add_partitions();
      load->set_partition(p);
      load->set_bytes(this->load ? this->load(*process, p) : 1000);
    }
  }
  for (const Unreachable& server : process->unreachable) *request.add_unreachable() = server;
  Ask(scheduler.get(), &Scheduler::Heartbeat, request);
}

ClusterView SimCluster::View(const SimProcess& process) {
  WatchRequest request;
  request.mutable_identity()->set_process(process.id);
  const auto answer = Ask(scheduler.get(), &Scheduler::Watch, request);
  return answer->value().ok() ? answer->value().value() : ClusterView();
}

void SimCluster::Look(SimProcess* process) {
  const ClusterView view = View(*process);
  if (view.version() == 0) return;
  process->view = view;
  for (auto& [id, job] : process->jobs) {
    const JobView* const newest = FindView(view, id);
    if (newest != nullptr) TakeView(process, &job, *newest);
    std::set<uint32_t> still;  // moves that are listed keep what they froze
    for (const Task& task : view.tasks()) {
      if (task.kind() == Task::MOVE_PARTITIONS && task.job() == id) {
        still.insert(task.partitions().begin(), task.partitions().end());
      }
    }
    for (auto it = job.frozen.begin(); it != job.frozen.end();) it = still.count(*it) > 0 ? ++it : job.frozen.erase(it);
    if (process->role == SERVER && job.job.sync().has_bsp()) ApplyRounds(&job);
  }
}

void SimCluster::Plan(TaskResult* result) {
  for (uint64_t s = 0; s < splits; ++s) result->mutable_plan()->mutable_train()->add_splits()->set_begin(s);
  result->mutable_plan()->mutable_train()->set_records(records);
  for (uint64_t s = 0; s < eval_splits; ++s) result->mutable_plan()->mutable_eval()->add_splits()->set_begin(s);
}

void SimCluster::Prepare(SimProcess* process, const Task& task) {
  const JobView* const view = FindView(process->view, task.job());
  SimServerJob& job = process->jobs[task.job()];
  if (view == nullptr || view->run() != task.run() || (!job.served.empty() && job.view.run() == task.run())) return;
  JobRef ref;
  ref.set_job(task.job());
  job = SimServerJob();
  job.job = (*Ask(scheduler.get(), &Scheduler::GetJobConfig, ref))->value().job();
  job.view = *view;
  for (uint32_t p = 0; p < job.job.partitions(); ++p) {
    if (view->servers(view->owner(p)).process() != process->id) continue;
    job.served[p] = task.restore_from().empty() ? SimPartition() : checkpoints.at(task.restore_from()).at(p);
  }
  if (!task.restore_from().empty()) job.rounds_applied = cut_rounds[task.restore_from()];
}

absl::Status SimCluster::Restore(SimProcess* process, const Task& task) {
  const JobView* const view = FindView(process->view, task.job());
  if (view == nullptr || view->run() != task.run()) return absl::FailedPreconditionError("another run");
  SimServerJob& job = process->jobs[task.job()];
  if (job.view.run() != task.run()) {
    JobRef ref;
    ref.set_job(task.job());
    job = SimServerJob();
    job.job = (*Ask(scheduler.get(), &Scheduler::GetJobConfig, ref))->value().job();
    job.view = *view;
  }
  for (uint32_t p : task.partitions()) {
    if (view->servers(view->owner(p)).process() != process->id) return absl::FailedPreconditionError("not mine");
    if (job.served.count(p) > 0) continue;
    job.served[p] = task.restore_from().empty() ? SimPartition() : checkpoints.at(task.restore_from()).at(p);
  }
  return absl::OkStatus();
}

absl::Status SimCluster::CopyTo(SimProcess* process, const Task& task, TaskResult* result) {
  SimServerJob& from = process->jobs[task.job()];
  SimProcess* const target = Reach(task.target().process());
  if (target == nullptr) return absl::UnavailableError("the target is gone");
  SimServerJob& to = target->jobs[task.job()];
  if (to.view.run() != task.run()) {
    to = SimServerJob();
    to.job = from.job;
    to.view = from.view;
  }
  for (uint32_t p : task.partitions()) {
    if (!Serves(*process, from, p)) continue;
    if (task.kind() == Task::ADD_BACKUP) from.backups[p] = target->id;
    if (task.kind() == Task::MOVE_PARTITIONS) from.frozen.insert(p);
    to.standby[p] = from.served[p];
    to.came_from[p] = process->id;
    result->add_partitions(p);
  }
  if (to.served.empty()) to.rounds_applied = from.rounds_applied;
  return absl::OkStatus();
}

void SimCluster::ReportDone(SimProcess* process, const Task& task, TaskResult* result) {
  SimServerJob& job = process->jobs[task.job()];
  for (auto& [p, partition] : job.served) {
    if (!Serves(*process, job, p)) continue;
    if (parted && partition.done.Contains(1)) {
      partition.done.Remove(1);
      partition.watermark.clear();
      partition.applied[1] = 0;
      parted = false;
    }
    PartitionDone* const out = result->add_done();
    out->set_partition(p);
    out->set_prefix(partition.done.prefix());
    for (uint64_t s : partition.done.extra()) out->add_extra(s);
    uint64_t examples = 0;
    for (const auto& [split, records] : partition.applied) examples += records;
    out->set_examples(examples);
    out->set_rounds_applied(job.rounds_applied);
    for (const auto& [split, watermark] : partition.watermark) {
      OpenSplitState* const open = out->add_open();
      open->set_split(split);
      open->set_watermark(watermark);
    }
  }
}

bool SimCluster::WritePart(SimProcess* process, const Task& task, TaskResult* result) {
  SimServerJob& job = process->jobs[task.job()];
  if (task.checkpoint().cut_at_round()) {
    job.cut = task.checkpoint().cut_round();
    if (job.rounds_applied < *job.cut && job.view.run() == task.run()) return false;
    if (job.rounds_applied != *job.cut || job.view.run() != task.run()) {
      job.cut.reset();
      result->set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
      result->set_message("cut_round: is already applied here");
      return true;
    }
  }
  const std::string path = absl::StrCat(task.checkpoint().dir(), "/", task.checkpoint().name());
  PartInfo part;
  part.set_file(process->name);
  for (auto& [p, partition] : job.served) {
    if (!Serves(*process, job, p)) continue;
    part.add_partitions(p);
    parts[path][p] = partition;
    PartitionDone* const done = part.add_done();
    done->set_partition(p);
    done->set_rounds_applied(job.rounds_applied);
  }
  if (tamper) tamper(&part);
  cut_rounds[path] = job.rounds_applied;
  job.cut.reset();
  result->set_part(part.SerializeAsString());
  ApplyRounds(&job);
  return true;
}

absl::optional<TaskResult> SimCluster::DoTask(SimProcess* process, const Task& task) {
  TaskResult result;
  result.mutable_identity()->set_process(process->id);
  result.set_id(task.id());
  absl::Status status;
  const auto failing = process->failing.find(task.kind());
  if (failing != process->failing.end()) {
    status = absl::PermissionDeniedError(failing->second);
  } else if (damaged.count(task.restore_from()) > 0) {
    status = absl::DataLossError("its checksum is wrong");
  } else if (task.kind() == Task::PLAN) {
    Plan(&result);
  } else if (task.kind() == Task::CHECK_CHECKPOINT_DIR) {
    for (const auto& [path, partitions] : checkpoints) {
      result.add_checkpoints(path);
      result.set_highest_checkpoint(CheckpointNumber(path.substr(path.rfind('/') + 1)).value_or(0));
    }
  } else if (task.kind() == Task::PREPARE_JOB) {
    Prepare(process, task);
  } else if (task.kind() == Task::RESTORE_PARTITIONS) {
    status = Restore(process, task);
  } else if (task.kind() == Task::MOVE_PARTITIONS || task.kind() == Task::ADD_BACKUP) {
    status = CopyTo(process, task, &result);
  } else if (task.kind() == Task::REPORT_DONE) {
    ReportDone(process, task, &result);
  } else if (task.kind() == Task::WRITE_PART) {
    if (!WritePart(process, task, &result)) return absl::nullopt;
  } else if (task.kind() == Task::COMMIT_CHECKPOINT) {
    newest_checkpoint = absl::StrCat(task.checkpoint().dir(), "/", task.checkpoint().name());
    checkpoints[newest_checkpoint] = parts[newest_checkpoint];
    result.set_path(newest_checkpoint);
  } else if (task.kind() == Task::DIGEST) {
    SimServerJob& job = process->jobs[task.job()];
    data[task.job()].job = job.job;
    for (const auto& [p, partition] : job.served) data[task.job()].partitions[p] = partition;
    TableDigest* const digest = result.add_digests();
    digest->set_table("t");
    digest->set_sum(~uint64_t{0});
    digest->set_rows(job.served.size());
  } else if (task.kind() == Task::DROP_JOB) {
    process->jobs.erase(task.job());
  }
  if (!status.ok()) {
    result.set_code(static_cast<int>(status.code()));
    result.set_message(std::string(status.message()));
  }
  ++process->done[task.kind()];
  process->tasks.push_back(task);
  return result;
}

void SimCluster::StartTasks(SimProcess* process) {
  const ClusterView view = process->view;
  for (const Task& task : view.tasks()) {
    if (process->stuck.count(task.kind()) > 0 || process->seen.count(task.id()) > 0) continue;
    absl::optional<TaskResult> result = DoTask(process, task);
    if (!result.has_value()) continue;
    process->seen.insert(task.id());
    process->results.push_back(*std::move(result));
  }
}

void SimCluster::SendResults(SimProcess* process) {
  for (const TaskResult& result : std::exchange(process->results, {})) {
    Ask(scheduler.get(), &Scheduler::TaskDone, result);
    Ask(scheduler.get(), &Scheduler::TaskDone, result);  // a repeat changes nothing
  }
}

void SimCluster::DoTasks(SimProcess* process) {
  Look(process);
  StartTasks(process);
  SendResults(process);
}

void SimCluster::Turn(absl::Duration time) {
  std::vector<SimProcess*> leaving;
  for (const auto& process : processes) {
    Heartbeat(process.get());
    DoTasks(process.get());
    const bool idle = std::all_of(process->threads.begin(), process->threads.end(), [](const SimThread& thread) {
      return thread.held.empty() && thread.finished.empty();
    });
    if (process->view.shutdown() && idle) leaving.push_back(process.get());
  }
  for (SimProcess* process : leaving) Leave(process);
  clock.Advance(time);
  scheduler->Tick();
}

void SimCluster::AskWork(SimProcess* worker, uint32_t index, uint32_t wait_ms) {
  SimThread& thread = worker->threads[index];
  NextWorkRequest request;
  request.mutable_identity()->set_process(worker->id);
  request.set_thread(index);
  request.set_sequence(++thread.sequence);
  request.set_wait_ms(wait_ms);
  if (!thread.finished.empty()) {
    *request.mutable_completed() = thread.finished.front();
    thread.finished.pop_front();
  }
  // Work that waits to be handed in is still this thread's.
  request.set_carried(static_cast<uint32_t>(thread.held.size() + thread.finished.size()));
  if (!thread.held.empty()) {
    request.set_carried_job(thread.held[0].reply.grant().job());
  } else if (!thread.finished.empty()) {
    request.set_carried_job(thread.finished.front().job());
  }
  thread.last = request;
  thread.asked = Ask(scheduler.get(), &Scheduler::NextWork, request);
}

void SimCluster::Repeat(SimProcess* worker, uint32_t index) {
  SimThread& thread = worker->threads[index];
  thread.asked = Ask(scheduler.get(), &Scheduler::NextWork, thread.last);
}

void SimCluster::TakeReply(SimThread* thread) {
  if (thread->asked == nullptr || !thread->asked->has_value()) return;
  const absl::StatusOr<NextWorkReply> reply = **thread->asked;
  thread->asked = nullptr;
  if (!reply.ok() || (reply->kind() != NextWorkReply::GRANT && reply->kind() != NextWorkReply::LANE_FINISHED)) return;
  SimHeld held;
  held.reply = *reply;
  held.round = reply->grant().first_round();
  thread->got.push_back(*reply);
  thread->held.push_back(held);
}

void SimCluster::StepThread(SimProcess* worker, uint32_t index) {
  SimThread& thread = worker->threads[index];
  Look(worker);
  TakeReply(&thread);
  if (thread.asked != nullptr) return;
  bool moved = false;
  for (size_t h = 0; h < thread.held.size(); ++h) {
    const size_t before = thread.held.size();
    moved |= Work(worker, index, h);
    if (thread.held.size() < before) --h;
  }
  if (!thread.finished.empty() || thread.held.empty() || !moved) AskWork(worker, index, thread.held.empty() ? 100 : 0);
}

void SimCluster::StepAll() {
  for (size_t i = 0; i < processes.size(); ++i) {
    SimProcess* const process = processes[i].get();
    for (uint32_t t = 0; process->role == WORKER && t < process->threads.size(); ++t) StepThread(process, t);
  }
}

JobStatus SimCluster::RunJob(uint64_t job, int turns) {
  for (int t = 0; t < turns && Status(job).state() < SUCCEEDED; ++t) {
    StepAll();
    Turn();
  }
  return Status(job);
}

JobStatus SimCluster::Status(uint64_t job) {
  GetJobRequest request;
  request.set_job(job);
  return (*Ask(scheduler.get(), &Scheduler::GetJob, request))->value();
}

std::string SimCluster::LogText(uint64_t job) {
  JobRef ref;
  ref.set_job(job);
  const JobLogs logs = (*Ask(scheduler.get(), &Scheduler::Logs, ref))->value();
  std::string text;
  for (const std::string& line : logs.lines()) text += line + "\n";
  return text;
}

void SimCluster::Kill(SimProcess* process, bool is_hung) {
  if (is_hung) hung.insert(process->id);
  const auto it = std::find_if(processes.begin(), processes.end(), [&](const auto& p) { return p.get() == process; });
  killed.push_back(std::move(*it));
  processes.erase(it);
}

void SimCluster::Leave(SimProcess* process) {
  LeaveRequest leave;
  leave.mutable_identity()->set_process(process->id);
  Ask(scheduler.get(), &Scheduler::Leave, leave);
  Kill(process);
}

SimProcess* SimCluster::Find(const std::string& name) {
  for (const auto& process : processes) {
    if (process->name == name) return process.get();
  }
  return nullptr;
}

SimProcess* SimCluster::Reach(uint64_t process) {
  for (const auto& alive : processes) {
    if (alive->id == process) return alive.get();
  }
  for (const auto& zombie : killed) {
    if (zombie->id == process && hung.count(process) > 0) return zombie.get();
  }
  return nullptr;
}

}  // namespace shoal
