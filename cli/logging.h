// Where log lines go.
#ifndef SHOAL_CLI_LOGGING_H_
#define SHOAL_CLI_LOGGING_H_

#include <string>

namespace shoal::cli {

struct LogOptions {
  std::string level = "info";
  bool json = false;
};

// Sends all log lines to stderr. Call it once, before any other thread.
void StartLogging(const LogOptions& options);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_LOGGING_H_
