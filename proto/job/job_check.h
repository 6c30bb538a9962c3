// Rules that concern several fields of a job.
#ifndef SHOAL_PROTO_JOB_JOB_CHECK_H_
#define SHOAL_PROTO_JOB_JOB_CHECK_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace shoal {

// Receives the dotted path of the field at fault and what is wrong with it.
using ReportJobError = std::function<void(const std::string& path, absl::string_view message)>;

// The loss that a job's training minimises; never DEFAULT unless the format isn't set.
Model::Loss EffectiveLoss(const Job& job);

// Name of the slot that a feature makes: its name, the column, "<column>_bucket" or the crossed names with "_x_".
std::string SlotName(const SparseFeature& feature);

// Whether replicas and recovery fit how lanes wait for one another.
void CheckRecovery(const Job& job, const ReportJobError& report);

// The parts of CheckJob.
void CheckData(const Data& data, const ReportJobError& report);
void CheckModel(const Job& job, const ReportJobError& report);
void CheckTraining(const Job& job, const ReportJobError& report);

// Checks everything that can be known without looking at the input files.
void CheckJob(const Job& job, const ReportJobError& report);

}  // namespace shoal

#endif  // SHOAL_PROTO_JOB_JOB_CHECK_H_
