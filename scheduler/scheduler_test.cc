#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/checkpoint.pb.h"
#include "proto/protocol_version.h"
#include "scheduler/sim_test_util.h"

namespace shoal {
namespace {

using Catch::Contains;

template <typename Reply>
absl::StatusCode CodeOf(const Answered<Reply>& answer) {
  return answer->has_value() ? (*answer)->status().code() : absl::StatusCode::kUnknown;
}

HeartbeatRequest BeatOf(uint64_t process) {
  HeartbeatRequest request;
  request.mutable_identity()->set_process(process);
  return request;
}

TEST_CASE("Scheduler: a job lives from submit to success in every mode", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "ssp", "bsp");
  const auto [servers, workers, threads] = GENERATE(table<int, int, uint32_t>({{1, 1, 1u}, {2, 2, 2u}, {3, 1, 5u}}));
  SimCluster sim;
  AddFleet(&sim, servers, workers, threads);
  Job job = SimJob(sync);
  job.mutable_checkpoint()->set_dir("/ckpt");
  const uint64_t id = sim.Submit(job);
  const JobStatus status = sim.RunJob(id);
  INFO(sync << " " << servers << "/" << workers << "x" << threads << ": " << status.reason() << sim.LogText(id));
  REQUIRE(status.state() == SUCCEEDED);
  CHECK(AllDone(sim, id, 12));
  CHECK(status.examples() == 12 * SimCluster::kRecords);
  CHECK(status.train().examples() == 6 * SimCluster::kRecords);
  CHECK(status.eval().examples() == 2 * SimCluster::kRecords);
  CHECK(status.splits_done() == 12);
  CHECK(status.checkpoint() == "/ckpt/ckpt-00000001");
  REQUIRE(status.digests_size() == 1);
  CHECK(status.digests(0).sum() == uint64_t{0} - servers);
  CHECK(status.digests(0).rows() == 8);
  CHECK(status.rounds() == (sync == "bsp" ? 8 : 0));
  sim.Turn();
  const std::vector<Task>& tasks = sim.Find("s0")->tasks;
  const auto commit =
      std::find_if(tasks.begin(), tasks.end(), [](const Task& t) { return t.kind() == Task::COMMIT_CHECKPOINT; });
  REQUIRE(commit != tasks.end());
  Manifest manifest;
  REQUIRE(manifest.ParseFromString(commit->checkpoint().manifest()));
  CHECK(manifest.parts_size() == servers);
  CHECK(manifest.final());
  CHECK(manifest.digests_size() == 1);
  CHECK(sim.View(*sim.Find("s0")).jobs_size() == 0);
  for (int s = 0; s < servers; ++s) CHECK(sim.processes[s]->done[Task::DROP_JOB] == 1);
  CHECK(sim.RunJob(sim.Submit(job)).checkpoint() == "/ckpt/ckpt-00000002");  // the first one's is still there
}

TEST_CASE("Scheduler: a dead worker's split is leased again and its late word is ignored", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 2, 2, 1);
  const uint64_t id = sim.Submit(SimJob("asp"));
  SimProcess* const zombie = sim.Find("w0");
  const Grant lost = GetWork(&sim, zombie);
  sim.Work(zombie, 0, 0);
  CHECK(sim.View(*zombie).jobs(0).lanes_size() == 1);
  sim.Kill(zombie);
  for (int t = 0; t < 10; ++t) sim.Turn(absl::Milliseconds(400));
  CHECK(sim.View(*sim.Find("w1")).jobs(0).lanes_size() == 0);
  CHECK(sim.View(*sim.Find("w1")).jobs(0).next_lane() > lost.lane());
  const Grant again = GetWork(&sim, sim.Find("w1"));
  CHECK(again.pass() == lost.pass());
  CHECK(again.split() == lost.split());
  CHECK(again.lease() > lost.lease());
  NextWorkRequest late;
  late.mutable_identity()->set_process(zombie->id);
  late.set_sequence(99);
  CHECK(CodeOf(Ask(sim.scheduler.get(), &Scheduler::NextWork, late)) == absl::StatusCode::kNotFound);
  CHECK(sim.Status(id).splits_done() == 0);
  REQUIRE(sim.RunJob(id).state() == SUCCEEDED);
  CHECK(AllDone(sim, id, 12));
}

