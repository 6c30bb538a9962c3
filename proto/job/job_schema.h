// What the job file's reader, writer and documentation know about proto/job.proto beyond single fields.
#ifndef SHOAL_PROTO_JOB_JOB_SCHEMA_H_
#define SHOAL_PROTO_JOB_JOB_SCHEMA_H_

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace shoal {

// The field that a plain scalar sets where `type` is expected; null where there is none.
const google::protobuf::FieldDescriptor* ShorthandField(const google::protobuf::Descriptor& type);

// The oneof of `type`, or null. No message of a job has two.
const google::protobuf::OneofDescriptor* ChoiceOf(const google::protobuf::Descriptor& type);

// Names of the fields of `choice`.
std::vector<std::string> ChoiceNames(const google::protobuf::OneofDescriptor& choice);

// Names that a job file may use as keys of `type`, without those that are not supported yet.
std::vector<std::string> KeyNames(const google::protobuf::Descriptor& type);

// YAML that an absent `field` stands for: the defaults of whole messages, which field rules cannot say. "" for none.
absl::string_view MessageDefault(const google::protobuf::FieldDescriptor& field);

// Name of the choice that is taken when `type` is there but none of its choices is; "" when that is an error.
absl::string_view ChoiceDefault(const google::protobuf::Descriptor& type);

// True when an absent message field is filled in with its defaults, false when its absence means something.
bool FilledWhenAbsent(const google::protobuf::FieldDescriptor& field);

}  // namespace shoal

#endif  // SHOAL_PROTO_JOB_JOB_SCHEMA_H_
