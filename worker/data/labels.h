// Whether an input has labels.
#ifndef SHOAL_WORKER_DATA_LABELS_H_
#define SHOAL_WORKER_DATA_LABELS_H_

namespace shoal {

// kAbsent, to predict: csv may lack the label's column (not without a header, where that would shift the others),
// criteo rows begin with I1, libsvm lines with index:value (a number before it is passed over), idx images need no
// label files. Every label reads as 0; label sets of xmc as they stand.
enum class Labels { kPresent, kAbsent };

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_LABELS_H_
