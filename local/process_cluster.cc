#include "local/process_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// How often exits are looked for: quick to the eye, cheap on the CPU.
constexpr absl::Duration kPoll = absl::Milliseconds(20);

std::string DescribeExit(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("was killed by signal ", WTERMSIG(status));
  return absl::StrCat("ended with status ", WEXITSTATUS(status));
}

// Between fork and exec only async-signal-safe calls are allowed, so `argv` is made before.
[[noreturn]] void ExecChild(int output, pid_t parent, char* const* argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before prctl took effect
  setpgid(0, 0);                      // Ctrl-C reaches the parent only, which stops the children in order
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  execv("/proc/self/exe", argv);
  _exit(127);
}

}  // namespace

// One process and the thread that relays its output. Thread-safe.
class ProcessCluster::Child {
 public:
  explicit Child(std::string name) : name_(std::move(name)) {}
  ~Child() {
    Signal(SIGKILL);
    while (pid_ > 0 && !Exited(nullptr)) usleep(1000);
    if (relay_.joinable()) relay_.join();
  }

  const std::string& name() const { return name_; }

  absl::Status Spawn(const std::vector<std::string>& arguments) {
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) return absl::ResourceExhaustedError(std::strerror(errno));
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) ExecChild(pipe_fds[1], parent, argv.data());
    close(pipe_fds[1]);
    if (pid < 0) {
      close(pipe_fds[0]);
      return absl::ResourceExhaustedError(absl::StrCat("cannot fork for ", name_, ": ", std::strerror(errno)));
    }
    pid_ = pid;
    relay_ = std::thread([this, fd = pipe_fds[0]] { Relay(fd); });
    return absl::OkStatus();
  }

  // Waits for the line that a daemon prints when it is ready and returns the address in it.
  absl::StatusOr<std::string> WaitReady(absl::Duration deadline) {
    MutexLock lock(&mu_);
    while (!ready_ && !closed_) {
      const absl::Duration left = deadline - Clock::Steady().Now();
      if (left <= absl::ZeroDuration())
        return absl::DeadlineExceededError(absl::StrCat(name_, " did not start in time"));
      changed_.WaitFor(&mu_, left);
    }
    if (!ready_) return absl::UnavailableError(absl::StrCat(name_, " ended before it was ready; its output is above"));
    return address_;
  }

  void Signal(int signal) {
    if (pid_ > 0 && !Exited(nullptr)) kill(pid_, signal);
  }

  // True once the process is gone; *status as waitpid gives it.
  bool Exited(int* status) {
    if (!exited_) exited_ = waitpid(pid_, &status_, WNOHANG) == pid_;
    if (exited_ && status != nullptr) *status = status_;
    return exited_;
  }

 private:
  void Relay(int fd) {
    std::string pending;
    char buffer[4096];
    ssize_t count;
    while ((count = read(fd, buffer, sizeof(buffer))) > 0 || (count < 0 && errno == EINTR)) {
      if (count < 0) continue;
      pending.append(buffer, count);
      size_t end;
      while ((end = pending.find('\n')) != std::string::npos) {
        HandleLine(pending.substr(0, end));
        pending.erase(0, end + 1);
      }
    }
    if (!pending.empty()) HandleLine(pending);
    close(fd);
    MutexLock lock(&mu_);
    closed_ = true;
    changed_.SignalAll();
  }

  void HandleLine(const std::string& line) {
    const std::string relayed = absl::StrCat("[", name_, "] ", line, "\n");
    std::fwrite(relayed.data(), 1, relayed.size(), stderr);
    absl::string_view address = line;
    const bool listening = absl::ConsumePrefix(&address, "listening on ");
    if (!listening && !(absl::StartsWith(line, "worker ") && absl::StrContains(line, " joined "))) return;
    MutexLock lock(&mu_);
    ready_ = true;
    address_ = std::string(address);
    changed_.SignalAll();
  }

  const std::string name_;
  pid_t pid_ = -1;
  bool exited_ = false;
  int status_ = 0;
  std::thread relay_;
  Mutex mu_;
  CondVar changed_;
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::string address_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<ProcessCluster::Child*> ProcessCluster::Spawn(const std::string& name,
                                                             const std::vector<std::string>& arguments) {
  children_.push_back(std::make_unique<Child>(name));
  SHOAL_RETURN_IF_ERROR(children_.back()->Spawn(arguments));
  return children_.back().get();
}

