#include "kernels/cpu/linear_products.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "dnnl.hpp"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/matmul.h"

// Declared here because <omp.h> belongs to g++ only, while oneDNN of the distribution always runs on libgomp.
extern "C" void omp_set_num_threads(int);

namespace shoal::cpu {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

// Rows go through in powers of two, so that batches of any size share a few kernels (each is compiled on first use).
// 256 rows of the usual widths stay in the second cache between the layers' loops.
constexpr size_t kRowsAtOnce = 256;
// Rows are summed over here: fewer visits to the result.
constexpr size_t kSummedAtOnce = 4096;

template <typename Visit>
void ForEachChunk(size_t rows, size_t largest, Visit visit) {
  size_t size = largest;
  for (size_t begin = 0; begin < rows; begin += size) {
    while (size > rows - begin) size /= 2;
    visit(begin, size);
  }
}

const dnnl::engine& Engine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

memory::desc Describe(size_t rows, size_t columns, memory::data_type type, Tag tag) {
  return memory::desc(Dims{static_cast<memory::dim>(rows), static_cast<memory::dim>(columns)}, type, tag);
}

// One compiled product with its argument list. Not thread-safe.
struct Kernel {
  Kernel(const memory::desc& a, const memory::desc& b, bool has_bias, bool relu, bool accumulate, const memory::desc& c,
         memory::data_type bias_type)
      : primitive(Make(a, b, has_bias, relu, accumulate, c, bias_type)), b_desc(primitive_b) {
    args.emplace(DNNL_ARG_SRC, memory(a, Engine(), DNNL_MEMORY_NONE));
    args.emplace(DNNL_ARG_WEIGHTS, memory(b_desc, Engine(), DNNL_MEMORY_NONE));
    args.emplace(DNNL_ARG_DST, memory(c, Engine(), DNNL_MEMORY_NONE));
    if (has_bias) {
      const Dims shape = {1, c.dims()[1]};
      args.emplace(DNNL_ARG_BIAS, memory(memory::desc(shape, bias_type, Tag::ab), Engine(), DNNL_MEMORY_NONE));
    }
  }

  dnnl::matmul Make(const memory::desc& a, const memory::desc& b, bool has_bias, bool relu, bool accumulate,
                    const memory::desc& c, memory::data_type bias_type) {
    dnnl::primitive_attr attributes;
    dnnl::post_ops after;
    if (accumulate) after.append_sum(1.0f);
    if (relu) after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(after);
    const memory::desc bias(Dims{1, c.dims()[1]}, bias_type, Tag::ab);
    const dnnl::matmul::desc product = has_bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc chosen(product, attributes, Engine());
    primitive_b = chosen.weights_desc();
    return dnnl::matmul(chosen);
  }

  void Set(int argument, const void* data) { args.at(argument).set_data_handle(const_cast<void*>(data)); }

  memory::desc primitive_b;  // set by Make: before `primitive`
  dnnl::matmul primitive;
  memory::desc b_desc;
  std::unordered_map<int, memory> args;
};

}  // namespace

// The wide case. Not thread-safe.
class LinearProducts::Impl {
 public:
  Impl(size_t inputs, size_t units, Precision precision)
      : bf16_(precision == Precision::kBf16),
        native_(!bf16_ || HasBf16Kernels()),
        type_(bf16_ && native_ ? memory::data_type::bf16 : memory::data_type::f32),
        stream_(Engine()),
        forward_(inputs, units, Transpose::kNo),
        backward_(units, inputs, Transpose::kYes) {}

  // The values of the weight have changed.
  void Unpack() { forward_.is_packed = backward_.is_packed = false; }

  void Forward(ConstMatrix x, const float* w, const float* bias, bool relu, Matrix y) {
    omp_set_num_threads(1);
    Pack(w, &forward_);
    Multiply(Rounded(x, &x_), x.rows, &forward_, bias, relu, false, y.data);
  }

