// A bench's access to a verilated model, which has one instance for each row of the module's table. The ports of each
// instance are found by name. tools/rtl-sweep generates the implementation for each module.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/tb/beat.hpp"

namespace millrace::kernels::tb {

/// The storage of a port inside the model. Verilator's C type depends on the port's width: an integer of 8 to 64 bits,
/// or an array of 32-bit words.
struct Port {
  void* storage = nullptr;
  unsigned bits = 0;

  std::uint64_t get() const;  // for ports of at most 64 bits
  void set(std::uint64_t value) const;
  Beat read() const;
  Beat read(unsigned low, unsigned width) const;
  void write(unsigned low, const Beat& beat) const;
};

/// A row of the module's table (<module>.rows): one set of parameters, as written in the table.
class Parameters {
 public:
  Parameters(std::string row, std::map<std::string, std::string> values)
      : row_(std::move(row)), values_(std::move(values)) {}

  const std::string& row() const { return row_; }
  /// Return a parameter as a number or as text. Throw std::out_of_range with the parameter's name if the row does not
  /// have it.
  int operator[](const std::string& name) const;
  const std::string& text(const std::string& name) const;
  bool has(const std::string& name) const { return values_.contains(name); }

 private:
  std::string row_;
  std::map<std::string, std::string> values_;
};

/// Returns a parameter that is never negative, such as a width or a number of lanes.
inline unsigned positive(const Parameters& p, const std::string& name) {
  return static_cast<unsigned>(p[name]);
}

class Model {
 public:
  virtual ~Model() = default;
  virtual void eval() = 0;
  virtual void final() = 0;
  /// Returns the ports of a row. Rows are in the order of the table.
  virtual std::map<std::string, Port>& ports(std::size_t row) = 0;
};

// The file that tools/rtl-sweep generates defines the three names below.
extern const char* const kModuleName;
const std::vector<Parameters>& model_rows();
std::unique_ptr<Model> make_model();  // reads the memories' contents from files

}  // namespace millrace::kernels::tb