TEST_CASE("Scheduler: a split that a lane hands back goes to those who wait, not to the same lane",
          "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 1, 6);
  sim.Submit(SimJob("asp", 1));
  SimProcess* const cut_off = sim.Find("w0");
  for (uint32_t t = 0; t < 6; ++t) GetWork(&sim, cut_off, t);  // all there is
  SimProcess* const waiting = sim.Add(WORKER, "w1", 1);
  const auto ask = [&](const SimProcess& worker, uint64_t sequence, const CompletedWork* back) {
    NextWorkRequest request;
    request.mutable_identity()->set_process(worker.id);
    request.set_sequence(sequence);
    request.set_wait_ms(1000);
    if (back != nullptr) *request.mutable_completed() = *back;
    return Ask(sim.scheduler.get(), &Scheduler::NextWork, request);
  };
  const auto parked = ask(*waiting, 1, nullptr);
  CHECK_FALSE(parked->has_value());
  const Grant held = cut_off->threads[0].got.back().grant();
  CompletedWork back;
  back.set_job(held.job());
  back.set_run(held.run());
  back.set_lease(held.lease());
  const auto asks_again = ask(*cut_off, 1000, &back);
  REQUIRE(parked->has_value());
  CHECK((*parked)->value().kind() == NextWorkReply::GRANT);
  CHECK((*parked)->value().grant().split() == held.split());
  CHECK((*parked)->value().grant().lease() > held.lease());
  CHECK_FALSE(asks_again->has_value());
  // Nobody else waits: better the same lane than nobody.
  back.set_lease(cut_off->threads[1].got.back().grant().lease());
  NextWorkRequest second;
  second.mutable_identity()->set_process(cut_off->id);
  second.set_thread(1);
  second.set_sequence(1000);
  *second.mutable_completed() = back;
  sim.Turn(absl::Milliseconds(1001));  // the first thread's question ends
  const auto alone = Ask(sim.scheduler.get(), &Scheduler::NextWork, second);
  REQUIRE(alone->has_value());
  CHECK((*alone)->value().grant().split() == cut_off->threads[1].got.back().grant().split());
}

TEST_CASE("Scheduler: a repeated question gets the same work", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 1, 1);
  sim.Submit(SimJob("ssp"));
  SimProcess* const worker = sim.Find("w0");
  const Grant first = GetWork(&sim, worker);
  sim.Repeat(worker, 0);
  CHECK((*worker->threads[0].asked)->value().grant().lease() == first.lease());
  worker->threads[0].asked = nullptr;
  // Parked questions: a repeat takes the place of the first, which is answered with WAIT.
  SimCluster idle;
  AddFleet(&idle, 1, 1, 1);
  SimProcess* const waiting = idle.Find("w0");
  idle.AskWork(waiting, 0, 1000);
  const auto parked = waiting->threads[0].asked;
  CHECK_FALSE(parked->has_value());
  idle.Repeat(waiting, 0);
  REQUIRE(parked->has_value());
  CHECK((*parked)->value().kind() == NextWorkReply::WAIT);
  CHECK_FALSE(waiting->threads[0].asked->has_value());
  idle.Turn(absl::Milliseconds(1001));
  CHECK((*waiting->threads[0].asked)->value().kind() == NextWorkReply::WAIT);
}

TEST_CASE("Scheduler: an audit finds what a partition lacks", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 2, 1, 2);
  const uint64_t id = sim.Submit(SimJob("asp"));
  sim.parted = true;
  const JobStatus status = sim.RunJob(id);
  REQUIRE(status.state() == SUCCEEDED);
  CHECK(AllDone(sim, id, 12));
  CHECK_THAT(sim.LogText(id), Contains("audit: partitions miss 1 splits"));
  CHECK(status.examples() == 48);
}

