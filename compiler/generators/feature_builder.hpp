// What the files that describe modules to the cost model share: a module's parameter values, and the features
// being put together. Private to compiler/generators.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/generators/features.hpp"
#include "compiler/generators/mapping.hpp"

namespace millrace::compiler::generators {

/// The values of all parameters of one module.
class Values {
 public:
  Values(const ModuleParameters& module, std::vector<std::int64_t> values)
      : module_(&module), values_(std::move(values)) {}

  std::int64_t operator[](std::string_view name) const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::string_view here = module_->defaults[i].first;
      // Few names are as long and begin alike: the rest is seldom compared.
      if (here.size() == name.size() && here.front() == name.front() && here == name) return values_[i];
    }
    assert(false && "a parameter the module does not have");
    return 0;
  }
  std::int64_t at(std::size_t i) const { return values_[i]; }  // of the i-th parameter
  const ModuleParameters& module() const { return *module_; }

 private:
  const ModuleParameters* module_;
  std::vector<std::int64_t> values_;  // in the order of the defaults
};

class Builder {
 public:
  void exact(const Cost& cost) { features_.exact += cost; }
  void slices(std::uint64_t each, std::int64_t count) {
    features_.exact.dsp += each * static_cast<std::uint64_t>(count);
  }
  template <class Amount>
  void lut(std::string_view name, Amount amount) {
    add(features_.lut, name, static_cast<double>(amount));
  }
  template <class Amount>
  void ff(std::string_view name, Amount amount) {
    add(features_.ff, name, static_cast<double>(amount));
  }
  Features take() { return std::move(features_); }

 private:
  static void add(std::vector<Term>& terms, std::string_view name, double amount) {
    if (amount == 0) return;
    for (Term& term : terms) {
      if (term.name == name) {
        term.amount += amount;
        return;
      }
    }
    terms.push_back({name, amount});
  }

  Features features_;
};

/// $clog2.
inline std::int64_t clog2(std::int64_t n) {
  return n > 1 ? static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(n - 1))) : 0;
}

/// Bits of a register that counts through n values and stays where n is 1.
inline std::int64_t counter_bits(std::int64_t n) {
  return clog2(n);
}

/// An mr_table: exact where it is a memory, terms "table…" where it is logic.
void add_table(Builder& builder, std::int64_t width, std::int64_t depth, std::int64_t style, bool loaded);

/// What mr_fifo, mr_mvu, mr_swu and mr_swu_par ask before they put a buffer into block RAM.
bool wants_block(std::int64_t width, std::int64_t depth);

/// A memory with one write port and one clocked read port as the modules write it: block RAM where `block`.
/// Its output register is inside a block RAM and apart from LUTRAM.
void add_memory(Builder& builder, std::int64_t width, std::int64_t depth, bool block);

/// An mr_width_adapter inside another module; nothing where both sides are alike.
/// `own` of every `of` bits that come in are no copies of others, as those of an extended sign are.
void add_width_adapter(Builder& builder, std::int64_t lane_bits, std::int64_t s_lanes, std::int64_t m_lanes,
                       std::int64_t own = 1, std::int64_t of = 1);

// One function a module; features() calls them with values that valid() accepted.
void describe_skid(const Values& v, Builder& b);
void describe_fifo(const Values& v, Builder& b);
void describe_width_adapter(const Values& v, Builder& b);
void describe_fork(const Values& v, Builder& b);
void describe_load(const Values& v, Builder& b);
void describe_parameters(const Values& v, Builder& b);
void describe_join(const Values& v, Builder& b);
void describe_pad(const Values& v, Builder& b);
void describe_crop(const Values& v, Builder& b);
void describe_concat(const Values& v, Builder& b);
void describe_swu(const Values& v, Builder& b);
void describe_swu_par(const Values& v, Builder& b);
void describe_pool(const Values& v, Builder& b);
void describe_reduce(const Values& v, Builder& b);
void describe_mvu(const Values& v, Builder& b);
void describe_plugin(const Values& v, Builder& b);
void describe_mvu_streamed(const Values& v, Builder& b);
void describe_weight_reader(const Values& v, Builder& b);
void describe_unrolled(const Values& v, Builder& b);
void describe_vvu(const Values& v, Builder& b);
void describe_requant(const Values& v, Builder& b);
void describe_threshold(const Values& v, Builder& b);
void describe_add(const Values& v, Builder& b);
void describe_lut(const Values& v, Builder& b);
void describe_table(const Values& v, Builder& b);
void describe_ingress(const Values& v, Builder& b);
void describe_egress(const Values& v, Builder& b);
void describe_control(const Values& v, Builder& b);
void describe_supervisor(const Values& v, Builder& b);
void describe_link_hub(const Values& v, Builder& b);
void describe_link_receive(const Values& v, Builder& b);
void describe_link_send(const Values& v, Builder& b);

}  // namespace millrace::compiler::generators
