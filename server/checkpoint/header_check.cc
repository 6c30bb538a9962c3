// Whether a part's tables are those that a reader wants.
#include "absl/strings/str_cat.h"
#include "server/checkpoint/part_format.h"

namespace shoal {
namespace {

absl::Status SameNames(absl::string_view what, const std::vector<std::string>& saved,
                       const std::vector<std::string>& wanted, absl::string_view whose) {
  for (size_t i = 0; i < saved.size(); ++i) {
    if (saved[i] == wanted[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", i, ": the checkpoint has ", saved[i], ", ", whose, " ", wanted[i]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckHeader(const PartHeader& saved, const PartHeader& wanted, absl::string_view whose) {
  if (saved.partitions != wanted.partitions) {
    return absl::InvalidArgumentError(
        absl::StrCat("partitions: the checkpoint has ", saved.partitions, ", ", whose, " ", wanted.partitions));
  }
  if (saved.tables.size() != wanted.tables.size() || saved.tensors.size() != wanted.tensors.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the checkpoint has ", saved.tables.size(), " tables and ",
                                                   saved.tensors.size(), " tensors, ", whose, " ", wanted.tables.size(),
                                                   " and ", wanted.tensors.size()));
  }
  for (size_t t = 0; t < saved.tables.size(); ++t) {
    const PartHeader::Table &have = saved.tables[t], &want = wanted.tables[t];
    if (have.name == want.name && have.dim == want.dim && have.state == want.state) continue;
    return absl::InvalidArgumentError(absl::StrCat("table ", t, ": the checkpoint has ", have.name, " with dim ",
                                                   have.dim, " and ", have.state, " floats of optimizer state, ", whose,
                                                   " ", want.name, " with ", want.dim, " and ", want.state));
  }
  const absl::Status tensors = SameNames("tensor", saved.tensors, wanted.tensors, whose);
  if (!tensors.ok()) return tensors;
  if (saved.slots.size() != wanted.slots.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots: the checkpoint has ", saved.slots.size(), ", ", whose, " ", wanted.slots.size()));
  }
  return SameNames("slot", saved.slots, wanted.slots, whose);
}

}  // namespace shoal