  void Backward(ConstMatrix x, const float* w, ConstMatrix dy, bool accumulate_dw, float* dw, bool accumulate,
                Matrix dx) {
    omp_set_num_threads(1);
    const void* const rounded = Rounded(dy, &dy_);
    if (type_ == memory::data_type::bf16) {
      SumProducts(x.rows, x.columns, dy.columns, accumulate_dw, dw);
    } else {
      const ConstMatrix factor = {bf16_ ? reinterpret_cast<const float*>(x_.data()) : x.data, x.rows, x.columns,
                                  Device::kCpu};
      const ConstMatrix gradient = {static_cast<const float*>(rounded), dy.rows, dy.columns, Device::kCpu};
      MatMul(factor, Transpose::kYes, gradient, Transpose::kNo, accumulate_dw,
             {dw, x.columns, dy.columns, Device::kCpu});
    }
    if (dx.data == nullptr) return;
    Pack(w, &backward_);
    Multiply(rounded, dy.rows, &backward_, nullptr, false, accumulate, dx.data);
  }

 private:
  using Bytes = std::vector<char>;

  // op(W): [k, n].
  struct Weight {
    Weight(size_t k, size_t n, Transpose transpose) : k(k), n(n), transpose(transpose) {}
    const size_t k, n;
    const Transpose transpose;
    memory packed;  // laid out for all kernels
    bool is_packed = false;
    std::vector<float> rounded;                                      // without native kernels
    std::unique_ptr<dnnl::reorder> reorder;                          // from the tensor to `packed`
    memory plain;                                                    // the tensor
    std::map<std::tuple<size_t, bool, bool, bool>, Kernel> kernels;  // by rows, bias, relu, accumulate
  };

  size_t ValueBytes() const { return type_ == memory::data_type::bf16 ? 2 : 4; }

  // The values of m as the kernels take them: m itself, or a copy in *buffer.
  const void* Rounded(ConstMatrix m, Bytes* buffer) {
    if (!bf16_) return m.data;
    if (buffer->size() < m.size() * ValueBytes()) buffer->resize(m.size() * ValueBytes());
    if (native_) {
      ToBf16(m.data, m.size(), reinterpret_cast<uint16_t*>(buffer->data()));
    } else {
      RoundToBf16(m.data, m.size(), reinterpret_cast<float*>(buffer->data()));
    }
    return buffer->data();
  }

  Kernel& KernelFor(Weight* weight, size_t rows, bool bias, bool relu, bool accumulate) {
    const auto key = std::make_tuple(rows, bias, relu, accumulate);
    const auto found = weight->kernels.find(key);
    if (found != weight->kernels.end()) return found->second;
    const memory::desc b = weight->packed.get(true) == nullptr ? Describe(weight->k, weight->n, type_, Tag::any)
                                                               : weight->packed.get_desc();
    const memory::desc a = Describe(rows, weight->k, type_, Tag::ab);
    const memory::desc c = Describe(rows, weight->n, memory::data_type::f32, Tag::ab);
    return weight->kernels
        .emplace(std::piecewise_construct, std::forward_as_tuple(key),
                 std::forward_as_tuple(a, b, bias, relu, accumulate, c, memory::data_type::f32))
        .first->second;
  }

  void Pack(const float* w, Weight* weight) {
    if (weight->is_packed) return;
    weight->is_packed = true;
    const bool transposed = weight->transpose == Transpose::kYes;
    if (weight->reorder == nullptr) {
      // The layout is the one that the largest kernel asks for, so that it depends on the shape alone.
      const memory::desc layout = KernelFor(weight, kRowsAtOnce, false, false, false).b_desc;
      weight->packed = memory(layout, Engine());
      weight->plain = memory(Describe(weight->k, weight->n, memory::data_type::f32, transposed ? Tag::ba : Tag::ab),
                             Engine(), DNNL_MEMORY_NONE);
      weight->reorder = std::make_unique<dnnl::reorder>(weight->plain, weight->packed);
    }
    if (bf16_ && !native_) {
      weight->rounded.resize(weight->k * weight->n);
      RoundToBf16(w, weight->rounded.size(), weight->rounded.data());
      w = weight->rounded.data();
    }
    weight->plain.set_data_handle(const_cast<float*>(w));
    weight->reorder->execute(stream_, weight->plain, weight->packed);
  }

