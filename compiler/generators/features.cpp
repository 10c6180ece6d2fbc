#include "compiler/generators/features.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/generators/feature_builder.hpp"
#include "compiler/generators/plugin.hpp"
#include "compiler/generators/unrolled.hpp"

namespace millrace::compiler::generators {
namespace {

using Describe = void (*)(const Values&, Builder&);

struct Entry {
  ModuleParameters parameters;
  Describe describe;
  std::vector<bool> sizes = {};  // which of the parameters are
};

/// Sizes: at least 1 and small enough that no count overflows.
bool is_size(std::string_view name) {
  for (const std::string_view free :
       {"AKIND",   "BKIND",    "WKIND",           "MUL",        "BIAS",       "LOADED",
        "WSTYLE",  "STYLE",    "UNIFORM",         "OP",         "MEMORY",     "TOP",
        "LEFT",    "BOTTOM",   "RIGHT",           "VALUE",      "PT",         "PL",
        "PB",      "PR",       "PAD_VALUE",       "SHIFT",      "LOWEST",     "HIGHEST",
        "FLIP",    "A_FACTOR", "B_FACTOR",        "OFFSET",     "LINK_PORTS", "MBITS",
        "OFFBITS", "REST",     "ROUND_HALF_EVEN", "ZERO_POINT", "ADDERS",     "ADDBITS",
        "REGBITS", "INTERVAL", "LATENCY",         "LEAD",       "LUT",        "LUTRAM",
        "FF",      "DSP",      "RAMB18",          "RAMB36",     "URAM"}) {
    if (name == free) return false;
  }
  return true;
}

Entry with_sizes(Entry entry) {
  for (const auto& parameter : entry.parameters.defaults) entry.sizes.push_back(is_size(parameter.first));
  return entry;
}

std::vector<Entry> with_sizes(std::vector<Entry> all) {
  for (auto& entry : all) entry = with_sizes(std::move(entry));
  return all;
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = with_sizes(std::vector<Entry>{
      {{"mr_add",
        {{"SIMD", 1},
         {"ABITS", 8},
         {"AKIND", 1},
         {"BBITS", 8},
         {"BKIND", 1},
         {"A_FACTOR", 1},
         {"B_FACTOR", 1},
         {"OFFSET", 0},
         {"SHIFT", 0},
         {"ZBITS", 20},
         {"OBITS", 8},
         {"LOWEST", -128},
         {"HIGHEST", 127}}},
       describe_add},
      {{"mr_concat", {{"WIDTH", 8}, {"CF0", 1}, {"CF1", 1}}}, describe_concat},
      {{"mr_control", {{"ABI_VERSION", 1}, {"LINK_PORTS", 0}, {"CLOCK_MHZ", 150}, {"RESET_CYCLES", 4}}},
       describe_control},
      {{"mr_crop",
        {{"H", 4}, {"W", 4}, {"CF", 1}, {"WIDTH", 8}, {"TOP", 1}, {"LEFT", 1}, {"BOTTOM", 1}, {"RIGHT", 1}}},
       describe_crop},
      {{"mr_egress",
        {{"DATA_BYTES", 64}, {"BURST", 16}, {"LANES", 1}, {"EBYTES", 1}, {"ABITS", 8}, {"AKIND", 1}}},
       describe_egress},
      {{"mr_fifo", {{"WIDTH", 8}, {"DEPTH", 16}, {"MEMORY", 0}}}, describe_fifo},
      {{"mr_fork", {{"WIDTH", 8}, {"N", 2}}}, describe_fork},
      {{"mr_ingress",
        {{"DATA_BYTES", 64}, {"BURST", 16}, {"LANES", 1}, {"EBYTES", 1}, {"ABITS", 8}, {"AKIND", 1}}},
       describe_ingress},
      {{"mr_join", {{"WIDTH", 8}, {"N", 2}}}, describe_join},
      {{"mr_link_hub", {{"BYTES", 8}, {"PORTS", 2}, {"CONNECTORS", 1}, {"PACKET", 1024}}}, describe_link_hub},
      {{"mr_link_receive",
        {{"BYTES", 8},
         {"LANES", 1},
         {"ABITS", 8},
         {"BEATS", 64},
         {"BUFFER", 512},
         {"MOST", 16},
         {"REFRESH", 4096}}},
       describe_link_receive},
      {{"mr_link_send",
        {{"BYTES", 8}, {"LANES", 1}, {"ABITS", 8}, {"BEATS", 64}, {"PACKET", 1024}, {"REFRESH", 4096}}},
       describe_link_send},
      {{"mr_load", {{"WIDTH", 8}, {"LINES", 4}, {"REST", 0}}}, describe_load},
      {{"mr_lut", {{"SIMD", 1}, {"IBITS", 8}, {"OBITS", 8}, {"FLIP", 128}, {"STYLE", 0}, {"LOADED", 0}}},
       describe_lut},
      {{"mr_mvu",
        {{"MH", 4},
         {"MW", 8},
         {"PE", 2},
         {"SIMD", 2},
         {"ABITS", 8},
         {"AKIND", 1},
         {"WBITS", 8},
         {"WKIND", 1},
         {"ACCBITS", 24},
         {"MUL", 1},
         {"BIAS", 0},
         {"IBUF", 8},
         {"LOADED", 0},
         {"WSTYLE", 0}}},
       describe_mvu},
      {{"mr_mvu_streamed",
        {{"MH", 4},
         {"MW", 8},
         {"PE", 2},
         {"SIMD", 2},
         {"ABITS", 8},
         {"AKIND", 1},
         {"WBITS", 8},
         {"WKIND", 1},
         {"ACCBITS", 24},
         {"MUL", 1},
         {"IBUF", 8}}},
       describe_mvu_streamed},
      {{"mr_pad",
        {{"H", 4},
         {"W", 4},
         {"CF", 1},
         {"SIMD", 1},
         {"ABITS", 8},
         {"TOP", 1},
         {"LEFT", 1},
         {"BOTTOM", 1},
         {"RIGHT", 1},
         {"VALUE", 0}}},
       describe_pad},
      {{"mr_parameters", {{"DATA_BYTES", 64}, {"BURST", 16}, {"WORDS", 8}, {"HOPS", 1}}},
       describe_parameters},
      {{"mr_pool",
        {{"OP", 0},
         {"H", 4},
         {"W", 4},
         {"CF", 1},
         {"SIMD", 1},
         {"KH", 2},
         {"KW", 2},
         {"ABITS", 8},
         {"AKIND", 1},
         {"OBITS", 8},
         {"PX", 1}}},
       describe_pool},
      {{"mr_reduce",
        {{"OP", 0}, {"TAPS", 9}, {"CF", 1}, {"SIMD", 1}, {"ABITS", 8}, {"AKIND", 1}, {"OBITS", 8}}},
       describe_reduce},
      {{"mr_requant",
        {{"CHANNELS", 4},
         {"PE", 2},
         {"ACCBITS", 24},
         {"MBITS", 17},
         {"OFFBITS", 40},
         {"SBITS", 6},
         {"SHIFT", -1},
         {"OBITS", 8},
         {"LOWEST", -128},
         {"HIGHEST", 127},
         {"ROUND_HALF_EVEN", 0},
         {"ZERO_POINT", 0},
         {"UNIFORM", 0},
         {"LOADED", 0}}},
       describe_requant},
      {{"mr_skid", {{"WIDTH", 8}}}, describe_skid},
      {{"mr_split", {{"WIDTH", 8}, {"N", 2}}}, describe_fork},
      {{"mr_supervisor", {{"DATA_BYTES", 64}}}, describe_supervisor},
      {{"mr_swu",
        {{"H", 8},
         {"W", 8},
         {"CF", 1},
         {"SIMD", 1},
         {"ABITS", 8},
         {"KH", 3},
         {"KW", 3},
         {"SH", 1},
         {"SW", 1},
         {"DH", 1},
         {"DW", 1},
         {"PT", 0},
         {"PL", 0},
         {"PB", 0},
         {"PR", 0},
         {"PAD_VALUE", 0},
         {"ROWS", 4}}},
       describe_swu},
      {{"mr_swu_par",
        {{"H", 8},
         {"W", 8},
         {"C", 1},
         {"ABITS", 8},
         {"PX", 1},
         {"KH", 3},
         {"KW", 3},
         {"SH", 1},
         {"SW", 1},
         {"DH", 1},
         {"DW", 1},
         {"PT", 0},
         {"PL", 0},
         {"PB", 0},
         {"PR", 0},
         {"PAD_VALUE", 0}}},
       describe_swu_par},
      {{"mr_table", {{"WIDTH", 8}, {"DEPTH", 16}, {"STYLE", 0}, {"LOADED", 0}}}, describe_table},
      {{"mr_threshold",
        {{"CHANNELS", 4},
         {"PE", 2},
         {"ACCBITS", 16},
         {"OBITS", 4},
         {"LOWEST", -8},
         {"UNIFORM", 0},
         {"LOADED", 0}}},
       describe_threshold},
      {{"mr_vvu",
        {{"CHANNELS", 4},
         {"PE", 2},
         {"TAPS", 9},
         {"ABITS", 8},
         {"AKIND", 1},
         {"WBITS", 8},
         {"WKIND", 1},
         {"ACCBITS", 20},
         {"MUL", 1},
         {"BIAS", 0},
         {"LOADED", 0},
         {"WSTYLE", 0}}},
       describe_vvu},
      {{"mr_weight_reader", {{"DATA_BYTES", 64}, {"BURST", 16}, {"WIDTH", 64}, {"LINES", 16}}},
       describe_weight_reader},
      {{"mr_width_adapter", {{"LANE", 8}, {"S_LANES", 1}, {"M_LANES", 3}}}, describe_width_adapter},
  });
  return all;
}

/// Of modules that are written for their constants: they are in no folder.
const Entry& unrolled_entry() {
  static const Entry entry = with_sizes(Entry{{kUnrolledModule,
                                               {{"MH", 1},
                                                {"MW", 1},
                                                {"ABITS", 8},
                                                {"ACCBITS", 16},
                                                {"LATENCY", 1},
                                                {"ADDERS", 0},
                                                {"ADDBITS", 0},
                                                {"REGBITS", 0}}},
                                              describe_unrolled});
  return entry;
}

/// What a plugin says of its module stands.
const Entry& plugin_entry() {
  static const Entry entry = with_sizes(Entry{{kPluginModule,
                                               {{"INTERVAL", 1},
                                                {"LATENCY", 1},
                                                {"LEAD", 1},
                                                {"LUT", 0},
                                                {"LUTRAM", 0},
                                                {"FF", 0},
                                                {"DSP", 0},
                                                {"RAMB18", 0},
                                                {"RAMB36", 0},
                                                {"URAM", 0}}},
                                              describe_plugin});
  return entry;
}

const Entry* find_entry(std::string_view module) {
  if (module == kPluginModule) return &plugin_entry();
  if (module == kUnrolledModule) return &unrolled_entry();
  const auto at = std::lower_bound(
      entries().begin(), entries().end(), module,
      [](const Entry& entry, std::string_view name) { return entry.parameters.name < name; });
  return at != entries().end() && at->parameters.name == module ? &*at : nullptr;
}

Error wrong(std::string_view module, const std::string& message) {
  return Error(ErrorCode::kInvalidInput, std::string(module) + ": " + message);
}

Status check_divides(const Values& v, std::string_view whole, std::string_view part) {
  if (v[whole] % v[part] == 0) return {};
  return wrong(v.module().name, std::string(part) + " = " + std::to_string(v[part]) + " does not divide " +
                                    std::string(whole) + " = " + std::to_string(v[whole]));
}

constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;

Status check(const Values& v, const std::vector<bool>& sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] && (v.at(i) < 1 || v.at(i) > kLargestSize)) {
      return wrong(v.module().name, std::string(v.module().defaults[i].first) + " = " +
                                        std::to_string(v.at(i)) + " is outside 1.." +
                                        std::to_string(kLargestSize));
    }
  }
  const std::string_view module = v.module().name;
  if (module == "mr_mvu" || module == "mr_mvu_streamed") {
    MILLRACE_TRY(check_divides(v, "MH", "PE"));
    MILLRACE_TRY(check_divides(v, "MW", "SIMD"));
  } else if (module == "mr_vvu" || module == "mr_requant" || module == "mr_threshold") {
    MILLRACE_TRY(check_divides(v, "CHANNELS", "PE"));
  } else if (module == "mr_swu_par") {
    MILLRACE_TRY(check_divides(v, "W", "PX"));
  } else if (module == "mr_pool") {
    MILLRACE_TRY(check_divides(v, "KW", "PX"));
  }
  return {};
}

}  // namespace