TEST_CASE("Scheduler: a newer incarnation fences the older", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 1, 1);
  sim.Submit(SimJob("asp"));
  SimProcess* const older = sim.Find("w0");
  const Grant held = GetWork(&sim, older);
  sim.Kill(older);
  SimProcess* const newer = sim.Add(WORKER, "w0");
  CHECK(newer->id > older->id);
  CHECK(CodeOf(Ask(sim.scheduler.get(), &Scheduler::Heartbeat, BeatOf(older->id))) ==
        absl::StatusCode::kFailedPrecondition);
  CHECK(CodeOf(Ask(sim.scheduler.get(), &Scheduler::Heartbeat, BeatOf(777))) == absl::StatusCode::kNotFound);
  const Grant again = GetWork(&sim, newer);  // freed at once
  CHECK(again.split() == held.split());
  CHECK(again.lease() > held.lease());
  // The older one was only silent: it comes back under the name that the newer one has now, and stays fenced.
  RegisterRequest woken;
  woken.set_name("w0");
  woken.set_role(WORKER);
  woken.set_protocol_version(kProtocolVersion);
  woken.set_start(1);
  woken.set_former(older->id);
  CHECK(CodeOf(Ask(sim.scheduler.get(), &Scheduler::Register, woken)) == absl::StatusCode::kFailedPrecondition);
  CHECK(CodeOf(Ask(sim.scheduler.get(), &Scheduler::Heartbeat, BeatOf(newer->id))) == absl::StatusCode::kOk);
  // Nobody else has the name: it goes on, and a repeat of its question, whose answer got lost, is its own.
  woken.set_name("w1");
  for (int i = 0; i < 2; ++i) {
    CHECK(CodeOf(Ask(sim.scheduler.get(), &Scheduler::Register, woken)) == absl::StatusCode::kOk);
  }
  RegisterRequest old_version;
  old_version.set_role(WORKER);
  old_version.set_protocol_version(7);
  const auto refused = Ask(sim.scheduler.get(), &Scheduler::Register, old_version);
  CHECK_THAT(std::string((*refused)->status().message()),
             Contains("speaks 7") && Contains("speaks " + std::to_string(kProtocolVersion)));
}

TEST_CASE("Scheduler: several jobs share the workers, others are queued", "[scheduler][unit]") {
  SimCluster sim;
  sim.options.max_running_jobs = 2;
  sim.Restart();
  AddFleet(&sim, 2, 2, 2);
  std::vector<uint64_t> ids;
  for (const char* sync : {"asp", "ssp", "bsp"}) ids.push_back(sim.Submit(SimJob(sync)));
  for (int t = 0; t < 5; ++t) sim.Turn();
  CHECK(sim.Status(ids[1]).state() == RUNNING);
  CHECK(sim.Status(ids[2]).state() == QUEUED);
  for (uint32_t t : {0, 1}) {
    GetWork(&sim, sim.Find("w0"), t);
    GetWork(&sim, sim.Find("w1"), t);
  }
  std::map<uint64_t, int> threads;
  for (const char* name : {"w0", "w1"}) {
    for (uint32_t t : {0, 1}) ++threads[sim.Find(name)->threads[t].got[0].grant().job()];
  }
  CHECK(threads == std::map<uint64_t, int>{{ids[0], 2}, {ids[1], 2}});
  for (uint64_t id : ids) {
    REQUIRE(sim.RunJob(id).state() == SUCCEEDED);
    CHECK(AllDone(sim, id, 12));
  }
  CHECK((*Ask(sim.scheduler.get(), &Scheduler::ListJobs, Empty()))->value().jobs_size() == 3);
}

TEST_CASE("Scheduler: jobs take turns when threads are fewer than jobs", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 1, 1);
  std::vector<uint64_t> ids;
  for (const char* sync : {"asp", "ssp", "asp"}) ids.push_back(sim.Submit(SimJob(sync)));
  SimProcess* const worker = sim.Find("w0");
  for (int turn = 0; turn < 6; ++turn) {
    CHECK(GetWork(&sim, worker).job() == ids[turn % 3]);
    FinishWork(&sim, worker);
  }
  CHECK(sim.Status(ids[1]).splits_done() == 2);
  for (uint64_t id : ids) CHECK(sim.RunJob(id).state() == SUCCEEDED);
}

