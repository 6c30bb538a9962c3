#include "proto/job/job_schema.h"

#include "proto/job/scalar_values.h"

namespace shoal {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;

const FieldDescriptor* ShorthandField(const Descriptor& type) {
  for (int i = 0; i < type.field_count(); ++i) {
    if (RuleOf(*type.field(i)).shorthand()) return type.field(i);
  }
  return nullptr;
}

const OneofDescriptor* ChoiceOf(const Descriptor& type) {
  return type.real_oneof_decl_count() > 0 ? type.oneof_decl(0) : nullptr;
}

std::vector<std::string> ChoiceNames(const OneofDescriptor& choice) {
  std::vector<std::string> names;
  for (int i = 0; i < choice.field_count(); ++i) names.push_back(choice.field(i)->name());
  return names;
}

std::vector<std::string> KeyNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    if (!RuleOf(*type.field(i)).not_yet()) names.push_back(type.field(i)->name());
  }
  return names;
}

absl::string_view MessageDefault(const FieldDescriptor& field) {
  if (field.full_name() == "shoal.Job.sync") return "{ssp: {staleness: 4}}";
  if (field.full_name() == "shoal.OptimizerPair.sparse") return "{rowwise_adagrad: {learning_rate: 0.05}}";
  if (field.full_name() == "shoal.OptimizerPair.dense") return "{adam: {learning_rate: 0.001}}";
  if (FilledWhenAbsent(field)) return "{}";
  return "";
}

absl::string_view ChoiceDefault(const Descriptor& type) {
  return type.full_name() == "shoal.Schedule" ? "constant" : "";
}

bool FilledWhenAbsent(const FieldDescriptor& field) {
  const Descriptor* type = field.message_type();
  if (type == nullptr || field.is_repeated() || field.real_containing_oneof() != nullptr) return false;
  if (RuleOf(field).required() || ChoiceOf(*type) != nullptr) return false;
  // Only csv has columns, so that absence is a statement.
  if (type->full_name() == "shoal.Columns") return false;
  for (int i = 0; i < type->field_count(); ++i) {
    if (RuleOf(*type->field(i)).required()) return false;
  }
  return true;
}

}  // namespace shoal