absl::StatusOr<std::unique_ptr<ProcessCluster>> ProcessCluster::Start(const ProcessClusterOptions& options) {
  std::unique_ptr<ProcessCluster> cluster(new ProcessCluster());
  const absl::Duration deadline = Clock::Steady().Now() + options.start_timeout;
  const auto arguments = [&options](const char* verb, std::vector<std::string> more) {
    std::vector<std::string> all = {"shoal", verb, "--log-level", options.log_level};
    if (options.log_json) all.push_back("--log-json");
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  std::vector<std::string> scheduler = {"--listen",    options.listen,
                                        "--heartbeat", absl::StrCat(absl::ToInt64Milliseconds(options.heartbeat), "ms"),
                                        "--deadline",  absl::StrCat(absl::ToInt64Milliseconds(options.deadline), "ms")};
  if (options.insecure) scheduler.push_back("--insecure");
  if (!options.state_path.empty()) scheduler.insert(scheduler.end(), {"--state", options.state_path});
  SHOAL_ASSIGN_OR_RETURN(Child* const first, cluster->Spawn("scheduler", arguments("scheduler", scheduler)));
  SHOAL_ASSIGN_OR_RETURN(cluster->scheduler_, first->WaitReady(deadline));
  for (int i = 0; i < options.servers; ++i) {
    const std::string name = absl::StrCat("server-", i);
    SHOAL_RETURN_IF_ERROR(
        cluster
            ->Spawn(name, arguments("server", {"--scheduler", cluster->scheduler_, "--name", name,
                                               // It goes with all others: nobody could take its partitions.
                                               "--grace-period", "0s"}))
            .status());
  }
  for (int i = 0; i < options.workers; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    SHOAL_RETURN_IF_ERROR(cluster
                              ->Spawn(name, arguments("worker", {"--scheduler", cluster->scheduler_, "--name", name,
                                                                 "--threads", absl::StrCat(options.threads)}))
                              .status());
  }
  for (const std::unique_ptr<Child>& child : cluster->children_) {
    SHOAL_RETURN_IF_ERROR(child->WaitReady(deadline).status());
  }
  return cluster;
}

ProcessCluster::~ProcessCluster() { Stop(absl::ZeroDuration()); }

absl::Status ProcessCluster::Check() {
  for (const std::unique_ptr<Child>& child : children_) {
    int status = 0;
    if (!child->Exited(&status)) continue;
    // Drained; the scheduler is not.
    if (status == 0 && child != children_.front()) continue;
    return absl::UnavailableError(absl::StrCat(child->name(), " ", DescribeExit(status)));
  }
  return absl::OkStatus();
}

void ProcessCluster::StopGroup(const std::string& prefix, absl::Duration grace) {
  const absl::Duration deadline = Clock::Steady().Now() + grace;
  const auto in_group = [&prefix](const Child& child) { return absl::StartsWith(child.name(), prefix); };
  for (const std::unique_ptr<Child>& child : children_) {
    if (in_group(*child)) child->Signal(SIGTERM);
  }
  for (const std::unique_ptr<Child>& child : children_) {
    if (!in_group(*child)) continue;
    while (!child->Exited(nullptr) && Clock::Steady().Now() < deadline) usleep(absl::ToInt64Microseconds(kPoll));
    child->Signal(SIGKILL);
  }
}

void ProcessCluster::Stop(absl::Duration grace) {
  for (const char* prefix : {"worker", "server", "scheduler"}) StopGroup(prefix, grace);
  children_.clear();
}

}  // namespace shoal