TEST_CASE("Scheduler: a thread leases ahead of what it carries, unless it is another job's turn", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 1, 1);
  const uint64_t first = sim.Submit(SimJob(GENERATE("asp", "ssp")));
  SimProcess* const worker = sim.Find("w0");
  SimThread& thread = worker->threads[0];
  const Grant now = GetWork(&sim, worker);
  const Grant next = GetWork(&sim, worker);
  CHECK(next.job() == first);
  CHECK(next.lane() == now.lane());
  CHECK(next.split() != now.split());
  REQUIRE(thread.held.size() == 2);
  const uint64_t second = sim.Submit(SimJob("asp"));
  for (int t = 0; t < 20 && sim.Status(second).state() != RUNNING; ++t) sim.Turn();
  REQUIRE(sim.Status(second).state() == RUNNING);
  sim.AskWork(worker, 0, 0);
  REQUIRE(thread.asked->has_value());
  CHECK((*thread.asked)->value().kind() == NextWorkReply::WAIT);
  thread.asked = nullptr;
  // Carrying nothing returns both; then it is the other job's turn.
  thread.held.clear();
  CHECK(GetWork(&sim, worker).job() == second);
  for (uint64_t id : {first, second}) {
    REQUIRE(sim.RunJob(id).state() == SUCCEEDED);
    CHECK(AllDone(sim, id, 12));
  }
}

TEST_CASE("Scheduler: a bsp and an asp job share one thread", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 1, 1);
  Job one_lane = SimJob("bsp");
  one_lane.mutable_sync()->mutable_bsp()->set_lanes(1);
  const uint64_t bsp = sim.Submit(one_lane), asp = sim.Submit(SimJob("asp"));
  REQUIRE(sim.RunJob(bsp).state() == SUCCEEDED);
  CHECK(sim.Status(asp).splits_done() > 0);
  REQUIRE(sim.RunJob(asp).state() == SUCCEEDED);
  for (uint64_t id : {bsp, asp}) CHECK(AllDone(sim, id, 12));
}

TEST_CASE("Scheduler: submit is checked, idempotent, and cancel ends a job", "[scheduler][unit]") {
  SimCluster sim;
  SubmitRequest request;
  *request.mutable_job() = SimJob("asp");
  request.set_request_id("r");
  const uint64_t id = (*Ask(sim.scheduler.get(), &Scheduler::Submit, request))->value().job();
  CHECK((*Ask(sim.scheduler.get(), &Scheduler::Submit, request))->value().job() == id);
  request.set_request_id("other");
  request.mutable_job()->set_partitions(0);
  CHECK_THAT(std::string((*Ask(sim.scheduler.get(), &Scheduler::Submit, request))->status().message()),
             Contains("partitions: 0"));
  CHECK_THAT(sim.Status(id).reason(), Contains("waiting for a server") && Contains("1 workers (0 alive)"));
  AddFleet(&sim, 1, 1, 1);
  GetWork(&sim, sim.Find("w0"));
  GetJobRequest get;
  get.set_job(id);
  get.set_known_version(sim.Status(id).version());
  get.set_wait_ms(10000);
  const auto waiting = Ask(sim.scheduler.get(), &Scheduler::GetJob, get);
  CHECK_FALSE(waiting->has_value());
  JobRef ref;
  ref.set_job(id);
  Ask(sim.scheduler.get(), &Scheduler::Cancel, ref);
  REQUIRE(waiting->has_value());
  CHECK((*waiting)->value().state() == CANCELLED);
  sim.Turn();
  CHECK(sim.Find("s0")->done[Task::DROP_JOB] == 1);
  CHECK(sim.View(*sim.Find("s0")).jobs_size() == 0);
}

