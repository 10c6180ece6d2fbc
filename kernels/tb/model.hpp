// A bench's view of a verilated model: one instance for each row of the module's table, each with its ports
// by name. tools/rtl-sweep generates the implementation for each module.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/tb/beat.hpp"

namespace millrace::kernels::tb {

/// A port's storage inside the model: Verilator's C type for its width, 8 to 64 bits or an array of 32-bit
/// words.
struct Port {
  void* storage = nullptr;
  unsigned bits = 0;

  std::uint64_t get() const;  // ports of at most 64 bits
  void set(std::uint64_t value) const;
  Beat read() const;
  Beat read(unsigned low, unsigned width) const;
  void write(unsigned low, const Beat& beat) const;
};

/// A row of the module's table, with the parameters as written there.
class Parameters {
 public:
  Parameters(std::string row, std::map<std::string, std::string> values)
      : row_(std::move(row)), values_(std::move(values)) {}

  const std::string& row() const { return row_; }
  /// Throws std::out_of_range with the parameter's name if it is absent.
  int operator[](const std::string& name) const;
  const std::string& text(const std::string& name) const;
  bool has(const std::string& name) const { return values_.contains(name); }

 private:
  std::string row_;
  std::map<std::string, std::string> values_;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual void eval() = 0;
  virtual void final() = 0;
  /// The ports of a row; rows are in the order of the table.
  virtual std::map<std::string, Port>& ports(std::size_t row) = 0;
};

// Defined by the generated file.
extern const char* const kModuleName;
const std::vector<Parameters>& model_rows();
std::unique_ptr<Model> make_model();  // memories are read from files here

}  // namespace millrace::kernels::tb