const std::vector<ModuleParameters>& library_modules() {
  static const std::vector<ModuleParameters> all = [] {
    std::vector<ModuleParameters> modules;
    for (const Entry& entry : entries()) modules.push_back(entry.parameters);
    return modules;
  }();
  return all;
}

Result<Features> features(std::string_view module, const Parameters& parameters) {
  const Entry* entry = find_entry(module);
  if (entry == nullptr) {
    return Error(ErrorCode::kNotFound, "no cost model for a module '" + std::string(module) + "'");
  }
  const auto& defaults = entry->parameters.defaults;
  std::vector<std::int64_t> values(defaults.size());
  std::transform(defaults.begin(), defaults.end(), values.begin(), [](const auto& d) { return d.second; });
  auto at = defaults.begin();  // most come in the order of the declaration
  for (const auto& [name, value] : parameters) {
    const auto named = [&wanted = name](const auto& d) { return d.first == wanted; };
    const auto from = at;
    at = std::find_if(from, defaults.end(), named);
    if (at == defaults.end()) at = std::find_if(defaults.begin(), from, named);
    if (at == defaults.end() || !named(*at)) return wrong(module, "has no parameter '" + name + "'");
    values[static_cast<std::size_t>(at - defaults.begin())] = value;
  }
  const Values all(entry->parameters, std::move(values));
  MILLRACE_TRY(check(all, entry->sizes));
  Builder builder;
  entry->describe(all, builder);
  return builder.take();
}

}  // namespace millrace::compiler::generators
