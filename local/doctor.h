// What this machine offers to shoal, and what could be better.
#ifndef SHOAL_LOCAL_DOCTOR_H_
#define SHOAL_LOCAL_DOCTOR_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace shoal {

struct Finding {
  std::string subject;  // "memory"
  bool ok = true;
  std::string found;   // "62.8 GiB, 40.1 GiB free"
  std::string advice;  // empty when there is nothing to do
};

struct DoctorOptions {
  std::string scheduler;  // HOST:PORT; empty: not checked
  absl::Duration connect_timeout = absl::Seconds(10);
};

// Looks and changes nothing.
std::vector<Finding> Examine(const DoctorOptions& options);

}  // namespace shoal

#endif  // SHOAL_LOCAL_DOCTOR_H_
