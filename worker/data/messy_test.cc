#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>

#include "worker/data/test_util.h"
namespace shoal {
TEST_CASE("x") {
  struct C {
    const char* file;
    const char* format;
  } cases[] = {
#define CSV(x) "format{csv{header:true quote:\"\\\"\" " x "}}"
      {"criteo_1000_trailing_tabs_stripped.tsv", "format{criteo{}}"},
      {"derived_criteo_mutations.tsv", "format{criteo{}}"},
      {"derived_criteo_truncated_mid_row.tsv", "format{criteo{}}"},
      {"dmlc_test_excess_decimal_digits.libsvm", "format{libsvm{}}"},
      {"issue_deepdetect361_xlearn242_label_only.libsvm", "format{libsvm{}}"},
      {"issue_dmlc555_shard_a.libsvm", "format{libsvm{}}"},
      {"issue_dotnet4689_index_over_int32.libsvm", "format{libsvm{}}"},
      {"issue_libsvmdata6_space_after_colon.libsvm", "format{libsvm{}}"},
      {"issue_sklearn4562_empty_labelset.svm", "format{libsvm{}}"},
      {"issue_sklearn4562_empty_labelset.svm", "format{xmc{}}"},
      {"issue_sofiaml1_qid_only.libsvm", "format{libsvm{}}"},
      {"issue_tmnt1_fastfm66_unsorted_and_duplicate_index.libsvm", "format{libsvm{}}"},
      {"issue_vw4635_trailing_blank_lines.libsvm", "format{libsvm{}}"},
      {"issue_xgboost4356_nan_value.libsvm", "format{libsvm{}}"},
      {"issue_xlearn157_segv_first_line.libfm", "format{libsvm{}}"},
      {"ml100k_u.data.pipe_sep_with_header",
       CSV("delimiter:\"|\"") "columns{label{column:\"rating\"} sparse{column:\"user\"}}"},
      {"svmlight_invalid.txt", "format{libsvm{}}"},
      {"svmlight_multilabel.txt", "format{libsvm{}}"},
      {"svmlight_multilabel.txt", "format{xmc{}}"},
      {"vw_cb_test_nonewline.ldf", "format{libsvm{}}"},
      {"vw_csv_quoted.csv", CSV("") "columns{label{column:\"label\"} sparse{column:\"name\"}}"},
      {"vw_csv_test.csv", CSV("") "columns{label{column:\"label\"} dense{column:\"feature_a\"}}"},
      {"vw_malformed.dat", "format{libsvm{}}"},
      {"vw_single_empty_lines.txt", "format{libsvm{}}"},
  };
  for (auto& c : cases) {
    auto all = ReadAll(MakeData(c.format, SharedData(std::string("messy/") + c.file)));
    printf("== %s %s: %s rows %zu bad %zu\n", c.file, c.format, all.status.ToString().c_str(), all.rows.size(),
           all.bad.size());
    for (auto& b : all.bad) printf("   %s\n", b.message.substr(b.message.rfind('/') + 1).c_str());
    for (size_t i = 0; i < all.rows.size() && i < 6; ++i)
      printf("   row %zu label %g keys %zu\n", all.rows[i].record, all.rows[i].label,
             all.rows[i].keys.empty() ? 0 : all.rows[i].keys[0].size());
  }
}
}  // namespace shoal
