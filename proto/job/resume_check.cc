#include "proto/job/resume_check.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/job/job_file.h"

namespace shoal {
namespace {

using google::protobuf::FieldDescriptor;

// Fields of a job that may change between a checkpoint and what goes on from it.
constexpr const char* kFree[] = {"name",     "workers",  "memory",   "checkpoint", "evaluate",
                                 "replicas", "recovery", "priority", "warm_start"};

Job Essence(const Job& job) {
  Job out = job;
  for (const char* name : kFree) {
    const FieldDescriptor* field = Job::descriptor()->FindFieldByName(name);
    if (field != nullptr) out.GetReflection()->ClearField(&out, field);
  }
  // When rows are asked for, not what is learnt from them.
  if (out.sync().has_asp()) out.mutable_sync()->mutable_asp()->set_pull_ahead(true);
  if (out.sync().has_ssp()) out.mutable_sync()->mutable_ssp()->set_pull_ahead(true);
  // Evaluation reads the model, it does not change it.
  out.mutable_data()->clear_eval();
  return out;
}

// "a.b.c" -> value, from YAML as ResolvedYaml prints it: two blanks a level, list items at "- ".
std::map<std::string, std::string> Flatten(const std::string& yaml) {
  std::map<std::string, std::string> out;
  std::vector<std::pair<size_t, std::string>> path;  // indent, name
  std::map<std::string, int> items;
  for (absl::string_view line : absl::StrSplit(yaml, '\n', absl::SkipEmpty())) {
    size_t indent = line.find_first_not_of(' ');
    if (indent == absl::string_view::npos) continue;
    line.remove_prefix(indent);
    while (!path.empty() && path.back().first >= indent) path.pop_back();
    const auto prefix = [&] {
      std::string text;
      for (const auto& [at, name] : path) absl::StrAppend(&text, text.empty() ? "" : ".", name);
      return text;
    };
    if (line.substr(0, 2) == "- ") {
      const int item = items[prefix()]++;
      path.emplace_back(indent, absl::StrCat(item));
      indent += 2;
      line.remove_prefix(2);
    }
    const size_t colon = line.find(':');
    const std::string name(line.substr(0, colon));
    const std::string value(colon == absl::string_view::npos ? "" : line.substr(std::min(colon + 2, line.size())));
    const std::string before = prefix();
    if (value.empty()) {
      path.emplace_back(indent, name);
    } else {
      out[absl::StrCat(before, before.empty() ? "" : ".", name)] = value;
    }
  }
  return out;
}

void CompareFiles(const std::string& what, const InputPlan& before, const InputPlan& after,
                  std::vector<std::string>* out) {
  std::map<std::string, const InputFile*> now;
  for (const InputFile& file : after.files()) now[file.path()] = &file;
  for (const InputFile& file : before.files()) {
    const auto it = now.find(file.path());
    if (it == now.end()) {
      out->push_back(absl::StrCat(what, ": ", file.path(), " is not among the inputs any more"));
      continue;
    }
    const InputFile& is = *it->second;
    if (is.content_bytes() != file.content_bytes()) {
      out->push_back(
          absl::StrCat(what, ": ", file.path(), " holds ", is.content_bytes(), " bytes, held ", file.content_bytes()));
    } else if (is.content_hash() != file.content_hash()) {
      out->push_back(absl::StrFormat("%s: %s has other content: hash %016x, was %016x", what, file.path(),
                                     is.content_hash(), file.content_hash()));
    } else if (!std::equal(is.columns().begin(), is.columns().end(), file.columns().begin(), file.columns().end())) {
      out->push_back(absl::StrCat(what, ": ", file.path(), " has other columns"));
    }
    now.erase(it);
  }
  for (const auto& [path, file] : now) out->push_back(absl::StrCat(what, ": ", path, " is new among the inputs"));
  if (!out->empty()) return;
  // The same files, but splits are numbered by their order.
  for (int f = 0; f < before.files_size(); ++f) {
    if (before.files(f).path() == after.files(f).path()) continue;
    out->push_back(absl::StrCat(what, ": file ", f, " is ", after.files(f).path(), ", was ", before.files(f).path(),
                                ": the order of the inputs has changed"));
    return;
  }
  if (before.splits_size() != after.splits_size()) {
    out->push_back(absl::StrCat(what, ": ", after.splits_size(), " splits, were ", before.splits_size()));
    return;
  }
  for (int s = 0; s < before.splits_size(); ++s) {
    const Split &was = before.splits(s), &is = after.splits(s);
    if (was.file() == is.file() && was.begin() == is.begin() && was.end() == is.end()) continue;
    out->push_back(absl::StrCat(what, ": split ", s, " is [", is.begin(), ", ", is.end(), ") of file ", is.file(),
                                ", was [", was.begin(), ", ", was.end(), ") of file ", was.file()));
    return;
  }
}

}  // namespace

std::vector<std::string> JobDifferences(const Manifest& manifest, const Job& job) {
  const auto before = Flatten(ResolvedYaml(Essence(manifest.job())));
  const auto after = Flatten(ResolvedYaml(Essence(job)));
  std::vector<std::string> out;
  for (const auto& [field, value] : before) {
    const auto it = after.find(field);
    if (it == after.end()) {
      out.push_back(absl::StrCat(field, ": absent, was ", value));
    } else if (it->second != value) {
      out.push_back(absl::StrCat(field, ": ", it->second, ", was ", value));
    }
  }
  for (const auto& [field, value] : after) {
    if (before.count(field) == 0) out.push_back(absl::StrCat(field, ": ", value, ", was absent"));
  }
  return out;
}

std::vector<std::string> InputDifferences(const Manifest& manifest, const JobPlan& plan, size_t most) {
  std::vector<std::string> out;
  CompareFiles("data.train", manifest.plan().train(), plan.train(), &out);
  if (out.size() > most) {
    const size_t more = out.size() - most;
    out.resize(most);
    out.push_back(absl::StrCat("... and ", more, " more"));
  }
  return out;
}

absl::Status CheckResumes(const Manifest& manifest, const Job& job, const JobPlan* plan) {
  std::vector<std::string> differences = JobDifferences(manifest, job);
  if (plan != nullptr) {
    const std::vector<std::string> inputs = InputDifferences(manifest, *plan);
    differences.insert(differences.end(), inputs.begin(), inputs.end());
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the checkpoint (sequence ", manifest.sequence(), " of job ",
                                                    manifest.job().name(), ") is of another training:\n  ",
                                                    absl::StrJoin(differences, "\n  ")));
}

}  // namespace shoal
