// Fuzzes the job file loader: any bytes end in a Job or in a status, and a Job survives the way through
// job.resolved.yaml. Lines that begin with "--set " are taken as overrides.
#include <google/protobuf/util/message_differencer.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/job/job_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text;
  std::vector<std::string> overrides;
  for (absl::string_view line : absl::StrSplit(absl::string_view(reinterpret_cast<const char*>(data), size), '\n')) {
    if (absl::ConsumePrefix(&line, "--set ")) {
      overrides.emplace_back(line);
    } else {
      absl::StrAppend(&text, line, "\n");
    }
  }
  const absl::StatusOr<shoal::Job> job = shoal::LoadJobFromText(text, "fuzz.yaml", "/fuzz", overrides);
  if (!job.ok()) return 0;
  const absl::StatusOr<shoal::Job> again = shoal::LoadJobFromText(shoal::ResolvedYaml(*job), "resolved.yaml", "/fuzz");
  if (!again.ok() || !google::protobuf::util::MessageDifferencer::Equals(*job, *again)) abort();
  return 0;
}
