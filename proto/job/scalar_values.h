// Scalars of a job file: text to a proto field and back, with units, bounds and enum names.
#ifndef SHOAL_PROTO_JOB_SCALAR_VALUES_H_
#define SHOAL_PROTO_JOB_SCALAR_VALUES_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace shoal {

// The rule of a field; the default instance where it has none.
const FieldRule& RuleOf(const google::protobuf::FieldDescriptor& field);

// Parses `text` as a value of `field` (no message) and sets it, or appends it when the field is repeated. Checks unit,
// range of the type and the rule's bounds. `quoted`: it was written with quotes, so it is no number and no boolean.
absl::Status SetScalar(const google::protobuf::FieldDescriptor& field, absl::string_view text, bool quoted,
                       google::protobuf::Message* message);

// The value (element `index` of a repeated field, else -1) as it stands in a resolved job file; text is quoted.
std::string ScalarAsYaml(const google::protobuf::FieldDescriptor& field, const google::protobuf::Message& message,
                         int index);

// True when the field (no message, not repeated) holds its type's zero.
bool IsZero(const google::protobuf::FieldDescriptor& field, const google::protobuf::Message& message);

// Lower-case names of an enum's values, "a, b, c"; NONE is left out because leaving out the key says it.
std::string EnumChoices(const google::protobuf::EnumDescriptor& type);

// `text` in double quotes with YAML's escapes.
std::string QuoteYaml(absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_PROTO_JOB_SCALAR_VALUES_H_