TEST_CASE("Scheduler: jobs and processes that it remembers are bounded", "[scheduler][unit]") {
  SimCluster sim(TemporaryFile("scheduler-bounds.db"));
  sim.options.max_open_jobs = 3;
  sim.options.max_ended_jobs = 2;
  sim.Restart();
  SubmitRequest request;
  *request.mutable_job() = SimJob("asp");
  const auto submit = [&](const std::string& request_id) {
    request.set_request_id(request_id);
    return **Ask(sim.scheduler.get(), &Scheduler::Submit, request);
  };
  std::vector<uint64_t> ids;
  for (const char* name : {"a", "b", "c"}) ids.push_back(submit(name)->job());
  CHECK(submit("d").status().code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(submit("d").status().message()), Contains("at most 3"));
  CHECK(submit("a")->job() == ids[0]);
  GetJobRequest get;
  get.set_job(ids[1]);
  Answered<JobStatus> waiting;
  for (size_t i : {1, 2, 0}) {
    JobRef ref;
    ref.set_job(ids[i]);
    Ask(sim.scheduler.get(), &Scheduler::Cancel, ref);
    if (i != 1) continue;
    get.set_known_version(sim.Status(ids[1]).version());
    get.set_wait_ms(10000);
    waiting = Ask(sim.scheduler.get(), &Scheduler::GetJob, get);
    CHECK_FALSE(waiting->has_value());
  }
  CHECK(CodeOf(waiting) == absl::StatusCode::kNotFound);
  const auto jobs = [&] { return (*Ask(sim.scheduler.get(), &Scheduler::ListJobs, Empty()))->value(); };
  REQUIRE(jobs().jobs_size() == 2);
  sim.Restart();
  REQUIRE(jobs().jobs_size() == 2);
  CHECK(jobs().jobs(0).job() == ids[0]);
  CHECK(jobs().jobs(1).job() == ids[2]);
  CHECK(submit("c")->job() == ids[2]);
  CHECK(submit("b")->job() > ids[2]);  // forgotten
  // Processes that are gone: the last ones are listed.
  for (int i = 0; i < 25; ++i) {
    LeaveRequest leave;
    leave.mutable_identity()->set_process(sim.Add(WORKER, "gone")->id);
    Ask(sim.scheduler.get(), &Scheduler::Leave, leave);
    sim.clock.Advance(absl::Milliseconds(1));
  }
  const uint64_t here = sim.Add(WORKER, "here")->id;
  const ClusterStatus status = (*Ask(sim.scheduler.get(), &Scheduler::Status, Empty()))->value();
  REQUIRE(status.processes_size() == 21);
  CHECK(status.processes(0).process() == here - 20);
  CHECK(status.processes(20).process() == here);
  // For an hour, restarts of the scheduler or not.
  const auto listed = [&] {
    return (*Ask(sim.scheduler.get(), &Scheduler::Status, Empty()))->value().processes_size();
  };
  sim.Restart();
  CHECK(listed() == 21);
  for (int i = 0; i < 60; ++i) {
    CHECK(listed() == 21);
    for (int t = 0; t < 60; ++t) sim.Turn(absl::Seconds(1));
  }
  CHECK(listed() == 1);
  sim.Restart();
  CHECK(listed() == 1);
}

TEST_CASE("Scheduler: what cannot be done fails the job with a name", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 2, 2, 1);
  Job job = SimJob("asp");
  job.mutable_checkpoint()->set_dir("/ckpt");
  SECTION("inputs") {
    sim.Find("w1")->failing[Task::CHECK_INPUTS] = "no such file";
    const JobStatus status = sim.RunJob(sim.Submit(job));
    CHECK(status.state() == FAILED);
    CHECK_THAT(status.reason(),
               Contains("worker w1") && Contains("cannot read the inputs") && Contains("no such file"));
  }
  SECTION("checkpoint directory") {
    sim.Find("s1")->failing[Task::CHECK_CHECKPOINT_DIR] = "read-only";
    CHECK_THAT(sim.RunJob(sim.Submit(job)).reason(),
               Contains("server s1") && Contains("cannot write checkpoint.dir /ckpt"));
  }
  SECTION("final checkpoint") {
    sim.Find("s0")->failing[Task::WRITE_PART] = "disk full";
    CHECK_THAT(sim.RunJob(sim.Submit(job)).reason(), Contains("server s0") && Contains("disk full"));
  }
  SECTION("bad records and errors of workers") {
    const uint64_t id = sim.Submit(job);
    job.mutable_checkpoint()->set_dir("/other");
    const uint64_t other = sim.Submit(job);
    GetWork(&sim, sim.Find("w0"));
    HeartbeatRequest beat = BeatOf(sim.Find("w0")->id);
    beat.add_worker_jobs()->set_job(id);
    beat.mutable_worker_jobs(0)->set_bad_records(1);
    beat.mutable_worker_jobs(0)->add_bad_record_samples("f.tsv line 3");
    beat.add_errors()->set_job(other);
    beat.mutable_errors(0)->set_run(1);
    beat.mutable_errors(0)->set_message("loss is NaN");
    Ask(sim.scheduler.get(), &Scheduler::Heartbeat, beat);
    CHECK_THAT(sim.Status(id).reason(), Contains("1 bad records") && Contains("f.tsv line 3"));
    CHECK(sim.Status(other).reason() == "loss is NaN");
  }
}