  void Multiply(const void* x, size_t rows, Weight* weight, const float* bias, bool relu, bool accumulate, float* y) {
    ForEachChunk(rows, kRowsAtOnce, [&](size_t begin, size_t size) {
      Kernel& kernel = KernelFor(weight, size, bias != nullptr, relu, accumulate);
      kernel.Set(DNNL_ARG_SRC, static_cast<const char*>(x) + begin * weight->k * ValueBytes());
      kernel.Set(DNNL_ARG_WEIGHTS, weight->packed.get_data_handle());
      kernel.Set(DNNL_ARG_DST, y + begin * weight->n);
      if (bias != nullptr) kernel.Set(DNNL_ARG_BIAS, bias);
      kernel.primitive.execute(stream_, kernel.args);
    });
  }

  // dw = x^T dy of the rounded copies.
  void SumProducts(size_t rows, size_t inputs, size_t units, bool accumulate, float* dw) {
    ForEachChunk(rows, kSummedAtOnce, [&](size_t begin, size_t size) {
      const bool adds = accumulate || begin > 0;
      const auto key = std::make_pair(size, adds);
      auto found = sums_.find(key);
      if (found == sums_.end()) {
        const memory::desc a = Describe(inputs, size, type_, Tag::ba), b = Describe(size, units, type_, Tag::ab);
        const memory::desc c = Describe(inputs, units, memory::data_type::f32, Tag::ab);
        found = sums_
                    .emplace(std::piecewise_construct, std::forward_as_tuple(key),
                             std::forward_as_tuple(a, b, false, false, adds, c, memory::data_type::f32))
                    .first;
      }
      Kernel& kernel = found->second;
      kernel.Set(DNNL_ARG_SRC, x_.data() + begin * inputs * ValueBytes());
      kernel.Set(DNNL_ARG_WEIGHTS, dy_.data() + begin * units * ValueBytes());
      kernel.Set(DNNL_ARG_DST, dw);
      kernel.primitive.execute(stream_, kernel.args);
    });
  }

  const bool bf16_, native_;
  const memory::data_type type_;
  dnnl::stream stream_;
  Weight forward_, backward_;
  Bytes x_, dy_;  // rounded copies of the batch
  std::map<std::pair<size_t, bool>, Kernel> sums_;
};

LinearProducts::LinearProducts(size_t inputs, size_t units, Precision precision)
    : inputs_(inputs),
      units_(units),
      impl_(std::min(inputs, units) < kNarrow || inputs > kLargest / units
                ? nullptr
                : std::make_unique<Impl>(inputs, units, precision)) {}

LinearProducts::~LinearProducts() = default;

void LinearProducts::UseWeight(const float* w) {
  weight_ = w;
  if (impl_ != nullptr) impl_->Unpack();
}

void LinearProducts::Forward(ConstMatrix x, const float* bias, bool relu, Matrix y) {
  SHOAL_CHECK(x.columns == inputs_ && y.columns == units_ && x.rows == y.rows);
  if (Wide(x.rows)) {
    impl_->Forward(x, weight_, bias, relu, y);
    return;
  }
  if (bias != nullptr) {
    for (size_t r = 0; r < y.rows; ++r) std::copy_n(bias, units_, y.row(r));
  }
  MatMul(x, Transpose::kNo, {weight_, inputs_, units_, Device::kCpu}, Transpose::kNo, bias != nullptr, y);
  if (relu) Relu(y.data, y.size(), y.data);
}

void LinearProducts::Backward(ConstMatrix x, ConstMatrix dy, bool accumulate_dw, float* dw, bool accumulate,
                              Matrix dx) {
  SHOAL_CHECK(x.columns == inputs_ && dy.columns == units_ && x.rows == dy.rows);
  if (Wide(x.rows)) {
    impl_->Backward(x, weight_, dy, accumulate_dw, dw, accumulate, dx);
    return;
  }
  MatMul(x, Transpose::kYes, dy, Transpose::kNo, accumulate_dw, {dw, inputs_, units_, Device::kCpu});
  if (dx.data == nullptr) return;
  MatMul(dy, Transpose::kNo, {weight_, inputs_, units_, Device::kCpu}, Transpose::kYes, accumulate, dx);
}

bool HasBf16Kernels() {
  static const bool has = [] {
    try {
      const memory::desc a = Describe(16, 16, memory::data_type::bf16, Tag::ab);
      const memory::desc c = Describe(16, 16, memory::data_type::f32, Tag::ab);
      dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, a, c), Engine());
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return has;
}

}  // namespace shoal::cpu
