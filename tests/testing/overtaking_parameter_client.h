// A network that confirms a push before it delivers it, and delivers it behind the next one.
#ifndef SHOAL_TESTS_TESTING_OVERTAKING_PARAMETER_CLIENT_H_
#define SHOAL_TESTS_TESTING_OVERTAKING_PARAMETER_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/mutex.h"
#include "tests/testing/forwarding_parameter_client.h"

namespace shoal {

// A lane sends a server no push before the one before is confirmed, so nothing else lets one overtake another: the
// server finds records missing (OUT_OF_ORDER) and must make the lane compute them again, unless the push that was
// overtaken has come meanwhile. Splits' last pushes are left alone. asp and ssp only: a bsp lane that hears of success
// tells all servers. Thread-safe.
class OvertakingParameterClient : public ForwardingParameterClient {
 public:
  // rate: of pushes that are held up, decided by (seed, number of the push). overtaken: called with the lease of each
  // that was overtaken by the next one of its split; it must be thread-safe.
  OvertakingParameterClient(std::shared_ptr<ParameterClient> inner, uint64_t seed, double rate,
                            std::function<void(uint64_t lease)> overtaken);

  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override;

 private:
  struct Held;

  const uint64_t seed_;
  const double rate_;
  const std::function<void(uint64_t)> overtaken_;
  std::atomic<uint64_t> pushes_{0};
  Mutex mu_;
  std::map<uint64_t, std::shared_ptr<Held>> held_ ABSL_GUARDED_BY(mu_);  // by lane
};

}  // namespace shoal

#endif  // SHOAL_TESTS_TESTING_OVERTAKING_PARAMETER_CLIENT_H_
