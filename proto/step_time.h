// Sums of StepTime.
#ifndef SHOAL_PROTO_STEP_TIME_H_
#define SHOAL_PROTO_STEP_TIME_H_

#include "proto/scheduler.pb.h"

namespace shoal {

inline void AddStepTime(const StepTime& from, StepTime* to) {
  to->set_data_us(to->data_us() + from.data_us());
  to->set_pull_us(to->pull_us() + from.pull_us());
  to->set_gate_us(to->gate_us() + from.gate_us());
  to->set_compute_us(to->compute_us() + from.compute_us());
  to->set_push_us(to->push_us() + from.push_us());
  to->set_other_us(to->other_us() + from.other_us());
}

}  // namespace shoal

#endif  // SHOAL_PROTO_STEP_TIME_H_
