#include "tools/calibrate/sample.hpp"

#include <algorithm>
#include <functional>

#include "compiler/generators/unrolled.hpp"
#include "tools/calibrate/modules.hpp"

namespace millrace::tools::calibrate {
namespace {

const std::vector<std::pair<std::string, std::function<std::vector<Parameters>()>>>& samples() {
  static const std::vector<std::pair<std::string, std::function<std::vector<Parameters>()>>> all = {
      {"mr_skid", skid_sample},
      {"mr_fork", readers_sample},
      {"mr_split", readers_sample},
      {"mr_join", readers_sample},
      {"mr_fifo", fifo_sample},
      {"mr_width_adapter", width_adapter_sample},
      {"mr_pad", pad_sample},
      {"mr_crop", crop_sample},
      {"mr_concat", concat_sample},
      {"mr_requant", requant_sample},
      {"mr_swu", swu_sample},
      {"mr_swu_par", swu_par_sample},
      {"mr_pool", pool_sample},
      {"mr_reduce", reduce_sample},
      {"mr_add", add_sample},
      {"mr_table", table_sample},
      {"mr_mvu", mvu_sample},
      {"mr_threshold", threshold_sample},
      {"mr_lut", lut_sample},
      {"mr_vvu", vvu_sample},
      {"mr_control", control_sample},
      {"mr_supervisor", supervisor_sample},
      {"mr_ingress", ingress_sample},
      {"mr_egress", egress_sample},
      {"mr_link_send", sender_sample},
      {"mr_link_receive", receiver_sample},
      {"mr_link_hub", hub_sample},
      {"mr_mvu_streamed", mvu_streamed_sample},
      {"mr_weight_reader", reader_sample},
      {"mr_load", load_sample},
      {"mr_parameters", parameters_sample},
  };
  return all;
}

}  // namespace

const std::vector<std::string>& sampled_modules() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, unused] : samples()) all.push_back(name);
    all.emplace_back(compiler::generators::kUnrolledModule);
    return all;
  }();
  return names;
}

std::vector<Sample> sample_of(const std::string& module) {
  if (module == compiler::generators::kUnrolledModule) return unrolled_sample();
  std::vector<Sample> rows;
  for (const auto& [name, make] : samples()) {
    if (name != module) continue;
    for (Parameters& parameters : make()) {
      // Chance may give the same twice.
      const bool known =
          std::any_of(rows.begin(), rows.end(), [&](const Sample& s) { return s.parameters == parameters; });
      if (!known) rows.push_back({module, std::move(parameters), {}});
    }
  }
  return rows;
}

}  // namespace millrace::tools::calibrate
