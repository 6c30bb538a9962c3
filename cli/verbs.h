// The verbs of `shoal`, one file each: a verb declares its options, checks them and calls a library.
#ifndef SHOAL_CLI_VERBS_H_
#define SHOAL_CLI_VERBS_H_

#include <functional>

namespace CLI {
class App;
}

namespace shoal::cli {

// What the parsed command line asks for; returns the exit status.
using Action = std::function<int()>;

// Each adds one verb to `root`, which sets *action when it was given.
void AddTrain(CLI::App* root, Action* action);
void AddScheduler(CLI::App* root, Action* action);
void AddServer(CLI::App* root, Action* action);
void AddWorker(CLI::App* root, Action* action);
void AddLocal(CLI::App* root, Action* action);
void AddSubmit(CLI::App* root, Action* action);
void AddList(CLI::App* root, Action* action);
void AddStatus(CLI::App* root, Action* action);
void AddWatch(CLI::App* root, Action* action);
void AddLogs(CLI::App* root, Action* action);
void AddCancel(CLI::App* root, Action* action);
void AddDrain(CLI::App* root, Action* action);
void AddValidate(CLI::App* root, Action* action);
void AddVerifyParity(CLI::App* root, Action* action);
void AddEvaluate(CLI::App* root, Action* action);
void AddPredict(CLI::App* root, Action* action);
void AddRecords(CLI::App* root, Action* action);
void AddCheckpoint(CLI::App* root, Action* action);
void AddDatagen(CLI::App* root, Action* action);
void AddBench(CLI::App* root, Action* action);
void AddDoctor(CLI::App* root, Action* action);
void AddVersion(CLI::App* root, Action* action);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_VERBS_H_
