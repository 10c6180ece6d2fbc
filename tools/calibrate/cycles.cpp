#include "tools/calibrate/cycles.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "compiler/generators/module.hpp"
#include "compiler/generators/netlist.hpp"
#include "compiler/generators/timing.hpp"
#include "tools/calibrate/measurements.hpp"

namespace millrace::tools::calibrate {
namespace {

using namespace compiler::generators;

Error wrong(const std::string& name, std::size_t line, const std::string& what) {
  return Error(ErrorCode::kInvalidInput, name + ":" + std::to_string(line) + ": " + what);
}

bool read_number(const std::string& text, std::int64_t& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

double relative(std::int64_t predicted, std::int64_t measured) {
  return std::abs(static_cast<double>(predicted - measured)) /
         static_cast<double>(std::max<std::int64_t>(1, measured));
}

void count(FitError& error, double one) {
  error.mean += (one - error.mean) / static_cast<double>(++error.rows);
  error.worst = std::max(error.worst, one);
}

}  // namespace

Result<std::vector<CycleMeasurement>> parse_cycles(const std::string& text, const std::string& name) {
  std::vector<CycleMeasurement> rows;
  std::istringstream lines(text);
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    if (number == 1 && !line.starts_with("# ")) return wrong(name, number, "'# <tool>' is missing");
    if (number == 2 && line != "module,row,parameters,sources,latency,interval")
      return wrong(name, number, "'module,row,parameters,sources,latency,interval' is missing");
    if (number <= 2) continue;
    const auto fields = split(line, ',');
    if (fields.size() != 6)
      return wrong(name, number, "has " + std::to_string(fields.size()) + " fields instead of 6");
    CycleMeasurement row{fields[0], fields[1], {}, fields[3], 0, 0};
    for (const std::string& pair : split(fields[2], ' ')) {
      const std::size_t equals = pair.find('=');
      std::int64_t value = 0;
      if (equals == std::string::npos || !read_number(pair.substr(equals + 1), value))
        return wrong(name, number, "'" + pair + "' is no NAME=value");
      row.parameters.emplace_back(pair.substr(0, equals), value);
    }
    if (!read_number(fields[4], row.latency)) return wrong(name, number, "'" + fields[4] + "' is no number");
    if (!read_number(fields[5], row.interval) || row.interval < 1)
      return wrong(name, number, "'" + fields[5] + "' is no number of cycles");
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return wrong(name, 1, "there are no rows");
  return rows;
}

Result<PredictedCycles> predict_cycles(const CycleMeasurement& row) {
  if (row.module == "mr_weight_reader") {
    const ReaderTiming reader = reader_timing({row.module, "unit", row.parameters});
    return PredictedCycles{static_cast<std::int64_t>(reader.first_cycles),
                           static_cast<std::int64_t>(reader.pass_cycles)};
  }
  const Module* module = find_module(row.module);
  if (module == nullptr || module->frame == nullptr)
    return Error(ErrorCode::kUnsupported, "no frame is known of " + row.module + ", row " + row.row);
  MILLRACE_ASSIGN(const Values values, Values::of(*module, row.parameters));
  const Beats beats = module->frame(values, row.interval);
  Netlist netlist;
  Unit unit;
  unit.instance = {row.module, "unit", row.parameters};
  const auto add = [&](const std::vector<std::int64_t>& all, std::vector<StreamIndex>& ends,
                       std::vector<StreamIndex>& of_unit) {
    for (const std::int64_t one : all) {
      Stream stream;
      stream.name = "stream" + std::to_string(netlist.streams.size());
      stream.beats = static_cast<std::uint64_t>(one);
      ends.push_back(static_cast<StreamIndex>(netlist.streams.size()));
      of_unit.push_back(ends.back());
      netlist.streams.push_back(std::move(stream));
    }
  };
  add(beats.in, netlist.inputs, unit.inputs);
  add(beats.out, netlist.outputs, unit.outputs);
  netlist.units.push_back(std::move(unit));
  TimingOptions options;
  options.frames = 8;  // the benches also use 8 frames
  MILLRACE_ASSIGN(const Timing timing, simulate(netlist, options));
  return PredictedCycles{static_cast<std::int64_t>(timing.first_output_cycles),
                         static_cast<std::int64_t>(timing.interval_cycles)};
}

Result<std::map<std::string, CycleErrors>> compare_cycles(const std::vector<CycleMeasurement>& rows) {
  std::map<std::string, CycleErrors> result;
  for (const CycleMeasurement& row : rows) {
    MILLRACE_ASSIGN(const PredictedCycles predicted, predict_cycles(row));
    CycleErrors& errors = result[row.module];
    count(errors.latency, relative(predicted.latency, row.latency));
    count(errors.interval, relative(predicted.interval, row.interval));
  }
  return result;
}

}  // namespace millrace::tools::calibrate
