// The verbs below `shoal checkpoint` that make something of checkpoints.
#ifndef SHOAL_CLI_CHECKPOINT_H_
#define SHOAL_CLI_CHECKPOINT_H_

#include "cli/verbs.h"

namespace shoal::cli {

// diff, merge, export.
void AddCheckpointTools(CLI::App* parent, Action* action);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_CHECKPOINT_H_
