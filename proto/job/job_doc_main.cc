// Prints docs/job-file.md. Usage: job_doc [DESCRIPTOR_SET]; under `bazel run` the argument is not needed.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "proto/job/job_doc.h"

int main(int argc, char** argv) {
  if (argc > 2) {
    std::cerr << "usage: job_doc [DESCRIPTOR_SET]\n";
    return 2;
  }
  const std::string path = argc == 2 ? argv[1] : "proto/job/job_descriptor_set.bin";
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::cerr << "cannot read " << path << "\n";
    return 1;
  }
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const absl::StatusOr<std::string> markdown = shoal::JobFileMarkdown(bytes);
  if (!markdown.ok()) {
    std::cerr << path << ": " << markdown.status().message() << "\n";
    return 1;
  }
  std::cout << *markdown << std::flush;
  return std::cout.good() ? 0 : 1;
}
