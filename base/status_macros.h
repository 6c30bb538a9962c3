// SHOAL_RETURN_IF_ERROR and SHOAL_ASSIGN_OR_RETURN: early return on a bad absl::Status.
#ifndef SHOAL_BASE_STATUS_MACROS_H_
#define SHOAL_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define SHOAL_RETURN_IF_ERROR(expr)                \
  do {                                             \
    ::absl::Status shoal_status_ = (expr);         \
    if (!shoal_status_.ok()) return shoal_status_; \
  } while (false)

#define SHOAL_STATUS_CONCAT_INNER_(x, y) x##y
#define SHOAL_STATUS_CONCAT_(x, y) SHOAL_STATUS_CONCAT_INNER_(x, y)

// `lhs` may be a declaration: SHOAL_ASSIGN_OR_RETURN(auto file, Open(path));
#define SHOAL_ASSIGN_OR_RETURN(lhs, rexpr) \
  SHOAL_ASSIGN_OR_RETURN_IMPL_(SHOAL_STATUS_CONCAT_(shoal_status_or_, __LINE__), lhs, rexpr)
#define SHOAL_ASSIGN_OR_RETURN_IMPL_(var, lhs, rexpr) \
  auto var = (rexpr);                                 \
  if (!var.ok()) return std::move(var).status();      \
  lhs = std::move(var).value()

#endif  // SHOAL_BASE_STATUS_MACROS_H_