TEST_CASE("Scheduler: a counting job that may lose count says so in its log", "[scheduler][unit]") {
  const auto [records, warned] = GENERATE(table<uint64_t, bool>({{559240, false}, {559241, true}}));
  SimCluster sim;
  AddFleet(&sim, 1, 1, 1);
  sim.records = records;
  Job job = SimJob("asp", /*passes=*/2);
  job.mutable_model()->set_preset(Model::COUNTING);
  const uint64_t id = sim.Submit(job);
  REQUIRE(sim.RunJob(id).state() == SUCCEEDED);
  INFO(sim.LogText(id));
  CHECK(Contains("warning: model.preset: counting: its sums are f32").match(sim.LogText(id)) == warned);
  CHECK(Contains("exact for up to 1118481 records, this job has 559241 in 2 passes").match(sim.LogText(id)) == warned);
}

TEST_CASE("Scheduler: a job without workers waits, says so, and goes on", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim;
  AddFleet(&sim, 1, 1, 1);
  const uint64_t id = sim.Submit(SimJob(sync));
  GetWork(&sim, sim.Find("w0"));
  sim.Kill(sim.Find("w0"));
  for (int t = 0; t < 10; ++t) sim.Turn(absl::Seconds(1));
  CHECK(sim.Status(id).state() == RUNNING);
  CHECK_THAT(sim.Status(id).reason(), Contains("waiting for a worker"));
  sim.Add(WORKER, "w9", 2);
  REQUIRE(sim.RunJob(id).state() == SUCCEEDED);
  CHECK(AllDone(sim, id, 12));
}

TEST_CASE("Scheduler: live sets follow who works; joiners start at the slowest clock", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 2, 1);
  sim.splits = 2;
  sim.Submit(SimJob("ssp", 1));
  SimProcess *const a = sim.Find("w0"), *const b = sim.Find("w1");
  const Grant first = GetWork(&sim, a);
  HeartbeatRequest beat = BeatOf(a->id);
  LaneReport* const report = beat.add_lanes();
  report->set_job(first.job());
  report->set_lane(first.lane());
  report->set_clock(5);
  Ask(sim.scheduler.get(), &Scheduler::Heartbeat, beat);
  const uint64_t before = sim.View(*a).jobs(0).live_version();
  WatchRequest watch;
  watch.mutable_identity()->set_process(a->id);
  watch.set_known_version(sim.View(*a).version());
  watch.set_wait_ms(10000);
  const auto watching = Ask(sim.scheduler.get(), &Scheduler::Watch, watch);
  CHECK_FALSE(watching->has_value());
  const Grant second = GetWork(&sim, b);
  CHECK(second.clock() == 5);
  CHECK(second.lane() > first.lane());
  REQUIRE(watching->has_value());
  const JobView view = (*watching)->value().jobs(0);
  CHECK(view.live_version() > before);
  CHECK(view.lanes_size() == 2);
  CHECK(view.lanes(0).clock() == 5);
  FinishWork(&sim, b);
  sim.AskWork(b, 0);  // nothing left: its lane goes
  CHECK(sim.View(*a).jobs(0).lanes_size() == 1);
}

TEST_CASE("Scheduler: bsp shares lanes out and pins the compute fingerprint", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 1, 2);
  sim.Add(WORKER, "odd", 1, "other");
  const uint64_t id = sim.Submit(SimJob("bsp"));
  SimProcess* const worker = sim.Find("w0");
  for (uint32_t t : {0, 1}) sim.AskWork(worker, t);  // so that both are known
  GetWork(&sim, worker, 0);
  GetWork(&sim, worker, 0);  // share: 3 lanes by 2 threads
  sim.AskWork(worker, 0);
  CHECK((*worker->threads[0].asked)->value().kind() == NextWorkReply::WAIT);
  sim.AskWork(sim.Find("odd"), 0);
  CHECK((*sim.Find("odd")->threads[0].asked)->value().kind() == NextWorkReply::WAIT);
  CHECK_THAT(sim.LogText(id), Contains("worker odd is refused"));
  CHECK(GetWork(&sim, worker, 1).logical_lane() == 2);
  REQUIRE(sim.RunJob(id).state() == SUCCEEDED);
  CHECK(AllDone(sim, id, 12));
}

