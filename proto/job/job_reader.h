// YAML tree to Job: strict, driven by the descriptors of proto/job.proto.
#ifndef SHOAL_PROTO_JOB_JOB_READER_H_
#define SHOAL_PROTO_JOB_JOB_READER_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "proto/job/job_errors.h"
#include "proto/job/yaml_tree.h"

namespace shoal {

// Reads one tree into one Job and remembers where each field stood. Presence is that of the YAML key, because proto3
// cannot tell an explicit 0 from an absent field. Not thread-safe; lives while one job is loaded.
class JobReader {
 public:
  explicit JobReader(JobErrors* errors) : errors_(errors) {}

  // Fills *job with the file's values and every default. Errors go to the JobErrors; *job then holds what was good.
  void Read(const YamlNode& root, Job* job);

  // Position of a field's value, or of the nearest message around it that the file has.
  YamlPosition Locate(absl::string_view path) const;

 private:
  using FieldDescriptor = google::protobuf::FieldDescriptor;
  using Message = google::protobuf::Message;
  using Entries = std::map<const FieldDescriptor*, const YamlEntry*>;

  void ReadMessage(const YamlNode& node, const std::string& path, Message* message);
  void ReadMessageFromScalar(const YamlNode& node, const std::string& path, Message* message);
  void ReadMap(const YamlNode& node, const std::string& path, Message* message);
  // The field that an entry sets, or null after adding an error.
  const FieldDescriptor* FindField(const YamlEntry& entry, const std::string& path, const Message& message,
                                   const Entries& seen);
  bool CheckChoice(const YamlEntry& entry, const FieldDescriptor& field, const std::string& path, const Entries& seen);
  void ReadField(const YamlNode& node, const FieldDescriptor& field, const std::string& path, Message* message);
  void ReadElement(const YamlNode& node, const FieldDescriptor& field, const std::string& path, Message* message);
  void FillAbsent(const YamlPosition& position, const std::string& path, const std::set<const FieldDescriptor*>& seen,
                  Message* message);
  void FillField(const YamlPosition& position, const FieldDescriptor& field, const std::string& path, Message* message);
  void FillChoice(const YamlPosition& position, const std::string& path, Message* message);

  JobErrors* const errors_;
  std::map<std::string, YamlPosition, std::less<>> positions_;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_JOB_JOB_READER_H_