TEST_CASE("Scheduler: a restart resumes jobs from the state file", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim(TemporaryFile("scheduler-" + sync + ".db"));
  AddFleet(&sim, 2, 1, 1);
  const uint64_t finished = sim.Submit(SimJob(sync));
  REQUIRE(sim.RunJob(finished).state() == SUCCEEDED);
  const uint64_t id = sim.Submit(SimJob(sync));
  for (int t = 0; t < 30 && sim.Status(id).splits_done() < 4; ++t) {
    sim.StepThread(sim.Find("w0"), 0);
    sim.Turn();
  }
  const Grant last = sim.Find("w0")->threads[0].got.back().grant();
  SECTION("servers have kept their partitions") {
    sim.Restart();
    CHECK(sim.Status(finished).state() == SUCCEEDED);
    CHECK(sim.Status(finished).examples() == 48);
    CHECK(sim.Status(id).state() == RUNNING);
    const JobStatus status = sim.RunJob(id);
    INFO(sync << " " << status.ShortDebugString() << sim.LogText(id));
    REQUIRE(status.state() == SUCCEEDED);
    CHECK(AllDone(sim, id, 12));
    const auto& got = sim.Find("w0")->threads[0].got;
    CHECK(got.back().grant().lease() > last.lease() + 1000);
    CHECK(sim.Submit(SimJob("asp")) > id);
  }
  SECTION("a server was restarted too") {
    sim.Restart();
    sim.Kill(sim.Find("s1"));
    sim.Add(SERVER, "s1");
    const JobStatus status = sim.RunJob(id);
    INFO(sync << " " << status.ShortDebugString() << sim.LogText(id));
    REQUIRE(status.state() == SUCCEEDED);
    CHECK(AllDone(sim, id, 12));
    CHECK_THAT(sim.LogText(id), Contains("server s1") && Contains("was restarted"));
  }
}

TEST_CASE("Scheduler: its own standstill kills nobody, silence after it does", "[scheduler][unit]") {
  SimCluster sim;
  sim.Add(SERVER, "s0");
  SimProcess* const worker = sim.Add(WORKER, "w0");
  const auto state = [&] {
    const ClusterStatus status = (*Ask(sim.scheduler.get(), &Scheduler::Status, Empty()))->value();
    for (const ProcessStatus& process : status.processes()) {
      if (process.name() == worker->name) return process.state();
    }
    return std::string();
  };
  sim.Heartbeat(worker);
  sim.clock.Advance(sim.options.deadline * 10);
  sim.scheduler->Excuse(sim.options.deadline * 10);
  sim.scheduler->Tick();
  CHECK(state() == "ALIVE");
  sim.clock.Advance(sim.options.deadline * 2);
  sim.scheduler->Excuse(sim.options.deadline / 2);  // a short one does not make up for a long silence
  sim.scheduler->Tick();
  CHECK(state() == "DEAD");
}

TEST_CASE("Scheduler: shutdown and destruction answer those who wait", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 1, 2);
  SimProcess* const worker = sim.Find("w0");
  sim.AskWork(worker, 0, 10000);
  sim.scheduler->ShutdownCluster();
  CHECK((*worker->threads[0].asked)->value().kind() == NextWorkReply::EXIT);
  CHECK(sim.View(*worker).shutdown());
  LeaveRequest leave;
  leave.mutable_identity()->set_process(worker->id);
  Ask(sim.scheduler.get(), &Scheduler::Leave, leave);
  CHECK((*Ask(sim.scheduler.get(), &Scheduler::Leave, leave))->ok());
  CHECK((*Ask(sim.scheduler.get(), &Scheduler::Status, Empty()))->value().processes(1).state() == "LEFT");
  WatchRequest watch;
  watch.mutable_identity()->set_process(sim.Find("s0")->id);
  watch.set_known_version(sim.View(*sim.Find("s0")).version());
  watch.set_wait_ms(1000);
  const auto watching = Ask(sim.scheduler.get(), &Scheduler::Watch, watch);
  sim.scheduler.reset();
  CHECK(CodeOf(watching) == absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace shoal
